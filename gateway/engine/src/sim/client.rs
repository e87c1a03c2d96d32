//! What a simulated client does, and what it remembers to check.

use sluicegate_core::Time;

use super::setting::{DESTINATIONS, pick};
use crate::rng::Rng;
use crate::{Event, ScopeOptions};

/// A message that was published.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) destination: &'static str,
    pub(super) key: Option<&'static str>,
    pub(super) told: Option<Told>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Confirmed,
    Failed,
    Unknown,
}

#[derive(Debug)]
pub(super) struct SimScope {
    pub(super) id: u64,
    /// Places in the client's list of all that it sent.
    pub(super) rows: Vec<usize>,
    /// Tokens and how many rows were published before.
    pub(super) flushes: Vec<(u64, usize)>,
    pub(super) open: bool,
    pub(super) done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    AtOnce,
    Late,
    Never,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: usize,
    pub(super) sent: Vec<Sent>,
    pub(super) scopes: Vec<SimScope>,
    pub(super) next_scope: u64,
    pub(super) next_token: u64,
    pub(super) actions_left: u64,
    pub(super) obeys_credit: bool,
    pub(super) reads: Reads,
    /// Goes away before its stream has ended.
    pub(super) vanishes: bool,
    pub(super) waits_for_room: bool,
    /// A part of its next frame has come.
    pub(super) reading: bool,
    pub(super) read_planned: bool,
    pub(super) finished: bool,
    pub(super) gone: bool,
    pub(super) credit: u64,
}

/// One thing that a client may do.
#[derive(Debug)]
pub(super) enum Action {
    Open(ScopeOptions),
    Publish {
        scope: usize,
        destination: &'static str,
        keys: Vec<Option<&'static str>>,
    },
    Flush(usize),
    Close(usize),
    Abort(usize),
    Finish,
    Vanish,
}

impl Client {
    pub(super) fn new(stream: usize, rng: &mut Rng) -> Self {
        let reads = match rng.below(10) {
            0 => Reads::Never,
            1..4 => Reads::Late,
            _ => Reads::AtOnce,
        };
        Self {
            stream,
            sent: Vec::new(),
            scopes: Vec::new(),
            next_scope: 1,
            next_token: 1,
            actions_left: 3 + rng.below(40),
            obeys_credit: rng.below(5) > 0,
            vanishes: reads == Reads::Never || rng.below(6) == 0,
            reads,
            waits_for_room: false,
            reading: false,
            read_planned: false,
            finished: false,
            gone: false,
            credit: 0,
        }
    }

    pub(super) fn choose(&mut self, rng: &mut Rng) -> Action {
        if self.actions_left == 0 {
            return if self.vanishes {
                Action::Vanish
            } else {
                Action::Finish
            };
        }
        self.actions_left -= 1;
        let open: Vec<usize> = (0..self.scopes.len())
            .filter(|place| self.scopes.get(*place).is_some_and(|scope| scope.open))
            .collect();
        let count = u64::try_from(open.len()).unwrap_or(0);
        let Some(scope) = open.get(pick(rng, count)).copied() else {
            return Action::Open(options(rng));
        };
        match rng.below(20) {
            0..2 => Action::Open(options(rng)),
            2 => Action::Close(scope),
            3 if rng.below(2) == 0 => Action::Abort(scope),
            3..6 => Action::Flush(scope),
            _ => {
                let destination = DESTINATIONS
                    .get(pick(rng, 9) % DESTINATIONS.len())
                    .copied()
                    .unwrap_or("nowhere");
                let keys = (0..1 + rng.below(8))
                    .map(|_| match rng.below(5) {
                        0 => None,
                        1 => Some("a"),
                        2 => Some("b"),
                        _ => Some("c"),
                    })
                    .collect();
                Action::Publish {
                    scope,
                    destination,
                    keys,
                }
            }
        }
    }

