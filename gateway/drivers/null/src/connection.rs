//! A connection to nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Batch, Failure, Opened};
use sluicegate_engine::{Connection, OpenRequest, Replies};
use sluicegate_host::{Adapter, Guest, Health, Settlement};

use crate::bindings::Null;
use crate::bindings::exports::sluicegate::adapter::null_driver::Reply;

pub use sluicegate_host::ConnectError;

/// A connection to nothing: every message is confirmed by the adapter and by nobody else.
#[derive(Debug)]
pub struct NullConnection {
    guest: Guest<Null>,
    pace: Pace,
    /// Batches that are never settled, where that is the pace.
    held: Vec<Replies>,
}

/// When a batch is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    AtOnce,
    After(Duration),
    Never,
}

impl NullConnection {
    /// Pairs with an adapter. `settings` are the connection's own; the adapter's manifest lists them.
    ///
    /// # Errors
    ///
    /// The adapter is for another driver, or something is wrong with a setting.
    pub async fn connect(
        adapter: &Adapter,
        name: &str,
        settings: &BTreeMap<String, String>,
    ) -> Result<Self, ConnectError> {
        let guest = Guest::connect(adapter, name, settings).await?;
        Ok(Self {
            guest,
            pace: pace(settings).map_err(ConnectError::Settings)?,
            held: Vec::new(),
        })
    }

    /// How the adapter is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.guest.health()
    }
}

impl Connection for NullConnection {
    async fn open(&mut self, request: OpenRequest) -> Result<Opened, Failure> {
        let destination = self
            .guest
            .destination(&request.destination, &request.settings)?;
        let mut call = self.guest.enter().await?;
        let exports = call.bindings.sluicegate_adapter_null_driver();
        let found = exports.call_open(&mut call.store, &destination).await;
        let found = self.guest.leave("open", call, found)?;
        self.guest.opened(&request.destination, found)
    }

    async fn send(&mut self, batch: Arc<Batch>, replies: Replies) {
        let planned = self.guest.plan(&batch).await;
        deliver(&replies, planned.settled);
        if planned.reopen {
            replies.reopen();
        }
        if planned.commands.is_empty() {
            return;
        }
        replies.sent();
        let mut settled = Vec::with_capacity(planned.commands.len());
        for command in planned.commands {
            replies.provider_requests(1);
            let reply = Reply { rows: command.rows };
            let answers = self
                .guest
                .settle(&batch, command.rows, &command.context, &reply)
                .await;
            settled.extend(answers);
        }
        match self.pace {
            Pace::AtOnce => deliver(&replies, settled),
            Pace::After(delay) => {
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    deliver(&replies, settled);
                });
            }
            Pace::Never => self.held.push(replies),
        }
    }
}

fn deliver(replies: &Replies, settled: Vec<Settlement>) {
    for settlement in settled {
        match settlement {
            Settlement::Confirmed(rows, receipts) => replies.confirmed(rows, receipts),
            Settlement::Failed(rows, failure) => replies.failed(rows, failure),
            Settlement::Unknown(rows, failure) => replies.unknown(rows, failure),
            Settlement::Isolate(rows, failure) => replies.isolate(rows, failure),
        }
    }
}

fn pace(settings: &BTreeMap<String, String>) -> Result<Pace, String> {
    if read(settings, "stall", false)? {
        return Ok(Pace::Never);
    }
    Ok(match read(settings, "delay_ms", 0)? {
        0 => Pace::AtOnce,
        delay_ms => Pace::After(Duration::from_millis(delay_ms)),
    })
}

fn read<T>(settings: &BTreeMap<String, String>, key: &str, default: T) -> Result<T, String>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    settings.get(key).map_or(Ok(default), |value| {
        value
            .trim()
            .parse()
            .map_err(|error| format!("`{key} = \"{value}\"`: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_say_when_a_batch_is_answered() {
        for (pairs, expected) in [
            (&[][..], Pace::AtOnce),
            (&[("stall", "true"), ("delay_ms", "5")], Pace::Never),
            (&[("delay_ms", "5")], Pace::After(Duration::from_millis(5))),
        ] {
            let settings: BTreeMap<String, String> = pairs
                .iter()
                .map(|&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned()))
                .collect();
            assert_eq!(pace(&settings), Ok(expected));
        }
    }
}
