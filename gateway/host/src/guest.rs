//! A connection's adapter at work.
//!
//! Invariant: a trap costs an instance and nothing else. `plan` has sent nothing, so its batch is isolated
//! whole and a row that traps alone stands alone; `settle` is asked again on a fresh instance, and only if
//! that fails too is the fate of its rows unknown. Answers that make no sense are traps.
//!
//! One task owns a guest; calls are made one after the other, on an instance that is made when first needed
//! and kept until it fails.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use sluicegate_core::{Batch, Failure, FailureClass, Opened};

use crate::adapter::Adapter;
use crate::convert;
use crate::driver::{Driver, Store};
use crate::error::{ConnectError, Trap};
use crate::health::Health;
use crate::lower::Lowering;
use crate::manifest::Manifest;
use crate::places::Places;
use crate::plan;
use crate::settings;
use crate::settle::{self, Settlement};
use crate::wit::types::{Destination, OpenedDestination, Rows};

/// A connection's adapter at work.
pub struct Guest<D: Driver> {
    adapter: Adapter,
    connection: Arc<str>,
    indices: D::Indices,
    settings: Vec<(String, String)>,
    lowering: Lowering,
    places: Places,
    health: Health,
    /// `None` after a trap, and while a call is on its way: one that is dropped half-way leaves nothing
    /// behind that could be used.
    instance: Option<Call<D>>,
}

/// An instance on loan for one call of a driver's own function.
pub struct Call<D: Driver> {
    /// The instance's store.
    pub store: Store,
    /// The driver's functions in it.
    pub bindings: D::Bindings,
}

/// What is to be done with a batch.
#[derive(Debug)]
pub struct Planned<C> {
    /// To be executed.
    pub commands: Vec<C>,
    /// Rows that are settled already, since they are not sent.
    pub settled: Vec<Settlement>,
    /// The destination has to be opened again.
    pub reopen: bool,
}

impl<D: Driver> Guest<D> {
    /// Pairs an adapter with a connection: checks that the two fit, and has the adapter take its settings.
    ///
    /// # Errors
    ///
    /// What does not fit, or what the adapter says about its settings.
    pub async fn connect(
        adapter: &Adapter,
        connection: &str,
        given: &BTreeMap<String, String>,
    ) -> Result<Self, ConnectError> {
        let manifest = adapter.manifest();
        if manifest.driver != D::NAME {
            return Err(ConnectError::Driver {
                adapter: manifest.name.clone(),
                theirs: manifest.driver.clone(),
                ours: D::NAME,
            });
        }
        let interface = |error: wasmtime::Error| ConnectError::Interface {
            adapter: manifest.name.clone(),
            driver: D::NAME,
            reason: format!("{error:#}"),
        };
        let owner = format!("the connection `{connection}`");
        let settings = settings::complete(&owner, &manifest.connection_settings, given)
            .map_err(ConnectError::Settings)?;
        let connection: Arc<str> = connection.into();
        let mut guest = Self {
            adapter: adapter.clone(),
            indices: D::indices(&adapter.loaded().pre).map_err(interface)?,
            settings,
            lowering: Lowering::new(manifest.reads),
            places: Places::default(),
            health: Health::new(manifest.name.as_str().into(), connection.clone()),
            connection,
            instance: None,
        };
        guest.instance = Some(guest.instantiate().await?);
        Ok(guest)
    }

