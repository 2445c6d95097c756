//! Subflows lost because of the network are opened again by the end that opened them.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use spindle_mptcp::path_manager::FullMesh;
use spindle_mptcp::{CloseReason, Config, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Flags, MpTcpRst, ResetReason, Segment};
use support::apps::{App, End, Run};
use support::{CLIENT, Net, Path, SERVER, endpoint};

/// The client's second address.
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn of_second(seg: &Segment) -> bool {
    seg.src.addr == SECOND || seg.dst.addr == SECOND
}

/// A server that writes 100 KB every second for `seconds` to a client with two addresses. Each address has its
/// own path.
fn steady(seconds: u64, shape: impl Fn(Instant, &mut Net)) -> Run {
    let mut net = Net::with_addresses(11, vec![Path::clean(ms(5)); 2], [vec![SECOND], Vec::new()]);
    net.route = Some(Box::new(|p| usize::from(p.tcp().is_some_and(of_second))));
    net.keep_log = true;
    let start = net.now;
    shape(start, &mut net);
    let app = |writes, end| App {
        writes,
        read_size: 1 << 20,
        read_delay: Duration::ZERO,
        end,
    };
    let down = vec![(ms(1000), 100_000); seconds as usize];
    let mut config: Config = preset("mptcp").expect("a preset").config;
    config.tcp.msl = ms(10);
    if let Some(m) = &mut config.multipath {
        m.path_manager = Arc::new(FullMesh);
    }
    let ends = (endpoint(1, 0), endpoint(2, 80));
    let configs = [config.clone(), config];
    // A client that is closing opens no more subflows.
    let stay = End::CloseAt(Duration::from_secs(seconds + 1));
    let apps = [app(vec![], stay), app(down, End::AfterWrites)];
    let mut run = Run::new(net, apps, configs, ends, true);
    run.finish(Duration::from_secs(1000));
    for s in &run.sides {
        assert_eq!(
            (s.wrong_at, s.closed.map(|c| c.1)),
            (None, Some(CloseReason::Finished))
        );
    }
    assert_eq!(run.sides[CLIENT].got, seconds * 100_000);
    run
}

/// Times since the start at which SYNs were sent on the second path.
fn joins(run: &Run) -> Vec<Duration> {
    let log = run.net.log.iter();
    let syns = log.filter(|l| {
        l.side == CLIENT && of_second(&l.segment) && l.segment.flags.contains(Flags::SYN)
    });
    syns.map(|l| l.at.since(run.start)).collect()
}

/// When data of the server first arrived over the second path after `from`.
fn data_after(run: &Run, from: Duration) -> Option<Duration> {
    let log = run.net.log.iter();
    let data = log.filter(|l| {
        l.side == SERVER && l.arrives && of_second(&l.segment) && !l.segment.payload.is_empty()
    });
    data.map(|l| l.at.since(run.start)).find(|t| *t >= from)
}

/// Replaces the server's first data segment on the second path after `at` with an in-order RST, as from a NAT
/// that lost its state.
fn reset_once(net: &mut Net, at: Instant, reason: Option<MpTcpRst>) {
    let mut done = false;
    net.hook = Some(Box::new(move |now, side, seg| {
        let hit = !done && now >= at && side == SERVER && of_second(seg) && !seg.payload.is_empty();
        if hit {
            done = true;
            seg.flags = Flags::RST | Flags::ACK;
            seg.payload = Default::default();
            seg.options = Default::default();
            if let Some(reason) = reason {
                seg.options.rare_mut().mp_tcprst = Some(reason);
            }
        }
        true
    }));
}

#[test]
fn a_subflow_reset_by_a_middlebox_is_joined_again_within_seconds() {
    let run = steady(10, |start, net| reset_once(net, start + ms(3500), None));
    let joins = joins(&run);
    assert_eq!(joins.len(), 2, "{joins:?}");
    assert!(joins[1] >= ms(4500) && joins[1] <= ms(6000), "{joins:?}");
    assert!(data_after(&run, joins[1]).is_some_and(|t| t < ms(7000)));
}

#[test]
fn a_join_that_the_peer_refuses_permanently_is_not_retried() {
    let reason = |transient| MpTcpRst {
        transient,
        other_flags: 0,
        reason: ResetReason::Prohibited,
    };
    for (transient, count) in [(false, 1), (true, 2)] {
        let run = steady(10, |start, net| {
            reset_once(net, start + ms(3500), Some(reason(transient)));
        });
        assert_eq!(joins(&run).len(), count, "transient: {transient}");
    }
}

#[test]
fn a_path_that_is_down_at_the_start_is_joined_once_it_is_up() {
    // The path is down for longer than a SYN is repeated (127 s), and up at 200 s.
    let run = steady(290, |start, net| {
        net.paths[1].flips = vec![start, start + Duration::from_secs(200)];
    });
    let first = data_after(&run, Duration::ZERO).expect("data on the second path");
    assert!(
        first > Duration::from_secs(200) && first < Duration::from_secs(280),
        "{first:?}"
    );
    // SYNs are sent now and then, without a storm.
    assert!(joins(&run).len() < 20);
}
