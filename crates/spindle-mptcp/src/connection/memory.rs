//! What a connection stores, what it moves, and what it does while the stack's memory is short.

use spindle_units::{Duration, Instant};

use super::{Connection, Happening, autotune};

/// What a stored piece or mapping costs in addition to its payload: an entry of a tree or list with its
/// share of the node, measured at 40 to 70 bytes.
pub(crate) const PIECE_COST: u64 = 64;

/// Bytes of the send buffer while all memory is in use: some segments, so that who takes them goes on.
const EXHAUSTED_SEND: u64 = 16 << 10;

/// How short the stack's memory is, as far as a connection is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// It is not.
    #[default]
    None,
    /// No window is opened further, nothing is stored out of order, and the send buffer takes no more than
    /// what keeps data moving.
    Short,
    /// In addition, connections that store data already get no more memory for data, and the send buffer takes some
    /// segments only.
    Exhausted,
}

/// The connection's share in the stack's memory.
#[derive(Debug)]
pub(super) struct Memory {
    pressure: Pressure,
    /// Bytes held for it outside the stack, as the driver said last.
    outside: u64,
    /// Bytes that the driver holds for it as long as it lives.
    overhead: u64,
    /// When bytes were last acknowledged at the data level, arrived, or were read by the application; or when
    /// it began to hold any.
    moved_at: Instant,
    /// Since when it has not moved an eighth of what it holds, and the bytes moved by then; only while memory
    /// is short.
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

    /// Bytes moved, whichever way.
    #[inline]
    pub(super) fn moved(&mut self, now: Instant) {
        self.moved_at = now;
    }
}

impl Connection {
    /// What it stores for both applications and the wire: payload, [`PIECE_COST`] for each piece of it and each
    /// mapping, and what the books of segments outstanding take.
    pub(crate) fn buffered(&mut self) -> u64 {
        let (mut bytes, mut pieces) = self.recv.stored();
        let held = self.subflows.sums().stored;
        (bytes, pieces) = (bytes + held.0, pieces + held.1);
        if self.parities.are_agreed() || self.coded.agreed {
            let more = self.stored_for_coding();
            (bytes, pieces) = (bytes + more.0, pieces + more.1);
        }
        pieces += self.send.pieces();
        bytes + self.send.buffered() + PIECE_COST * pieces as u64
    }

    /// What parities and stages keep: bytes, and in how many pieces.
    #[inline(never)]
    fn stored_for_coding(&mut self) -> (u64, usize) {
        self.forget_acked_parities();
        let (a, b) = (self.parities.stored(), self.stored_by_stages());
        (a.0 + b.0, a.1 + b.1)
    }

    /// Bytes that the driver holds for this connection outside the stack.
    pub(crate) fn outside(&self) -> u64 {
        self.memory.outside
    }

    /// The driver says what it holds for this connection.
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

    /// The driver says what these are; returns what they were.
    pub(crate) fn set_overhead(&mut self, bytes: u64) -> u64 {
        std::mem::replace(&mut self.memory.overhead, bytes)
    }

    /// How short memory is from now on.
    pub(crate) fn set_pressure(&mut self, pressure: Pressure) {
        let full = self.writable() == 0;
        self.memory.pressure = pressure;
        let short = pressure > Pressure::None;
        if short {
            self.parities.shed();
            self.shed_stages();
        } else {
            self.memory.mark = None;
        }
        if self.recv.set_pressed(short) {
            self.window_update_due |= self.connected;
        }
        if full && self.writable() > 0 {
            self.tell(Happening::Writable);
        }
    }

    /// How short memory is.
    pub(crate) fn pressure(&self) -> Pressure {
        self.memory.pressure
    }

    /// Whether data that arrive are to be dropped, even those that are next in order. The peer sends them again;
    /// a connection whose application keeps up stores nothing, and goes on.
    #[inline]
    pub(super) fn refuses_data(&self) -> bool {
        self.memory.pressure == Pressure::Exhausted
            && (self.recv.stored().1 > 0 || self.memory.outside > 0)
    }

    /// Whether the peer's window lets nothing out, although everything it let out before has arrived.
    #[inline]
    pub(crate) fn window_is_shut(&self) -> bool {
        self.connected && self.send.right_edge <= self.send.una
    }

    /// Bytes the send buffer takes now. For a peer that takes nothing, and while memory is short, a growing
    /// buffer is as small as it was at first.
    pub(super) fn send_room(&self) -> u64 {
        if self.memory.pressure == Pressure::Exhausted {
            // What is stored has to leave first.
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
    pub(super) fn move_right_edge(&mut self, edge: u64) {
        if edge > self.send.right_edge {
            self.shut_since = None;
        }
        // The send buffer grows only with a window that was shut (`send_room`).
        if self.window_is_shut() {
            self.move_edge_of_shut_window(edge);
        }
        self.send.right_edge = edge;
    }

    #[cold]
    fn move_edge_of_shut_window(&mut self, edge: u64) {
        let full = self.writable() == 0;
        self.send.right_edge = edge;
        if full && self.writable() > 0 {
            self.tell(Happening::Writable);
        }
    }

    /// For how long nothing has moved, or less than an eighth of the `held` bytes since it was first asked under this
    /// pressure: a peer that takes a byte now and then makes no progress.
    pub(crate) fn stalled_for(&mut self, now: Instant, held: u64) -> Duration {
        let moved = self.send.una + self.recv.next() - self.recv.readable();
        let mark = self.memory.mark.get_or_insert((now, moved));
        if moved - mark.1 > held / 8 {
            *mark = (now, moved);
        }
        now.since(self.memory.moved_at).max(now.since(mark.0))
    }
}