    /// Remembers what it was told, and objects to what it should not have been.
    pub(super) fn told(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Results(results) => {
                let confirmed = results.confirmed.iter().cloned().flatten();
                for row in confirmed {
                    self.verdict(results.scope, row, Told::Confirmed)?;
                }
                for (row, _) in &results.failed {
                    self.verdict(results.scope, *row, Told::Failed)?;
                }
                for (row, _) in &results.unknown {
                    self.verdict(results.scope, *row, Told::Unknown)?;
                }
                for pair in results.confirmed.windows(2) {
                    if let [first, second] = pair
                        && first.end >= second.start
                    {
                        return Err(format!("ranges not ascending and coalesced: {pair:?}"));
                    }
                }
            }
            Event::Flushed { scope, token } => {
                let found = self.scope(*scope)?;
                let Some(at) = found.flushes.iter().position(|(t, _)| t == token) else {
                    return Err(format!("scope {scope}: no flush {token} is waited for"));
                };
                let (_, before) = found.flushes.remove(at);
                let rows: Vec<usize> = found.rows.iter().take(before).copied().collect();
                self.all_told(&rows, &format!("flush {token} of scope {scope}"))?;
            }
            Event::ScopeDone {
                scope,
                confirmed,
                failed,
                unknown,
            } => {
                let found = self.scope(*scope)?;
                if found.done || found.open || !found.flushes.is_empty() {
                    return Err(format!("scope {scope} is done too early or twice"));
                }
                found.done = true;
                let rows = found.rows.clone();
                self.all_told(&rows, &format!("the end of scope {scope}"))?;
                let count = |told| {
                    let told_so = |row: &&usize| {
                        self.sent.get(**row).and_then(|sent| sent.told) == Some(told)
                    };
                    u64::try_from(rows.iter().filter(told_so).count()).unwrap_or(u64::MAX)
                };
                let counted = [Told::Confirmed, Told::Failed, Told::Unknown].map(count);
                if counted != [*confirmed, *failed, *unknown] {
                    return Err(format!(
                        "scope {scope} ends with {confirmed}, {failed}, {unknown} and was told {counted:?}"
                    ));
                }
            }
            Event::Credit { messages, .. } => self.credit += messages,
            Event::Draining { .. } | Event::Stalled => {}
        }
        Ok(())
    }

    fn scope(&mut self, id: u64) -> Result<&mut SimScope, String> {
        self.scopes
            .iter_mut()
            .find(|scope| scope.id == id)
            .ok_or_else(|| format!("told of scope {id}, which was never opened"))
    }

    fn verdict(&mut self, scope: u64, row: u64, told: Told) -> Result<(), String> {
        let index = usize::try_from(row).unwrap_or(usize::MAX);
        let place = self.scope(scope)?.rows.get(index).copied();
        let sent = place.and_then(|place| self.sent.get_mut(place));
        let Some(sent) = sent else {
            return Err(format!(
                "a verdict on row {row} of scope {scope}, which does not exist"
            ));
        };
        if let Some(before) = sent.told.replace(told) {
            return Err(format!(
                "two verdicts on row {row} of scope {scope}: {before:?} and {told:?}"
            ));
        }
        Ok(())
    }

    fn all_told(&self, rows: &[usize], before: &str) -> Result<(), String> {
        let untold = rows
            .iter()
            .filter_map(|row| self.sent.get(*row))
            .find(|sent| sent.told.is_none());
        match untold {
            Some(sent) => Err(format!("{before} was told before the verdict of {sent:?}")),
            None => Ok(()),
        }
    }
}

fn options(rng: &mut Rng) -> ScopeOptions {
    ScopeOptions {
        batching: rng.below(5) > 0,
        deferred_confirmation: rng.below(5) > 0,
        confirmation_timeout: (rng.below(3) == 0).then(|| Time::from_millis(1 + rng.below(5_000))),
        error_channel: None,
        receipts: rng.below(4) == 0,
    }
}
