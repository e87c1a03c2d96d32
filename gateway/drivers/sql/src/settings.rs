//! What a connection may set.
//!
//! Settings arrive as text by key; everything is parsed before a file is touched, and a mistake is
//! answered with the key and with what to write instead.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Beside the gateway's working directory: what a newcomer can find without looking.
pub(crate) const DEFAULT_PATH: &str = "./sluicegate.db";

/// Long enough for another writer's transaction, short enough for a retry within a confirmation
/// timeout.
pub(crate) const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_millis(5_000);

/// SQLite takes milliseconds as a C int; an hour is far below, and longer than anyone waits.
const MAX_BUSY_TIMEOUT_MS: u64 = 3_600_000;

/// Where the database is and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The database's file.
    pub path: PathBuf,
    /// How long a statement waits for another writer.
    pub busy_timeout: Duration,
    /// What a commit waits for.
    pub synchronous: Synchronous,
    /// Whether a missing file is created. Its directory never is.
    pub create: bool,
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// For the disk: a confirmed row survives loss of power.
    #[default]
    Full,
    /// For the operating system: a confirmed row survives the gateway's death. The disk is waited for
    /// only when the log is folded back into the database.
    Normal,
    /// For the operating system, and never for the disk: loss of power can corrupt the database.
    Off,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            path: PathBuf::from(DEFAULT_PATH),
            busy_timeout: DEFAULT_BUSY_TIMEOUT,
            synchronous: Synchronous::default(),
            create: true,
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key} = \"{value}\"`: {remedy}")]
pub struct SettingError {
    /// The key of the configuration.
    pub key: &'static str,
    /// What was written.
    pub value: String,
    /// What is wrong and what to write instead.
    pub remedy: String,
}

impl Settings {
    /// Reads the settings of a connection; keys that belong to the adapter are left to it.
    ///
    /// # Errors
    ///
    /// The first setting that cannot be used.
    pub fn parse(settings: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let mut parsed = Self::default();
        if let Some(path) = settings.get("path") {
            parsed.path = parse_path(path)?;
        }
        if let Some(text) = settings.get("busy_timeout_ms") {
            parsed.busy_timeout = parse_busy_timeout(text)?;
        }
        if let Some(text) = settings.get("synchronous") {
            parsed.synchronous = match text.as_str() {
                "full" => Synchronous::Full,
                "normal" => Synchronous::Normal,
                "off" => Synchronous::Off,
                _ => {
                    return Err(bad(
                        "synchronous",
                        text,
                        "write \"full\" (a confirmed row survives loss of power), \"normal\" (it survives the gateway's death) or \"off\"",
                    ));
                }
            };
        }
        if let Some(text) = settings.get("create") {
            parsed.create = match text.as_str() {
                "true" => true,
                "false" => false,
                _ => return Err(bad("create", text, "write true or false")),
            };
        }
        Ok(parsed)
    }
}

fn parse_path(path: &str) -> Result<PathBuf, SettingError> {
    let refused = if path.is_empty() {
        Some("write the path of the database's file, such as \"./sluicegate.db\"")
    } else if path.starts_with("sqlite:") || path.starts_with("file:") {
        Some("write the file's plain path, not a URL")
    } else if path.starts_with(":memory:") {
        Some(
            "a database in memory dies with the gateway, so nothing in it could be confirmed; write the path of a file",
        )
    } else if path.contains('\0') {
        Some("a path holds no NUL character")
    } else {
        None
    };
    match refused {
        Some(remedy) => Err(bad("path", path, remedy)),
        None => Ok(PathBuf::from(path)),
    }
}

fn parse_busy_timeout(text: &str) -> Result<Duration, SettingError> {
    match text.parse::<u64>() {
        Ok(ms) if ms <= MAX_BUSY_TIMEOUT_MS => Ok(Duration::from_millis(ms)),
        _ => Err(bad(
            "busy_timeout_ms",
            text,
            "write a whole number of milliseconds from 0 to 3600000",
        )),
    }
}

fn bad(key: &'static str, value: &str, remedy: &str) -> SettingError {
    SettingError {
        key,
        value: value.to_owned(),
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(key: &str, value: &str) -> Result<Settings, SettingError> {
        Settings::parse(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn no_settings_are_the_defaults() {
        let settings = Settings::parse(&BTreeMap::new()).unwrap();
        assert_eq!(settings, Settings::default());
        assert_eq!(settings.synchronous, Synchronous::Full);
        assert!(settings.create);
    }

    #[test]
    fn each_setting_is_read() {
        assert_eq!(
            parse("path", "/var/lib/q.db").unwrap().path,
            PathBuf::from("/var/lib/q.db")
        );
        assert_eq!(
            parse("busy_timeout_ms", "50").unwrap().busy_timeout,
            Duration::from_millis(50)
        );
        assert_eq!(
            parse("synchronous", "normal").unwrap().synchronous,
            Synchronous::Normal
        );
        assert!(!parse("create", "false").unwrap().create);
    }

    #[test]
    fn a_bad_setting_names_its_key_its_value_and_the_remedy() {
        for (key, value) in [
            ("path", ""),
            ("path", "sqlite://q.db"),
            ("path", "file:q.db"),
            ("path", ":memory:"),
            ("busy_timeout_ms", "soon"),
            ("busy_timeout_ms", "-1"),
            ("busy_timeout_ms", "99999999999"),
            ("synchronous", "FULL"),
            ("create", "yes"),
        ] {
            let error = parse(key, value).unwrap_err();
            assert_eq!(error.key, key);
            let text = error.to_string();
            assert!(text.contains(key) && text.contains(value), "{text}");
            assert!(text.contains("write") || text.contains("holds"), "{text}");
        }
    }

    #[test]
    fn keys_of_the_adapter_are_left_to_it() {
        assert_eq!(parse("table", "audit").unwrap(), Settings::default());
    }
}
