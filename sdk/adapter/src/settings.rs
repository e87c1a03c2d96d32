//! Settings as the gateway hands them over: text by key.
//!
//! Only keys that the manifest lists arrive, with the manifest's default where the configuration has none,
//! so an adapter that asks for a key finds it unless the key is optional.

use std::fmt::Display;
use std::str::FromStr;

/// Settings of a connection or of a destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    /// From pairs of key and value.
    #[must_use]
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        find(&self.0, key)
    }

    /// The value of a key as a number, a truth value or anything else that is written as text; `default`
    /// where the key is not set.
    ///
    /// # Errors
    ///
    /// A sentence that names the key, its value and what is wrong with it.
    pub fn parse<T>(&self, key: &str, default: T) -> Result<T, String>
    where
        T: FromStr,
        T::Err: Display,
    {
        let Some(value) = self.get(key) else {
            return Ok(default);
        };
        value
            .trim()
            .parse()
            .map_err(|error| format!("`{key} = \"{value}\"`: {error}"))
    }
}

impl From<&[(String, String)]> for Settings {
    fn from(pairs: &[(String, String)]) -> Self {
        Self(pairs.to_vec())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Settings {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        )
    }
}

impl crate::Destination {
    /// The value of one of the destination's settings.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<&str> {
        find(&self.settings, key)
    }
}

impl crate::Setting {
    /// A key that may be left out: `default` is then its value.
    #[must_use]
    pub fn with_default(key: &str, default: &str, summary: &str) -> Self {
        Self {
            default: Some(default.to_owned()),
            ..Self::optional(key, summary)
        }
    }

    /// A key that may be left out; the summary says what that means.
    #[must_use]
    pub fn optional(key: &str, summary: &str) -> Self {
        Self {
            key: key.to_owned(),
            summary: summary.to_owned(),
            default: None,
            required: false,
            secret: false,
        }
    }

    /// A key that must be there.
    #[must_use]
    pub fn required(key: &str, summary: &str) -> Self {
        Self {
            required: true,
            ..Self::optional(key, summary)
        }
    }
}

fn find<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(name, _)| name == key)
        .map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_set_has_the_default() {
        let settings = Settings::from([("other", "1")]);
        assert_eq!(settings.parse("timeout_ms", 250_u32), Ok(250));
    }

    #[test]
    fn a_value_that_cannot_be_read_is_named_with_its_key() {
        let settings = Settings::from([("timeout_ms", "soon")]);
        let error = settings.parse("timeout_ms", 250_u32).unwrap_err();
        assert!(error.contains("`timeout_ms = \"soon\"`"), "{error}");
    }
}
