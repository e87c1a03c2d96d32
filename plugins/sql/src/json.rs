//! Strings in JSON (RFC 8259).

use std::fmt::Write as _;

/// Adds a string in quotes, with everything escaped that has to be.
pub(crate) fn push_string(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0'..='\u{1f}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_the_string_or_cannot_stand_in_it_is_escaped() {
        let mut text = String::new();
        push_string(&mut text, "a\"b\\c\nd\te\r\u{0}\u{1f}é🦀\u{7f}");
        assert_eq!(
            text,
            r#""a\"b\\c\nd\te\r\u0000\u001fé🦀"#.to_owned() + "\u{7f}\""
        );
    }
}
