//! From configuration to connections and routes.
//!
//! **Everything that the configuration can get wrong is found in [`Plan::new`]**, before a store is
//! touched or a port is bound: adapters are loaded, their settings checked, patterns resolved. What
//! can still go wrong after that is the world's fault.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_core::Window;
use sluicegate_engine::{
    Backoff, ClientLimits, ConnectionConfig, ConnectionId, OpenRequest, Policy, Route,
};
use sluicegate_host::{Adapter, Host, Options, Setting};

use crate::catalog;
use crate::config::{
    self, AdapterReference, Config, Connection, Destination, KnownSetting, Limits, Problem,
    Settled, join,
};
use crate::driver::Driver;
use crate::failure::Failure;

/// A configuration that has been understood whole.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) config: Config,
    /// In the order of `Config::connections`.
    pub(crate) connections: Vec<PlannedConnection>,
    /// In the order of `Config::destinations`.
    pub(crate) destination_settings: Vec<Arc<BTreeMap<String, String>>>,
    /// Adapters run as long as it lives.
    pub(crate) host: Host,
}

/// A connection and its adapter.
#[derive(Debug)]
pub(crate) struct PlannedConnection {
    pub(crate) name: Arc<str>,
    pub(crate) adapter: Adapter,
    pub(crate) window: Window,
    pub(crate) driver: Driver,
}

impl Plan {
    /// Loads adapters, checks all settings, and pairs adapters with drivers.
    pub(crate) async fn new(config: Config) -> Result<Self, Failure> {
        let host = host(&config)?;
        let adapters = load(&host, &config).await?;
        let (connection_settings, destination_settings) = settings(&config, &adapters)?;

        let mut problems = Vec::new();
        let mut connections = Vec::new();
        for ((connection, adapter), settings) in config
            .connections
            .iter()
            .zip(adapters)
            .zip(connection_settings)
        {
            match Driver::new(&adapter, &connection.name, &settings.all()).await {
                Ok(driver) => {
                    let window = window(connection, &adapter);
                    if let Some(largest) = driver.largest_window()
                        && window.size > largest
                    {
                        problems.push(Problem::new(
                            &connection.window_origin,
                            join(&join("connections", &connection.name), "window"),
                            format!("{} is more than its store takes at a time", window.size),
                            format!("write {largest}, or leave it out"),
                        ));
                    }
                    connections.push(PlannedConnection {
                        name: connection.name.as_str().into(),
                        window,
                        adapter,
                        driver,
                    });
                }
                Err(reason) => problems.push(Problem::new(
                    &connection.origin,
                    join("connections", &connection.name),
                    reason,
                    "`sluicegate config` shows every key with what it may be",
                )),
            }
        }
        if !problems.is_empty() {
            return Err(problems.into());
        }
        examine(&config, &mut connections, &destination_settings).await?;
        Ok(Self {
            config,
            connections,
            destination_settings,
            host,
        })
    }

    /// What the engine has to know.
    pub(crate) fn engine(&self) -> sluicegate_engine::Config {
        sluicegate_engine::Config {
            connections: self
                .connections
                .iter()
                .map(|connection| ConnectionConfig {
                    name: Arc::clone(&connection.name),
                    window: connection.window,
                })
                .collect(),
            routes: self
                .config
                .destinations
                .iter()
                .zip(&self.destination_settings)
                .map(|(destination, settings)| Route {
                    pattern: destination.pattern.clone(),
                    connection: id(destination.connection),
                    policy: policy(destination),
                    settings: Arc::clone(settings),
                })
                .collect(),
            limits: limits(&self.config.limits),
        }
    }
}

/// Has adapters look at the settings of every destination and pattern, which costs no I/O.
async fn examine(
    config: &Config,
    connections: &mut [PlannedConnection],
    settings: &[Arc<BTreeMap<String, String>>],
) -> Result<(), Failure> {
    let mut problems = Vec::new();
    for (destination, settings) in config.destinations.iter().zip(settings) {
        let Some(connection) = connections.get_mut(destination.connection) else {
            continue;
        };
        let request = OpenRequest {
            destination: destination.pattern.as_str().into(),
            settings: Arc::clone(settings),
        };
        let Err(failure) = connection.driver.examine(request).await else {
            continue;
        };
        let path = join("destinations", &destination.pattern);
        // The adapter names the key, as the configuration does.
        let named = destination
            .settings
            .iter()
            .find(|given| failure.reason.contains(&format!("`{}", given.key)));
        let (origin, key) = match named {
            Some(given) => (&given.origin, join(&path, &given.key)),
            None => (&destination.origin, path),
        };
        problems.push(Problem::new(
            origin,
            key,
            failure.reason,
            "`sluicegate config` shows every key with what it may be",
        ));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.into())
    }
}

/// A connection's number in the engine: its place.
pub(crate) fn id(place: usize) -> ConnectionId {
    ConnectionId(u32::try_from(place).unwrap_or(u32::MAX))
}

