#![forbid(unsafe_code)]
mod body;
mod check;
mod direct;
mod machine;
mod process;
mod statistics;
fn main() {}
