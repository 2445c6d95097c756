//! Packet scatter from end to end, and the second phase after it (MMPTCP).
//!
//! `SPINDLE_NETWORKS` sets the number of random networks, and `SPINDLE_NETWORKS_SEED` their seed.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use spindle_mptcp::stage::scatter::topology::Topology;
use spindle_mptcp::stage::scatter::{PRIORITY, PhaseSwitch, ScatterConfig, Threshold};
use spindle_mptcp::{Config, EcnMode, InitialWindow, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Ecn, Endpoint, Flags, MpJoin, Segment};
use support::networks::try_scenarios;
use support::transfer::{Transfer, data, net, paths, run, transfer};
use support::{CLIENT, CodedHook, Hook, Logged, Net, SERVER, endpoint};

/// Payload bytes of the first phase (MMPTCP section 3).
const THRESHOLD: u64 = 100_000;

/// This many paths of equal cost between any two ends.
#[derive(Debug)]
struct Paths(u32);

impl Topology for Paths {
    fn paths(&self, _: IpAddr, _: IpAddr) -> Option<u32> {
        Some(self.0)
    }
}

fn config(name: &str) -> Config {
    let mut c = preset(name).expect("a preset").config;
    c.tcp.initial_window = InitialWindow::PerSubflow(1);
    c
}

fn scatter(config: &mut Config, change: impl Fn(&mut ScatterConfig)) {
    let m = config.multipath.as_mut().expect("multipath");
    let settings = m.scatter.as_mut().expect("scatter");
    change(Arc::make_mut(settings));
}

fn scattered(net: &Net, side: usize) -> impl Iterator<Item = &Logged> {
    data(net, side).filter(|l| l.segment.options.token.is_some())
}

/// Whether the segment is the SYN of a join.
fn asks_to_join(seg: &Segment) -> bool {
    let rare = seg.options.rare.as_ref();
    matches!(rare.and_then(|r| r.mp_join), Some(MpJoin::Syn { .. }))
}

fn joins(net: &Net) -> Vec<&Logged> {
    let asks = |l: &&Logged| asks_to_join(&l.segment);
    net.log.iter().filter(asks).collect()
}

fn ports<'a>(of: impl Iterator<Item = &'a Logged>) -> BTreeSet<u16> {
    of.map(|l| l.segment.src.port).collect()
}

#[test]
fn a_flow_below_the_threshold_is_scattered_and_never_joins() {
    let c = config("mmptcp");
    for (sender, bytes) in [(CLIENT, THRESHOLD), (SERVER, THRESHOLD), (CLIENT, 70_000)] {
        let mut net = net(paths(16, Duration::ZERO));
        transfer(&mut net, [&c, &c], sender, bytes);
        assert!(joins(&net).is_empty());
        let all = data(&net, sender).count();
        let scattered: Vec<&Logged> = scattered(&net, sender).collect();
        // A client's first segment has the keys and is not scattered.
        assert_eq!(scattered.len(), all - usize::from(sender == CLIENT));
        let ports = ports(scattered.iter().copied());
        assert!(ports.len() > scattered.len() * 9 / 10, "{}", ports.len());
        assert!(ports.iter().all(|p| *p >= 1024));
        let there = |l: &&&Logged| l.segment.dst == scattered[0].segment.dst;
        assert_eq!(scattered.iter().filter(there).count(), scattered.len());
    }
}

#[test]
fn the_first_phase_ends_with_the_segment_that_reaches_the_threshold() {
    let c = config("mmptcp");
    let mut net = net(paths(4, Duration::ZERO));
    let t = transfer(&mut net, [&c, &c], CLIENT, 1_000_000);
    let first_join = joins(&net)[0].at;
    let subflows: BTreeSet<Endpoint> = joins(&net).iter().map(|l| l.segment.src).collect();
    assert_eq!(subflows.len(), 8);
    let before: Vec<&Logged> = data(&net, CLIENT).filter(|l| l.at <= first_join).collect();
    let sent: u64 = before.iter().map(|l| l.segment.payload.len() as u64).sum();
    let last = before.last().expect("some").segment.payload.len() as u64;
    assert!(sent >= THRESHOLD && sent - last < THRESHOLD, "{sent}");
    // No segment is lost, so nothing more is sent on the first subflow.
    let later: Vec<&Logged> = data(&net, CLIENT).filter(|l| l.at > first_join).collect();
    for l in &later {
        assert_eq!(
            l.segment.options.token, None,
            "{l:?} first join {first_join:?}"
        );
        assert!(subflows.contains(&l.segment.src), "{:?}", l.segment.src);
    }
    assert!(later.len() > 500);
    let info = net.stacks[CLIENT].info(t.client);
    assert!(info.is_none_or(|i| i.data.subflows_opened == 8));
}