    /// What the adapter says about itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        self.adapter.manifest()
    }

    /// How the adapter is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    // === opening a destination ===

    /// A destination as the adapter sees it.
    ///
    /// # Errors
    ///
    /// INVALID: a key that the adapter does not know, or one that it must have.
    pub fn destination(
        &self,
        name: &str,
        given: &BTreeMap<String, String>,
    ) -> Result<Destination, Failure> {
        let owner = format!("the destination `{name}`");
        let known = &self.manifest().destination_settings;
        let settings = settings::complete(&owner, known, given)
            .map_err(|reason| Failure::fatal(FailureClass::Invalid, reason))?;
        Ok(Destination {
            name: name.to_owned(),
            settings,
        })
    }

    /// What an adapter found about a destination, checked and in the engine's words.
    ///
    /// # Errors
    ///
    /// The adapter's refusal, or ADAPTER_FAULT if what it says makes no sense.
    pub fn opened(
        &mut self,
        destination: &Arc<str>,
        found: Result<OpenedDestination, crate::wit::types::Failure>,
    ) -> Result<Opened, Failure> {
        let found = found.map_err(convert::failure)?;
        let limits = convert::limits(found.limits);
        if limits.batch_messages == 0 || limits.batch_bytes == 0 || limits.body_bytes == 0 {
            return Err(self.fault(format!(
                "for the destination `{destination}` it found a limit of 0, which would let nothing through"
            )));
        }
        Ok(Opened {
            address: self.places.put(destination, found.address),
            limits,
            capabilities: convert::capabilities(found.capabilities),
            strength: convert::strength(found.strength),
            facts: found.facts,
        })
    }

    /// Borrows the instance for a call of a driver's own function; give it back with [`Self::leave`].
    ///
    /// # Errors
    ///
    /// UNAVAILABLE: no instance can be made.
    pub async fn enter(&mut self) -> Result<Call<D>, Failure> {
        self.begin().await.map_err(|trap| self.fault(trap))
    }

    /// Ends a call. After a trap the instance is gone, and the next call gets a fresh one.
    ///
    /// # Errors
    ///
    /// ADAPTER_FAULT: the call trapped.
    pub fn leave<R>(
        &mut self,
        name: &'static str,
        call: Call<D>,
        result: wasmtime::Result<R>,
    ) -> Result<R, Failure> {
        let result = self.end(name, call, result);
        match &result {
            Ok(_) => self.health.succeeded(),
            Err(trap) => self.health.trapped(trap),
        }
        result.map_err(|trap| self.fault(trap))
    }

    // === plan and settle ===

    /// Plans a batch whole.
    pub async fn plan(&mut self, batch: &Batch) -> Planned<D::Command> {
        let all = 0..u32::try_from(batch.rows.len()).unwrap_or(u32::MAX);
        match self.try_plan(batch).await {
            Ok(Some(planned)) => planned,
            Ok(None) => Planned {
                commands: Vec::new(),
                settled: vec![Settlement::Failed(
                    all,
                    Failure::retryable(
                        FailureClass::Unavailable,
                        format!(
                            "the destination `{}` has to be opened again",
                            batch.destination
                        ),
                    ),
                )],
                reopen: true,
            },
            Err(trap) => {
                self.health.trapped(&trap);
                Planned {
                    commands: Vec::new(),
                    settled: vec![Settlement::Isolate(all, self.fault(trap))],
                    reopen: false,
                }
            }
        }
    }

    /// `None`: the batch's destination has to be opened again.
    async fn try_plan(&mut self, batch: &Batch) -> Result<Option<Planned<D::Command>>, Trap> {
        let mut call = self.begin().await?;
        let Some(address) = self.places.get(batch.address, &batch.destination) else {
            self.instance = Some(call);
            return Ok(None);
        };
        let columns = self.lowering.lower(batch, address, now_ms());
        let count = columns.count;
        let result = D::plan(&call.bindings, &mut call.store, columns).await;
        let (commands, failures) = self.end("plan", call, result)?;
        let runs = commands
            .iter()
            .map(D::rows)
            .chain(failures.iter().map(|failure| failure.rows));
        plan::check(count, runs).map_err(|fault| self.answered("plan", &fault))?;
        self.health.succeeded();
        Ok(Some(Planned {
            commands,
            settled: failures
                .into_iter()
                .map(|failed| {
                    Settlement::Failed(range(failed.rows), convert::failure(failed.failure))
                })
                .collect(),
            reopen: false,
        }))
    }

    /// What a reply means for its rows, `rows`. Each of them gets one settlement: a row about which the
    /// adapter says nothing is `unknown`, so a driver asks about rows once it will not ask again.
    pub async fn settle(
        &mut self,
        batch: &Batch,
        rows: Rows,
        context: &[u8],
        reply: &D::Reply,
    ) -> Vec<Settlement> {
        let first = match self.try_settle(batch, rows, context, reply).await {
            Ok(settled) => return settled,
            Err(trap) => trap,
        };
        self.health.trapped(&first);
        match self.try_settle(batch, rows, context, reply).await {
            Ok(settled) => settled,
            Err(trap) => {
                self.health.trapped(&trap);
                let reason = format!(
                    "the rows were sent to `{}`, but what the answer means is not known: {}",
                    batch.destination,
                    self.blame(trap)
                );
                vec![settle::unknown(range(rows), reason)]
            }
        }
    }

    async fn try_settle(
        &mut self,
        batch: &Batch,
        rows: Rows,
        context: &[u8],
        reply: &D::Reply,
    ) -> Result<Vec<Settlement>, Trap> {
        let mut call = self.begin().await?;
        let result = D::settle(&call.bindings, &mut call.store, context, reply).await;
        let verdicts = self.end("settle", call, result)?;
        let (mut settled, silent) = settle::check(rows, verdicts, batch.receipts)
            .map_err(|fault| self.answered("settle", &fault))?;
        self.health.succeeded();
        settled.extend(silent.into_iter().map(|rows| {
            let reason = format!(
                "the row was sent to `{}`, but the adapter `{}` gave no verdict on it; report this to its author",
                batch.destination,
                self.manifest().name
            );
            settle::unknown(rows, reason)
        }));
        Ok(settled)
    }

    // === instances ===

    async fn begin(&mut self) -> Result<Call<D>, Trap> {
        let mut call = match self.instance.take() {
            Some(call) => call,
            None => self.instantiate().await.map_err(|error| match error {
                ConnectError::Trapped { trap, .. } => trap,
                error => Trap::Other {
                    call: "configure",
                    reason: error.to_string(),
                },
            })?,
        };
        self.adapter.loaded().limits.begin(&mut call.store);
        Ok(call)
    }

    fn end<R>(
        &mut self,
        name: &'static str,
        call: Call<D>,
        result: wasmtime::Result<R>,
    ) -> Result<R, Trap> {
        match result {
            Ok(value) => {
                self.instance = Some(call);
                Ok(value)
            }
            Err(error) => {
                let limits = &self.adapter.loaded().limits;
                Err(limits.trap(name, &call.store, &error))
            }
        }
    }

    /// An answer that makes no sense: whoever gave it is not asked again.
    fn answered(&mut self, call: &'static str, fault: &dyn fmt::Display) -> Trap {
        self.instance = None;
        Trap::Answer {
            call,
            reason: fault.to_string(),
        }
    }

    async fn instantiate(&self) -> Result<Call<D>, ConnectError> {
        let loaded = self.adapter.loaded();
        let name = &loaded.manifest.name;
        let mut store = loaded.limits.store(&loaded.engine, name, &self.connection);
        let started = async {
            let instance = loaded.pre.instantiate_async(&mut store).await?;
            let shared = loaded.shared.load(&mut store, &instance)?;
            let configured = shared
                .sluicegate_adapter_adapter()
                .call_configure(&mut store, &self.settings)
                .await?;
            wasmtime::Result::Ok((instance, configured))
        }
        .await;
        let (instance, configured) = started.map_err(|error| ConnectError::Trapped {
            adapter: name.clone(),
            trap: loaded.limits.trap("configure", &store, &error),
        })?;
        configured.map_err(|reason| ConnectError::Refused {
            adapter: name.clone(),
            connection: self.connection.to_string(),
            reason,
        })?;
        let bindings = D::bind(&self.indices, &mut store, &instance).map_err(|error| {
            ConnectError::Interface {
                adapter: name.clone(),
                driver: D::NAME,
                reason: format!("{error:#}"),
            }
        })?;
        Ok(Call { store, bindings })
    }

    fn fault(&self, what: impl fmt::Display) -> Failure {
        Failure::fatal(FailureClass::AdapterFault, self.blame(what))
    }

    fn blame(&self, what: impl fmt::Display) -> String {
        let Manifest { name, version, .. } = self.manifest();
        format!("the adapter `{name}` {version} failed: {what}; report this to its author")
    }
}

impl<D: Driver> fmt::Debug for Guest<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest")
            .field("adapter", &self.adapter)
            .field("connection", &self.connection)
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}

impl<D: Driver> fmt::Debug for Call<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

fn range(rows: Rows) -> Range<u32> {
    rows.first..rows.first.saturating_add(rows.count)
}

/// Unix time, for what an adapter writes into rows; nothing is decided by it.
fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
