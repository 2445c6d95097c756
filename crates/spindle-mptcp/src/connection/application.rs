//! The application's side of a connection: writing, reading, and notifications.

use std::collections::VecDeque;

use spindle_units::Instant;
use spindle_wire::Payload;

use super::{Connection, ConnectionEvent};
use crate::recovery::Trigger;
use crate::types::DataOffset;

/// What is known about the application that writes.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// The application must be notified when the peer has acknowledged all data before this offset. `None` if the
    /// application did not request a notification.
    pub(super) watched: Option<DataOffset>,
    /// The last write did not fit completely. The writer will provide the rest, which counts as new data (FUSO
    /// section 4.1).
    pub(super) blocked: bool,
    /// The application has announced that it will write more. Until it withdraws the announcement, the
    /// connection counts as having new data.
    pub(super) more_expected: bool,
    /// The declared ends of messages that were not sent completely, in ascending order. Empty if the scheduler
    /// does not need them.
    message_ends: VecDeque<DataOffset>,
}

impl Connection {
    /// Whether there are data that were never sent, or the application will provide more.
    pub(super) fn has_new_data(&self) -> bool {
        let waiting = self.send.unsent_bytes() > 0 || !self.scheduling.assigned.is_empty();
        waiting || self.writer.blocked || self.writer.more_expected
    }

    /// Accepts data for sending. Returns how many bytes fitted.
    pub(crate) fn write(&mut self, now: Instant, data: Payload) -> usize {
        if self.teardown.closing || self.teardown.closed.is_some() {
            return 0;
        }
        let room = self.send_room() as usize;
        let n = data.len().min(room);
        self.writer.blocked = n < data.len();
        if n > 0 {
            if self.send.buffered() == 0 {
                self.memory.moved(now);
            }
            self.send.write(if n == data.len() {
                data
            } else {
                data.slice(0, n)
            });
            self.policy.triggers.insert(Trigger::AppDrained);
        }
        n
    }

    /// Requests one [`ConnectionEvent::Acknowledged`] event when all data before `offset` are acknowledged.
    pub(crate) fn watch_acknowledged(&mut self, offset: DataOffset) {
        self.writer.watched = Some(offset);
        self.notify_acknowledged();
    }

    /// Notifies the application if the peer has acknowledged all watched data.
    pub(super) fn notify_acknowledged(&mut self) {
        if self
            .writer
            .watched
            .is_some_and(|offset| self.send.una >= offset)
        {
            self.writer.watched = None;
            self.outbox
                .push_event(ConnectionEvent::Acknowledged(self.send.una));
        }
    }

    /// The application announces whether it will write more data.
    pub(crate) fn expect_more(&mut self, more: bool) {
        let ended = self.writer.more_expected && !more;
        self.writer.more_expected = more && !self.teardown.closing;
        if ended {
            self.policy.triggers.insert(Trigger::AppDrained);
        }
    }

    /// The application declares that a message ends after `bytes` more bytes than it has written so far. An end
    /// that is not beyond the last declared one is ignored.
    pub(crate) fn message_ends_after(&mut self, bytes: u64) {
        if !self.scheduling.sees_all {
            return;
        }
        let (end, sent_to) = (self.send.written + bytes, self.send.nxt);
        let ends = &mut self.writer.message_ends;
        while ends.front().is_some_and(|e| *e <= sent_to) {
            ends.pop_front();
        }
        if end > sent_to && ends.back().is_none_or(|e| *e < end) {
            ends.push_back(end);
        }
    }

    /// Bytes from the next offset to be sent to the end of its message, if that is known.
    pub(super) fn message_left(&self) -> Option<u64> {
        let mut ends = self.writer.message_ends.iter();
        let end = ends.find(|e| **e > self.send.nxt)?;
        Some(*end - self.send.nxt)
    }

    /// The writer whose write did not fit completely has given up on the rest.
    pub(crate) fn forget_blocked_writer(&mut self) {
        self.writer.blocked = false;
    }

    /// Bytes that the send buffer can accept now.
    pub(crate) fn writable(&self) -> usize {
        if self.teardown.closing || self.teardown.closed.is_some() {
            return 0;
        }
        self.send_room() as usize
    }

    /// Returns the next in-order bytes, at most `max`.
    pub(crate) fn read(&mut self, now: Instant, max: usize) -> Option<Payload> {
        let piece = self.recv.read(max)?;
        self.memory.moved(now);
        let mss = self.subflows.first().map_or(1460, |s| s.tx.mss);
        self.tune_receive_buffer(now, piece.len() as u64, mss);
        if self.recv.update_due(mss) {
            self.window_update_due = true;
        }
        Some(piece)
    }

    /// Whether a window update is due because the window has opened.
    pub(crate) fn has_window_update(&self) -> bool {
        self.window_update_due
    }

    /// Bytes waiting to be read.
    pub(crate) fn readable(&self) -> u64 {
        self.recv.readable()
    }

    /// Whether the peer has closed its sending side and everything has been read.
    pub(crate) fn at_end(&self) -> bool {
        self.teardown.peer_closed && self.recv.readable() == 0
    }
}
