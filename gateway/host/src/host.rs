//! The engine that all adapters share, and how a file becomes an adapter.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{Component, HasSelf, InstancePre, Linker};
use wasmtime::{Config, Engine, OptLevel};

use crate::adapter::{Adapter, Limits, Loaded};
use crate::cache::{Cache, CacheError};
use crate::epoch::{self, Ticker};
use crate::error::LoadError;
use crate::inspect;
use crate::manifest::Manifest;
use crate::state::State;
use crate::wit::{Shared, SharedIndices, log};

/// Memory of one instance. A batch's columns and the plan made of them stay below a few megabytes; an
/// adapter that copies a whole batch of bodies needs some tens.
pub const MEMORY_BYTES: usize = 64 << 20;

/// What one call may run. A call takes microseconds; a second is what no healthy one takes on the slowest
/// machine, and what a stream can wait.
pub const CALL_BUDGET: Duration = Duration::from_secs(1);

/// How adapters are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where compiled adapters are kept; `None`: each start compiles.
    pub cache: Option<PathBuf>,
    /// Memory of one instance.
    pub memory_bytes: usize,
    /// What one call may run, in whole ticks of 10 ms.
    pub call_budget: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache: None,
            memory_bytes: MEMORY_BYTES,
            call_budget: CALL_BUDGET,
        }
    }
}

/// Why no adapter can be run at all.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The runtime.
    #[error("the WebAssembly runtime cannot be started: {0}")]
    Runtime(String),
}

/// The engine that all adapters share. Its ticks go on as long as it or any of them lives.
#[derive(Debug)]
pub struct Host {
    engine: Engine,
    cache: Option<Cache>,
    limits: Limits,
    ticker: Arc<Ticker>,
}

impl Host {
    /// Starts the runtime and its ticks.
    ///
    /// # Errors
    ///
    /// The cache directory cannot be used, or the runtime cannot be started.
    pub fn new(options: &Options) -> Result<Self, HostError> {
        let runtime = |error: &dyn std::fmt::Display| HostError::Runtime(error.to_string());
        let engine = Engine::new(&config()).map_err(|error| runtime(&error))?;
        let cache = options.cache.as_deref().map(Cache::open).transpose()?;
        let ticker = Ticker::start(engine.clone()).map_err(|error| runtime(&error))?;
        Ok(Self {
            engine,
            cache,
            limits: Limits {
                memory_bytes: options.memory_bytes,
                call_budget: options.call_budget,
                ticks: epoch::ticks(options.call_budget),
            },
            ticker: Arc::new(ticker),
        })
    }

    /// Loads an adapter: compiles it, unless the cache has it, and asks it what it is.
    ///
    /// # Errors
    ///
    /// What about the file is not as it should be, and what to do.
    pub async fn load(&self, path: impl AsRef<Path>) -> Result<Adapter, LoadError> {
        let path = path.as_ref();
        let (pre, shared) = self.compile(path)?;
        let manifest = self.ask(path, &pre, &shared).await?;
        let manifest = Manifest::try_from(manifest).map_err(|reason| LoadError::Manifest {
            path: path.to_owned(),
            reason,
        })?;
        Ok(Adapter::new(Loaded {
            path: path.to_owned(),
            manifest,
            engine: self.engine.clone(),
            pre,
            shared,
            limits: self.limits,
            _ticker: self.ticker.clone(),
        }))
    }

    fn compile(&self, path: &Path) -> Result<(InstancePre<State>, SharedIndices), LoadError> {
        let bytes = fs::read(path).map_err(|source| LoadError::Read {
            path: path.to_owned(),
            source,
        })?;
        inspect::format(path, &bytes)?;
        let invalid = |error: wasmtime::Error| LoadError::Invalid {
            path: path.to_owned(),
            reason: format!("{error:#}"),
        };
        let cached = self
            .cache
            .as_ref()
            .and_then(|cache| cache.load(&self.engine, &bytes));
        let component = match cached {
            Some(component) => component,
            None => {
                let component = Component::from_binary(&self.engine, &bytes).map_err(invalid)?;
                if let Some(cache) = &self.cache {
                    cache.store(&self.engine, &bytes, &component);
                }
                component
            }
        };
        inspect::interface(path, &self.engine, &component)?;
        let mut linker = Linker::new(&self.engine);
        log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state).map_err(invalid)?;
        let pre = linker.instantiate_pre(&component).map_err(invalid)?;
        let shared = SharedIndices::new(&pre).map_err(invalid)?;
        Ok((pre, shared))
    }

    async fn ask(
        &self,
        path: &Path,
        pre: &InstancePre<State>,
        shared: &SharedIndices,
    ) -> Result<crate::wit::types::Manifest, LoadError> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut store = self
            .limits
            .store(&self.engine, &name, &Arc::from("(loading)"));
        let manifest = async {
            let instance = pre.instantiate_async(&mut store).await?;
            let adapter: Shared = shared.load(&mut store, &instance)?;
            let exports = adapter.sluicegate_adapter_adapter();
            exports.call_manifest(&mut store).await
        }
        .await;
        manifest.map_err(|error| LoadError::Trapped {
            path: path.to_owned(),
            trap: self.limits.trap("manifest", &store, &error),
        })
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config
        // Exports are synchronous and no call waits: without the bookkeeping for those that do, a call costs
        // a sixth.
        .concurrency_support(false)
        .epoch_interruption(true)
        .cranelift_opt_level(OptLevel::Speed)
        .parallel_compilation(true);
    config
}
