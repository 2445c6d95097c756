//! Searches seeds for the download over two bursty paths with the longest stall.
//!
//! `cargo run --release -p spindle-mptcp --example longest_stall -- fuso-2 0 50000`: the arguments are a
//! transport, the first seed, and the number of seeds. Each seed makes two downloads of 10 MB, with the faster
//! path first and second. The five longest stalls are printed with their seeds whenever one of them changes.
//!
//! `longest_stall fuso-2 segments 47 [swapped]` prints every segment of one download.

#[path = "../tests/support/bursty.rs"]
mod bursty;

use std::process::ExitCode;

use bursty::{BurstyPath, FAST, Outcome, SLOW, download, gateway};
use spindle_units::Duration;
use spindle_wire::{DataNumber, SeqNumber};

/// Bytes of a download.
const SIZE: u64 = 10_000_000;
/// A download that takes longer than this has failed.
const LIMIT: Duration = Duration::from_secs(600);

fn paths(swapped: bool) -> [BurstyPath; 2] {
    if swapped { [SLOW, FAST] } else { [FAST, SLOW] }
}

/// Prints every segment of one download: when it was sent, by the server (S) or the client (C), on which path,
/// whether it was lost (x), its subflow-level sequence numbers, and its data-level numbers.
fn print_segments(name: &str, seed: u64, swapped: bool) {
    let mut begin: [[Option<[SeqNumber; 2]>; 2]; 2] = Default::default();
    let mut base = None;
    let o = download(
        &gateway(name),
        paths(swapped),
        seed,
        (SIZE, LIMIT),
        &mut |now, side, path, seg, arrives| {
            let [seq, ack] = *begin[side][path].get_or_insert([seg.seq, seg.ack]);
            let dss = seg.options.dss.unwrap_or_default();
            let dsn = dss.mapping.map(|m| m.dsn);
            let low = |n: Option<DataNumber>| match n {
                Some(DataNumber::Low(n)) => Some(n),
                Some(DataNumber::Full(n)) => Some(n as u32),
                None => None,
            };
            if side == 1 && base.is_none() {
                base = low(dsn);
            }
            let first = base;
            let from = |n: Option<DataNumber>| Some(low(n)?.wrapping_sub(first?));
            println!(
                "{:>12.6} {}{} {} {:?} {}+{} ack {} win {} sack {:?} dsn {:?} dack {:?}",
                now.as_nanos() as f64 / 1e9 - 1.0,
                ['C', 'S'][side],
                path,
                if arrives { ' ' } else { 'x' },
                seg.flags,
                seg.seq.distance(seq),
                seg.payload.len(),
                seg.ack.distance(ack),
                seg.window,
                seg.options
                    .sack
                    .as_slice()
                    .iter()
                    .map(|b| (b.0.distance(ack), b.1.distance(ack)))
                    .collect::<Vec<_>>(),
                from(dsn),
                if side == 0 { from(dss.data_ack) } else { None },
            );
        },
    );
    println!("{o:?}");
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [name, word, seed, rest @ ..] = &args[..]
        && word == "segments"
        && let Ok(seed) = seed.parse()
    {
        print_segments(name, seed, !rest.is_empty());
        return ExitCode::SUCCESS;
    }
    let number = |at: usize| args.get(at).and_then(|s| s.parse::<u64>().ok());
    let (Some(name), Some(first), Some(count)) = (args.first(), number(1), number(2)) else {
        eprintln!("usage: longest_stall TRANSPORT FIRST_SEED SEEDS");
        return ExitCode::from(2);
    };
    let config = gateway(name);
    let (mut worst, mut failed, mut begun): (Vec<(Outcome, u64, bool)>, u64, u64) = (vec![], 0, 0);
    let mut took = Duration::ZERO;
    for seed in first..first + count {
        for swapped in [false, true] {
            let o = download(
                &config,
                paths(swapped),
                seed,
                (SIZE, LIMIT),
                &mut |_, _, _, _, _| (),
            );
            if !o.began {
                continue;
            }
            begun += 1;
            if o.delivered < SIZE {
                failed += 1;
                println!("seed {seed} swapped {swapped} failed: {o:?}");
            }
            took += o.took;
            let least = worst.last().map_or(Duration::ZERO, |w| w.0.stall.0);
            if worst.len() < 5 || o.stall.0 > least {
                worst.push((o, seed, swapped));
                worst.sort_by_key(|w| std::cmp::Reverse(w.0.stall.0));
                worst.truncate(5);
                println!("after {begun} downloads, {failed} failed:");
                for (o, seed, swapped) in &worst {
                    println!("  seed {seed} swapped {swapped}: {o:?}");
                }
            }
        }
    }
    let mean = took.as_nanos() / begun.max(1) / 1_000_000;
    println!("{begun} downloads begun, {failed} failed, {mean} ms in the mean");
    ExitCode::from(u8::from(failed > 0))
}
