//! The producer gateway: configuration, wiring, nothing else.

#![forbid(unsafe_code)]

mod config;

fn main() {}
