//! What a setting may be: how a value is read into it, and how it is written into the reference.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use sluicegate_core::Order;

use super::tree::Value;

/// Why a value does not fit: what is wrong, and what to write.
pub(crate) type Misfit = (String, String);

/// A type that a key can have.
pub(crate) trait Setting: Sized {
    /// From what stands in the file or the environment.
    fn read(value: &Value) -> Result<Self, Misfit>;

    /// As TOML; `None` when it is not set.
    fn show(&self) -> Option<String>;
}

fn wrong(value: &Value, wanted: &str) -> Misfit {
    (format!("it is {}", value.kind()), format!("write {wanted}"))
}

fn text<'a>(value: &'a Value, wanted: &str) -> Result<&'a str, Misfit> {
    match value {
        Value::Text(text) | Value::Raw(text) => Ok(text),
        other => Err(wrong(other, wanted)),
    }
}

/// TOML's basic string.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl Setting for String {
    fn read(value: &Value) -> Result<Self, Misfit> {
        text(value, "a text in quotes").map(str::to_owned)
    }

    fn show(&self) -> Option<String> {
        Some(quoted(self))
    }
}

impl Setting for PathBuf {
    fn read(value: &Value) -> Result<Self, Misfit> {
        match text(value, "a path in quotes")? {
            "" => Err((
                "it is empty".to_owned(),
                "write a path, or leave the key out".to_owned(),
            )),
            path => Ok(Self::from(path)),
        }
    }

    fn show(&self) -> Option<String> {
        Some(quoted(&self.display().to_string()))
    }
}

impl Setting for u64 {
    fn read(value: &Value) -> Result<Self, Misfit> {
        let integer = match value {
            Value::Integer(integer) => Self::try_from(*integer).ok(),
            Value::Raw(text) => text.replace('_', "").parse().ok(),
            other => return Err(wrong(other, "a whole number without quotes")),
        };
        integer.ok_or_else(|| {
            (
                "it is no number that fits".to_owned(),
                "write a whole number, 0 or more".to_owned(),
            )
        })
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for u32 {
    fn read(value: &Value) -> Result<Self, Misfit> {
        Self::try_from(u64::read(value)?).map_err(|_| {
            (
                "it is too large".to_owned(),
                format!("write at most {}", Self::MAX),
            )
        })
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// A number of which none would mean that nothing ever moves.
impl Setting for NonZeroU32 {
    fn read(value: &Value) -> Result<Self, Misfit> {
        Self::new(u32::read(value)?)
            .ok_or_else(|| ("it is 0".to_owned(), "write 1 or more".to_owned()))
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Milliseconds: the key's name says so.
impl Setting for Duration {
    fn read(value: &Value) -> Result<Self, Misfit> {
        u64::read(value).map(Self::from_millis)
    }

    fn show(&self) -> Option<String> {
        Some(self.as_millis().to_string())
    }
}

impl<T: Setting> Setting for Option<T> {
    fn read(value: &Value) -> Result<Self, Misfit> {
        T::read(value).map(Some)
    }

    fn show(&self) -> Option<String> {
        self.as_ref().and_then(T::show)
    }
}

/// Where to listen on TCP; empty: nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) Option<SocketAddr>);

impl Setting for Listen {
    fn read(value: &Value) -> Result<Self, Misfit> {
        const WANTED: &str =
            "an IP address and a port, such as \"127.0.0.1:7077\" or \"[::1]:7077\"";
        match text(value, WANTED)? {
            "" => Ok(Self(None)),
            address => address
                .parse()
                .map(|address| Self(Some(address)))
                .map_err(|_| {
                    (
                        format!("{} is no address to listen on", quoted(address)),
                        format!("write {WANTED}"),
                    )
                }),
        }
    }

    fn show(&self) -> Option<String> {
        Some(quoted(
            &self
                .0
                .map(|address| address.to_string())
                .unwrap_or_default(),
        ))
    }
}

/// Reads one of a few words.
macro_rules! words {
    ($type:ty { $($word:literal => $value:path),+ $(,)? }) => {
        impl Setting for $type {
            fn read(value: &Value) -> Result<Self, Misfit> {
                const WORDS: &[&str] = &[$($word),+];
                let wanted = WORDS.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" or ");
                match text(value, &wanted)? {
                    $($word => Ok($value),)+
                    other => Err((
                        format!("{} is not one of its words", quoted(other)),
                        format!("write {wanted}"),
                    )),
                }
            }

            fn show(&self) -> Option<String> {
                match self { $($value => Some(quoted($word)),)+ }
            }
        }
    };
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

words!(LogFormat { "text" => LogFormat::Text, "json" => LogFormat::Json });
words!(Order { "key" => Order::Key, "none" => Order::None });

/// What is logged, in the notation of `tracing-subscriber`'s filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLevel(pub(crate) String);

impl Setting for LogLevel {
    fn read(value: &Value) -> Result<Self, Misfit> {
        const WANTED: &str =
            "error, warn, info, debug or trace, or a list such as \"info,sluicegate_engine=debug\"";
        let level = text(value, WANTED)?;
        // The parser takes any word for a crate's name; a lone word must be a level.
        let lone = !level.contains(['=', ',', '[']);
        let known = ["off", "error", "warn", "info", "debug", "trace"];
        if (lone && !known.contains(&level.to_lowercase().as_str()))
            || tracing_subscriber::EnvFilter::builder()
                .parse(level)
                .is_err()
        {
            return Err((
                format!("{} is no level", quoted(level)),
                format!("write {WANTED}"),
            ));
        }
        Ok(Self(level.to_owned()))
    }

    fn show(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn a_number_in_quotes_is_refused_in_a_file_and_taken_from_a_variable() {
        assert!(u64::read(&text("5")).is_err());
        assert_eq!(u64::read(&Value::Raw("1_000".to_owned())).unwrap(), 1_000);
    }

    #[test]
    fn a_window_of_nothing_is_refused() {
        let (problem, remedy) = NonZeroU32::read(&Value::Integer(0)).unwrap_err();
        assert_eq!(
            (problem.as_str(), remedy.as_str()),
            ("it is 0", "write 1 or more")
        );
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert!(u64::read(&Value::Integer(-1)).is_err());
        assert!(u32::read(&Value::Integer(1 << 32)).is_err());
        assert!(u64::read(&Value::Integer(1 << 64)).is_err());
    }

    #[test]
    fn a_name_is_no_address_to_listen_on() {
        for bad in [
            "localhost",
            "localhost:7077",
            "127.0.0.1",
            ":7077",
            "127.0.0.1:70777",
        ] {
            assert!(Listen::read(&text(bad)).is_err(), "{bad}");
        }
        assert_eq!(Listen::read(&text("")).unwrap(), Listen(None));
        assert!(Listen::read(&text("[::1]:0")).unwrap().0.is_some());
    }

    #[test]
    fn a_level_is_a_level_or_a_list_of_them() {
        assert!(LogLevel::read(&text("warn")).is_ok());
        assert!(LogLevel::read(&text("info,sluicegate_engine=debug")).is_ok());
        assert!(LogLevel::read(&text("loud")).is_err());
        assert!(LogLevel::read(&text("a=loud")).is_err());
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same() {
        let shown = Order::None.show().unwrap();
        assert_eq!(shown, "\"none\"");
        assert_eq!(Order::read(&text("none")).unwrap(), Order::None);
        assert_eq!(quoted("a\"b\\c"), r#"'a"b\c'"#);
    }
}