#[test]
fn a_segment_lost_on_the_first_subflow_is_retransmitted_scattered_on_it() {
    let c = config("mmptcp");
    let mut net = net(paths(4, Duration::ZERO));
    let mut seen = 0;
    net.hook = Some(Box::new(move |_, side, seg| {
        seen += u64::from(side == CLIENT) * seg.payload.len() as u64;
        // The third-last segment of the first phase is lost, once.
        let lost = side == CLIENT && (95_000..96_400).contains(&seen) && !seg.payload.is_empty();
        seen += u64::from(lost) * 2_000;
        !lost
    }));
    transfer(&mut net, [&c, &c], CLIENT, 1_000_000);
    let lost: Vec<&Logged> = data(&net, CLIENT).filter(|l| !l.arrives).collect();
    assert_eq!(lost.len(), 1);
    let seq = lost[0].segment.seq;
    let same = |l: &&Logged| l.segment.seq == seq && l.segment.dst.port == 80;
    let repeats: Vec<&Logged> = scattered(&net, CLIENT).filter(same).collect();
    assert_eq!(repeats.len(), 2);
    assert_ne!(repeats[0].segment.src.port, repeats[1].segment.src.port);
    // Joins were in progress when it was retransmitted, and no other subflow carried its data.
    assert!(joins(&net)[0].at < repeats[1].at);
    let first = match lost[0].segment.options.dss.and_then(|d| d.mapping) {
        Some(m) => m,
        None => panic!("unmapped"),
    };
    let again = |l: &&Logged| {
        let map = l.segment.options.dss.and_then(|d| d.mapping);
        map.is_some_and(|m| m.dsn == first.dsn) && l.segment.seq != seq
    };
    assert_eq!(data(&net, CLIENT).filter(again).count(), 0);
}

#[test]
fn ecn_and_priority_apply_only_to_the_first_phase() {
    for (ecn, priority) in [(None, false), (Some(EcnMode::Dctcp), false), (None, true)] {
        let mut c = config("mmptcp");
        scatter(&mut c, |s| (s.ecn, s.priority) = (ecn, priority));
        let mut net = net(paths(4, Duration::ZERO));
        transfer(&mut net, [&c, &c], CLIENT, 300_000);
        let asks = |l: &&Logged| l.segment.flags.contains(Flags::SYN | Flags::ECE);
        let asking: Vec<&Logged> = net.log.iter().filter(asks).collect();
        // The first subflow's SYN and SYN/ACK negotiate ECN. Those of joins do not.
        assert_eq!(asking.len(), 2 * usize::from(ecn.is_some()));
        let first = net.log[0].segment.src.port;
        for l in data(&net, CLIENT) {
            let of_first = l.segment.options.token.is_some() || l.segment.src.port == first;
            let capable = l.segment.ecn == Ecn::Ect0;
            assert_eq!(capable, ecn.is_some() && of_first, "{l:?}");
            let has = l.segment.dscp == PRIORITY;
            assert_eq!(has, priority && l.segment.options.token.is_some());
        }
        assert_eq!(joins(&net).len(), 8);
    }
}

#[test]
fn the_client_opens_the_subflows_for_data_that_the_server_sends() {
    let c = config("mmptcp");
    let mut net = net(paths(4, Duration::ZERO));
    transfer(&mut net, [&c, &c], SERVER, 1_000_000);
    let joins = joins(&net);
    assert_eq!(joins.len(), 8);
    assert!(joins.iter().all(|l| l.side == CLIENT));
    let up = joins[0].at + Duration::from_millis(4);
    let late = scattered(&net, SERVER).filter(|l| l.at > up).count();
    assert_eq!(late, 0, "sent on the first subflow after a join completed");
    assert!(scattered(&net, SERVER).count() as u64 > THRESHOLD / 1460);
}

