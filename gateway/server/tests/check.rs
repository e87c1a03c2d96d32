//! `check` and `adapters`: what would be served, and whether it can be.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod common;

use common::Place;

#[test]
fn what_would_be_served_is_shown() {
    let place = Place::new();
    place.write(
        "sluicegate.toml",
        "listen = \"127.0.0.1:0\"\n[connections.main]\nadapter = \"sql\"\npath = \"a.db\"\n\
         [destinations.orders]\n[destinations.\"events.*\"]\n",
    );
    let ran = place.run(&["check"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for text in [
        "main",
        "sql",
        "orders",
        "fsynced",
        "events.*",
        "127.0.0.1:0",
    ] {
        assert!(
            ran.stdout.contains(text),
            "{text} is missing in:\n{}",
            ran.stdout
        );
    }
}

#[test]
fn a_store_that_cannot_be_reached_ends_with_1_and_is_named() {
    let place = Place::new();
    place.write(
        "sluicegate.toml",
        "[connections.main]\nadapter = \"sql\"\npath = \"no/such/directory/a.db\"\n[destinations.\"*\"]\n",
    );
    let ran = place.run(&["check"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let all = format!("{}{}", ran.stdout, ran.stderr);
    assert!(all.contains("no/such/directory"), "{all}");
    assert!(all.contains("main"), "{all}");
}

#[test]
fn adapters_are_listed_with_what_they_can_do() {
    let ran = Place::new().run(&["adapters"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for text in [
        "sql",
        "null",
        "batches in flight",
        "messages in flight",
        "receipts",
        "path",
    ] {
        assert!(
            ran.stdout.contains(text),
            "{text} is missing in:\n{}",
            ran.stdout
        );
    }
}

#[test]
fn a_broken_adapter_is_listed_with_its_error_and_ends_with_1() {
    let place = Place::new();
    std::fs::create_dir(place.path("adapters")).unwrap();
    let good = common::binary()
        .parent()
        .unwrap()
        .join("adapters/null.wasm");
    std::fs::copy(good, place.path("adapters/null.wasm")).unwrap();
    place.write("adapters/broken.wasm", "no component");
    place.write("sluicegate.toml", "[adapters]\npath = \"adapters\"\n");
    let ran = place.run(&["adapters"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("null"), "{ran:?}");
    assert!(ran.stderr.contains("broken.wasm"), "{ran:?}");
}
