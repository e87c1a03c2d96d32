//! Files that are no adapters, and a cache that is not as it was left.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use sluicegate_host::{CacheError, ConnectError, Guest, Host, HostError, Options};
use tempfile::TempDir;

fn host() -> Host {
    Host::new(&Options::default()).unwrap()
}

/// A component in text, as a file.
fn component(directory: &TempDir, text: &str) -> PathBuf {
    let path = directory.path().join("given.wasm");
    fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    path
}

async fn refusal(path: &Path) -> String {
    host().load(path).await.unwrap_err().to_string()
}

// === files ===

#[tokio::test]
async fn an_adapter_says_what_it_is() {
    let adapter = host()
        .load(support::component("sluicegate-adapter-null"))
        .await
        .unwrap();
    let manifest = adapter.manifest();
    assert_eq!((&*manifest.name, &*manifest.driver), ("null", "null"));
    assert!(manifest.to_string().contains("65536 messages in flight"));
}

#[tokio::test]
async fn a_file_that_is_missing_is_named_with_the_command_that_makes_it() {
    let refusal = refusal(Path::new("/nowhere/sql.wasm")).await;
    for part in ["/nowhere/sql.wasm", "cargo xtask build"] {
        assert!(refusal.contains(part), "{refusal}");
    }
}

#[tokio::test]
async fn what_is_no_component_is_told_apart_and_says_how_to_become_one() {
    let directory = tempfile::tempdir().unwrap();
    let core = wat::parse_str("(module)").unwrap();
    let cut = &wat::parse_str("(component (import \"a\" (func)))").unwrap()[..12];
    for (bytes, part) in [
        (&b""[..], "is not WebAssembly"),
        (b"#!/bin/sh\n", "is not WebAssembly"),
        (b"\0asm", "is not WebAssembly"),
        (&core, "is a core module, not a component; wrap it"),
        (cut, "is not a valid component"),
    ] {
        let path = directory.path().join("given.wasm");
        fs::write(&path, bytes).unwrap();
        let refusal = refusal(&path).await;
        assert!(refusal.contains(part), "{refusal}");
        assert!(refusal.contains("given.wasm"), "{refusal}");
    }
}

#[tokio::test]
async fn a_component_of_another_kind_is_told_what_it_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let other = component(
        &directory,
        r#"(component (instance $run) (export "wasi:cli/run@0.2.0" (instance $run)))"#,
    );
    let refusal = refusal(&other).await;
    for part in [
        "does not export `sluicegate:adapter/adapter@0.1.0`",
        "wasi:cli/run@0.2.0",
    ] {
        assert!(refusal.contains(part), "{refusal}");
    }
}

#[tokio::test]
async fn an_adapter_for_another_version_of_the_contract_names_both() {
    let directory = tempfile::tempdir().unwrap();
    let newer = component(
        &directory,
        r#"(component (instance $a) (export "sluicegate:adapter/adapter@0.2.0" (instance $a)))"#,
    );
    let refusal = refusal(&newer).await;
    for part in ["version 0.2.0", "speaks 0.1.0", "build the adapter against"] {
        assert!(refusal.contains(part), "{refusal}");
    }
}

#[tokio::test]
async fn an_adapter_that_imports_anything_but_the_log_is_refused_by_that_import() {
    let directory = tempfile::tempdir().unwrap();
    for import in [
        r#"(import "wasi:filesystem/types@0.2.0" (instance))"#,
        r#"(import "clock" (func))"#,
        r#"(import "sluicegate:adapter/log@0.2.0" (instance))"#,
        // Types alone are harmless; a function among them is an import like any other.
        r#"(import "sluicegate:adapter/types@0.1.0" (instance (export "f" (func))))"#,
    ] {
        let path = component(
            &directory,
            &format!(
                r#"(component {import} (instance $a) (export "sluicegate:adapter/adapter@0.1.0" (instance $a)))"#
            ),
        );
        let refusal = refusal(&path).await;
        let name = import.split('"').nth(1).unwrap();
        assert!(refusal.contains(&format!("imports `{name}`")), "{refusal}");
    }
}

#[tokio::test]
async fn an_adapter_without_functions_is_no_valid_one() {
    let directory = tempfile::tempdir().unwrap();
    let hollow = component(
        &directory,
        r#"(component (instance $a) (export "sluicegate:adapter/adapter@0.1.0" (instance $a)))"#,
    );
    let refusal = refusal(&hollow).await;
    assert!(refusal.contains("is not a valid component"), "{refusal}");
}

