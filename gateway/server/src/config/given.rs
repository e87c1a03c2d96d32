//! Settings for adapters: checked against what the adapter's manifest says that it takes.
//!
//! **A secret never stands in the configuration.** Its value is `{ file = "…" }` or `{ env = "…" }`,
//! or comes from an environment variable by itself; what stands inline is refused, also when it hides
//! in a URL. No error repeats a value.

use std::collections::BTreeMap;
use std::fmt;

use super::error::{Origin, Problem, suggestion};
use super::section::join;
use super::tree::{Table, Value};

/// A key and value that the gateway itself does not know.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) key: String,
    pub(crate) origin: Origin,
    pub(crate) value: Value,
}

/// A setting that an adapter's manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownSetting {
    pub(crate) key: String,
    pub(crate) summary: String,
    /// As it would be written.
    pub(crate) default: Option<String>,
    pub(crate) required: bool,
    pub(crate) secret: bool,
}

/// Text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Settings that an adapter takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// For the adapter and its driver.
    pub(crate) plain: BTreeMap<String, String>,
    /// For the driver alone.
    pub(crate) secret: BTreeMap<String, Secret>,
}

impl Settled {
    /// Both, for a driver: the host keeps secrets from the adapter by the manifest.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let mut all = self.plain.clone();
        all.extend(
            self.secret
                .iter()
                .map(|(key, secret)| (key.clone(), secret.0.clone())),
        );
        all
    }
}

/// What is left of a table.
pub(super) fn of(table: Table) -> Vec<Given> {
    table
        .entries
        .into_iter()
        .map(|(key, node)| Given {
            key,
            origin: node.origin,
            value: node.value,
        })
        .collect()
}

/// Checks settings. `own` are the gateway's keys of the same table: someone who misspelt one of them
/// is to be told so.
pub(crate) fn settle(
    given: &[Given],
    known: &[KnownSetting],
    own: &[&str],
    path: &str,
    origin: &Origin,
    problems: &mut Vec<Problem>,
) -> Settled {
    let mut settled = Settled::default();
    for setting in given {
        let key = join(path, &setting.key);
        let Some(what) = known.iter().find(|known| known.key == setting.key) else {
            let names = own
                .iter()
                .copied()
                .chain(known.iter().map(|k| k.key.as_str()));
            problems.push(Problem::new(
                &setting.origin,
                key,
                "unknown key",
                suggestion(&setting.key, names),
            ));
            continue;
        };
        match value(setting, what) {
            Ok(value) if what.secret => {
                settled.secret.insert(setting.key.clone(), Secret(value));
            }
            Ok(value) => {
                settled.plain.insert(setting.key.clone(), value);
            }
            Err((problem, remedy)) => {
                problems.push(Problem::new(&setting.origin, key, problem, remedy));
            }
        }
    }
    for what in known.iter().filter(|known| known.required) {
        if !given.iter().any(|setting| setting.key == what.key) {
            problems.push(Problem::new(
                origin,
                join(path, &what.key),
                "it is missing",
                format!("set it: {}", what.summary),
            ));
        }
    }
    settled
}

fn value(setting: &Given, what: &KnownSetting) -> Result<String, (String, String)> {
    const REFERENCE: &str = "write { file = \"/path/to/it\" } or { env = \"NAME\" } instead";
    let text = match &setting.value {
        Value::Table(table) => return reference(table),
        Value::Raw(text) => return Ok(text.clone()),
        Value::Text(text) => text.clone(),
        Value::Integer(integer) => integer.to_string(),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::Float(float) => float.clone(),
        Value::Array => {
            return Err((
                "it is a list".to_owned(),
                "write a text, a number, true or false".to_owned(),
            ));
        }
    };
    if what.secret {
        return Err((
            "a secret is written inline".to_owned(),
            REFERENCE.to_owned(),
        ));
    }
    if has_password(&text) {
        return Err((
            "a URL with a password in it is written inline".to_owned(),
            format!("leave the password out of it, or {REFERENCE}"),
        ));
    }
    Ok(text)
}

/// `scheme://user:password@…`
fn has_password(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A password may itself contain an @: the last one ends it. A slash in one must be written %2F.
    authority
        .rsplit_once('@')
        .and_then(|(user, _)| user.split_once(':'))
        .is_some_and(|(_, password)| !password.is_empty())
}

