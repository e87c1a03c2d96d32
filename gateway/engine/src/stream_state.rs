//! What the engine keeps of one client's stream.
//!
//! **A stream pays for itself**: it is charged for what it has unsettled, as a whole and by
//! destination, and for what it leaves unread. What it may not have any more, it may not read either.

use std::collections::{HashMap, VecDeque};

use sluicegate_core::Time;

use crate::ClientLimits;
use crate::ledger::Counts;
use crate::scope::Scope;

/// What one stream has unsettled on one destination.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) stream: usize,
    pub(crate) lane: usize,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) frames: u64,
    /// Whether it is over half of the stream's credit.
    over: bool,
}

impl Share {
    pub(crate) fn new(stream: usize, lane: usize) -> Self {
        Self {
            stream,
            lane,
            messages: 0,
            bytes: 0,
            frames: 0,
            over: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct StreamState {
    /// For the log; never used again.
    pub(crate) number: u64,
    /// Scopes by the client's ids.
    pub(crate) scopes: HashMap<u64, usize>,
    pub(crate) last_scope: Option<u64>,
    /// Scopes that take rows.
    pub(crate) open_scopes: u32,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Shares by lane.
    pub(crate) shares: HashMap<usize, usize>,
    shares_over: u32,
    pub(crate) returned_messages: u64,
    pub(crate) returned_bytes: u64,
    /// Of the frame that is being read.
    pub(crate) reading_bytes: u64,
    /// Results not taken.
    pub(crate) unread_bytes: u64,
    /// Flushes not answered.
    pub(crate) flush_bytes: u64,
    /// Since when there was more unread than may be, without progress.
    pub(crate) over_since: Option<Time>,
    pub(crate) stalled: bool,
    pub(crate) stall_told: bool,
    /// Scopes with something to tell.
    pub(crate) listed: VecDeque<usize>,
    pub(crate) finished: bool,
    pub(crate) lost: bool,
    /// Lost before all had settled and been told.
    pub(crate) cut_short: bool,
    pub(crate) drain_told: bool,
    pub(crate) events_waiting: bool,
    pub(crate) room_waiting: bool,
    pub(crate) counts: Counts,
}

impl StreamState {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            scopes: HashMap::new(),
            last_scope: None,
            open_scopes: 0,
            messages: 0,
            bytes: 0,
            shares: HashMap::new(),
            shares_over: 0,
            returned_messages: 0,
            returned_bytes: 0,
            reading_bytes: 0,
            unread_bytes: 0,
            flush_bytes: 0,
            over_since: None,
            stalled: false,
            stall_told: false,
            listed: VecDeque::new(),
            finished: false,
            lost: false,
            cut_short: false,
            drain_told: false,
            events_waiting: false,
            room_waiting: false,
            counts: Counts::default(),
        }
    }

    /// Keeps count of destinations that hold over half of the credit.
    pub(crate) fn weigh(&mut self, share: &mut Share, limits: &ClientLimits) {
        let over = share.messages * 2 > u64::from(limits.stream_messages)
            || share.bytes * 2 > limits.stream_bytes;
        if over && !share.over {
            self.shares_over += 1;
        } else if !over && share.over {
            self.shares_over = self.shares_over.saturating_sub(1);
        }
        share.over = over;
    }

    /// Charges what the scope's results grew or shrank by.
    pub(crate) fn recount(&mut self, scope: &mut Scope) {
        self.unread_bytes = scope.pending.recharge(self.unread_bytes);
    }

    /// Whether the stream's own limits let it read another frame.
    pub(crate) fn has_room(&self, limits: &ClientLimits) -> bool {
        self.messages < u64::from(limits.stream_messages)
            && self.bytes < limits.stream_bytes
            && self.shares_over == 0
            && self.unread_bytes + self.flush_bytes <= limits.unread_result_bytes
            && !self.stalled
            && u64::try_from(self.scopes.len()).unwrap_or(u64::MAX)
                <= u64::from(limits.stream_scopes) * 2
    }
}
