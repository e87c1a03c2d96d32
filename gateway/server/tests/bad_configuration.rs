//! A bad configuration ends with 64 and a line that names file, line, key and remedy. `serve` and
//! `check` say the same.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod common;

use common::Place;

/// Runs `serve` and `check` on this configuration: both must end with 64, having said `expected`.
#[track_caller]
fn refused(text: &str, expected: &str) {
    let place = Place::new();
    place.write("sluicegate.toml", text);
    for command in ["serve", "check"] {
        let ran = place.run(&[command]);
        let adapters = common::binary().parent().unwrap().join("adapters");
        let said = ran
            .stderr
            .replace(&adapters.display().to_string(), "ADAPTERS");
        assert_eq!(said.trim_end(), expected, "{command}");
        assert_eq!(ran.code, Some(64), "{command}: {}", ran.stderr);
        assert!(
            !place.path("sluicegate.db").exists(),
            "{command} opened a store before it had understood its configuration"
        );
    }
}

#[test]
fn an_unknown_key() {
    refused(
        "listne = \"127.0.0.1:0\"",
        "sluicegate.toml:1: listne: unknown key; did you mean \"listen\"?",
    );
}

#[test]
fn an_unknown_key_of_an_adapter() {
    refused(
        "[connections.main]\nadapter = \"sql\"\npth = \"./a.db\"\n[destinations.\"*\"]\n",
        "sluicegate.toml:3: connections.main.pth: unknown key; did you mean \"path\"?",
    );
    refused(
        "[connections.main]\nadapter = \"sql\"\n[destinations.\"*\"]\ntabel = \"x\"\n",
        "sluicegate.toml:4: destinations.\"*\".tabel: unknown key; did you mean \"table\"?",
    );
}

#[test]
fn a_destination_given_twice() {
    refused(
        "[connections.main]\nadapter = \"sql\"\n[destinations.a]\n[destinations.a]\n",
        "sluicegate.toml:4: destinations.a: it is given twice; keep one of the two, or give them different names",
    );
}

#[test]
fn two_patterns_that_are_equal() {
    refused(
        "[connections.main]\nadapter = \"sql\"\n[destinations.\"*\"]\n[destinations.\"**\"]\n",
        "sluicegate.toml:4: destinations.\"**\": it matches the same names as \"*\" \
         (sluicegate.toml:3); keep one of the two",
    );
}

#[test]
fn an_adapter_file_that_is_missing() {
    refused(
        "[connections.main]\nadapter = \"./no/such.wasm\"\n[destinations.\"*\"]\n",
        "sluicegate.toml:2: connections.main.adapter: there is no file ./no/such.wasm; write the path \
         of an adapter's component",
    );
}

#[test]
fn an_adapter_that_is_unknown() {
    refused(
        "[connections.main]\nadapter = \"sqll\"\n[destinations.\"*\"]\n",
        "sluicegate.toml:2: connections.main.adapter: there is no adapter \"sqll\" in ADAPTERS; did \
         you mean \"sql\"?",
    );
}

#[test]
fn an_adapter_that_is_none() {
    let place = Place::new();
    place.write("bad.wasm", "this is no component");
    place.write(
        "sluicegate.toml",
        "[connections.main]\nadapter = \"./bad.wasm\"\n[destinations.\"*\"]\n",
    );
    let ran = place.run(&["check"]);
    assert_eq!(ran.code, Some(64), "{}", ran.stderr);
    assert!(
        ran.stderr
            .starts_with("sluicegate.toml:2: connections.main.adapter: "),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("bad.wasm"), "{}", ran.stderr);
}

#[test]
fn a_destination_on_an_unknown_connection() {
    refused(
        "[connections.main]\nadapter = \"sql\"\n[destinations.a]\nconnection = \"mian\"\n",
        "sluicegate.toml:4: destinations.a.connection: there is no connection \"mian\"; did you mean \
         \"main\"?",
    );
}

#[test]
fn an_address_that_is_none() {
    refused(
        "listen = \"localhost\"",
        "sluicegate.toml:1: listen: \"localhost\" is no address to listen on; write an IP address and \
         a port, such as \"127.0.0.1:7077\" or \"[::1]:7077\"",
    );
}

#[test]
fn a_secret_written_inline() {
    refused(
        "[connections.main]\nadapter = \"sql\"\npath = \"sqlite://me:hunter2@host/a.db\"\n\
         [destinations.\"*\"]\n",
        "sluicegate.toml:3: connections.main.path: a URL with a password in it is written inline; \
         leave the password out of it, or write { file = \"/path/to/it\" } or { env = \"NAME\" } \
         instead",
    );
}

#[test]
fn a_wrong_type() {
    refused(
        "[limits]\nframe_bytes = \"many\"",
        "sluicegate.toml:2: limits.frame_bytes: it is a text; write a whole number without quotes",
    );
}

#[test]
fn a_window_of_nothing() {
    refused(
        "[connections.main]\nadapter = \"sql\"\nwindow = 0\n[destinations.\"*\"]\n",
        "sluicegate.toml:3: connections.main.window: it is 0; write 1 or more",
    );
}

#[test]
fn a_window_that_its_store_cannot_use() {
    refused(
        "[connections.main]\nadapter = \"sql\"\nwindow = 2\n[destinations.\"*\"]\n",
        "sluicegate.toml:3: connections.main.window: 2 is more than its store takes at a time; write \
         1, or leave it out",
    );
}

#[test]
fn a_destinations_setting_that_can_never_work() {
    for destination in ["orders", "\"orders.*\""] {
        for (key, value, says) in [
            ("table", "", "write the name of a table"),
            ("table", "sqlite_master", "SQLite's own"),
            ("key_column", "body", "names the same column"),
        ] {
            let place = Place::new();
            place.write(
                "sluicegate.toml",
                &format!(
                    "[connections.main]\nadapter = \"sql\"\n[destinations.{destination}]\n{key} = \"{value}\"\n"
                ),
            );
            for command in ["serve", "check"] {
                let ran = place.run(&[command]);
                assert_eq!(ran.code, Some(64), "{command}: {ran:?}");
                let start = format!("sluicegate.toml:4: destinations.{destination}.{key}: ");
                assert!(ran.stderr.starts_with(&start), "{command}: {ran:?}");
                assert!(ran.stderr.contains(says), "{command}: {ran:?}");
                assert!(!place.path("sluicegate.db").exists());
            }
        }
    }
}

#[test]
fn a_setting_that_its_adapter_does_not_understand() {
    let place = Place::new();
    place.write(
        "sluicegate.toml",
        "[connections.main]\nadapter = \"sql\"\nsynchronous = \"sometimes\"\n[destinations.\"*\"]\n",
    );
    let ran = place.run(&["check"]);
    assert_eq!(ran.code, Some(64), "{}", ran.stderr);
    assert!(ran.stderr.contains("connections.main"), "{}", ran.stderr);
    assert!(ran.stderr.contains("synchronous"), "{}", ran.stderr);
}

#[test]
fn a_file_that_is_not_there() {
    let ran = Place::new().run(&["--config", "no.toml", "check"]);
    assert_eq!(ran.code, Some(64), "{}", ran.stderr);
    assert!(
        ran.stderr
            .starts_with("no.toml:1: the file: it cannot be read"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_variable_that_names_no_setting() {
    let place = Place::new();
    let output = place
        .command(&["check"])
        .env("SLUICEGATE_LISTN", "127.0.0.1:0")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "environment variable SLUICEGATE_LISTN: listn: unknown key; did you mean \"listen\"?\n"
    );
}
