//! Reordered segments are put in order before TCP receives them, if the configuration has the reordering
//! buffer.
//!
//! `SPINDLE_NETWORKS` sets the number of random networks, and `SPINDLE_NETWORKS_SEED` their seed.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::cell::Cell;
use std::sync::Arc;

use spindle_mptcp::stage::reorder::Settings;

use spindle_mptcp::{Config, SendCounters, Stack, preset, variant};
use spindle_units::Duration;

use support::CLIENT;
use support::networks::try_scenarios;
use support::transfer::{net, paths, transfer};

fn tcp(ordered: bool) -> Config {
    let config = preset("tcp").expect("a preset").config;
    match ordered {
        false => config,
        true => variant("ordered")
            .and_then(|v| v.apply(config))
            .expect("fits"),
    }
}

/// The client's counters after it sent 600 KB in cells of ten segments over two paths in turn, with delays that
/// are `apart` from each other. The data segment with the number `lost` is lost.
fn over_two_paths(ordered: bool, apart: Duration, lost: Option<usize>) -> SendCounters {
    let mut net = net(paths(2, apart));
    let mut sent = 0;
    net.route = Some(Box::new(move |seg| {
        sent += usize::from(!seg.payload().is_empty());
        sent / 10 % 2
    }));
    let mut count = 0;
    net.hook = Some(Box::new(move |_, side, seg| {
        let data = side == CLIENT && !seg.payload.is_empty();
        count += usize::from(data);
        !data || lost.is_none_or(|n| count != n)
    }));
    let config = tcp(ordered);
    let t = transfer(&mut net, [&config, &config], CLIENT, 600_000);
    assert_eq!(t.got, 600_000);
    let total = net.stacks[CLIENT].counters().send;
    net.stacks[CLIENT].info(t.client).map_or(total, |i| i.total)
}

#[test]
fn reordered_cells_cause_no_retransmission_with_the_reordering_buffer() {
    let apart = Duration::from_micros(300);
    let plain = over_two_paths(false, apart, None);
    assert!(plain.fast_retransmits > 3, "{plain:?}");
    let ordered = over_two_paths(true, apart, None);
    assert_eq!((ordered.retransmissions, ordered.timeouts), (0, 0));
}

#[test]
fn a_lost_segment_is_retransmitted_without_a_timeout() {
    let ordered = over_two_paths(true, Duration::from_micros(300), Some(200));
    assert_eq!((ordered.retransmissions, ordered.timeouts), (1, 0));
}

/// Number of networks in the ordinary test run.
const NETWORKS: u32 = 200;

/// Random networks and peers, with the buffer at both ends and without it. Half of the buffers have room for
/// three segments. With the buffer, TCP takes fewer reordered segments for lost.
#[test]
fn with_reordering_buffers_every_byte_arrives_once_over_random_networks() {
    let repeated: [Cell<u64>; 2] = Default::default();
    try_scenarios(NETWORKS, 17, |s| {
        let settings = Settings {
            most: [1024, 3][(s.seed % 2) as usize],
            ..Settings::default()
        };
        for (ordered, repeated) in [false, true].into_iter().zip(&repeated) {
            let mut run = s.prepare_with(!s.seed.is_multiple_of(5), |_, c| {
                if ordered {
                    c.stage = Some(Arc::new(settings));
                }
            });
            s.finish(&mut run);
            let fast = |s: &Stack| s.counters().send.fast_retransmits;
            repeated.set(repeated.get() + run.net.stacks.iter().map(fast).sum::<u64>());
        }
    });
    let [plain, ordered] = repeated.map(Cell::into_inner);
    assert!(plain > 200 && ordered < plain, "{plain} {ordered}");
}
