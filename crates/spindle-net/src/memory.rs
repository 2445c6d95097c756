//! Links in memory. They join two networks of one process by queues, or join a network to a thread that handles
//! its packets as it likes, such as a simulated fabric in real time.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polling::Poller;
use spindle_units::Instant;
use spindle_wire::Packet;

use crate::link::{Arrival, Link, LinkCounters};

/// Most packets given to the stack in one call.
const RECEIVE_BATCH: usize = 256;
/// MSS of a link in memory unless another is set: that of Ethernet with IPv4 (RFC 879).
const DEFAULT_MSS: u32 = 1460;

type Waker = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Waiting {
    packets: VecDeque<Packet>,
    waker: Option<Waker>,
    dropped: u64,
}

/// One direction: a bounded drop-tail queue, and the waker to call when the empty queue gets packets.
struct Wire {
    waiting: Mutex<Waiting>,
    capacity: usize,
}

impl Wire {
    fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::default(),
            capacity: capacity.max(1),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the packets that fit. Returns how many were dropped.
    fn push(&self, packets: impl Iterator<Item = Packet>) -> u64 {
        let mut w = self.lock();
        let was_empty = w.packets.is_empty();
        let mut dropped = 0;
        for packet in packets {
            if w.packets.len() < self.capacity {
                w.packets.push_back(packet);
            } else {
                dropped += 1;
            }
        }
        w.dropped += dropped;
        let waker = if was_empty && !w.packets.is_empty() {
            w.waker.clone()
        } else {
            None
        };
        drop(w);
        if let Some(wake) = waker {
            wake();
        }
        dropped
    }

    fn pop(&self) -> Option<Packet> {
        self.lock().packets.pop_front()
    }

    fn set_waker(&self, waker: Waker) {
        let mut w = self.lock();
        w.waker = Some(waker.clone());
        let waits = !w.packets.is_empty();
        drop(w);
        if waits {
            waker();
        }
    }
}

/// A link whose other end is in this process.
pub struct MemoryLink {
    incoming: Arc<Wire>,
    outgoing: Arc<Wire>,
    kept: Vec<Packet>,
    mss: u32,
    counters: LinkCounters,
}

/// The other end of a [`MemoryLink`], for a thread that is not a network. Several threads may use it.
pub struct MemoryPort {
    to_link: Arc<Wire>,
    from_link: Arc<Wire>,
}

/// Two links joined by queues of at most `capacity` packets in each direction. Further packets are dropped.
pub fn pair(capacity: usize) -> (MemoryLink, MemoryLink) {
    let (a, b) = (Wire::new(capacity), Wire::new(capacity));
    (MemoryLink::new(a.clone(), b.clone()), MemoryLink::new(b, a))
}

/// A link and its other end, with queues of at most `capacity` packets in each direction.
pub fn port(capacity: usize) -> (MemoryLink, MemoryPort) {
    let (to_link, from_link) = (Wire::new(capacity), Wire::new(capacity));
    let link = MemoryLink::new(to_link.clone(), from_link.clone());
    (link, MemoryPort { to_link, from_link })
}

impl MemoryLink {
    fn new(incoming: Arc<Wire>, outgoing: Arc<Wire>) -> Self {
        Self {
            incoming,
            outgoing,
            kept: Vec::new(),
            mss: DEFAULT_MSS,
            counters: LinkCounters::default(),
        }
    }

    /// Returns the link with another MSS.
    #[must_use]
    pub fn with_mss(mut self, mss: u32) -> Self {
        self.mss = mss;
        self
    }
}

impl MemoryPort {
    /// Gives a packet to the network. Returns false if the queue was full and the packet was dropped.
    pub fn send(&self, packet: Packet) -> bool {
        self.to_link.push(std::iter::once(packet)) == 0
    }

    /// Gives several packets to the network with one wake-up. Returns how many were dropped.
    pub fn send_all(&self, packets: impl Iterator<Item = Packet>) -> u64 {
        self.to_link.push(packets)
    }

    /// The next packet that the network has sent, if there is one.
    pub fn recv(&self) -> Option<Packet> {
        self.from_link.pop()
    }

    /// Sets the function `wake`, which the network's thread calls whenever packets enter an empty queue. If
    /// packets are waiting already, `wake` is called at once. It must not block.
    pub fn on_packets(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.from_link.set_waker(Arc::new(wake));
    }

    /// Whether the network's end still exists.
    pub fn is_connected(&self) -> bool {
        Arc::strong_count(&self.to_link) > 1
    }

    /// Packets sent by the network that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.from_link.lock().dropped
    }
}

impl Link for MemoryLink {
    fn register(&mut self, poller: &Arc<Poller>) -> io::Result<()> {
        let poller = poller.clone();
        self.incoming.set_waker(Arc::new(move || {
            // This fails only if the eventfd no longer exists. The data path ends then.
            let _ = poller.notify();
        }));
        Ok(())
    }

    fn unpolled(&self) -> bool {
        true
    }

    fn receive(
        &mut self,
        _now: Instant,
        _key: usize,
        sink: &mut dyn FnMut(Arrival),
    ) -> io::Result<bool> {
        for _ in 0..RECEIVE_BATCH {
            let Some(packet) = self.incoming.pop() else {
                return Ok(false);
            };
            self.counters.packets_in += 1;
            self.counters.bytes_in += packet.wire_len() as u64;
            sink(Arrival::Packet(packet));
        }
        Ok(true)
    }

    fn send(&mut self, _now: Instant, packet: Packet) {
        packet.for_each_piece(|piece| {
            self.counters.packets_out += 1;
            self.counters.bytes_out += piece.wire_len() as u64;
            self.kept.push(piece);
        });
    }

    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        if !self.kept.is_empty() {
            self.counters.dropped_out += self.outgoing.push(self.kept.drain(..));
        }
        Ok(())
    }

    fn mss(&self) -> u32 {
        self.mss
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}
