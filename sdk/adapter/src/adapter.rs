//! What every adapter says about itself.

use crate::bindings::sluicegate::adapter::types::Capabilities;
use crate::{Manifest, Settings};

/// What every adapter says about itself, whichever driver it pairs with.
///
/// The value is the adapter with one connection's settings taken in. It is made once for each instance and
/// never changes: calls get it by shared reference.
pub trait Adapter: Sized + Send + Sync + 'static {
    /// Who the adapter is, what it reads, and what it can do at most.
    fn manifest() -> Manifest;

    /// Takes a connection's settings, of which secrets are left out.
    ///
    /// # Errors
    ///
    /// A sentence that names the key and says what to write instead.
    fn configure(settings: &Settings) -> Result<Self, String>;
}

impl Capabilities {
    /// A body, and nothing else: the base for `Capabilities { key: true, ..Capabilities::NONE }`.
    pub const NONE: Self = Self {
        key: false,
        headers: false,
        id: false,
        delay: false,
        ttl: false,
        null_body: false,
        receipts: false,
        per_message_failure: false,
        deduplication: false,
    };
}
