//! Rows waiting in a lane, and whose turn it is.
//!
//! **A large scope does not starve a small one.** Rows wait in flows, which are served by deficit
//! round robin (Shreedhar and Varghese, 1995): each in its turn may send a quantum of bytes. A flow is
//! a scope, or, where order by key is kept, all keyed rows of a stream, since a key's order holds
//! across the scopes of a stream.
//!
//! Publishing a frame is one push, whatever the number of its messages.

use std::collections::{HashMap, VecDeque};
use std::vec::IntoIter;

use slab::Slab;
use sluicegate_core::{Message, Origin, Row, Time};

/// Bytes that a flow may send in its turn: some hundred small messages, so that a turn is worth the
/// change of flows, and a fraction of any batch.
pub(crate) const QUANTUM_BYTES: u64 = 16 * 1024;

/// What a message costs beside its bytes, so that empty ones are not free.
pub(crate) const MESSAGE_COST: u64 = 64;

/// Emptied queues kept for the next flow: a client in lock step opens one a frame.
const SPARE_QUEUES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FlowKey {
    Scope(usize),
    Stream(usize),
}

/// What is left of a frame.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) scope: u32,
    pub(crate) frame: u32,
    pub(crate) next_row: u64,
    pub(crate) accepted_at: Time,
    pub(crate) messages: IntoIter<Message>,
}

#[derive(Debug)]
pub(crate) struct Flow {
    key: FlowKey,
    pub(crate) chunks: VecDeque<Chunk>,
    /// Bytes that it may still send in this turn.
    pub(crate) deficit: u64,
    /// Whether its turn has begun.
    pub(crate) in_turn: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Flows {
    flows: Slab<Flow>,
    by_key: HashMap<FlowKey, usize>,
    turns: VecDeque<usize>,
    spare: Vec<VecDeque<Chunk>>,
}

impl Flows {
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }

    pub(crate) fn push(&mut self, key: FlowKey, chunk: Chunk) {
        let flow = match self.by_key.get(&key) {
            Some(flow) => *flow,
            None => {
                let flow = self.flows.insert(Flow {
                    key,
                    chunks: self.spare.pop().unwrap_or_default(),
                    deficit: 0,
                    in_turn: false,
                });
                self.by_key.insert(key, flow);
                self.turns.push_back(flow);
                flow
            }
        };
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.chunks.push_back(chunk);
        }
    }

    /// The flow whose turn it is.
    pub(crate) fn first(&mut self) -> Option<&mut Flow> {
        self.flows.get_mut(*self.turns.front()?)
    }

    /// Its turn is over.
    pub(crate) fn rotate(&mut self) {
        if let Some(flow) = self.first() {
            flow.in_turn = false;
        }
        if let Some(flow) = self.turns.pop_front() {
            self.turns.push_back(flow);
        }
    }

    /// It has nothing left.
    pub(crate) fn remove_first(&mut self) {
        if let Some(flow) = self.turns.pop_front() {
            self.forget(flow);
        }
    }

    fn forget(&mut self, flow: usize) {
        if self.flows.contains(flow) {
            let flow = self.flows.remove(flow);
            self.by_key.remove(&flow.key);
            if self.spare.len() < SPARE_QUEUES {
                self.spare.push(flow.chunks);
            }
        }
    }

    /// Every chunk that waits, in no order of consequence.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.flows.iter().flat_map(|(_, flow)| &flow.chunks)
    }

    /// Takes the chunks for which `gone` holds.
    pub(crate) fn take(&mut self, mut gone: impl FnMut(&Chunk) -> bool) -> Vec<Chunk> {
        let mut taken = Vec::new();
        for (_, flow) in &mut self.flows {
            if flow.chunks.iter().any(&mut gone) {
                let chunks = std::mem::take(&mut flow.chunks);
                for chunk in chunks {
                    if gone(&chunk) {
                        taken.push(chunk);
                    } else {
                        flow.chunks.push_back(chunk);
                    }
                }
            }
        }
        let empty = |flow: &usize| self.flows.get(*flow).is_none_or(|f| f.chunks.is_empty());
        let emptied: Vec<usize> = self.turns.iter().copied().filter(empty).collect();
        if !emptied.is_empty() {
            self.turns.retain(|flow| !emptied.contains(flow));
            for flow in emptied {
                self.forget(flow);
            }
        }
        taken
    }
}

impl Chunk {
    pub(crate) fn left(&self) -> u64 {
        u64::try_from(self.messages.len()).unwrap_or(u64::MAX)
    }

    /// Its next message, as a row.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Row> {
        let message = self.messages.next()?;
        let row = self.next_row;
        self.next_row += 1;
        Some(Row {
            message,
            origin: Origin {
                scope: self.scope,
                row,
                frame: self.frame,
            },
            accepted_at: self.accepted_at,
            attempts: 0,
        })
    }
}