fn reference(table: &Table) -> Result<String, (String, String)> {
    const FORM: &str = "write { file = \"/path/to/it\" } or { env = \"NAME\" }";
    let mut entries = table.entries.iter();
    let (Some((kind, node)), None) = (entries.next(), entries.next()) else {
        return Err((
            "it is a table that is no reference".to_owned(),
            FORM.to_owned(),
        ));
    };
    let (Value::Text(name) | Value::Raw(name)) = &node.value else {
        return Err((
            format!("its {kind} is {}", node.value.kind()),
            FORM.to_owned(),
        ));
    };
    match kind.as_str() {
        // Editors and `echo` end a file with a newline that nobody meant.
        "file" => std::fs::read_to_string(name)
            .map(|text| text.trim_end_matches(['\n', '\r']).to_owned())
            .map_err(|error| {
                (
                    format!("the file {name} cannot be read: {error}"),
                    "name a file that the gateway's user may read".to_owned(),
                )
            }),
        "env" => std::env::var(name).map_err(|_| {
            (
                format!("the environment variable {name} is not set"),
                "set it before the gateway starts".to_owned(),
            )
        }),
        _ => Err((
            format!("\"{kind}\" is no kind of reference"),
            FORM.to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use super::*;

    fn known(key: &str) -> KnownSetting {
        KnownSetting {
            key: key.to_owned(),
            summary: format!("The {key}."),
            default: None,
            required: false,
            secret: key == "password",
        }
    }

    fn settled(text: &str, known: &[KnownSetting]) -> (Settled, String) {
        let given = of(Table::parse(text, &Path::new("f.toml").into()).unwrap());
        let mut problems = Vec::new();
        let origin = Origin::File {
            file: Path::new("f.toml").into(),
            line: 9,
        };
        let settled = settle(
            &given,
            known,
            &["adapter", "window"],
            "connections.a",
            &origin,
            &mut problems,
        );
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        (settled, problems.join("\n"))
    }

    #[test]
    fn numbers_and_truth_values_reach_the_adapter_as_text() {
        let known = [known("path"), known("n"), known("b")];
        let (settled, problems) = settled("path = \"x\"\nn = 5\nb = true", &known);
        assert_eq!(problems, "");
        let plain: Vec<(&str, &str)> = settled
            .plain
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(plain, [("b", "true"), ("n", "5"), ("path", "x")]);
    }

    #[test]
    fn a_secret_written_inline_is_refused_and_not_repeated() {
        let (_, problems) = settled("\npassword = \"hunter2\"", &[known("password")]);
        assert_eq!(
            problems,
            "f.toml:2: connections.a.password: a secret is written inline; write { file = \
             \"/path/to/it\" } or { env = \"NAME\" } instead"
        );
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        let (_, problems) = settled("url = \"db://me:hunter2@host/x\"", &[known("url")]);
        assert!(
            problems.contains("f.toml:1: connections.a.url: a URL with a password"),
            "{problems}"
        );
        assert!(!problems.contains("hunter2"), "{problems}");
    }

    #[test]
    fn a_url_without_a_password_is_taken() {
        for url in [
            "db://host/x",
            "db://me@host/x",
            "db://host/a:b@c",
            "me:x@host",
            "sqlite:./a.db",
        ] {
            assert!(!has_password(url), "{url}");
        }
        for url in ["db://me:p@host", "db://me:p@ss@host", "db://:p@host/x"] {
            assert!(has_password(url), "{url}");
        }
    }

    #[test]
    fn a_secret_comes_from_a_file_without_its_last_newline() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "hunter2").unwrap();
        let text = format!("password = {{ file = {:?} }}", file.path());
        let (settled, problems) = settled(&text, &[known("password")]);
        assert_eq!(problems, "");
        assert_eq!(settled.secret["password"], Secret("hunter2".to_owned()));
        assert!(settled.plain.is_empty());
        assert!(!format!("{settled:?}").contains("hunter2"));
    }

    #[test]
    fn a_reference_to_nothing_names_what_is_not_there() {
        let (_, problems) = settled(
            "password = { file = \"/no/such/file\" }",
            &[known("password")],
        );
        assert!(problems.contains("/no/such/file"), "{problems}");
        let (_, problems) = settled(
            "password = { env = \"NO_SUCH_VARIABLE\" }",
            &[known("password")],
        );
        assert!(problems.contains("NO_SUCH_VARIABLE"), "{problems}");
        let (_, problems) = settled("password = { vault = \"x\" }", &[known("password")]);
        assert!(
            problems.contains("\"vault\" is no kind of reference"),
            "{problems}"
        );
    }

    #[test]
    fn an_unknown_key_finds_the_adapters_and_the_gateways_own() {
        let (_, problems) = settled("pth = \"x\"\nwindw = 1", &[known("path")]);
        assert_eq!(
            problems,
            "f.toml:1: connections.a.pth: unknown key; did you mean \"path\"?\n\
             f.toml:2: connections.a.windw: unknown key; did you mean \"window\"?"
        );
    }

    #[test]
    fn a_required_setting_that_is_missing_is_named_at_its_table() {
        let mut url = known("url");
        url.required = true;
        let (_, problems) = settled("", &[url]);
        assert_eq!(
            problems,
            "f.toml:9: connections.a.url: it is missing; set it: The url."
        );
    }
}