/// The host of adapters, with the cache as configured or the best there is.
pub(crate) fn host(config: &Config) -> Result<Host, Failure> {
    let host = |cache: Option<PathBuf>| {
        Host::new(&Options {
            cache,
            ..Options::default()
        })
    };
    if let Some(configured) = &config.adapters.cache {
        return host(Some(configured.clone())).map_err(|error| {
            Problem::new(
                &config.cache_origin,
                "adapters.cache",
                error.to_string(),
                "or leave the key out",
            )
            .into()
        });
    }
    // Nobody asked for a certain place, so a place that cannot be used is no reason not to start.
    for candidate in catalog::caches() {
        match host(Some(candidate)) {
            Ok(host) => return Ok(host),
            Err(error) => tracing::warn!(%error, "looking for another place for compiled adapters"),
        }
    }
    tracing::warn!("compiled adapters are not kept: each start compiles them; set adapters.cache");
    Ok(host(None).map_err(anyhow::Error::from)?)
}

/// One adapter a connection, each file loaded once.
async fn load(host: &Host, config: &Config) -> Result<Vec<Adapter>, Failure> {
    let directory = catalog::directory(&config.adapters)?;
    let mut loaded: HashMap<PathBuf, Adapter> = HashMap::new();
    let mut adapters = Vec::new();
    let mut problems = Vec::new();
    for connection in &config.connections {
        let key = join(&join("connections", &connection.name), "adapter");
        let origin = &connection.adapter_origin;
        let file = match catalog::find(&directory, &connection.adapter, &key, origin) {
            Ok(file) => file,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        if let Some(adapter) = loaded.get(&file) {
            adapters.push(adapter.clone());
            continue;
        }
        match host.load(&file).await {
            Ok(adapter) => {
                loaded.insert(file, adapter.clone());
                adapters.push(adapter);
            }
            Err(error) => problems.push(Problem::new(
                origin,
                key,
                error.to_string(),
                "`sluicegate adapters` shows those that work",
            )),
        }
    }
    if problems.is_empty() {
        Ok(adapters)
    } else {
        Err(problems.into())
    }
}

type AllSettings = (Vec<Settled>, Vec<Arc<BTreeMap<String, String>>>);

/// Checks every key of adapters against their manifests.
fn settings(config: &Config, adapters: &[Adapter]) -> Result<AllSettings, Failure> {
    let (connection_keys, destination_keys) = config::own_keys();
    let mut problems = Vec::new();
    let connections = config
        .connections
        .iter()
        .zip(adapters)
        .map(|(connection, adapter)| {
            config::settle(
                &connection.settings,
                &known(&adapter.manifest().connection_settings),
                &connection_keys,
                &join("connections", &connection.name),
                &connection.origin,
                &mut problems,
            )
        })
        .collect();
    let mut destinations = Vec::new();
    for destination in &config.destinations {
        let known = adapters
            .get(destination.connection)
            .map(|adapter| known(&adapter.manifest().destination_settings))
            .unwrap_or_default();
        let path = join("destinations", &destination.pattern);
        let settled = config::settle(
            &destination.settings,
            &known,
            &destination_keys,
            &path,
            &destination.origin,
            &mut problems,
        );
        destinations.push(Arc::new(settled.all()));
    }
    if problems.is_empty() {
        Ok((connections, destinations))
    } else {
        Err(problems.into())
    }
}

/// A manifest's settings, as the configuration knows them.
fn known(settings: &[Setting]) -> Vec<KnownSetting> {
    settings
        .iter()
        .map(|setting| KnownSetting {
            key: setting.key.clone(),
            summary: setting.summary.clone(),
            default: setting.default.clone(),
            required: setting.required,
            secret: setting.secret,
        })
        .collect()
}

/// What the reference says about an adapter. Its name is what a configuration calls it: its file's.
pub(crate) fn adapter_reference(adapter: &Adapter) -> AdapterReference {
    let manifest = adapter.manifest();
    let name = adapter.path().file_stem().unwrap_or_default();
    AdapterReference {
        name: name.to_string_lossy().into_owned(),
        summary: manifest.summary.clone(),
        connection: known(&manifest.connection_settings),
        destination: known(&manifest.destination_settings),
    }
}

fn window(connection: &Connection, adapter: &Adapter) -> Window {
    let default = adapter.manifest().window;
    Window {
        size: connection.window.map_or(default.size, u32::from),
        ..default
    }
}

fn policy(destination: &Destination) -> Policy {
    let keys = &destination.keys;
    Policy {
        order: keys.order,
        linger: keys.linger_ms,
        attempts: keys.attempts.get(),
        backoff: Backoff {
            initial: keys.backoff_initial_ms,
            max: keys.backoff_max_ms,
        },
        max_body_bytes: keys.max_body_bytes,
        max_batch_messages: keys.max_batch_messages.map(u32::from),
        idle_eviction: keys.idle_eviction_ms,
    }
}

fn limits(limits: &Limits) -> ClientLimits {
    ClientLimits {
        stream_messages: limits.stream_messages.get(),
        stream_bytes: limits.stream_bytes,
        total_bytes: limits.memory_bytes,
        stream_scopes: limits.stream_scopes.get(),
        unread_result_bytes: limits.unread_result_bytes,
        unread_results_timeout: limits.unread_results_timeout_ms,
        confirmation_timeout: limits.confirmation_timeout_ms,
    }
}
