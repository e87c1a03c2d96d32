//! Settings on their way into an adapter.
//!
//! Invariant: an adapter sees the keys that its manifest lists, with their defaults, and nothing else; a
//! secret never enters it.

use std::collections::BTreeMap;

use crate::manifest::Setting;

/// The pairs that an adapter gets, or a sentence about the key that is wrong. `owner` says whose settings
/// they are: "the connection `orders`".
pub(crate) fn complete(
    owner: &str,
    known: &[Setting],
    given: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, String> {
    for key in given.keys() {
        if !known.iter().any(|setting| setting.key == *key) {
            let keys: Vec<String> = known
                .iter()
                .map(|setting| format!("`{}`", setting.key))
                .collect();
            let remedy = if keys.is_empty() {
                "it has no settings".to_owned()
            } else {
                format!("it has {}", keys.join(", "))
            };
            return Err(format!(
                "{owner} sets `{key}`, which its adapter does not know; {remedy}"
            ));
        }
    }
    let mut pairs = Vec::with_capacity(known.len());
    for setting in known {
        let value = given.get(&setting.key).or(setting.default.as_ref());
        match value {
            None if setting.required => {
                return Err(format!(
                    "{owner} lacks `{}`, which its adapter requires: {}",
                    setting.key, setting.summary
                ));
            }
            Some(value) if !setting.secret => pairs.push((setting.key.clone(), value.clone())),
            _ => {}
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<Setting> {
        let setting = |key: &str, default: Option<&str>, required, secret| Setting {
            key: key.into(),
            summary: "What it is.".into(),
            default: default.map(Into::into),
            required,
            secret,
        };
        vec![
            setting("path", Some("./a"), false, false),
            setting("table", None, true, false),
            setting("password", None, false, true),
            setting("hint", None, false, false),
        ]
    }

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|&(key, value)| (key.into(), value.into()))
            .collect()
    }

    #[test]
    fn defaults_are_filled_in_and_secrets_stay_outside() {
        let given = given(&[("table", "t"), ("password", "hunter2")]);
        let pairs = complete("the connection `c`", &known(), &given).unwrap();
        assert_eq!(
            pairs,
            [
                ("path".to_owned(), "./a".to_owned()),
                ("table".to_owned(), "t".to_owned())
            ]
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_those_that_exist() {
        let error =
            complete("the connection `c`", &known(), &given(&[("tabel", "t")])).unwrap_err();
        for part in ["the connection `c`", "`tabel`", "`table`"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_required_key_that_is_missing_is_named() {
        let error = complete("the connection `c`", &known(), &given(&[])).unwrap_err();
        assert!(error.contains("lacks `table`"), "{error}");
    }
}
