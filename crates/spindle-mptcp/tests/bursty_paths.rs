//! Downloads over two paths that lose packets in bursts never stall for long while one path works. Transfers
//! over unequal paths are at least as fast as over the better path.

#[path = "support/bursty.rs"]
mod bursty;

use bursty::{BurstyPath, FAST, SLOW, download, gateway};
use spindle_mptcp::congestion::SlowStartExit;
use spindle_units::Duration;

/// Number of seeds for each transport.
const SEEDS: u64 = 20;
/// Bytes of a download.
const SIZE: u64 = 3_000_000;
/// A download that takes longer than this has failed.
const LIMIT: Duration = Duration::from_secs(600);
/// The longest accepted time without progress.
const STALL: Duration = Duration::from_secs(2);

fn never_stands_still(name: &str) {
    let config = gateway(name);
    let mut worst = Vec::new();
    for seed in 0..SEEDS {
        for paths in [[FAST, SLOW], [SLOW, FAST]] {
            let o = download(&config, paths, seed, (SIZE, LIMIT), &mut |_, _, _, _, _| ());
            if !o.began {
                continue;
            }
            assert_eq!(o.delivered, SIZE, "{name}, seed {seed}, {paths:?}: {o:?}");
            worst.push((o.stall.0, seed, paths[0].rtt, format!("{o:?}")));
        }
    }
    worst.sort_by_key(|w| w.0);
    let longest = &worst[worst.len() - 5..];
    eprintln!("{name}: {longest:?}");
    assert!(longest.iter().all(|w| w.0 <= STALL), "{name}: {longest:#?}");
}

#[test]
fn fuso_over_bursty_paths_makes_progress_every_two_seconds() {
    never_stands_still("fuso-2");
}

#[test]
fn mptcp_over_bursty_paths_makes_progress_every_two_seconds() {
    never_stands_still("mptcp-2");
}

/// The acknowledgements of a subflow were lost 17 times in a row. The receiver held data of this subflow behind
/// a hole. The data of the hole had long arrived on the other subflow, which was idle. Three timeouts of one
/// second make a subflow dead.
#[test]
fn sacked_data_behind_a_hole_of_a_dead_subflow_are_reinjected() {
    let (paths, seed) = ([SLOW, FAST], 12_203);
    let limits = (10_000_000, LIMIT);
    let o = download(
        &gateway("fuso-2"),
        paths,
        seed,
        limits,
        &mut |_, _, _, _, _| (),
    );
    let most = Duration::from_secs(4);
    assert!(o.delivered == limits.0 && o.stall.0 <= most, "{o:?}");
}

/// A path of `rate` bits per second and a round trip of `rtt` milliseconds that loses packets only if its queue
/// is full.
fn path(rate: u64, rtt: u64) -> BurstyPath {
    BurstyPath {
        rate,
        rtt: Duration::from_millis(rtt),
        queue: 750_000,
        begin: 0.0,
        end: 1.0,
    }
}

/// Transfers 200 MB over two paths that lose packets only if a queue is full. Kernel TCP needs 5.7 s over the
/// fast path alone, and this transfer must be faster.
///
/// Without pacing, a whole congestion window was sent at once when the receive window opened again after a
/// hole. This overflowed the queue of the fast path, and Linked Increases then took 3 s to fill it again. With
/// pacing, but with copies of data that wait behind a hole sent on the subflow of the hole, a transfer takes
/// 5.6 s.
fn is_no_slower_than_over_the_fast_path(swapped: bool) {
    const BYTES: u64 = 200_000_000;
    let mut paths = [path(300_000_000, 20), path(50_000_000, 120)];
    if swapped {
        paths.reverse();
    }
    let config = gateway("fuso-2");
    let o = download(&config, paths, 0, (BYTES, LIMIT), &mut |_, _, _, _, _| ());
    let most = Duration::from_millis(5500);
    assert!(o.delivered == BYTES && o.took <= most, "{paths:?}: {o:?}");
}

#[test]
fn transfer_over_unequal_paths_is_no_slower_than_over_the_fast_first_path() {
    is_no_slower_than_over_the_fast_path(false);
}

#[test]
fn transfer_over_unequal_paths_is_no_slower_than_over_the_fast_second_path() {
    is_no_slower_than_over_the_fast_path(true);
}

/// With HyStart++ more than a thousand segments were lost: slow start ended only when both queues, of one round
/// trip of data each, had overflowed.
#[test]
fn slow_start_of_a_gateway_ends_before_a_queue_of_one_round_trip_overflows() {
    const BYTES: u64 = 30_000_000;
    for rtt in [116, 120, 124] {
        let paths = [path(50_000_000, rtt), path(300_000_000, 20)];
        let mut config = gateway("fuso-2");
        let o = download(&config, paths, 0, (BYTES, LIMIT), &mut |_, _, _, _, _| ());
        assert!(
            o.delivered == BYTES && o.sent.losses == 0,
            "{rtt} ms: {o:?}"
        );
        config.tcp.slow_start.exit = SlowStartExit::HyStart;
        let o = download(&config, paths, 0, (BYTES, LIMIT), &mut |_, _, _, _, _| ());
        assert!(
            o.sent.losses > 1000,
            "HyStart++ loses segments, {rtt} ms: {o:?}"
        );
    }
}
