//! A block of 20 packets of 1460 bytes: the cost of its parities and of the repair of its losses, for each
//! kernel, compared with copying the same bytes.
//!
//! Target: XOR below 1 us, two parities below 2 us per block in each direction. To compare times across
//! machines, use their ratios to `memcpy`, which are printed at the end.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spindle_codes::{Body, ErasureCode, Kernel, Parity, ReedSolomon, Shape, Source, Symbol};

/// Packets in a block.
const PACKETS: usize = 20;
/// Bytes in a packet: a full segment without options on an MTU of 1500.
const LEN: usize = 1460;
/// The losses to repair. They are spread out, so that their positions give no advantage.
const LOST: [usize; 2] = [3, 14];

fn packets() -> Vec<Vec<u8>> {
    let byte = |i: usize, j: usize| (i * 31 + j * 7 + j * j / 97) as u8;
    (0..PACKETS)
        .map(|i| (0..LEN).map(|j| byte(i, j)).collect())
        .collect()
}

fn sources(packets: &[Vec<u8>]) -> Vec<Source<'_>> {
    let start = |i: usize| (i * LEN) as u32;
    packets
        .iter()
        .enumerate()
        .map(|(i, packet)| Source {
            dsn: start(i),
            body: Body::Bytes(packet),
        })
        .collect()
}

/// The parities of a block, one row at a time.
fn encode(code: &ReedSolomon, shape: Shape, sources: &[Source<'_>]) -> Vec<Symbol> {
    (0..shape.parities)
        .map(|row| code.encode(shape, row, sources).expect("a block"))
        .collect()
}

/// A block that has lost as many packets as it has parities.
struct Received<'a> {
    sources: Vec<Option<Source<'a>>>,
    parities: Vec<Parity<'a>>,
}

impl<'a> Received<'a> {
    fn new(sources: &[Source<'a>], parities: &'a [Symbol]) -> Self {
        let mut sources: Vec<_> = sources.iter().copied().map(Some).collect();
        for lost in LOST.iter().take(parities.len()) {
            sources[*lost] = None;
        }
        let parities = parities.iter().enumerate().map(|(i, p)| p.as_parity(i));
        Self {
            sources,
            parities: parities.collect(),
        }
    }
}

fn copy(packets: &[Vec<u8>], out: &mut [u8]) {
    for (packet, out) in packets.iter().zip(out.chunks_exact_mut(LEN)) {
        out.copy_from_slice(black_box(packet));
    }
    black_box(out);
}

fn blocks(c: &mut Criterion) {
    let packets = packets();
    let sources = sources(&packets);
    let mut group = c.benchmark_group("block");
    group.throughput(Throughput::Bytes((PACKETS * LEN) as u64));
    let mut out = vec![0; PACKETS * LEN];
    group.bench_function("memcpy", |b| b.iter(|| copy(&packets, &mut out)));
    for kernel in Kernel::available() {
        let code = ReedSolomon::with_kernel(kernel);
        for parities in [1, 2] {
            let shape = Shape::new(PACKETS, parities);
            let name = |what| format!("{}/{what}-{parities}", kernel.name());
            group.bench_function(name("encode"), |b| {
                b.iter(|| encode(&code, shape, black_box(&sources)))
            });
            let made = encode(&code, shape, &sources);
            let received = Received::new(&sources, &made);
            group.bench_function(name("decode"), |b| {
                b.iter(|| code.decode(shape, black_box(&received.sources), &received.parities))
            });
        }
    }
    group.finish();
}

fn lengths(c: &mut Criterion) {
    let sources = vec![
        Source {
            dsn: 7,
            body: Body::Length(LEN as u32),
        };
        PACKETS
    ];
    let (code, shape) = (ReedSolomon::new(), Shape::new(PACKETS, 2));
    let made = encode(&code, shape, &sources);
    let received = Received::new(&sources, &made);
    let mut group = c.benchmark_group("lengths");
    group.bench_function("encode-2", |b| {
        b.iter(|| encode(&code, shape, black_box(&sources)))
    });
    group.bench_function("decode-2", |b| {
        b.iter(|| code.decode(shape, black_box(&received.sources), &received.parities))
    });
    group.finish();
}

/// Nanoseconds per call in the fastest of many short runs, which other load on the machine disturbs least.
fn fastest(mut run: impl FnMut()) -> f64 {
    const CALLS: u32 = 20;
    let mut best = Duration::MAX;
    for _ in 0..5000 {
        let start = Instant::now();
        for _ in 0..CALLS {
            run();
        }
        best = best.min(start.elapsed());
    }
    best.as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// The same measurements as ratios to `memcpy`.
fn ratios(_: &mut Criterion) {
    let packets = packets();
    let sources = sources(&packets);
    let mut out = vec![0; PACKETS * LEN];
    let copied = fastest(|| copy(&packets, &mut out));
    println!("fastest of many; memcpy of the block: {copied:.0} ns");
    for kernel in Kernel::available() {
        let code = ReedSolomon::with_kernel(kernel);
        for parities in [1, 2] {
            let shape = Shape::new(PACKETS, parities);
            let made = encode(&code, shape, &sources);
            let received = Received::new(&sources, &made);
            let to = fastest(|| {
                black_box(encode(&code, shape, black_box(&sources)));
            });
            let from = fastest(|| {
                black_box(code.decode(shape, black_box(&received.sources), &received.parities))
                    .ok();
            });
            println!(
                "{:6} {parities} parities: encode {to:5.0} ns ({:.2} memcpy), decode {from:5.0} ns ({:.2} memcpy)",
                kernel.name(),
                to / copied,
                from / copied
            );
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50);
    targets = blocks, lengths, ratios
}
criterion_main!(benches);
