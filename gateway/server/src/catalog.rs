//! Where adapters are found, and where their compiled forms are kept.
//!
//! A name in the configuration is a file in one directory; what contains a separator or ends with
//! `.wasm` is a path. Nothing else is searched: an adapter must not be able to come from a directory
//! that nobody thought of.

use std::path::{Path, PathBuf};

use crate::config::{Adapters, Origin, Problem, suggestion};

const EXTENSION: &str = "wasm";

/// The directory of adapters.
pub(crate) fn directory(adapters: &Adapters) -> anyhow::Result<PathBuf> {
    if let Some(path) = &adapters.path {
        return Ok(path.clone());
    }
    let executable = std::env::current_exe().map_err(|error| {
        anyhow::anyhow!("the executable's own path is unknown ({error}); set adapters.path")
    })?;
    Ok(executable.with_file_name("adapters"))
}

/// The file of the adapter that a connection names.
pub(crate) fn find(
    directory: &Path,
    adapter: &str,
    key: &str,
    origin: &Origin,
) -> Result<PathBuf, Problem> {
    if adapter.contains(std::path::MAIN_SEPARATOR) || has_extension(Path::new(adapter)) {
        let path = PathBuf::from(adapter);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Problem::new(
                origin,
                key,
                format!("there is no file {adapter}"),
                "write the path of an adapter's component",
            ))
        };
    }
    let path = directory.join(format!("{adapter}.{EXTENSION}"));
    if path.is_file() {
        return Ok(path);
    }
    let installed = installed(directory);
    let names: Vec<&str> = installed
        .iter()
        .filter_map(|path| path.file_stem()?.to_str())
        .collect();
    let remedy = if names.is_empty() {
        "no adapter is there: install them, or set adapters.path to where they are".to_owned()
    } else {
        suggestion(adapter, names)
    };
    Err(Problem::new(
        origin,
        key,
        format!(
            "there is no adapter \"{adapter}\" in {}",
            directory.display()
        ),
        remedy,
    ))
}

/// All that might be adapters in a directory, by name.
pub(crate) fn installed(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| has_extension(path) && path.is_file())
        .collect();
    files.sort();
    files
}

fn has_extension(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == EXTENSION)
}

/// Where compiled adapters may be kept when nothing is configured, best first: where the user's caches
/// are, or beside other temporary files. The host looks closely at each before it trusts it.
pub(crate) fn caches() -> Vec<PathBuf> {
    caches_in(|name| std::env::var_os(name).map(PathBuf::from))
}

fn caches_in(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    // The specification of XDG directories has relative ones ignored.
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let user = absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map(|caches| caches.join("sluicegate"));
    let temporary = std::env::temp_dir().join("sluicegate-cache");
    user.into_iter().chain([temporary]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_text(directory: &Path, adapter: &str) -> Result<PathBuf, String> {
        find(
            directory,
            adapter,
            "connections.a.adapter",
            &Origin::Default,
        )
        .map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_name_is_a_file_in_the_directory_and_a_path_is_itself() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sql.wasm");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(find_text(directory.path(), "sql").unwrap(), file);
        assert_eq!(
            find_text(Path::new("/nowhere"), file.to_str().unwrap()).unwrap(),
            file
        );
        assert!(
            find_text(directory.path(), "./sql.wasm")
                .unwrap_err()
                .contains("no file ./sql.wasm")
        );
    }

    #[test]
    fn an_unknown_name_is_shown_its_neighbour_and_an_empty_directory_the_setting() {
        let directory = tempfile::tempdir().unwrap();
        let error = find_text(directory.path(), "sql").unwrap_err();
        assert!(error.contains("set adapters.path"), "{error}");
        std::fs::write(directory.path().join("sql.wasm"), "x").unwrap();
        std::fs::write(directory.path().join("notes.txt"), "x").unwrap();
        let error = find_text(directory.path(), "sgl").unwrap_err();
        assert!(error.contains("did you mean \"sql\"?"), "{error}");
    }

    #[test]
    fn the_cache_is_where_the_users_caches_are_and_else_with_temporary_files() {
        let both = |name: &str| Some(PathBuf::from(if name == "HOME" { "/h" } else { "/x" }));
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/h"));
        let relative = |_: &str| Some(PathBuf::from("x"));
        let temporary = std::env::temp_dir().join("sluicegate-cache");
        assert_eq!(
            caches_in(both),
            [PathBuf::from("/x/sluicegate"), temporary.clone()]
        );
        assert_eq!(
            caches_in(home),
            [PathBuf::from("/h/.cache/sluicegate"), temporary.clone()]
        );
        assert_eq!(caches_in(relative), [temporary]);
    }
}
