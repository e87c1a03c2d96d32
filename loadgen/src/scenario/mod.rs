//! What can be measured.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::body::Bodies;
use crate::check::ReadBack;
use crate::cli::{Cli, Provider};
use crate::direct::sqlite;
use crate::gateway::{Gateway, NULL_PREFIX};

pub(crate) mod enqueue;
pub(crate) mod hop;
pub(crate) mod throughput;

/// A scope is repeated until so much time has passed: shorter runs measure the clock.
pub(crate) const RUN_AT_LEAST: Duration = Duration::from_secs(2);
/// One message at a time on a slow disk would take minutes.
pub(crate) const RUN_AT_MOST: Duration = Duration::from_secs(10);

/// What every scenario needs.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) cli: Cli,
    pub(crate) gateway: Gateway,
    /// The store's file, to read back and to measure beside; none: it is not known.
    pub(crate) store: Option<PathBuf>,
    run: u64,
}

/// One run's own destination and bodies.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    pub(crate) destination: String,
    pub(crate) bodies: Bodies,
}

impl Setup {
    pub(crate) fn new(cli: Cli, gateway: Gateway) -> Self {
        let store = match (&cli.broker_url, cli.provider) {
            (Some(url), Provider::Sqlite) => {
                Some(PathBuf::from(url.strip_prefix("sqlite:").unwrap_or(url)))
            }
            (None, Provider::Sqlite) => gateway.store(),
            (_, Provider::Null) => None,
        };
        Self {
            cli,
            gateway,
            store,
            run: rand::random(),
        }
    }

    /// A destination that nobody used before.
    pub(crate) fn fresh(&self, label: &str, run: u32) -> Result<Fresh> {
        self.fresh_on(self.cli.provider, label, run)
    }

    /// The same, on another provider of the gateway.
    pub(crate) fn fresh_on(&self, provider: Provider, label: &str, run: u32) -> Result<Fresh> {
        let prefix = match provider {
            Provider::Sqlite => "loadgen.",
            Provider::Null => NULL_PREFIX,
        };
        let id = self.run.wrapping_add(u64::from(run));
        let bodies = Bodies::new(id, self.cli.size).ok_or_else(|| {
            anyhow::anyhow!("bodies of {} bytes are too small", self.cli.size)
        })?;
        Ok(Fresh {
            destination: format!("{prefix}{:016x}.{label}.{run}", self.run),
            bodies,
        })
    }

    /// What the store holds of a run; `None` where it cannot be asked.
    pub(crate) async fn read_back(
        &self,
        fresh: &Fresh,
        published: u64,
        confirmed: impl Fn(u64) -> bool,
    ) -> Result<Option<ReadBack>> {
        match &self.store {
            Some(store) => read_back(store, fresh, published, confirmed)
                .await
                .map(Some),
            None => Ok(None),
        }
    }
}

/// What a store's file holds of a run.
pub(crate) async fn read_back(
    store: &Path,
    fresh: &Fresh,
    published: u64,
    confirmed: impl Fn(u64) -> bool,
) -> Result<ReadBack> {
    sqlite::read_back(store, &fresh.destination, fresh.bodies, published, confirmed).await
}

/// A store of one's own on the same disk as the gateway's, gone when dropped.
pub(crate) fn store_beside(store: Option<&Path>) -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("loadgen-direct-");
    Ok(match store.and_then(Path::parent) {
        Some(parent) if !parent.as_os_str().is_empty() => builder.tempdir_in(parent)?,
        _ => builder.tempdir()?,
    })
}
