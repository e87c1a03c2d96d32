//! Which route a destination name takes.
//!
//! **An exact name wins over a pattern, a longer pattern over a shorter one**, so that the order of
//! the configuration file never matters.

/// Whether `name` is what `pattern` describes; `*` stands for any run of characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

/// Place of the pattern that decides for `name`.
pub(crate) fn route<'a>(patterns: impl Iterator<Item = &'a str>, name: &str) -> Option<usize> {
    patterns
        .enumerate()
        .filter(|(_, pattern)| *pattern == name || matches(pattern, name))
        .max_by_key(|(place, pattern)| {
            let literal = pattern.chars().filter(|c| *c != '*').count();
            (*pattern == name, literal, std::cmp::Reverse(*place))
        })
        .map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (pattern, name, expected) in [
            ("orders", "orders", true),
            ("orders", "orders.eu", false),
            ("*", "", true),
            ("*", "anything", true),
            ("orders.*", "orders.eu", true),
            ("orders.*", "orders", false),
            ("*.eu", "orders.eu", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "ac", false),
            ("a*a", "a", false),
            ("é*", "été", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn an_exact_name_wins_over_a_pattern_and_a_longer_pattern_over_a_shorter_one() {
        let patterns = ["*", "orders.*", "orders.eu", "orders.eu.*"];
        let find = |name| route(patterns.into_iter(), name);
        assert_eq!(find("orders.eu"), Some(2));
        assert_eq!(find("orders.us"), Some(1));
        assert_eq!(find("orders.eu.1"), Some(3));
        assert_eq!(find("other"), Some(0));
        assert_eq!(route(["a"].into_iter(), "b"), None);
    }
}
