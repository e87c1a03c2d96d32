//! `sluicegate config` prints a file that is the default, and docs/configuration.md is what it prints.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod common;

use std::path::Path;

use common::Place;

#[test]
fn the_printed_default_is_a_configuration_that_serves_the_same_as_none() {
    let place = Place::new();
    let printed = place.run(&["config"]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let without = place.run(&["check"]);
    assert_eq!(without.code, Some(0), "{}", without.stderr);
    place.write("sluicegate.toml", &printed.stdout);
    let with = place.run(&["check"]);
    assert_eq!(with.code, Some(0), "{}", with.stderr);
    let first_line_less = |text: &str| {
        let (_, rest) = text.split_once('\n').unwrap();
        rest.to_owned()
    };
    assert_eq!(
        first_line_less(&with.stdout),
        first_line_less(&without.stdout)
    );
}

#[test]
fn every_adapters_settings_are_in_it() {
    let printed = Place::new().run(&["config"]).stdout;
    for line in [
        "[connections.main]",
        "path = ",
        "table = ",
        "# [connections.my-null]",
    ] {
        assert!(
            printed.lines().any(|l| l.starts_with(line)),
            "{line} is missing in:\n{printed}"
        );
    }
}

#[test]
fn the_documentation_is_what_is_printed() {
    let printed = Place::new().run(&["config"]).stdout;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let documented = std::fs::read_to_string(&file).unwrap();
    assert!(
        documented.contains(&format!("```toml\n{printed}```\n")),
        "docs/configuration.md is out of date: run `cargo xtask docs`"
    );
}
