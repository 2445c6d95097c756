//! A link that drops single packets of another link. Each direction has its own random stream.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polling::Poller;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_net::{Arrival, Link, LinkCounters};
use spindle_units::Instant;
use spindle_wire::{Flags, Packet};

/// Segments sent with an experimental option (RFC 6994).
#[derive(Debug, Default)]
pub(crate) struct Experiments {
    /// SYNs and SYN/ACKs.
    pub(crate) handshakes: AtomicU64,
    /// All other segments.
    pub(crate) beyond: AtomicU64,
}

pub(crate) struct Lossy<L> {
    link: L,
    rng: [Xoshiro256PlusPlus; 2],
    /// Of 2^32 packets, this many are lost.
    threshold: u32,
    pub(crate) experiments: Arc<Experiments>,
}

impl<L: Link> Lossy<L> {
    pub(crate) fn new(link: L, seed: u64, probability: f64) -> Self {
        Self {
            link,
            rng: [0, 1].map(|way| Xoshiro256PlusPlus::seed_from_u64(2 * seed + way)),
            threshold: (probability * f64::from(u32::MAX)) as u32,
            experiments: Arc::default(),
        }
    }
}

fn lost(rng: &mut Xoshiro256PlusPlus, threshold: u32) -> bool {
    rng.next_u32() < threshold
}

impl<L: Link> Link for Lossy<L> {
    fn register(&mut self, poller: &Arc<Poller>) -> io::Result<()> {
        self.link.register(poller)
    }

    fn receive(
        &mut self,
        now: Instant,
        key: usize,
        sink: &mut dyn FnMut(Arrival),
    ) -> io::Result<bool> {
        let (rng, threshold) = (&mut self.rng[0], self.threshold);
        self.link.receive(now, key, &mut |arrival| {
            if !lost(rng, threshold) {
                sink(arrival);
            }
        })
    }

    fn send(&mut self, now: Instant, packet: Packet) {
        if let Packet::Tcp(segment) = &packet
            && let Some(rare) = &segment.options.rare
            && !rare.experimental.is_empty()
        {
            let of = match segment.flags.contains(Flags::SYN) {
                true => &self.experiments.handshakes,
                false => &self.experiments.beyond,
            };
            of.fetch_add(1, Ordering::Relaxed);
        }
        packet.for_each_piece(|piece| {
            if !lost(&mut self.rng[1], self.threshold) {
                self.link.send(now, piece);
            }
        });
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.link.flush(now)
    }

    fn mss(&self) -> u32 {
        self.link.mss()
    }

    fn burst(&self) -> u32 {
        // Bursts are used even if the device would not accept them whole, since the tests need them.
        64_000
    }

    fn counters(&self) -> LinkCounters {
        self.link.counters()
    }
}
