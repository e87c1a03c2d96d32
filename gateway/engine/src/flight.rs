//! A batch that was handed to its connection.
//!
//! **The first verdict of a row stands.** A flight remembers which of its rows were settled, and
//! which of those may be stored, until the last handle of its replies is gone.

use std::ops::Range;
use std::sync::Arc;

use sluicegate_core::{Batch, Row, Time};

use crate::bits::Bits;
use crate::keys::KeyId;

#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) lane: usize,
    /// The lane's batches are numbered in the order of their sending.
    pub(crate) seq: u64,
    pub(crate) batch: Arc<Batch>,
    settled: Bits,
    /// Of the settled rows, those that are in the broker or may be.
    stored: Bits,
    pub(crate) unsettled: u32,
    pub(crate) delivered: u32,
    /// Rows without a verdict at this time are unknown.
    pub(crate) deadline: Time,
    /// Rows were settled here because their time had passed: a late verdict of one is no fault.
    pub(crate) overdue: bool,
    pub(crate) sent_at: Time,
    /// What its failed rows share: they come back together, as a batch.
    pub(crate) jitter: u64,
    /// Whether any row wants its key's order kept.
    pub(crate) keyed: bool,
    /// Where order is kept, the stream of each row: a settled row's scope may be gone.
    streams: Vec<usize>,
}

impl Flight {
    /// `streams` is empty where no row wants its key's order kept.
    pub(crate) fn new(
        lane: usize,
        seq: u64,
        batch: Arc<Batch>,
        streams: Vec<usize>,
        jitter: u64,
        now: Time,
    ) -> Self {
        let keyed = !streams.is_empty();
        let rows = u32::try_from(batch.rows.len()).unwrap_or(u32::MAX);
        Self {
            lane,
            seq,
            settled: Bits::new(rows),
            stored: if keyed {
                Bits::new(rows)
            } else {
                Bits::default()
            },
            unsettled: rows,
            delivered: 0,
            deadline: batch.deadline,
            batch,
            overdue: false,
            jitter,
            sent_at: now,
            keyed,
            streams,
        }
    }

    /// The key whose order the row is part of.
    pub(crate) fn key(&self, place: u32) -> Option<KeyId> {
        let index = usize::try_from(place).ok()?;
        let stream = *self.streams.get(index)?;
        let key = self.batch.rows.get(index)?.message.key.as_ref()?;
        Some(KeyId::new(stream, key))
    }

    pub(crate) fn rows(&self) -> u32 {
        u32::try_from(self.batch.rows.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn row(&self, place: u32) -> Option<&Row> {
        self.batch.rows.get(usize::try_from(place).ok()?)
    }

    pub(crate) fn is_settled(&self, place: u32) -> bool {
        self.settled.get(place)
    }

    pub(crate) fn is_stored(&self, place: u32) -> bool {
        self.stored.get(place)
    }

    pub(crate) fn none_settled(&self, places: Range<u32>) -> bool {
        self.settled.none(places)
    }

    /// Settles rows that are not settled yet.
    pub(crate) fn settle(&mut self, places: Range<u32>, stored: bool) {
        self.unsettled = self.unsettled.saturating_sub(places.end - places.start);
        if stored && self.keyed {
            self.stored.set(places.clone());
        }
        self.settled.set(places);
    }
}