#[test]
fn a_peer_without_scatter_gets_mptcp_from_the_first_byte() {
    let (c, plain) = (config("mmptcp"), config("mptcp"));
    for configs in [[&c, &plain], [&plain, &c]] {
        let mut net = net(paths(4, Duration::ZERO));
        let opens = config("mptcp").planned_subflows();
        transfer(&mut net, configs, CLIENT, 300_000);
        assert!(net.log.iter().all(|l| l.segment.options.token.is_none()));
        let opened = joins(&net).len();
        if std::ptr::eq(configs[0], &plain) {
            assert_eq!(opened, opens - 1);
        } else {
            assert_eq!(opened, 7, "eight in all");
        }
        let before = data(&net, CLIENT).filter(|l| l.at < joins(&net)[0].at);
        assert_eq!(before.count(), 1, "joins follow the first data");
    }
}

#[test]
fn joins_are_spaced_at_random_up_to_join_spacing() {
    let mut c = config("mmptcp");
    let most = Duration::from_micros(50);
    c.multipath.as_mut().expect("there").join_spacing = most;
    let mut net = net(paths(4, Duration::ZERO));
    transfer(&mut net, [&c, &c], CLIENT, 1_000_000);
    let times: Vec<Instant> = joins(&net).iter().map(|l| l.at).collect();
    let gaps: BTreeSet<Duration> = times.windows(2).map(|w| w[1].since(w[0])).collect();
    assert!(gaps.iter().all(|g| *g <= most), "{gaps:?}");
    assert!(gaps.len() > 5, "{gaps:?}");
}

#[test]
fn scattered_segments_with_a_wrong_address_or_token_belong_to_no_connection() {
    let c = config("ps");
    let mut net = net(paths(1, Duration::ZERO));
    let forged = std::rc::Rc::new(Cell::new(0));
    let count = forged.clone();
    net.hook = Some(Box::new(move |_, side, seg| {
        if side == CLIENT && seg.options.token.is_some() && count.get() < 3 {
            count.set(count.get() + 1);
            // From another address, with a sequence number far outside the window, and with a token of no
            // connection.
            match count.get() {
                1 => seg.src = Endpoint::new(endpoint(9, 1).addr, seg.src.port),
                2 => seg.seq = seg.seq + (1 << 30),
                _ => seg.options.token = seg.options.token.map(|t| t.saturating_add(1)),
            }
        }
        true
    }));
    transfer(&mut net, [&c, &c], CLIENT, 70_000);
    assert_eq!(forged.get(), 3);
    let counters = net.stacks[SERVER].counters();
    assert_eq!(counters.unknown_segments, 2, "of no connection");
}

#[test]
fn scattered_connections_that_share_source_ports_do_not_conflict() {
    // Each connection scatters from the port that the other connection owns.
    let mut net = net(paths(2, Duration::ZERO));
    let mut transfers = Vec::new();
    for (port, from) in [(80, 5000), (81, 5001)] {
        let mut c = config("ps");
        scatter(&mut c, |s| s.ports = Some(10_001 - from..=10_001 - from));
        let to = endpoint(2, port);
        net.stacks[SERVER]
            .listen(to, Arc::new(config("ps")))
            .expect("free");
        let h = net.stacks[CLIENT].connect(net.now, endpoint(1, from), to, Arc::new(c));
        transfers.push(Transfer {
            client: h.expect("connects"),
            server: None,
            sender: CLIENT,
            left: 70_000,
            got: 0,
            bytes: 70_000,
            real: false,
        });
    }
    run(&mut net, &mut transfers);
    let used = ports(scattered(&net, CLIENT));
    assert_eq!(used.into_iter().collect::<Vec<_>>(), [5000, 5001]);
    let counters = net.stacks[SERVER].counters();
    assert_eq!((counters.unknown_segments, counters.resets_sent), (0, 0));
}

