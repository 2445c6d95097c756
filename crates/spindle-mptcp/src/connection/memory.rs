//! Memory of a connection: the data that it stores, their progress, and its behaviour while the stack's memory
//! is short.

use spindle_units::{Duration, Instant};

use super::{Connection, ConnectionEvent, autotune};
use crate::types::DataOffset;

/// Bytes that a stored piece or mapping takes in addition to its payload: an entry of a tree or list with its
/// share of the node, measured at 40 to 70 bytes.
pub(crate) const PIECE_COST: u64 = 64;

/// Bytes of the send buffer while all memory is in use: a few segments, so that a peer that accepts them makes
/// progress.
const EXHAUSTED_SEND: u64 = 16 << 10;

/// How short the stack's memory is, as far as a connection is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Memory is not short.
    #[default]
    None,
    /// Windows are not opened further, no data are stored out of order, and the send buffer accepts only as
    /// much as keeps data moving.
    Short,
    /// In addition, connections that already store data get no more memory for data, and the send buffer
    /// accepts only a few segments.
    Exhausted,
}

/// The connection's share in the stack's memory.
#[derive(Debug)]
pub(super) struct Memory {
    pressure: Pressure,
    /// Bytes held for the connection outside the stack, as the driver last reported.
    outside: u64,
    /// Bytes that the driver holds for the connection as long as it lives.
    overhead: u64,
    /// When bytes were last acknowledged at the data level, arrived, or were read by the application, or when
    /// the connection began to hold bytes.
    moved_at: Instant,
    /// Since when the connection has not moved an eighth of the bytes that it holds, and the total of bytes
    /// moved by then. Set only while memory is short.
    mark: Option<(Instant, u64)>,
}

impl Memory {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            pressure: Pressure::None,
            outside: 0,
            overhead: 0,
            moved_at: now,
            mark: None,
        }
    }

    /// Bytes have moved, in either direction.
    #[inline]
    pub(super) fn moved(&mut self, now: Instant) {
        self.moved_at = now;
    }
}

impl Connection {
    /// Bytes that the connection stores, for the applications of both ends and for transmission: payload,
    /// [`PIECE_COST`] for each piece and mapping, and the bookkeeping of outstanding segments.
    pub(crate) fn buffered(&mut self) -> u64 {
        let (mut bytes, mut pieces) = self.recv.stored();
        let held = self.subflows.sums().stored;
        (bytes, pieces) = (bytes + held.0, pieces + held.1);
        if self.extensions.parities.are_agreed() || self.extensions.coded.agreed {
            let more = self.stored_for_coding();
            (bytes, pieces) = (bytes + more.0, pieces + more.1);
        }
        pieces += self.send.pieces();
        bytes + self.send.buffered() + PIECE_COST * pieces as u64
    }

    /// Bytes and number of pieces that parities and stages store.
    #[inline(never)] // only with coding or parities
    fn stored_for_coding(&mut self) -> (u64, usize) {
        self.forget_acked_parities();
        let (a, b) = (self.extensions.parities.stored(), self.stored_by_stages());
        (a.0 + b.0, a.1 + b.1)
    }

    /// Bytes that the driver holds for this connection outside the stack.
    pub(crate) fn outside(&self) -> u64 {
        self.memory.outside
    }

    /// The driver reports how many bytes it holds for this connection.
    pub(crate) fn set_outside(&mut self, now: Instant, bytes: u64) {
        if self.memory.outside == 0 && bytes > 0 {
            self.memory.moved(now);
        }
        self.memory.outside = bytes;
    }

    /// Bytes that the driver holds for this connection as long as it lives.
    pub(crate) fn overhead(&self) -> u64 {
        self.memory.overhead
    }

    /// The driver reports the value of [`Self::overhead`]. Returns the previous value.
    pub(crate) fn set_overhead(&mut self, bytes: u64) -> u64 {
        std::mem::replace(&mut self.memory.overhead, bytes)
    }

    /// Sets how short memory is.
    pub(crate) fn set_pressure(&mut self, pressure: Pressure) {
        let full = self.writable() == 0;
        self.memory.pressure = pressure;
        let short = pressure > Pressure::None;
        if short {
            self.extensions.parities.shed();
            self.shed_stages();
        } else {
            self.memory.mark = None;
        }
        if self.recv.set_pressed(short) {
            self.window_update_due |= self.connected;
        }
        if full && self.writable() > 0 {
            self.outbox.push_event(ConnectionEvent::Writable);
        }
    }

    /// How short memory is.
    pub(crate) fn pressure(&self) -> Pressure {
        self.memory.pressure
    }

    /// Whether arriving data must be dropped, even the next in-order data. The peer retransmits them. A
    /// connection whose application keeps up stores nothing and continues.
    #[inline]
    pub(super) fn refuses_data(&self) -> bool {
        self.memory.pressure == Pressure::Exhausted
            && (self.recv.stored().1 > 0 || self.memory.outside > 0)
    }

    /// Whether the peer's window is closed: it allows no data beyond those that are already acknowledged.
    #[inline]
    pub(crate) fn window_is_shut(&self) -> bool {
        self.connected && self.send.right_edge <= self.send.una
    }

    /// Bytes that the send buffer can accept now. The buffer is limited to the initial size of growing buffers
    /// while memory is short. A growing buffer has this limit also while the peer's window is closed.
    pub(super) fn send_room(&self) -> u64 {
        if self.memory.pressure == Pressure::Exhausted {
            // Stored data must be acknowledged first.
            return EXHAUSTED_SEND.saturating_sub(self.send.buffered());
        }
        let shut = self.config.tcp.autotune && self.window_is_shut();
        let most = match shut || self.memory.pressure > Pressure::None {
            true => self.buffers.send().min(autotune::FIRST_SEND),
            false => self.buffers.send(),
        };
        most.saturating_sub(self.send.buffered())
    }

    /// The peer's window now ends at this offset.
    #[inline]
    pub(super) fn move_right_edge(&mut self, edge: DataOffset) {
        if edge > self.send.right_edge {
            self.timers.shut_since = None;
        }
        // A new edge makes room in the send buffer only if the window was closed (`send_room`).
        if self.window_is_shut() {
            self.move_edge_of_shut_window(edge);
        }
        self.send.right_edge = edge;
    }

    #[cold] // a closed window
    fn move_edge_of_shut_window(&mut self, edge: DataOffset) {
        let full = self.writable() == 0;
        self.send.right_edge = edge;
        if full && self.writable() > 0 {
            self.outbox.push_event(ConnectionEvent::Writable);
        }
    }

    /// For how long no byte has moved, or less than an eighth of the `held` bytes since the first call under
    /// this pressure. A peer that accepts a byte now and then makes no progress.
    pub(crate) fn stalled_for(&mut self, now: Instant, held: u64) -> Duration {
        let moved =
            self.send.una.since_start() + self.recv.next().since_start() - self.recv.readable();
        let mark = self.memory.mark.get_or_insert((now, moved));
        if moved - mark.1 > held / 8 {
            *mark = (now, moved);
        }
        now.since(self.memory.moved_at).max(now.since(mark.0))
    }
}
