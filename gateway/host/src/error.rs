//! What can go wrong with an adapter, each with what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::state::{Cause, State};

/// Why a file is no adapter that this gateway can use.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error(
        "the adapter {path} cannot be read: {source}; build the adapters (`cargo xtask build`) or correct the path"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is something else.
    #[error(
        "{path} is not WebAssembly: it does not begin as a component does; an adapter is a component, made from a guest crate by `cargo xtask build`"
    )]
    NotWasm {
        /// The file.
        path: PathBuf,
    },
    /// It was not wrapped.
    #[error(
        "{path} is a core module, not a component; wrap it: `wasm-tools component new {path} -o adapter.wasm`, or let `cargo xtask build` do it"
    )]
    CoreModule {
        /// The file.
        path: PathBuf,
    },
    /// The compiler refused it.
    #[error("{path} is not a valid component: {reason}; build it anew")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What the compiler said.
        reason: String,
    },
    /// A component of another kind.
    #[error(
        "{path} is a component but no adapter: it does not export `{interface}` (it exports {exports}); an adapter exports it through the adapter SDK's macro"
    )]
    NotAnAdapter {
        /// The file.
        path: PathBuf,
        /// What is missing.
        interface: String,
        /// What is there instead.
        exports: String,
    },
    /// The contract moved on.
    #[error(
        "{path} was built for version {theirs} of the adapter contract, this gateway speaks {ours}; build the adapter against the SDK of this gateway's release, or use the gateway's release that fits the adapter"
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The adapter's version of the contract.
        theirs: String,
        /// The gateway's.
        ours: &'static str,
    },
    /// It wants what no adapter gets.
    #[error(
        "{path} imports `{import}`: an adapter is a pure function and may import nothing but `sluicegate:adapter/log`; build it for wasm32-unknown-unknown and leave out what needs a system"
    )]
    Import {
        /// The file.
        path: PathBuf,
        /// What it imports.
        import: String,
    },
    /// Its `manifest` did not return.
    #[error("{path} could not say what it is: {trap}")]
    Trapped {
        /// The file.
        path: PathBuf,
        /// What happened.
        trap: Trap,
    },
    /// Its manifest contradicts itself.
    #[error("the manifest of {path} is wrong: {reason}; this is a fault of the adapter")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Why a connection cannot be made with an adapter.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The two do not pair.
    #[error(
        "the adapter `{adapter}` is for the driver `{theirs}`, not for `{ours}`; name an adapter of that driver"
    )]
    Driver {
        /// The adapter's name.
        adapter: String,
        /// The driver that its manifest names.
        theirs: String,
        /// The driver that was asked for.
        ours: &'static str,
    },
    /// It does not export what its driver calls.
    #[error(
        "the adapter `{adapter}` does not fit the interface of its driver `{driver}`: {reason}; build it against the SDK of this gateway's release"
    )]
    Interface {
        /// The adapter's name.
        adapter: String,
        /// The driver.
        driver: &'static str,
        /// What does not fit.
        reason: String,
    },
    /// A key that the adapter does not know, or one that it must have.
    #[error("{0}")]
    Settings(String),
    /// The adapter refused the settings.
    #[error(
        "the adapter `{adapter}` refuses the settings of the connection `{connection}`: {reason}"
    )]
    Refused {
        /// The adapter's name.
        adapter: String,
        /// The connection's name.
        connection: String,
        /// What the adapter says.
        reason: String,
    },
    /// It trapped.
    #[error("the adapter `{adapter}` cannot be started: {trap}")]
    Trapped {
        /// The adapter's name.
        adapter: String,
        /// What happened.
        trap: Trap,
    },
}

/// A call that did not return, or whose answer makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trap {
    /// It looped.
    #[error("`{call}` ran longer than its budget of {budget:?}")]
    Budget {
        /// The exported function.
        call: &'static str,
        /// What it had.
        budget: Duration,
    },
    /// It allocated too much.
    #[error("`{call}` asked for {asked} bytes of memory; an instance may have {limit}")]
    Memory {
        /// The exported function.
        call: &'static str,
        /// What it would have had.
        asked: usize,
        /// What it may have.
        limit: usize,
    },
    /// It trapped for a reason of its own.
    #[error("`{call}` trapped: {reason}")]
    Other {
        /// The exported function.
        call: &'static str,
        /// What the runtime said.
        reason: String,
    },
    /// It answered nonsense, which is no better.
    #[error("`{call}` answered wrongly: {reason}")]
    Answer {
        /// The exported function.
        call: &'static str,
        /// What is wrong with the answer.
        reason: String,
    },
}

impl Trap {
    pub(crate) fn new(
        call: &'static str,
        state: &State,
        budget: Duration,
        error: &wasmtime::Error,
    ) -> Self {
        match state.cause() {
            Some(Cause::Budget) => Self::Budget { call, budget },
            Some(Cause::Memory { asked, limit }) => Self::Memory { call, asked, limit },
            None => Self::Other {
                call,
                reason: match state.last_words() {
                    Some(words) => words.to_owned(),
                    None => format!("{error:#}"),
                },
            },
        }
    }
}
