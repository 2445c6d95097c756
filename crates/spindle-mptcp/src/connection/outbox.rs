//! What a connection has ready for its stack: packets, events and trace events.

use std::collections::VecDeque;

use spindle_wire::Packet;

use super::trace::Trace;
use super::{Connection, ConnectionEvent};

/// What the stack collects from a connection.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Packets that are ready for transmission, for example resets and the output of stages.
    pub(super) packets: VecDeque<Packet>,
    /// Events for the application.
    pub(super) events: VecDeque<ConnectionEvent>,
    pub(crate) trace: Trace,
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
    /// Returns the next event for the application.
    pub(crate) fn next_event(&mut self) -> Option<ConnectionEvent> {
        self.outbox.events.pop_front()
    }
}