#[test]
fn with_a_known_topology_reordering_over_many_paths_is_not_taken_for_loss() {
    // The slowest of 16 paths is about ten segments behind the fastest.
    let unequal = || paths(16, Duration::from_micros(30));
    let repeats = |c: &Config, bytes| {
        let mut net = net(unequal());
        let t = transfer(&mut net, [c, c], CLIENT, bytes);
        let total = net.stacks[CLIENT].info(t.client).map(|i| i.total);
        let counters = net.stacks[CLIENT].counters();
        total.map_or(counters.send.retransmissions, |t| t.retransmissions)
    };
    let mut known = config("ps");
    scatter(&mut known, |s| s.topology = Arc::new(Paths(16)));
    assert_eq!(repeats(&known, 300_000), 0);
    let mut fixed = known.clone();
    scatter(&mut fixed, |s| s.threshold = Threshold::Fixed);
    assert!(repeats(&fixed, 300_000) > 5, "three duplicates are too few");
    // D-SACKs raise the threshold until spurious retransmissions stop.
    let mut learns = fixed.clone();
    learns.tcp.sack = true;
    scatter(&mut learns, |s| {
        s.loss.dsack_undo = true;
        s.threshold = Threshold::Adaptive { most: 64 };
    });
    let mut deaf = learns.clone();
    scatter(&mut deaf, |s| s.threshold = Threshold::Fixed);
    let (learnt, not) = (repeats(&learns, 1_000_000), repeats(&deaf, 1_000_000));
    assert!(learnt * 3 < not && learnt > 0, "{learnt} of {not}");
}

#[test]
fn the_first_phase_ends_by_window_by_congestion_or_never_as_configured() {
    for (switch, lossy) in [
        (PhaseSwitch::Window(20_000), false),
        (PhaseSwitch::Congestion, true),
        (PhaseSwitch::Never, true),
    ] {
        let mut c = config("mmptcp");
        scatter(&mut c, |s| s.switch = switch);
        let mut net = net(paths(4, Duration::ZERO));
        let mut seen = 0;
        net.hook = Some(Box::new(move |_, side, seg| {
            seen += u32::from(side == CLIENT && seg.options.token.is_some());
            !(lossy && seen == 60 && seg.options.token.is_some())
        }));
        transfer(&mut net, [&c, &c], CLIENT, 400_000);
        let joined = joins(&net).first().map(|l| l.at);
        let before = |at| scattered(&net, CLIENT).filter(|l| l.at < at).count();
        match switch {
            PhaseSwitch::Window(_) => {
                let before = joined.map(before).expect("joins");
                assert!((13..60).contains(&before), "{before}");
            }
            PhaseSwitch::Congestion => assert!(joined.map(before).expect("joins") > 60),
            _ => assert_eq!(joined, None),
        }
    }
}

#[test]
fn the_first_subflow_continues_when_no_join_succeeds() {
    let c = config("mmptcp");
    for refused in [true, false] {
        let mut net = net(paths(4, Duration::ZERO));
        net.hook = Some(Box::new(move |_, side, seg| {
            let join = seg
                .options
                .rare
                .as_ref()
                .is_some_and(|r| r.mp_join.is_some());
            if join && refused && side == CLIENT {
                // The server refuses a join with an unknown token.
                seg.options.rare_mut().mp_join = Some(MpJoin::Syn {
                    backup: false,
                    address_id: 0,
                    token: 1,
                    nonce: 1,
                });
                return true;
            }
            !join
        }));
        transfer(&mut net, [&c, &c], CLIENT, 300_000);
        assert!(joins(&net).len() >= 8);
        let bytes = scattered(&net, CLIENT).map(|l| l.segment.payload.len() as u64);
        assert!(bytes.sum::<u64>() > 290_000, "all on the first subflow");
    }
}

/// As in MMPTCP's authors' code, where a lost SYN delays more than its own subflow.
#[test]
fn with_wait_for_joins_new_data_wait_until_joins_complete() {
    let last = |wait_for_joins| {
        let mut c = config("mptcp-2");
        let m = c.multipath.as_mut().expect("multipath");
        m.wait_for_joins = wait_for_joins;
        let mut net = net(paths(2, Duration::ZERO));
        let mut lost = false;
        net.hook = Some(Box::new(move |_, _, seg| {
            !asks_to_join(seg) || std::mem::replace(&mut lost, true)
        }));
        transfer(&mut net, [&c, &c], CLIENT, 100_000);
        let first = joins(&net)[0].at;
        data(&net, CLIENT).last().expect("data").at.since(first)
    };
    assert!(last(false) < Duration::from_millis(100));
    assert!(last(true) > Duration::from_secs(1));
}