#[tokio::test]
async fn an_adapter_pairs_only_with_its_own_driver() {
    use sluicegate_host::wasmtime::Result;
    use sluicegate_host::wasmtime::component::{Instance, InstancePre};
    use sluicegate_host::wit::types::{Batch, RowFailure, Rows, Verdict};
    use sluicegate_host::{Driver, State, Store};

    struct Kafka;

    impl Driver for Kafka {
        const NAME: &'static str = "kafka";
        type Indices = ();
        type Bindings = ();
        type Command = ();
        type Reply = ();

        fn indices(_: &InstancePre<State>) -> Result<()> {
            Ok(())
        }

        fn bind((): &(), _: &mut Store, _: &Instance) -> Result<()> {
            Ok(())
        }

        async fn plan((): &(), _: &mut Store, _: &Batch) -> Result<(Vec<()>, Vec<RowFailure>)> {
            Ok((vec![], vec![]))
        }

        async fn settle((): &(), _: &mut Store, _: &[u8], (): &()) -> Result<Vec<Verdict>> {
            Ok(vec![])
        }

        fn rows((): &()) -> Rows {
            Rows { first: 0, count: 0 }
        }
    }

    let adapter = host()
        .load(support::component("sluicegate-adapter-null"))
        .await
        .unwrap();
    let error = Guest::<Kafka>::connect(&adapter, "c", &BTreeMap::new())
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Driver { .. }), "{error}");
    assert!(error.to_string().contains("`kafka`"), "{error}");
}

// === the cache ===

fn cached(directory: &Path) -> Host {
    let options = Options {
        cache: Some(directory.to_owned()),
        ..Options::default()
    };
    Host::new(&options).unwrap()
}

fn cache_refusal(directory: &Path) -> CacheError {
    let options = Options {
        cache: Some(directory.to_owned()),
        ..Options::default()
    };
    match Host::new(&options).unwrap_err() {
        HostError::Cache(error) => error,
        other => panic!("{other}"),
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

#[tokio::test]
async fn a_second_start_takes_the_compiled_adapter_from_the_cache() {
    let tmp = tempfile::tempdir().unwrap();
    let directory = tmp.path().join("a/b");
    let null = support::component("sluicegate-adapter-null");
    cached(&directory).load(&null).await.unwrap();
    let mode = fs::metadata(&directory).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o700, "made for us alone");

    let first = entries(&directory);
    assert_eq!(first.len(), 1, "{first:?}");
    let inode = fs::metadata(&first[0]).unwrap().ino();
    cached(&directory).load(&null).await.unwrap();
    assert_eq!(entries(&directory), first);
    assert_eq!(
        fs::metadata(&first[0]).unwrap().ino(),
        inode,
        "a miss would have put a new file in its place"
    );
}

#[tokio::test]
async fn a_damaged_entry_is_made_again() {
    let tmp = tempfile::tempdir().unwrap();
    let null = support::component("sluicegate-adapter-null");
    cached(tmp.path()).load(&null).await.unwrap();
    let [entry] = &entries(tmp.path())[..] else {
        panic!("one entry");
    };
    let whole = fs::read(entry).unwrap();

    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for damaged in [&flipped[..], &whole[..whole.len() / 2], b"", b"garbage"] {
        fs::write(entry, damaged).unwrap();
        cached(tmp.path()).load(&null).await.unwrap();
        assert!(fs::read(entry).unwrap() != damaged, "it was replaced");
    }
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_is_no_reason_not_to_serve() {
    let tmp = tempfile::tempdir().unwrap();
    let directory = tmp.path().join("cache");
    let host = cached(&directory);
    // Gone after the start: not even root can write into it.
    fs::remove_dir(&directory).unwrap();
    host.load(support::component("sluicegate-adapter-null"))
        .await
        .unwrap();
}

#[test]
fn a_cache_that_others_can_write_to_is_refused() {
    let tmp = tempfile::tempdir().unwrap();
    for mode in [0o777, 0o720, 0o702] {
        fs::set_permissions(tmp.path(), fs::Permissions::from_mode(mode)).unwrap();
        let error = cache_refusal(tmp.path());
        assert!(matches!(error, CacheError::Writable { .. }), "{error}");
        for part in [format!("{mode:04o}"), "chmod 0700".into()] {
            assert!(error.to_string().contains(&part), "{error}");
        }
    }
}

#[test]
fn a_cache_of_somebody_else_is_refused() {
    let tmp = tempfile::tempdir().unwrap();
    // Root can give a directory away; anybody else finds one that is root's.
    let directory = match chown(tmp.path(), Some(1), None) {
        Ok(()) => tmp.path(),
        Err(_) => Path::new("/"),
    };
    let error = cache_refusal(directory);
    assert!(matches!(error, CacheError::NotOurs { .. }), "{error}");
}

#[test]
fn a_cache_that_is_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = cache_refusal(file.path());
    assert!(matches!(error, CacheError::NotADirectory { .. }), "{error}");
}
