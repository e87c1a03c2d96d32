//! Lines for the gateway's log: the one thing that an adapter may import.
//!
//! The gateway adds the adapter's name, cuts a line at 4,096 bytes and drops more than 100 a second. In
//! native tests lines go to standard error.

use crate::bindings::sluicegate::adapter::log::Level;

/// Something that the operator must look at.
pub fn error(message: &str) {
    line(Level::Error, message);
}

/// Something that the operator may want to look at.
pub fn warn(message: &str) {
    line(Level::Warn, message);
}

/// What happened.
pub fn info(message: &str) {
    line(Level::Info, message);
}

/// What happened, in detail.
pub fn debug(message: &str) {
    line(Level::Debug, message);
}

#[cfg(target_arch = "wasm32")]
fn line(level: Level, message: &str) {
    crate::bindings::sluicegate::adapter::log::log(level, message);
}

#[cfg(not(target_arch = "wasm32"))]
fn line(level: Level, message: &str) {
    eprintln!("{level:?}: {message}");
}
