//! What the export macros call: the one configured adapter of an instance.
//!
//! Invariant: `configure` comes first, once, on every instance. The gateway keeps it; an adapter that is
//! called otherwise traps rather than answer with settings that nobody gave.

use std::sync::OnceLock;

use crate::{Adapter, Settings};

/// The configured adapter of an instance.
#[derive(Debug)]
pub struct Configured<A>(OnceLock<A>);

impl<A: Adapter> Configured<A> {
    /// Not configured yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Takes the settings.
    ///
    /// # Errors
    ///
    /// What the adapter says, or that it was configured before.
    pub fn configure(&self, settings: Vec<(String, String)>) -> Result<(), String> {
        report_panics();
        let adapter = A::configure(&Settings::new(settings))?;
        self.0
            .set(adapter)
            .map_err(|_| "this instance is configured already: make a new one".to_owned())
    }

    /// The adapter.
    ///
    /// # Panics
    ///
    /// If `configure` was never called, or failed.
    #[allow(
        clippy::panic,
        reason = "a trap is how a guest says that its host broke the contract"
    )]
    pub fn get(&self) -> &A {
        match self.0.get() {
            Some(adapter) => adapter,
            None => panic!("`configure` must be called first, and succeed"),
        }
    }
}

impl<A: Adapter> Default for Configured<A> {
    fn default() -> Self {
        Self::new()
    }
}

/// A trap carries no message, so a panic says its own to the gateway's log first.
fn report_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| {
        crate::log::error(&panic.to_string());
    }));
}
