//! Base 64 (RFC 4648, with padding), for header values that are bytes.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Adds the encoded bytes to a text.
pub(crate) fn push(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.chunks(3) {
        let byte = |place: usize| u32::from(chunk.get(place).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            if place <= chunk.len() {
                let sextet = (group >> (18 - 6 * place)) & 63;
                text.push(
                    ALPHABET
                        .get(sextet as usize)
                        .copied()
                        .map_or('=', char::from),
                );
            } else {
                text.push('=');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_are_encoded_as_it_says() {
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut text = String::new();
            push(&mut text, bytes.as_bytes());
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn every_letter_of_the_alphabet_is_used() {
        let mut text = String::new();
        push(&mut text, &[0xfb, 0xff, 0xbf]);
        assert_eq!(text, "+/+/");
    }
}