/// Regression: a server refused the fifth of joins that arrived at once, so a client that opens eight subflows
/// had only four of them after a second.
#[test]
fn a_server_accepts_all_planned_joins_at_once() {
    let c = config("mptcp-8");
    let mut net = net(paths(4, Duration::ZERO));
    transfer(&mut net, [&c, &c], CLIENT, 300_000);
    assert_eq!(joins(&net).len(), 7);
    assert_eq!(net.stacks[SERVER].counters().joins.limit, 0);
}

/// Number of networks in the ordinary test run.
const NETWORKS: u32 = 150;

/// First port of the NAT, below the ports that a stack chooses itself.
const NAT_PORTS: u16 = 10_000;

/// A NAT in front of the client. It maps every source port of the client to another port outside, in order of
/// first use.
#[derive(Clone, Default)]
struct Nat(Rc<RefCell<Vec<u16>>>);

impl Nat {
    /// Translates the client's endpoint of a packet. Returns whether the packet passes.
    fn pass(&self, side: usize, src: &mut Endpoint, dst: &mut Endpoint) -> bool {
        let mut inside = self.0.borrow_mut();
        if side == CLIENT {
            let known = inside.iter().position(|p| *p == src.port);
            let n = known.unwrap_or_else(|| {
                inside.push(src.port);
                inside.len() - 1
            });
            src.port = NAT_PORTS + n as u16;
            return true;
        }
        let n = dst.port.checked_sub(NAT_PORTS).map(usize::from);
        let port = n.and_then(|n| inside.get(n));
        dst.port = port.copied().unwrap_or(dst.port);
        port.is_some()
    }

    /// The hooks for packets of both kinds.
    fn hooks(self) -> (Hook, CodedHook) {
        let both = self.clone();
        let tcp: Hook = Box::new(move |_, side, s| self.pass(side, &mut s.src, &mut s.dst));
        (
            tcp,
            Box::new(move |_, side, c| both.pass(side, &mut c.src, &mut c.dst)),
        )
    }
}

/// Random networks and peers with scattering, a third of them with a NAT. Counts scattered segments and the
/// joins of a second phase.
#[test]
fn with_scatter_every_byte_arrives_once_and_in_order_over_random_networks() {
    let sums: [Cell<u64>; 3] = Default::default();
    try_scenarios(NETWORKS, 9, |s| {
        let (odd, translated) = (s.seed % 2 == 1, s.seed.is_multiple_of(3));
        let mut run = s.prepare_with(true, |_, c| {
            if let Some(m) = &mut c.multipath {
                m.scatter = Some(Arc::new(ScatterConfig {
                    switch: PhaseSwitch::Bytes(if odd { 5_000 } else { 1 << 40 }),
                    acks: odd,
                    threshold: Threshold::Adaptive { most: 30 },
                    ..ScatterConfig::default()
                }));
            }
        });
        run.net.keep_log = true;
        (run.net.hook, run.net.coded_hook) = translated.then(|| Nat::default().hooks()).unzip();
        s.finish(&mut run);
        let with = |f: fn(&Segment) -> bool| run.net.log.iter().filter(|l| f(&l.segment)).count();
        let tokens = with(|s| s.options.token.is_some());
        let joins = with(|s| {
            let rare = s.options.rare.as_ref();
            s.flags.contains(Flags::SYN) && rare.is_some_and(|r| r.mp_join.is_some())
        });
        sums[0].set(sums[0].get() + tokens as u64);
        sums[1].set(sums[1].get() + if odd && tokens > 0 { joins as u64 } else { 0 });
        sums[2].set(sums[2].get() + if translated { tokens as u64 } else { 0 });
    });
    let [tokens, joins, translated] = sums.map(Cell::into_inner);
    assert!(
        tokens > 1000 && joins > 30 && translated > 300,
        "{tokens} scattered, {translated} of them through a NAT, {joins} joins"
    );
}
