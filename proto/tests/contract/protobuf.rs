//! What a change of a .proto breaks.

use std::collections::BTreeMap;

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    ServiceDescriptorProto,
};

/// One sentence for each thing that was released and is no longer so.
pub(crate) fn broken(released: &FileDescriptorSet, current: &FileDescriptorSet) -> Vec<String> {
    let (old, new) = (Contract::of(released), Contract::of(current));
    let mut broken = Vec::new();
    for (name, message) in &old.messages {
        match new.messages.get(name) {
            Some(now) => fields(name, message, now, &mut broken),
            None => broken.push(format!("message {name} was removed")),
        }
    }
    for (name, values) in &old.enums {
        match new.enums.get(name) {
            Some(now) => enum_values(name, values, now, &mut broken),
            None => broken.push(format!("enum {name} was removed")),
        }
    }
    for (name, service) in &old.services {
        match new.services.get(name) {
            Some(now) => methods(name, service, now, &mut broken),
            None => broken.push(format!("service {name} was removed")),
        }
    }
    broken
}

/// Everything in a descriptor set by its full name.
#[derive(Default)]
struct Contract<'a> {
    messages: BTreeMap<String, &'a DescriptorProto>,
    enums: BTreeMap<String, &'a EnumDescriptorProto>,
    services: BTreeMap<String, &'a ServiceDescriptorProto>,
}

impl<'a> Contract<'a> {
    fn of(set: &'a FileDescriptorSet) -> Self {
        let mut contract = Self::default();
        for file in &set.file {
            let package = file.package();
            for message in &file.message_type {
                contract.message(package, message);
            }
            for values in &file.enum_type {
                let name = format!("{package}.{}", values.name());
                contract.enums.insert(name, values);
            }
            for service in &file.service {
                let name = format!("{package}.{}", service.name());
                contract.services.insert(name, service);
            }
        }
        contract
    }

    fn message(&mut self, scope: &str, message: &'a DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for nested in &message.nested_type {
            self.message(&name, nested);
        }
        for values in &message.enum_type {
            self.enums
                .insert(format!("{name}.{}", values.name()), values);
        }
        self.messages.insert(name, message);
    }
}

fn fields(
    name: &str,
    released: &DescriptorProto,
    current: &DescriptorProto,
    broken: &mut Vec<String>,
) {
    for old in &released.field {
        let what = format!("field {} `{}` of {name}", old.number(), old.name());
        let by_number = current
            .field
            .iter()
            .find(|field| field.number() == old.number());
        let Some(new) = by_number else {
            let now = current.field.iter().find(|new| new.name() == old.name());
            broken.push(match now {
                Some(new) => format!("{what} was renumbered to {}", new.number()),
                None => format!("{what} was removed"),
            });
            continue;
        };
        if new.name() != old.name() {
            broken.push(format!("{what} was renamed to `{}`", new.name()));
        }
        if (new.r#type(), new.type_name()) != (old.r#type(), old.type_name()) {
            broken.push(format!("{what} was {} and is now {}", kind(old), kind(new)));
        }
        if (new.label(), new.proto3_optional()) != (old.label(), old.proto3_optional()) {
            broken.push(format!("{what} changed how often it may occur"));
        }
        if oneof(released, old) != oneof(current, new) {
            broken.push(format!("{what} moved into or out of a oneof"));
        }
    }
}

fn kind(field: &FieldDescriptorProto) -> String {
    match field.type_name() {
        "" => format!("{:?}", field.r#type()).to_lowercase(),
        named => named.trim_start_matches('.').to_owned(),
    }
}

fn oneof<'a>(message: &'a DescriptorProto, field: &FieldDescriptorProto) -> Option<&'a str> {
    let place = usize::try_from(field.oneof_index?).ok()?;
    message.oneof_decl.get(place).map(|oneof| oneof.name())
}

fn enum_values(
    name: &str,
    released: &EnumDescriptorProto,
    current: &EnumDescriptorProto,
    broken: &mut Vec<String>,
) {
    for old in &released.value {
        let what = format!("value {} `{}` of {name}", old.number(), old.name());
        let by_number = current
            .value
            .iter()
            .find(|value| value.number() == old.number());
        match by_number {
            None => broken.push(format!("{what} was removed or renumbered")),
            Some(new) if new.name() != old.name() => {
                broken.push(format!("{what} was renamed to `{}`", new.name()));
            }
            Some(_) => {}
        }
    }
}

