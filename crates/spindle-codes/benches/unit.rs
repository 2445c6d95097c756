//! CAPS's coding units with packets of 1460 bytes: for each code, the cost of encoding the packets and of
//! decoding them from the symbols that are left.
//!
//! Target: encoding and decoding a unit of 16 packets together below 20 us with `Ldpc`. To compare times across
//! machines, use the time of `memcpy`, which is printed at the end.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spindle_codes::{
    Body, ErasureCode, Ideal, Ldpc, Parity, Recovered, ReedSolomon, Shape, Source, Symbol,
};

/// Bytes in a packet: a full segment without options on an MTU of 1500.
const LEN: usize = 1460;

/// The codes, and for each whether it sends the packets unchanged.
fn codes() -> [(Box<dyn ErasureCode>, bool); 4] {
    [
        (Box::new(Ldpc::systematic(Ldpc::SEED)), true),
        (Box::new(Ldpc::non_systematic(Ldpc::SEED)), false),
        (Box::new(ReedSolomon::new()), true),
        (Box::new(Ideal::new()), false),
    ]
}

fn packets(k: usize) -> Vec<Vec<u8>> {
    let byte = |i: usize, j: usize| (i * 31 + j * 7 + j * j / 97) as u8;
    (0..k)
        .map(|i| (0..LEN).map(|j| byte(i, j)).collect())
        .collect()
}

/// A unit's packets and its code.
struct Unit<'a> {
    code: &'a dyn ErasureCode,
    /// Whether the packets themselves are sent.
    systematic: bool,
    /// The number of symbols sent beyond k.
    redundant: usize,
    sources: Vec<Source<'a>>,
}

impl<'a> Unit<'a> {
    fn new(
        (code, systematic): &'a (Box<dyn ErasureCode>, bool),
        packets: &'a [Vec<u8>],
        redundant: usize,
    ) -> Self {
        let source = |(i, packet): (usize, &'a Vec<u8>)| Source {
            dsn: (i * LEN) as u32,
            body: Body::Bytes(packet),
        };
        Self {
            code: &**code,
            systematic: *systematic,
            redundant,
            sources: packets.iter().enumerate().map(source).collect(),
        }
    }

    fn shape(&self) -> Shape {
        let k = self.sources.len();
        Shape::new(k, self.redundant + if self.systematic { 0 } else { k })
    }

    fn encode(&self) -> Vec<Symbol> {
        let unit = self
            .code
            .encode_unit(self.shape(), black_box(&self.sources));
        unit.expect("a unit")
    }

    /// The symbols of a unit except every fourth, as long as it can be decoded; at most `redundant` symbols are
    /// missing.
    fn received<'b>(&self, made: &'b [Symbol]) -> Received<'b>
    where
        'a: 'b,
    {
        let k = self.sources.len();
        let mut tracker = self.code.tracker(self.shape()).expect("a unit");
        let mut received = Received {
            sources: vec![None; k],
            parities: Vec::new(),
        };
        let lost = |symbol: usize| symbol % 4 == 2 && symbol / 4 < self.redundant;
        for symbol in (0..k + self.redundant).filter(|s| !lost(*s)) {
            if self.systematic && symbol < k {
                tracker.add_source(symbol);
                received.sources[symbol] = Some(self.sources[symbol]);
            } else {
                let index = symbol - if self.systematic { k } else { 0 };
                if tracker.add_parity(index) {
                    received.parities.push(made[index].as_parity(index));
                }
            }
        }
        // If these do not suffice, lost symbols arrive late, the first ones first.
        for symbol in (0..k).filter(|s| lost(*s)) {
            if self.systematic && tracker.add_source(symbol) {
                received.sources[symbol] = Some(self.sources[symbol]);
            } else if !self.systematic && tracker.add_parity(symbol) {
                received.parities.push(made[symbol].as_parity(symbol));
            }
        }
        assert!(tracker.is_complete());
        received
    }

    fn decode(&self, received: &Received<'_>) -> Vec<Recovered> {
        let sources = black_box(&received.sources);
        let found = self.code.decode(self.shape(), sources, &received.parities);
        found.expect("enough")
    }
}

/// The symbols of a unit that are left.
struct Received<'a> {
    sources: Vec<Option<Source<'a>>>,
    parities: Vec<Parity<'a>>,
}

fn units(c: &mut Criterion) {
    let packets = packets(16);
    let mut group = c.benchmark_group("unit-16-4");
    group.throughput(Throughput::Bytes((16 * LEN) as u64));
    for code in &codes() {
        let unit = Unit::new(code, &packets, 4);
        let name = |what| format!("{}/{what}", unit.code.name());
        group.bench_function(name("encode"), |b| b.iter(|| unit.encode()));
        let made = unit.encode();
        let received = unit.received(&made);
        group.bench_function(name("decode"), |b| b.iter(|| unit.decode(&received)));
    }
    group.finish();
}

/// Nanoseconds per call in the fastest of many short runs, which other load on the machine disturbs least.
fn fastest(mut run: impl FnMut()) -> f64 {
    const CALLS: u32 = 4;
    let mut best = Duration::MAX;
    let end = Instant::now() + Duration::from_millis(150);
    while Instant::now() < end {
        let start = Instant::now();
        for _ in 0..CALLS {
            run();
        }
        best = best.min(start.elapsed());
    }
    best.as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// All sizes, measured by the fastest of many runs, in us.
fn sizes(_: &mut Criterion) {
    println!("  k  r  memcpy  code             encode  decode  together");
    for k in [4, 8, 16, 32, 64] {
        let packets = packets(k);
        let mut out = vec![0; k * LEN];
        let copied = fastest(|| {
            for (packet, out) in packets.iter().zip(out.chunks_exact_mut(LEN)) {
                out.copy_from_slice(black_box(packet));
            }
            black_box(&out);
        });
        for r in [(k / 8).max(1), k / 4] {
            for code in &codes() {
                let unit = Unit::new(code, &packets, r);
                let made = unit.encode();
                let received = unit.received(&made);
                let to = fastest(|| drop(black_box(unit.encode()))) / 1e3;
                let from = fastest(|| drop(black_box(unit.decode(&received)))) / 1e3;
                let (copied, both, name) = (copied / 1e3, to + from, unit.code.name());
                println!("{k:3} {r:2} {copied:7.2}  {name:15} {to:7.2} {from:7.2}  {both:8.2}");
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20);
    targets = units, sizes
}
criterion_main!(benches);
