//! The contracts only ever grow: what was released stays as it was, since the clients and adapters
//! that were built from it are deployed and will not be asked.
//!
//! The rules are functions over descriptors and text, tested on made-up changes below, so that the
//! comparison itself cannot quietly stop finding anything.

#![allow(clippy::expect_used, reason = "a test that cannot start must say so")]

#[path = "contract/protobuf.rs"]
mod protobuf;
#[path = "contract/wit.rs"]
mod wit;

use std::path::{Path, PathBuf};

use prost::Message as _;
use prost_types::FileDescriptorSet;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn the_protobuf_contract_keeps_all_that_was_released() {
    let released = protox::compile(["sluicegate/v1/gateway.proto"], [folder("released")])
        .expect("the released .proto compiles");
    let current = FileDescriptorSet::decode(sluicegate_proto::v1::FILE_DESCRIPTOR_SET)
        .expect("the current descriptors decode");
    let broken = protobuf::broken(&released, &current);
    assert!(
        broken.is_empty(),
        "the contract broke; fields are only ever added:\n{}",
        broken.join("\n")
    );
}

#[test]
fn the_adapter_contract_keeps_all_that_was_released() {
    let released = wit::read(&folder("released/wit"));
    let current = wit::read(&folder("wit"));
    assert!(!released.items.is_empty(), "the snapshot is not empty");
    let broken = wit::broken(&released, &current);
    assert!(
        broken.is_empty(),
        "the adapter contract broke; change the package's version, or add beside what is there:\n{}",
        broken.join("\n")
    );
}
