//! Tables of the configuration, declared once: the struct, how it is read, its defaults and its
//! reference come from the same lines, so that none of them can say something else than the others.

use super::error::{Problem, suggestion};
use super::setting::Setting;
use super::tree::Table;

/// A key, for the reference.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// The doc comment, a line each.
    pub(crate) doc: &'static [&'static str],
    /// What it might be, when by default it is nothing.
    pub(crate) example: Option<&'static str>,
}

/// A table whose keys are known.
pub(crate) trait Section: Sized + Default {
    /// All of them, in the reference's order.
    const KEYS: &'static [Key];

    /// The doc comment of the whole.
    const DOC: &'static [&'static str];

    /// Takes its keys out of a table. What does not fit is reported and keeps its default.
    fn read(table: &mut Table, path: &str, problems: &mut Vec<Problem>) -> Self;

    /// The values as TOML, in the order of `KEYS`.
    fn show(&self) -> Vec<Option<String>>;
}

/// The names of a section's keys.
pub(crate) fn names<S: Section>() -> Vec<&'static str> {
    S::KEYS.iter().map(|key| key.name).collect()
}

/// `path.key`, or the key alone at the top.
pub(crate) fn join(path: &str, key: &str) -> String {
    let bare = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let key = if bare {
        key.to_owned()
    } else {
        super::setting::quoted(key)
    };
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}

/// Reads one key, or leaves its default.
pub(crate) fn read_key<T: Setting>(
    table: &mut Table,
    path: &str,
    key: &str,
    into: &mut T,
    problems: &mut Vec<Problem>,
) {
    let Some(node) = table.take(key) else { return };
    match T::read(&node.value) {
        Ok(value) => *into = value,
        Err((problem, remedy)) => {
            problems.push(Problem::new(&node.origin, join(path, key), problem, remedy));
        }
    }
}

/// What is left of a table is unknown.
pub(crate) fn nothing_left(table: &Table, path: &str, known: &[&str], problems: &mut Vec<Problem>) {
    for (key, node) in &table.entries {
        problems.push(Problem::new(
            &node.origin,
            join(path, key),
            "unknown key",
            suggestion(key, known.iter().copied()),
        ));
    }
}

/// Declares a section: `key: type = default,` or `key: type = default; "example",`.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        pub(crate) struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $key:ident : $type:ty = $default:expr $(; $example:literal)?,
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $name {
            $($(#[doc = $doc])* pub(crate) $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        impl $crate::config::section::Section for $name {
            const KEYS: &'static [$crate::config::section::Key] = &[
                $($crate::config::section::Key {
                    name: stringify!($key),
                    doc: &[$($doc),*],
                    example: [$(Some($example),)? None][0],
                },)*
            ];

            const DOC: &'static [&'static str] = &[$($about),*];

            fn read(
                table: &mut $crate::config::tree::Table,
                path: &str,
                problems: &mut Vec<$crate::config::error::Problem>,
            ) -> Self {
                let mut section = Self::default();
                $($crate::config::section::read_key(
                    table, path, stringify!($key), &mut section.$key, problems,
                );)*
                section
            }

            fn show(&self) -> Vec<Option<String>> {
                vec![$($crate::config::setting::Setting::show(&self.$key),)*]
            }
        }
    };
}

pub(crate) use section;
