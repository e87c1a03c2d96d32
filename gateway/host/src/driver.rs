//! What a driver adds to the host: its own interface of the contract.

use std::future::Future;

use wasmtime::component::{Instance, InstancePre};

use crate::state::State;
use crate::wit::types::{Batch, RowFailure, Rows, Verdict};

/// The store of one instance.
pub type Store = wasmtime::Store<State>;

/// A driver's interface of the contract, made of the bindings that `bindgen!` generates in its crate.
///
/// `plan` and `settle` are the same in all drivers but for the types of command and reply. What else a
/// driver's interface has, it calls itself between [`Guest::enter`](crate::Guest::enter) and
/// [`Guest::leave`](crate::Guest::leave).
pub trait Driver: Send + Sync + Sized + 'static {
    /// As a manifest names it.
    const NAME: &'static str;

    /// Where the interface's functions are in a component.
    type Indices: Send + Sync;

    /// The interface's functions in an instance.
    type Bindings: Send + Sync;

    /// What the driver executes.
    type Command: Send;

    /// What the driver answers.
    type Reply: Send + Sync;

    /// Finds the interface's functions in a component.
    ///
    /// # Errors
    ///
    /// The component does not have them as they should be.
    fn indices(component: &InstancePre<State>) -> wasmtime::Result<Self::Indices>;

    /// Finds them in an instance of it.
    ///
    /// # Errors
    ///
    /// The instance does not have them as they should be.
    fn bind(
        indices: &Self::Indices,
        store: &mut Store,
        instance: &Instance,
    ) -> wasmtime::Result<Self::Bindings>;

    /// Calls `plan`.
    fn plan<'a>(
        bindings: &'a Self::Bindings,
        store: &'a mut Store,
        batch: &'a Batch,
    ) -> impl Future<Output = wasmtime::Result<(Vec<Self::Command>, Vec<RowFailure>)>> + Send + 'a;

    /// Calls `settle`.
    fn settle<'a>(
        bindings: &'a Self::Bindings,
        store: &'a mut Store,
        context: &'a [u8],
        reply: &'a Self::Reply,
    ) -> impl Future<Output = wasmtime::Result<Vec<Verdict>>> + Send + 'a;

    /// The rows of a command.
    fn rows(command: &Self::Command) -> Rows;
}
