//! Buffers that start small and grow with the capacity of the paths.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use spindle_mptcp::{Config, Event, Handle, Stack, StackConfig, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Payload, Segment};
use support::endpoint;
use support::networks::try_all;
use support::scenario::scenario;

/// Number of random networks.
const NETWORKS: u32 = 100;
/// Each of the two paths: bits per second, one-way delay, bytes of queue.
const RATE: u64 = 300_000_000;
const DELAY: Duration = Duration::from_millis(25);
const QUEUE: u64 = 5_400_000;

/// Two stacks over paths of limited rate, one for each local port of the client.
struct Wire {
    now: Instant,
    stacks: [Stack; 2],
    /// When each path's transmitter is free, for each direction.
    free: HashMap<(usize, u16), Instant>,
    flying: BinaryHeap<Reverse<(Instant, u64)>>,
    segments: HashMap<u64, (usize, Segment)>,
    serial: u64,
    /// Number of segments dropped because a queue was full.
    dropped: u64,
}

impl Wire {
    fn new() -> Self {
        let stack = |seed| Stack::deterministic(StackConfig::default(), seed);
        Self {
            now: Instant::from_nanos(1_000_000_000),
            stacks: [stack(1), stack(2)],
            free: HashMap::new(),
            flying: BinaryHeap::new(),
            segments: HashMap::new(),
            serial: 0,
            dropped: 0,
        }
    }

    fn launch(&mut self, side: usize, seg: Segment) {
        let port = if side == 0 {
            seg.src.port
        } else {
            seg.dst.port
        };
        let free = self.free.entry((side, port)).or_insert(self.now);
        let waits = free.since(self.now).as_nanos() as u128 * u128::from(RATE) / 8_000_000_000;
        if waits > u128::from(QUEUE) {
            self.dropped += 1;
            return;
        }
        let takes = Duration::from_nanos(seg.wire_len() as u64 * 8_000_000_000 / RATE);
        *free = (*free).max(self.now) + takes;
        self.serial += 1;
        self.flying.push(Reverse((*free + DELAY, self.serial)));
        self.segments.insert(self.serial, (1 - side, seg));
    }

    fn pump(&mut self) {
        for side in 0..2 {
            while let Some(packet) = self.stacks[side].transmit(self.now) {
                let seg = packet.into_tcp().expect("no coding");
                seg.pieces().for_each(|s| self.launch(side, s));
            }
        }
    }

    /// Runs to the next event. Returns false if there is none until `until`.
    fn step(&mut self, until: Instant) -> bool {
        self.pump();
        let arrival = self.flying.peek().map(|Reverse((t, _))| *t);
        let timer = self.stacks.iter().filter_map(Stack::next_timeout).min();
        let Some(next) = [arrival, timer].into_iter().flatten().min() else {
            return false;
        };
        if next > until {
            return false;
        }
        self.now = self.now.max(next);
        if arrival == Some(next)
            && let Some(Reverse((_, serial))) = self.flying.pop()
        {
            if let Some((side, seg)) = self.segments.remove(&serial) {
                self.stacks[side].receive(self.now, seg);
            }
        } else {
            self.stacks.iter_mut().for_each(|s| s.timeout(self.now));
        }
        true
    }
}

/// The result of a download.
struct Outcome {
    bytes: u64,
    /// Maximum number of bytes in the server's send buffer.
    buffered: u64,
}

/// The client reads what the server sends for `time`.
fn download(config: Config, time: Duration) -> Outcome {
    let mut wire = Wire::new();
    let config = Arc::new(config);
    wire.stacks[1]
        .listen(endpoint(2, 80), config.clone())
        .expect("free");
    let h = wire.stacks[0]
        .connect(wire.now, endpoint(1, 0), endpoint(2, 80), config)
        .expect("connects");
    let until = wire.now + time;
    let mut server: Option<Handle> = None;
    let mut outcome = Outcome {
        bytes: 0,
        buffered: 0,
    };
    while wire.step(until) {
        while let Some(event) = wire.stacks[1].poll_event() {
            if let Event::Accepted { handle, .. } = event {
                server = Some(handle);
            }
        }
        while let Ok(Some(p)) = wire.stacks[0].recv(wire.now, h, 1 << 20) {
            outcome.bytes += p.len() as u64;
        }
        if let Some(s) = server {
            let _ = wire.stacks[1].send(wire.now, s, Payload::Length(1 << 20));
            let info = wire.stacks[1].info(s).expect("open");
            outcome.buffered = outcome.buffered.max(info.written - info.acknowledged);
        }
    }
    outcome
}

fn config(autotune: bool, buffers: usize) -> Config {
    let mut c = preset("mptcp-2").expect("a preset").config;
    c.congestion = Arc::new(spindle_mptcp::congestion::Cubic);
    c.tcp.mss = 8960;
    c.tcp.burst = 64_000;
    c.tcp.autotune = autotune;
    c.tcp.send_buffer = buffers;
    c.tcp.receive_buffer = buffers;
    c
}

#[test]
fn autotuned_buffers_fill_two_long_fat_paths() {
    let time = Duration::from_millis(1500);
    // The number of bytes that both paths carry after the handshakes and a slow start of eight round trips.
    let most = 2 * RATE / 8 * 1400 / 1000;
    let grown = download(config(true, 32 << 20), time);
    assert!(
        grown.bytes * 10 >= most * 7,
        "{} bytes of {most} at most",
        grown.bytes
    );
    let fixed = download(config(false, 256 << 10), time);
    assert!(
        fixed.bytes * 4 < most,
        "small buffers fill the paths: {}",
        fixed.bytes
    );
}

#[test]
fn autotuned_buffers_start_small_and_grow_only_to_the_configured_size() {
    let limited = download(config(true, 1 << 20), Duration::from_millis(1500));
    assert!(limited.buffered <= 1 << 20);
    assert!(limited.buffered > 900 << 10, "{}", limited.buffered);
    // Less than two round trips, so the windows have not grown much.
    let early = download(config(true, 32 << 20), Duration::from_millis(120));
    assert!(early.buffered <= 1 << 20, "{}", early.buffered);
}

#[test]
fn every_byte_arrives_once_with_autotuning_pacing_and_bursts() {
    let drawn = (scenario(false), any::<[bool; 2]>(), 0u32..70_000);
    try_all(NETWORKS, [17; 32], &drawn, |(s, [pacing, large], burst)| {
        let mut run = s.prepare_with(true, |_, c| {
            c.tcp.autotune = true;
            c.tcp.pacing = pacing;
            c.tcp.burst = burst;
            if large {
                c.tcp.send_buffer = c.tcp.send_buffer.max(1 << 20);
                c.tcp.receive_buffer = c.tcp.receive_buffer.max(1 << 20);
            }
        });
        s.finish(&mut run);
    });
}
