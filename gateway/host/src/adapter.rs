//! An adapter, loaded: compiled, checked, ready to be instantiated.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::InstancePre;
use wasmtime::{Engine, UpdateDeadline};

use crate::driver::Store;
use crate::epoch::Ticker;
use crate::error::Trap;
use crate::manifest::Manifest;
use crate::state::State;
use crate::wit::SharedIndices;

/// An adapter, loaded. Cheap to clone; its code is shared by all instances.
#[derive(Clone)]
pub struct Adapter(Arc<Loaded>);

pub(crate) struct Loaded {
    pub(crate) path: PathBuf,
    pub(crate) manifest: Manifest,
    pub(crate) engine: Engine,
    pub(crate) pre: InstancePre<State>,
    pub(crate) shared: SharedIndices,
    pub(crate) limits: Limits,
    /// Without ticks a guest that loops would never end.
    pub(crate) _ticker: Arc<Ticker>,
}

/// What an instance may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: usize,
    pub(crate) call_budget: Duration,
    /// The budget, in ticks.
    pub(crate) ticks: u32,
}

impl Adapter {
    pub(crate) fn new(loaded: Loaded) -> Self {
        Self(Arc::new(loaded))
    }

    /// What the adapter says about itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.0.manifest
    }

    /// The file that it was loaded from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn loaded(&self) -> &Loaded {
        &self.0
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter")
            .field("path", &self.0.path)
            .field("name", &self.0.manifest.name)
            .finish_non_exhaustive()
    }
}

impl Limits {
    /// A store for one instance, limited.
    pub(crate) fn store(&self, engine: &Engine, adapter: &str, connection: &Arc<str>) -> Store {
        let state = State::new(adapter.into(), connection.clone(), self.memory_bytes);
        let mut store = Store::new(engine, state);
        store.limiter(|state| state);
        // A guest that runs on gives its thread back at every tick, and ends with the last one. Only ticks in
        // which it ran are counted: a thread that the system took away meanwhile is no fault of the guest.
        store.epoch_deadline_callback(|mut store| {
            Ok(if store.data_mut().tick() {
                UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()))
            } else {
                UpdateDeadline::Interrupt
            })
        });
        self.begin(&mut store);
        store
    }

    /// To be said before each call.
    pub(crate) fn begin(&self, store: &mut Store) {
        store.data_mut().begin(self.ticks);
        store.set_epoch_deadline(1);
    }

    pub(crate) fn trap(&self, call: &'static str, store: &Store, error: &wasmtime::Error) -> Trap {
        Trap::new(call, store.data(), self.call_budget, error)
    }
}
