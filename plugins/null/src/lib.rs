//! The adapter `null`: confirms every row and keeps none, so that what is left is the gateway's own cost.

#![deny(unsafe_code)]

use sluicegate_adapter::null::{Command, NullDriver, Planned, Reply};
use sluicegate_adapter::{
    Adapter, Batch, Capabilities, Columns, Destination, Failure, Limits, Manifest,
    OpenedDestination, Outcome, Receipts, Rows, Setting, Settings, Strength, Verdict, Window,
    WindowUnit,
};

/// Rows in flight: nothing is ever in flight for long, so the window is only wide enough never to be what
/// a benchmark measures.
const WINDOW_MESSAGES: u32 = 65_536;

/// Rows of one batch: past some thousands the cost of a call no longer shows, and smaller batches give
/// their memory back sooner.
const BATCH_MESSAGES: u32 = 16_384;

/// Bodies of one batch: as many as fit the rows above at 4 KiB each.
const BATCH_BYTES: u64 = 64 << 20;

/// One body: a batch's worth, since nothing is stored.
const BODY_BYTES: u64 = BATCH_BYTES;

const CAPABILITIES: Capabilities = Capabilities {
    key: true,
    headers: true,
    id: true,
    null_body: true,
    per_message_failure: true,
    ..Capabilities::NONE
};

#[derive(Debug)]
struct Null;

impl Adapter for Null {
    fn manifest() -> Manifest {
        Manifest {
            name: "null".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            driver: "null".into(),
            summary: "Confirms every message and keeps none: the gateway's own cost.".into(),
            reads: Columns::empty(),
            window: Window {
                unit: WindowUnit::Messages,
                size: WINDOW_MESSAGES,
            },
            capabilities: CAPABILITIES,
            connection_settings: vec![
                Setting::with_default(
                    "stall",
                    "false",
                    "`true`: no message is ever settled, as at a broker that hangs.",
                ),
                Setting::with_default(
                    "delay_ms",
                    "0",
                    "Milliseconds from a batch's arrival to its confirmation, as at a broker that \
                     is far away.",
                ),
            ],
            destination_settings: vec![],
        }
    }

    fn configure(settings: &Settings) -> Result<Self, String> {
        // The driver acts on them; the adapter sees to it that what is written can be read.
        settings.parse("stall", false)?;
        settings.parse("delay_ms", 0_u64)?;
        Ok(Self)
    }
}

impl NullDriver for Null {
    fn open(&self, _destination: &Destination) -> Result<OpenedDestination, Failure> {
        Ok(OpenedDestination {
            address: vec![],
            limits: Limits {
                batch_messages: BATCH_MESSAGES,
                batch_bytes: BATCH_BYTES,
                body_bytes: BODY_BYTES,
            },
            capabilities: CAPABILITIES,
            strength: Strength::Accepted,
            facts: vec![("store".into(), "none: messages are discarded".into())],
        })
    }

    fn plan(&self, batch: &Batch) -> Planned {
        Planned {
            commands: vec![Command {
                rows: Rows::all(batch),
                context: vec![],
            }],
            failures: vec![],
        }
    }

    fn settle(&self, _context: &[u8], reply: &Reply) -> Vec<Verdict> {
        vec![Outcome::Confirmed(Receipts::None).of(reply.rows)]
    }
}

sluicegate_adapter::export_null!(Null);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_one_command_and_its_reply_one_confirmation() {
        let adapter = Null::configure(&Settings::default()).unwrap();
        let plan = adapter.plan(&Batch::of(1_000));
        assert!(plan.failures.is_empty());
        let [command] = &plan.commands[..] else {
            panic!("one command, not {}", plan.commands.len());
        };
        assert_eq!(command.rows.range(), 0..1_000);

        let verdicts = adapter.settle(&command.context, &Reply { rows: command.rows });
        assert_eq!(
            verdicts,
            [Outcome::Confirmed(Receipts::None).of(command.rows)]
        );
    }

    #[test]
    fn what_an_open_destination_can_do_is_what_the_manifest_says() {
        let opened = Null
            .open(&Destination {
                name: "orders".into(),
                settings: vec![],
            })
            .unwrap();
        assert_eq!(opened.capabilities, Null::manifest().capabilities);
    }

    #[test]
    fn a_setting_that_cannot_be_read_is_refused_by_name() {
        let error = Null::configure(&Settings::from([("stall", "perhaps")])).unwrap_err();
        assert!(error.contains("stall"), "{error}");
    }
}
