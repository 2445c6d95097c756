//! The cost of the core alone: two stacks back to back, with real bytes, and without a network or a codec.
//!
//! Throughput is in payload bytes per second of both ends together on one core. A segment of 1448 bytes takes
//! 1448 / throughput.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration as Wall;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use spindle_mptcp::{Event, Handle, Stack, StackConfig, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Payload};

/// Bytes moved in one iteration.
const BYTES: usize = 16 << 20;
/// Bytes that the application writes at a time.
const WRITE: usize = 256 << 10;
/// Segments delivered before the other end has its turn, like a batch of a data path.
const BATCH: usize = 64;

/// A connected server and client.
struct Pair {
    server: Stack,
    client: Stack,
    sender: Handle,
    receiver: Handle,
    now: Instant,
    chunk: Bytes,
}

impl Pair {
    fn new(name: &str, burst: u32) -> Self {
        let mut config = preset(name).expect("a preset").config;
        config.tcp.burst = burst;
        config.tcp.delayed_ack = Some(Duration::from_millis(40));
        let config = Arc::new(config);
        let end = |last, port| Endpoint::new([10, 0, 0, last].into(), port);
        let stack = |seed| Stack::deterministic(StackConfig::default(), seed);
        let (mut server, mut client) = (stack(1), stack(2));
        let now = Instant::from_nanos(1_000_000_000);
        server.listen(end(2, 80), config.clone()).expect("free");
        let receiver = client
            .connect(now, end(1, 0), end(2, 80), config)
            .expect("connects");
        let mut pair = Self {
            sender: receiver,
            server,
            client,
            receiver,
            now,
            chunk: Bytes::from(vec![7; WRITE]),
        };
        for _ in 0..100 {
            pair.exchange();
            while let Some(event) = pair.server.poll_event() {
                if let Event::Accepted { handle, .. } = event {
                    pair.sender = handle;
                }
            }
        }
        let subflows = pair.server.info(pair.sender).expect("accepted").subflows;
        assert!(!subflows.is_empty());
        pair
    }

    /// Delivers one batch in each direction.
    fn exchange(&mut self) {
        self.now += Duration::from_micros(20);
        for _ in 0..BATCH {
            let Some(seg) = self.server.transmit(self.now) else {
                break;
            };
            self.client.receive(self.now, seg);
        }
        for _ in 0..BATCH {
            let Some(seg) = self.client.transmit(self.now) else {
                break;
            };
            self.server.receive(self.now, seg);
        }
    }

    /// Transfers this many bytes from the server's application to the client's.
    fn transfer(&mut self, bytes: usize) {
        let mut got = 0;
        while got < bytes {
            let room = self.server.writable(self.sender);
            if room >= WRITE {
                let data = Payload::Bytes(self.chunk.clone());
                let _ = self.server.send(self.now, self.sender, data);
            }
            self.exchange();
            while let Ok(Some(p)) = self.client.recv(self.now, self.receiver, usize::MAX) {
                got += black_box(p).len();
            }
            while self.server.poll_event().is_some() {}
            while self.client.poll_event().is_some() {}
        }
    }
}

fn core(c: &mut Criterion) {
    let mut group = c.benchmark_group("core");
    group
        .throughput(Throughput::Bytes(BYTES as u64))
        .sample_size(20)
        .measurement_time(Wall::from_secs(3));
    for name in ["tcp", "rack", "mptcp-2", "fuso"] {
        for burst in [0, 65_000] {
            let mut pair = Pair::new(name, burst);
            pair.transfer(BYTES);
            let id = BenchmarkId::new(name, format!("burst {burst}"));
            group.bench_function(id, |b| b.iter(|| pair.transfer(BYTES)));
        }
    }
    group.finish();
}

criterion_group!(benches, core);
criterion_main!(benches);
