//! The order of rows of one key.
//!
//! **A failed row is resent only while no later row of its key may be stored**; while it waits, later
//! rows of its key wait behind it. Nothing here costs anything until a keyed row fails: rows are sent
//! in the order of their arrival, so that order among rows in flight is that of (batch, place).
//!
//! What is kept: a [`Hold`] for each key with a failed row, and the keys that were stored by a batch
//! that overtook an earlier one still in flight. The latter is bounded; over the bound every key
//! counts as overtaken, which fails rows that could have been resent and reorders none.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use slab::Slab;
use sluicegate_core::{Failure, Row, Time};

use crate::flight::Flight;

/// Keys remembered of overtaking batches; past it a straggler's failed rows count as overtaken.
const OVERTAKERS_MAX: usize = 65_536;

/// A key of one stream, hashed. Two keys that collide are held to one order, which is only stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KeyId(u64);

impl KeyId {
    pub(crate) fn new(stream: usize, key: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        stream.hash(&mut hasher);
        key.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Where a row is among the rows that a lane has sent.
pub(crate) type Place = (u64, u32);

/// Why a row has to be sent again.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    Failed(Failure),
    /// It may be stored: it can be resent only because the destination recognises its id.
    Unknown(Failure),
    /// It shared a batch with a poison row; it is resent alone, so that it fails alone or not at all.
    Isolated,
}

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) row: Row,
    pub(crate) cause: Cause,
}

/// A key that has a row to be resent.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// Rows to be resent, in order.
    pub(crate) failed: BTreeMap<Place, Held>,
    /// Rows not yet sent that came later.
    pub(crate) parked: VecDeque<Row>,
    /// Rows of the key in flight.
    pub(crate) flying: u32,
    /// The latest place of the key that may be stored.
    pub(crate) stored: Option<Place>,
    /// When its backoff is over.
    pub(crate) due: Time,
}

impl Hold {
    /// Rows that a later row of their key has overtaken.
    pub(crate) fn take_overtaken(&mut self) -> Vec<Held> {
        let Some(stored) = self.stored else {
            return Vec::new();
        };
        let rest = self.failed.split_off(&stored);
        std::mem::replace(&mut self.failed, rest)
            .into_values()
            .collect()
    }
}

type Index = HashMap<KeyId, Vec<(usize, u32)>>;

#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub(crate) holds: BTreeMap<KeyId, Hold>,
    /// Keys stored by a batch while an earlier one was in flight, with that batch's number.
    overtakers: HashMap<KeyId, u64>,
    latest_overtaker: u64,
    /// Batches up to this one stored keys that are not remembered.
    forgotten: Option<u64>,
    /// Keys of all rows in flight; made when a row fails, void when the next batch is sent.
    index: Option<Index>,
}

impl Keys {
    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(crate) fn sent(&mut self) {
        self.index = None;
    }

    /// A batch closed; `oldest` is the number of the oldest one still in flight.
    pub(crate) fn closed(&mut self, oldest: Option<u64>) {
        self.index = None;
        if oldest.is_none_or(|oldest| oldest >= self.latest_overtaker) {
            self.overtakers.clear();
            self.forgotten = None;
        }
    }

    /// A row may be stored while an earlier batch is in flight.
    pub(crate) fn overtook(&mut self, key: KeyId, seq: u64) {
        self.latest_overtaker = self.latest_overtaker.max(seq);
        if self.overtakers.len() < OVERTAKERS_MAX || self.overtakers.contains_key(&key) {
            let latest = self.overtakers.entry(key).or_insert(seq);
            *latest = seq.max(*latest);
        } else {
            self.forgotten = self.forgotten.max(Some(seq));
        }
    }

    /// A row of a held key is in flight no more.
    pub(crate) fn landed(&mut self, key: KeyId, place: Place, stored: bool) {
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.flying = hold.flying.saturating_sub(1);
            if stored {
                hold.stored = hold.stored.max(Some(place));
            }
        }
    }

    /// How many rows of a key are in flight, and the latest place that may be stored.
    pub(crate) fn look(
        &mut self,
        key: KeyId,
        flights: &Slab<Flight>,
        order: &VecDeque<usize>,
    ) -> (u32, Option<Place>) {
        let index = self.index.get_or_insert_with(|| index(flights, order));
        let mut flying = 0;
        let mut stored = self.forgotten.map(|seq| (seq, u32::MAX));
        stored = stored.max(self.overtakers.get(&key).map(|seq| (*seq, u32::MAX)));
        for (flight, place) in index.get(&key).into_iter().flatten() {
            let Some(flight) = flights.get(*flight) else {
                continue;
            };
            if !flight.is_settled(*place) {
                flying += 1;
            } else if flight.is_stored(*place) {
                stored = stored.max(Some((flight.seq, *place)));
            }
        }
        (flying, stored)
    }

    /// Holds that may go on: nothing of their key is in flight and their backoff is over.
    pub(crate) fn due(&self, now: Time) -> Vec<KeyId> {
        let due = |hold: &Hold| hold.flying == 0 && (hold.due <= now || hold.failed.is_empty());
        self.holds
            .iter()
            .filter(|(_, hold)| due(hold))
            .map(|(key, _)| *key)
            .collect()
    }
}

fn index(flights: &Slab<Flight>, order: &VecDeque<usize>) -> Index {
    let mut index = Index::new();
    for key in order {
        let Some(flight) = flights.get(*key).filter(|flight| flight.keyed) else {
            continue;
        };
        for place in 0..flight.rows() {
            if let Some(id) = flight.key(place) {
                index.entry(id).or_default().push((*key, place));
            }
        }
    }
    index
}