fn methods(
    name: &str,
    released: &ServiceDescriptorProto,
    current: &ServiceDescriptorProto,
    broken: &mut Vec<String>,
) {
    for old in &released.method {
        let what = format!("method {} of {name}", old.name());
        match current.method.iter().find(|new| new.name() == old.name()) {
            None => broken.push(format!("{what} was removed")),
            Some(new) => {
                if new.input_type() != old.input_type() || new.output_type() != old.output_type() {
                    broken.push(format!("{what} takes or returns another message"));
                }
                if new.client_streaming() != old.client_streaming()
                    || new.server_streaming() != old.server_streaming()
                {
                    broken.push(format!("{what} streams otherwise"));
                }
            }
        }
    }
}

// === the rules themselves ===

const BASE: &str = r#"
    syntax = "proto3";
    package test;
    service Gate { rpc Go(stream A) returns (B); }
    message A {
      oneof kind { string text = 1; bytes raw = 2; }
      repeated B many = 3;
      optional uint64 some = 4;
      message Inner { bool deep = 1; }
    }
    message B { Color color = 1; }
    enum Color { COLOR_UNSPECIFIED = 0; RED = 1; }
"#;

fn compile(text: &str) -> FileDescriptorSet {
    let folder = std::env::temp_dir().join(format!(
        "sluicegate-contract-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("test.proto"), text).expect("a file");
    let compiled = protox::compile(["test.proto"], [&folder]).expect("it compiles");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    compiled
}

fn change(from: &str, to: &str) -> Vec<String> {
    assert!(BASE.contains(from), "{from} is in the base");
    broken(&compile(BASE), &compile(&BASE.replace(from, to)))
}

#[test]
fn additions_break_nothing() {
    for (from, to) in [
        ("uint64 some = 4;", "uint64 some = 4; string more = 5;"),
        ("bytes raw = 2;", "bytes raw = 2; bool flag = 9;"),
        ("RED = 1;", "RED = 1; BLUE = 2;"),
        ("returns (B);", "returns (B); rpc Stay(B) returns (B);"),
        ("message B", "message C {} message B"),
    ] {
        assert_eq!(change(from, to), Vec::<String>::new(), "{to}");
    }
}

#[test]
fn whatever_a_deployed_client_would_notice_is_named() {
    for (from, to, sentence) in [
        (
            "optional uint64 some = 4;",
            "",
            "field 4 `some` of test.A was removed",
        ),
        (
            "some = 4",
            "some = 7",
            "field 4 `some` of test.A was renumbered to 7",
        ),
        (
            "uint64 some",
            "uint32 some",
            "field 4 `some` of test.A was uint64 and is now uint32",
        ),
        (
            "some = 4",
            "other = 4",
            "field 4 `some` of test.A was renamed to `other`",
        ),
        (
            "optional uint64",
            "uint64",
            "field 4 `some` of test.A changed how often it may occur",
        ),
        (
            "repeated B many",
            "B many",
            "field 3 `many` of test.A changed how often it may occur",
        ),
        (
            "bytes raw = 2; }",
            "} bytes raw = 2;",
            "field 2 `raw` of test.A moved into or out of a oneof",
        ),
        (
            "bool deep = 1;",
            "",
            "field 1 `deep` of test.A.Inner was removed",
        ),
        (
            "RED = 1",
            "RED = 3",
            "value 1 `RED` of test.Color was removed or renumbered",
        ),
        (
            "RED = 1",
            "GREEN = 1",
            "value 1 `RED` of test.Color was renamed to `GREEN`",
        ),
        (
            "rpc Go(stream A) returns (B);",
            "",
            "method Go of test.Gate was removed",
        ),
        ("stream A", "A", "method Go of test.Gate streams otherwise"),
        (
            "returns (B)",
            "returns (A)",
            "method Go of test.Gate takes or returns another message",
        ),
        (
            "service Gate { rpc Go(stream A) returns (B); }",
            "",
            "service test.Gate was removed",
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
