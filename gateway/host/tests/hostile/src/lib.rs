//! An adapter that misbehaves as its connection's setting `behaviour` tells it to.
//!
//! Rows whose key is `poison` are what the behaviours `…-on-poison` stumble over.

#![deny(unsafe_code)]
#![allow(clippy::panic, reason = "misbehaving is what it is for")]

use std::sync::atomic::{AtomicBool, Ordering};

use sluicegate_adapter::null::{Command, NullDriver, Planned, Reply};
use sluicegate_adapter::{
    Adapter, Batch, Capabilities, Columns, Destination, Failure, FailureClass, Limits, Manifest,
    OpenedDestination, Outcome, Receipts, Rows, Setting, Settings, Strength, Verdict, Window,
    WindowUnit, log, ranges,
};

struct Hostile {
    behaviour: String,
}

/// Whether this very instance has planned a batch.
static WORN: AtomicBool = AtomicBool::new(false);

impl Adapter for Hostile {
    fn manifest() -> Manifest {
        Manifest {
            name: "hostile".into(),
            version: "0.0.1".into(),
            driver: "null".into(),
            summary: "Misbehaves as it is told to.".into(),
            reads: Columns::KEYS,
            window: Window {
                unit: WindowUnit::Messages,
                size: 65_536,
            },
            capabilities: CAPABILITIES,
            connection_settings: vec![
                Setting::with_default("behaviour", "good", "What to do wrong."),
                Setting {
                    secret: true,
                    ..Setting::optional("password", "Never to be seen by an adapter.")
                },
            ],
            destination_settings: vec![Setting::optional("strange", "What `open` does wrong.")],
        }
    }

    fn configure(settings: &Settings) -> Result<Self, String> {
        if settings.get("password").is_some() {
            return Err("a secret came in".into());
        }
        let behaviour = settings.get("behaviour").unwrap_or_default();
        match behaviour {
            "refuse" => return Err("`behaviour`: do not write \"refuse\"".into()),
            "trap-in-configure" => panic!("told to trap in configure"),
            _ => {}
        }
        Ok(Self {
            behaviour: behaviour.to_owned(),
        })
    }
}

const CAPABILITIES: Capabilities = Capabilities {
    key: true,
    receipts: true,
    ..Capabilities::NONE
};

impl NullDriver for Hostile {
    fn open(&self, destination: &Destination) -> Result<OpenedDestination, Failure> {
        match destination.setting("strange") {
            Some("trap") => panic!("told to trap in open"),
            Some("refuse") => {
                return Err(
                    Failure::fatal(FailureClass::NotFound, "no such place").with_code("404")
                );
            }
            _ => {}
        }
        let batch_messages = match destination.setting("strange") {
            Some("zero-limit") => 0,
            _ => 65_536,
        };
        Ok(OpenedDestination {
            address: destination.name.clone().into_bytes(),
            limits: Limits {
                batch_messages,
                batch_bytes: 64 << 20,
                body_bytes: 1 << 20,
            },
            capabilities: CAPABILITIES,
            strength: Strength::Accepted,
            facts: vec![],
        })
    }

    fn plan(&self, batch: &Batch) -> Planned {
        WORN.store(true, Ordering::Relaxed);
        let poison: Vec<u32> = batch
            .keys
            .iter()
            .filter_map(|(row, key)| (key == b"poison").then_some(row))
            .collect();
        let command = |first, count| Command {
            rows: Rows { first, count },
            context: vec![],
        };
        let all = command(0, batch.count);
        let mut failures = vec![];
        let commands = match self.behaviour.as_str() {
            "trap-in-plan" => panic!("told to trap in plan"),
            "trap-on-poison" if !poison.is_empty() => panic!("poison in {} rows", batch.count),
            "fail-poison" => {
                let failure = || Failure::fatal(FailureClass::Invalid, "poison");
                failures.extend(poison.iter().map(|row| failure().of(*row)));
                ranges(batch.count, poison.iter().copied())
                    .map(|rows| command(rows.first, rows.count))
                    .collect()
            }
            "loop-in-plan" => endless(),
            "allocate-in-plan" => hoard(),
            "rows-beyond" => vec![command(0, batch.count + 1)],
            "row-twice" => vec![command(0, batch.count), command(0, 1)],
            "row-missing" => vec![command(1, batch.count - 1)],
            "chatty" => {
                for line in 0..1_000 {
                    log::info(&format!("line {line} {}", "x".repeat(10_000)));
                }
                vec![all]
            }
            _ => vec![all],
        };
        Planned { commands, failures }
    }

    fn settle(&self, _context: &[u8], reply: &Reply) -> Vec<Verdict> {
        let Rows { first, count } = reply.rows;
        let confirmed = |first, count| {
            Outcome::Confirmed(Receipts::Sequence(i64::from(first) + 1)).of(Rows { first, count })
        };
        match self.behaviour.as_str() {
            "trap-in-settle" => panic!("told to trap in settle"),
            "trap-in-settle-when-worn" if WORN.load(Ordering::Relaxed) => {
                panic!("told to trap in settle on an instance that has planned")
            }
            "loop-in-settle" => endless(),
            "no-verdict" => vec![],
            "half-a-verdict" => vec![confirmed(first, count / 2)],
            "two-verdicts" => vec![
                confirmed(first, count),
                Outcome::Failed(Failure::fatal(FailureClass::Rejected, "or not")).of(first),
            ],
            "verdict-beyond" => vec![confirmed(first, count + 1)],
            _ => vec![confirmed(first, count)],
        }
    }
}

/// Runs for ever, and is not so plain that a compiler would see it.
fn endless<T>() -> T {
    let mut n = 0_u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}

fn hoard<T>() -> T {
    let mut hoard = Vec::new();
    loop {
        hoard.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

sluicegate_adapter::export_null!(Hostile);
