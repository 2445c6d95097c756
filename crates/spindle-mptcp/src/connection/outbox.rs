//! What a connection has ready for its stack: packets, events and trace events.

use std::collections::VecDeque;

use spindle_units::{Duration, Instant};
use spindle_wire::Packet;

use super::trace::Trace;
use super::{Connection, ConnectionEvent};

/// What the stack collects from a connection.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Packets that are ready for transmission, for example resets and the output of stages.
    pub(super) packets: VecDeque<Packet>,
    /// Transmission opportunities that have ended: how often there was nothing more to send.
    pub(super) opportunities: u64,
    /// Events for the application.
    pub(super) events: VecDeque<ConnectionEvent>,
    pub(crate) trace: Trace,
    /// Data arrived on another subflow than the one that was expected to deliver them, so any subflow's scoreboard
    /// may have repaired segments.
    pub(super) outrun: bool,
    /// How long data were missing that were sent again.
    pub(crate) repair_times: Vec<Duration>,
}

impl Outbox {
    /// Adds an event. An event that states only that something is possible is not repeated while it waits.
    pub(super) fn push_event(&mut self, event: ConnectionEvent) {
        let repeated = matches!(event, ConnectionEvent::Readable | ConnectionEvent::Writable);
        if !(repeated && self.events.contains(&event)) {
            self.events.push_back(event);
        }
    }
}

impl Connection {
    /// Collects how long repaired data were missing, after a packet has arrived on subflow `i`.
    #[inline]
    pub(super) fn note_repairs(&mut self, now: Instant, i: usize) {
        if self.outbox.outrun || self.subflows[i].tx.board.has_repaired() {
            self.collect_repairs(now);
        }
    }

    #[cold] // a loss, or a copy
    fn collect_repairs(&mut self, now: Instant) {
        self.outbox.outrun = false;
        for s in self.subflows.untracked() {
            let since = s.tx.board.take_repaired().into_iter();
            self.outbox.repair_times.extend(since.map(|t| now.since(t)));
        }
    }

    /// Returns the next event for the application.
    pub(crate) fn next_event(&mut self) -> Option<ConnectionEvent> {
        self.outbox.events.pop_front()
    }
}
