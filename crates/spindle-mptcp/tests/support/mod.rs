//! Two stacks and a network between them that loses, delays, reorders and duplicates; all of it
//! from one seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_mptcp::{Event, Stack, StackConfig};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Segment};

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// One path; a segment's path is drawn from its ports, as ECMP would.
#[derive(Clone, Debug)]
pub struct Path {
    pub delay: Duration,
    pub jitter: Duration,
    pub loss: f64,
    pub duplicate: f64,
    /// Times at which it goes down and up again, in turn.
    pub flips: Vec<Instant>,
}

impl Path {
    pub fn clean(delay: Duration) -> Self {
        Self { delay, jitter: Duration::ZERO, loss: 0.0, duplicate: 0.0, flips: Vec::new() }
    }

    fn is_up(&self, now: Instant) -> bool {
        self.flips.iter().filter(|t| **t <= now).count() % 2 == 0
    }
}

/// What a hook may decide about a segment on its way.
pub type Hook = Box<dyn FnMut(Instant, usize, &mut Segment) -> bool>;

pub struct Net {
    pub now: Instant,
    pub stacks: [Stack; 2],
    pub paths: Vec<Path>,
    pub events: Vec<(Instant, usize, Event)>,
    /// Everything put on the wire: time, sender, segment, whether it will arrive.
    pub log: Vec<(Instant, usize, Segment, bool)>,
    pub keep_log: bool,
    pub hook: Option<Hook>,
    flying: BinaryHeap<Reverse<(Instant, u64)>>,
    segments: std::collections::HashMap<u64, (usize, Segment)>,
    serial: u64,
    steps: u64,
    rng: Xoshiro256PlusPlus,
}

pub fn endpoint(last: u8, port: u16) -> Endpoint {
    Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port)
}

impl Net {
    pub fn new(seed: u64, paths: Vec<Path>) -> Self {
        let stack = |k: u64| Stack::new(StackConfig { seed: seed * 2 + k, ..StackConfig::default() });
        Self {
            now: Instant::from_nanos(1_000_000_000),
            stacks: [stack(0), stack(1)],
            paths,
            events: Vec::new(),
            log: Vec::new(),
            keep_log: false,
            hook: None,
            flying: BinaryHeap::new(),
            segments: std::collections::HashMap::new(),
            serial: 0,
            steps: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    fn chance(&mut self, p: f64) -> bool {
        ((self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64) < p
    }

    fn path_of(&self, seg: &Segment) -> usize {
        let (a, b) = (seg.src.port.min(seg.dst.port), seg.src.port.max(seg.dst.port));
        let mut h = u64::from(a) << 16 | u64::from(b);
        h = (h ^ (h >> 13)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((h >> 40) as usize) % self.paths.len()
    }

    /// Lets both stacks send what they want to.
    pub fn pump(&mut self) {
        for side in [CLIENT, SERVER] {
            while let Some(seg) = self.stacks[side].transmit(self.now) {
                self.launch(side, seg);
            }
            while let Some(event) = self.stacks[side].poll_event() {
                self.events.push((self.now, side, event));
            }
        }
    }

    fn launch(&mut self, side: usize, mut seg: Segment) {
        let path = self.paths[self.path_of(&seg)].clone();
        let lost = self.chance(path.loss);
        let doubled = self.chance(path.duplicate);
        let pass = self.hook.as_mut().is_none_or(|h| h(self.now, side, &mut seg));
        let arrives = pass && !lost && path.is_up(self.now);
        if self.keep_log {
            self.log.push((self.now, side, seg.clone(), arrives));
        }
        if !arrives {
            return;
        }
        for _ in 0..1 + usize::from(doubled) {
            let jitter = if path.jitter.is_zero() { 0 } else { self.rng.next_u64() % path.jitter.as_nanos() };
            let at = self.now + path.delay + Duration::from_nanos(jitter);
            self.serial += 1;
            self.flying.push(Reverse((at, self.serial)));
            self.segments.insert(self.serial, (1 - side, seg.clone()));
        }
    }

    /// Runs to the next happening; false if there is none before `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        self.pump();
        let arrival = self.flying.peek().map(|Reverse((t, _))| *t);
        let timer = self.stacks.iter().filter_map(Stack::next_timeout).min();
        let Some(next) = [arrival, timer].into_iter().flatten().min() else { return false };
        if next > until {
            self.now = until;
            return false;
        }
        self.steps += 1;
        if self.steps >= 400_000 { for s in &self.stacks { for h in s.handles() { eprintln!("{:#?}", s.info(h)); } } panic!("no end in sight at {:?}: timer {timer:?}, arrival {arrival:?}", self.now); }
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let Some(Reverse((_, serial))) = self.flying.pop() else { return false };
            if let Some((side, seg)) = self.segments.remove(&serial) {
                self.stacks[side].receive(self.now, seg);
            }
        } else {
            for s in &mut self.stacks {
                s.timeout(self.now);
            }
        }
        self.pump();
        true
    }
}
