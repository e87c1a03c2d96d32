//! Which native driver an adapter is paired with: the one that its manifest names.
//!
//! The only place that lists drivers. A new one is a crate, a line in each function here, and a world
//! of the adapter contract.

use std::collections::BTreeMap;

use sluicegate_core::{Failure, FailureClass, Opened};
use sluicegate_driver_null::NullConnection;
use sluicegate_driver_sql::sqlite::Database;
use sluicegate_driver_sql::{Settings, SqlConnection};
use sluicegate_engine::{Connection as _, ConnectionId, Engine, OpenRequest};
use sluicegate_host::Adapter;

use crate::config::suggestion;

const NULL: &str = "null";
const SQL: &str = "sql";

/// A driver with its adapter, for one connection.
#[derive(Debug)]
pub(crate) enum Driver {
    Null(Box<NullConnection>),
    /// With what it connects to, for [`Driver::reach`].
    Sql(Box<SqlConnection>, Settings),
}

impl Driver {
    /// Pairs them and has both take the connection's settings. Nothing is connected yet: what fails
    /// here is the configuration's fault.
    pub(crate) async fn new(
        adapter: &Adapter,
        connection: &str,
        settings: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let wrong = |error: &dyn std::error::Error| error.to_string();
        let driver = adapter.manifest().driver.as_str();
        match driver {
            NULL => NullConnection::connect(adapter, connection, settings)
                .await
                .map(|connection| Self::Null(Box::new(connection)))
                .map_err(|error| wrong(&error)),
            SQL => {
                let reached = Settings::parse(settings).map_err(|error| wrong(&error))?;
                SqlConnection::connect(adapter, connection, settings)
                    .await
                    .map(|connection| Self::Sql(Box::new(connection), reached))
                    .map_err(|error| wrong(&error))
            }
            other => Err(format!(
                "the adapter {} is for the driver \"{other}\", which this gateway does not have; {}",
                adapter.path().display(),
                suggestion(other, [NULL, SQL]),
            )),
        }
    }

    /// How large a window is of any use, where there is such a limit.
    pub(crate) fn largest_window(&self) -> Option<u32> {
        match self {
            Self::Null(_) => None,
            // A database has one writer: a second batch would only wait for the first.
            Self::Sql(..) => Some(1),
        }
    }

    /// Whether a destination's settings make sense to the adapter, as far as can be told without the
    /// broker.
    pub(crate) async fn examine(&mut self, request: OpenRequest) -> Result<(), Failure> {
        match self {
            // To open a destination that leads nowhere takes no I/O.
            Self::Null(connection) => connection.open(request).await.map(drop),
            Self::Sql(connection, _) => connection.examine(&request).await,
        }
    }

    /// Has the engine feed it.
    pub(crate) fn attach(self, engine: &Engine, id: ConnectionId) {
        match self {
            Self::Null(connection) => engine.attach(id, *connection),
            Self::Sql(connection, _) => engine.attach(id, *connection),
        }
    }

    /// Finds out about a destination.
    pub(crate) async fn open(&mut self, request: OpenRequest) -> Result<Opened, Failure> {
        match self {
            Self::Null(connection) => connection.open(request).await,
            Self::Sql(connection, _) => connection.open(request).await,
        }
    }

    /// Whether the broker answers at all, for connections without a named destination.
    pub(crate) async fn reach(&self) -> Result<(), Failure> {
        match self {
            Self::Null(_) => Ok(()),
            Self::Sql(_, settings) => {
                let mut database = Database::new(settings.clone());
                let answer = database.query("SELECT 1".to_owned(), Vec::new()).await;
                database.close().await;
                let unreachable =
                    |error| Failure::retryable(FailureClass::Unavailable, format!("{error}"));
                answer.map(drop).map_err(unreachable)
            }
        }
    }
}
