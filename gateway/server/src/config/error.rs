//! A bad configuration says where, which key, what is wrong and what to write instead, and all that
//! is wrong at once. It never repeats a value of an adapter's setting: it may be a secret.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Built in.
    Default,
    /// A line of the configuration file, counted from 1.
    File { file: Arc<Path>, line: usize },
    /// An environment variable.
    Environment(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the built-in configuration"),
            Self::File { file, line } => write!(f, "{}:{line}", file.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {key}: {problem}; {remedy}")]
pub(crate) struct Problem {
    /// Where it stands.
    pub(crate) origin: Origin,
    /// The key with its tables: `connections.main.window`.
    pub(crate) key: String,
    /// What is wrong.
    pub(crate) problem: String,
    /// What to do.
    pub(crate) remedy: String,
}

impl Problem {
    /// A problem with its remedy.
    pub(crate) fn new(
        origin: &Origin,
        key: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            origin: origin.clone(),
            key: key.into(),
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// All that is wrong, in the order in which it was found; never empty.
#[derive(Debug, thiserror::Error)]
pub(crate) struct BadConfiguration(pub(crate) Vec<Problem>);

impl fmt::Display for BadConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, problem) in self.0.iter().enumerate() {
            if place > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl From<Problem> for BadConfiguration {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

/// `did you mean "x"?`, or what there is to choose from.
pub(crate) fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    /// More edits than this make another word.
    const EDITS: usize = 3;
    let known: Vec<&str> = known.into_iter().collect();
    let nearest = known
        .iter()
        .map(|candidate| (edits(word, candidate), *candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= EDITS && *distance < candidate.len());
    match nearest {
        Some((_, candidate)) => format!("did you mean \"{candidate}\"?"),
        None if known.is_empty() => "remove it".to_owned(),
        None => format!("there are: {}", known.join(", ")),
    }
}

/// Levenshtein's distance, one row of the table at a time.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (place, l) in left.chars().enumerate() {
        let mut next = vec![place + 1];
        for (r, window) in right.iter().zip(row.windows(2)) {
            let &[diagonal, above] = window else { continue };
            let before = next.last().copied().unwrap_or(0);
            next.push(
                (diagonal + usize::from(l != *r))
                    .min(above + 1)
                    .min(before + 1),
            );
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_as_levenshtein_does() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", "abc"), 0);
        assert_eq!(edits("abc", ""), 3);
    }

    #[test]
    fn a_misspelt_word_finds_its_neighbour() {
        assert_eq!(
            suggestion("lisen", ["log", "listen", "limits"]),
            "did you mean \"listen\"?"
        );
    }

    #[test]
    fn a_foreign_word_is_shown_what_there_is() {
        assert_eq!(
            suggestion("bananas", ["log", "listen"]),
            "there are: log, listen"
        );
    }

    #[test]
    fn a_problem_names_line_key_and_remedy() {
        let origin = Origin::File {
            file: Path::new("a.toml").into(),
            line: 3,
        };
        let problem = Problem::new(&origin, "listen", "\"x\" is no address", "write host:port");
        assert_eq!(
            problem.to_string(),
            "a.toml:3: listen: \"x\" is no address; write host:port"
        );
    }
}
