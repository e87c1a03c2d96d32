//! The interface of the driver `null`, for guests that are called without any driver.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluicegate_core::{Batch, Failure, Opened};
use sluicegate_host::wasmtime::{
    self,
    component::{Instance, InstancePre},
};
use sluicegate_host::wit::types::{self, RowFailure, Rows, Verdict};
use sluicegate_host::{Driver, Guest, Planned, Settlement, State, Store};

pub use bindings::exports::sluicegate::adapter::null_driver::{Command, Reply};
use bindings::{Null, NullIndices};

pub mod bindings {
    sluicegate_host::wasmtime::component::bindgen!({
        path: "../../proto/wit",
        inline: "
            package sluicegate:gateway;

            world null {
                export sluicegate:adapter/null-driver@0.1.0;
            }
        ",
        world: "sluicegate:gateway/null",
        with: { "sluicegate:adapter/types": sluicegate_host::wit::types },
        exports: { default: async },
        wasmtime_crate: sluicegate_host::wasmtime,
    });
}

#[derive(Debug)]
pub struct Null0;

impl Driver for Null0 {
    const NAME: &'static str = "null";
    type Indices = NullIndices;
    type Bindings = Null;
    type Command = Command;
    type Reply = Reply;

    fn indices(component: &InstancePre<State>) -> wasmtime::Result<NullIndices> {
        NullIndices::new(component)
    }

    fn bind(
        indices: &NullIndices,
        store: &mut Store,
        instance: &Instance,
    ) -> wasmtime::Result<Null> {
        indices.load(store, instance)
    }

    async fn plan(
        bindings: &Null,
        store: &mut Store,
        batch: &types::Batch,
    ) -> wasmtime::Result<(Vec<Command>, Vec<RowFailure>)> {
        let exports = bindings.sluicegate_adapter_null_driver();
        let planned = exports.call_plan(store, batch).await?;
        Ok((planned.commands, planned.failures))
    }

    async fn settle(
        bindings: &Null,
        store: &mut Store,
        context: &[u8],
        reply: &Reply,
    ) -> wasmtime::Result<Vec<Verdict>> {
        let exports = bindings.sluicegate_adapter_null_driver();
        exports.call_settle(store, context, *reply).await
    }

    fn rows(command: &Command) -> Rows {
        command.rows
    }
}

/// Opens `orders`, which gets the number 0.
pub async fn open(guest: &mut Guest<Null0>) -> Result<Opened, Failure> {
    let destination = guest.destination("orders", &BTreeMap::new())?;
    let mut call = guest.enter().await?;
    let exports = call.bindings.sluicegate_adapter_null_driver();
    let found = exports.call_open(&mut call.store, &destination).await;
    let found = guest.leave("open", call, found)?;
    guest.opened(&Arc::from("orders"), found)
}

/// Plans a batch and settles all its commands.
pub async fn send(guest: &mut Guest<Null0>, batch: &Batch) -> Vec<Settlement> {
    let Planned {
        commands,
        mut settled,
        ..
    } = guest.plan(batch).await;
    for command in commands {
        let reply = Reply { rows: command.rows };
        settled.extend(
            guest
                .settle(batch, command.rows, &command.context, &reply)
                .await,
        );
    }
    settled
}
