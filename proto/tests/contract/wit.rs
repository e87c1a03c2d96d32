//! What a change of the .wit files breaks.
//!
//! The component model links by structure: a record with one field more is another type, and an
//! adapter built before no longer links. So within one package version an item that was released
//! stays as it was, to the word; new items may come beside it.

use std::collections::BTreeMap;
use std::path::Path;

/// Packages of a folder's .wit files.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Contract {
    /// Names with versions, as `package` declares them.
    pub(crate) packages: Vec<String>,
    /// Text of an item by where it stands: `types / record row`.
    pub(crate) items: BTreeMap<String, String>,
}

pub(crate) fn read(folder: &Path) -> Contract {
    let mut contract = Contract::default();
    let entries = std::fs::read_dir(folder).expect("the folder of .wit files");
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|end| end == "wit") {
            contract.add(&std::fs::read_to_string(path).expect("a .wit file"));
        }
    }
    contract.packages.sort();
    contract.packages.dedup();
    contract
}

/// One sentence for each released item that is no longer as it was. Another package version is
/// another contract, of which nothing is asked.
pub(crate) fn broken(released: &Contract, current: &Contract) -> Vec<String> {
    if released.packages != current.packages {
        return Vec::new();
    }
    let mut broken = Vec::new();
    for (place, text) in &released.items {
        match current.items.get(place) {
            Some(now) if now == text => {}
            Some(now) => broken.push(format!("{place} was `{text}` and is now `{now}`")),
            None => broken.push(format!("{place} was removed")),
        }
    }
    broken
}

impl Contract {
    fn add(&mut self, text: &str) {
        let text = without_comments(text);
        for (statement, inner) in statements(&text) {
            match statement.strip_prefix("package ") {
                Some(package) => self.packages.push(package.to_owned()),
                None => {
                    for (item, body) in statements(&inner) {
                        let name = item.split([':', '=']).next().unwrap_or(&item).trim();
                        let place = format!("{statement} / {name}");
                        self.items
                            .insert(place, format!("{item} {{{}}}", words(&body)));
                    }
                }
            }
        }
    }
}

fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The text's statements: what stands before `;` or `{`, and what stands between the braces.
fn statements(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut head, mut body, mut depth) = (String::new(), String::new(), 0_usize);
    // `package a:b@0.1.0;` and `use x.{y};` must not be cut in the middle.
    let mut in_use = false;
    for character in text.chars() {
        match character {
            '{' if depth == 0 && head.trim_start().starts_with("use ") => {
                in_use = true;
                head.push(character);
            }
            '}' if in_use => {
                in_use = false;
                head.push(character);
            }
            '{' => {
                depth += 1;
                if depth > 1 {
                    body.push(character);
                }
            }
            '}' => {
                depth = depth.saturating_sub(1);
                if depth > 0 {
                    body.push(character);
                } else {
                    found.push((words(&head), std::mem::take(&mut body)));
                    head.clear();
                }
            }
            ';' if depth == 0 => {
                found.push((words(&head), String::new()));
                head.clear();
            }
            _ if depth == 0 => head.push(character),
            _ => body.push(character),
        }
    }
    found.retain(|(head, _)| !head.is_empty());
    found
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

// === the rules themselves ===

const BASE: &str = "
    package test:adapter@0.1.0;
    /// Kinds.
    interface types {
        use other.{thing};
        record row { id: u32, // a comment
            body: list<u8> }
        enum kind { a, b }
    }
    world adapter {
        use types.{row};
        import log: func(text: string);
        export plan: func(rows: list<row>) -> u32;
    }
";

fn contract(text: &str) -> Contract {
    let mut contract = Contract::default();
    contract.add(text);
    contract
}

fn change(from: &str, to: &str) -> Vec<String> {
    assert!(BASE.contains(from), "{from} is in the base");
    broken(&contract(BASE), &contract(&BASE.replace(from, to)))
}

#[test]
fn the_items_of_a_package_are_found() {
    let found = contract(BASE);
    assert_eq!(found.packages, ["test:adapter@0.1.0"]);
    let places: Vec<&str> = found.items.keys().map(String::as_str).collect();
    assert_eq!(
        places,
        [
            "interface types / enum kind",
            "interface types / record row",
            "interface types / use other.{thing}",
            "world adapter / export plan",
            "world adapter / import log",
            "world adapter / use types.{row}",
        ]
    );
}

#[test]
fn comments_layout_and_new_items_break_nothing() {
    for (from, to) in [
        ("/// Kinds.", "/// Other words."),
        ("body: list<u8> }", "body:\n list<u8>\n }"),
        ("enum kind", "enum more { c } enum kind"),
        ("world adapter", "world later { } world adapter"),
    ] {
        assert_eq!(change(from, to), Vec::<String>::new(), "{to}");
    }
}

#[test]
fn an_item_that_changed_or_went_is_named() {
    for (from, to, sentence) in [
        ("id: u32,", "id: u64,", "interface types / record row was"),
        ("id: u32,", "id: u32, more: u8,", "record row was"),
        ("enum kind { a, b }", "", "enum kind was removed"),
        ("{ a, b }", "{ b, a }", "enum kind was"),
        ("-> u32", "-> u64", "world adapter / export plan was"),
        (
            "import log: func(text: string);",
            "",
            "import log was removed",
        ),
    ] {
        assert!(
            change(from, to)
                .iter()
                .any(|found| found.contains(sentence)),
            "{to}: {:?}",
            change(from, to)
        );
    }
}

#[test]
fn another_package_version_is_another_contract() {
    let changed = BASE.replace("0.1.0", "0.2.0").replace("u32", "u64");
    assert!(broken(&contract(BASE), &contract(&changed)).is_empty());
}
