//! Proactive recovery for an unmodified receiver. It holds back data that are out of order on their subflow, so
//! a copy of the hole alone makes no data readable.
//!
//! There are two subflows. The client writes six packets, three on each subflow. The first packet on the second
//! subflow is lost, with every retransmission on that subflow.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use spindle_mptcp::scheduler::RoundRobin;
use spindle_mptcp::{
    Config, Event, Handle, InitialWindow, SendKind, SubflowId, TraceKind, for_unmodified_receivers,
    preset,
};
use spindle_units::Duration;
use spindle_wire::Payload;
use support::{CLIENT as SENDER, Net, Path, SERVER as RECEIVER, endpoint};

/// Payload bytes of a full segment: an MSS of 1032 less 12 for timestamps and 20 for the DSS.
const PACKET: u32 = 1000;
const PACKETS: u32 = 6;

fn of(name: &str) -> Config {
    let mut c = preset(name).expect("a preset").config;
    c.tcp.mss = PACKET + 32;
    c.tcp.initial_window = InitialWindow::PerSubflow(3);
    c.tcp.min_rto = Duration::from_millis(50);
    if let Some(m) = &mut c.multipath {
        m.scheduler = Arc::new(RoundRobin);
    }
    c
}

/// An unmodified receiver.
fn held(mut c: Config) -> Config {
    if let Some(m) = &mut c.multipath {
        m.early_dsn_delivery = false;
    }
    c
}

#[derive(Debug)]
struct Outcome {
    /// Microseconds from the write to the last byte read.
    done: u64,
    /// Copies sent: on which subflow, of which subflow, and of which packet, counted from 1.
    copies: Vec<(SubflowId, SubflowId, u64)>,
    timeouts: usize,
    useful: u64,
}

fn run(sending: Config, receiving: Config) -> Outcome {
    run_of(PACKETS, sending, receiving)
}

/// A network of two paths with a connection of two subflows, and the handles of its sender and receiver.
fn connected(sending: Config, receiving: Config) -> (Net, Handle, Handle) {
    let path = Path::clean(Duration::from_micros(500));
    let mut net = Net::new(1, vec![path.clone(), path]);
    let mut known: Vec<u16> = Vec::new();
    net.route = Some(Box::new(move |seg| {
        let port = seg.src().port.max(seg.dst().port);
        known.iter().position(|p| *p == port).unwrap_or_else(|| {
            known.push(port);
            known.len() - 1
        })
    }));
    let server = endpoint(2, 80);
    net.stacks[RECEIVER]
        .listen(server, Arc::new(receiving))
        .expect("free");
    let sender = net.stacks[SENDER]
        .connect(net.now, endpoint(1, 0), server, Arc::new(sending))
        .expect("connects");
    let end = net.now + Duration::from_millis(20);
    while net.events.len() < 2 && net.step(end) {}
    let accepted = net.events.iter().find_map(|(_, _, e)| match e {
        Event::Accepted { handle, .. } => Some(*handle),
        _ => None,
    });
    let receiver = accepted.expect("accepted");
    net.stacks[RECEIVER]
        .send(net.now, receiver, Payload::Length(1))
        .expect("sends");
    while net.step(end) {}
    net.now = end;
    (net, sender, receiver)
}

fn run_of(packets: u32, sending: Config, receiving: Config) -> Outcome {
    let (mut net, sender, receiver) = connected(sending, receiving);
    let info = net.stacks[SENDER].info(sender).expect("there");
    assert_eq!(info.subflows.len(), 2);
    let lossy = info.subflows[1].local.port;

    let start = net.now;
    let mut first = None;
    net.hook = Some(Box::new(move |_, side, seg| {
        let data = side == SENDER && seg.src.port == lossy && !seg.payload.is_empty();
        let hit = data && *first.get_or_insert(seg.seq) == seg.seq;
        !hit
    }));
    net.stacks[SENDER].set_trace(sender, true);
    let all = u64::from(packets * PACKET);
    let written = net.stacks[SENDER].send(net.now, sender, Payload::Length(packets * PACKET));
    assert_eq!(written, Ok(all as usize));
    let (mut left, mut done) = (all, None);
    while done.is_none() && net.step(start + Duration::from_secs(2)) {
        while let Ok(Some(p)) = net.stacks[RECEIVER].recv(net.now, receiver, usize::MAX) {
            left -= p.len() as u64;
        }
        if left == 0 {
            done = Some(net.now.since(start).as_micros());
        }
    }
    // The acknowledgement of the last data reaches the sender.
    let later = net.now + Duration::from_millis(2);
    while net.step(later) {}
    let totals = net.stacks[SENDER].totals(sender).expect("there");
    let (mut copies, mut timeouts) = (Vec::new(), 0);
    for e in net.stacks[SENDER].take_trace(sender) {
        match e.kind {
            TraceKind::Sent {
                kind: SendKind::Recovery,
                offset,
                copy_of,
                ..
            } => copies.push((
                e.subflow,
                copy_of.expect("a copy"),
                1 + offset.since_start() / u64::from(PACKET),
            )),
            TraceKind::Timeout => timeouts += 1,
            _ => {}
        }
    }
    Outcome {
        done: done.unwrap_or(u64::MAX),
        copies,
        timeouts,
        useful: totals.recoveries_useful,
    }
}

#[test]
fn the_hole_is_copied_first_and_then_the_segments_sacked_behind_it() {
    let r = run(of("fuso-unmodified-2"), held(of("fuso-2")));
    assert!(r.done < 4000, "{r:?}");
    assert_eq!(r.timeouts, 0, "{r:?}");
    // The round-robin scheduler sent packets 2, 4 and 6 on the second subflow.
    let of_the_second = r.copies.iter().filter(|c| c.1 == SubflowId(1));
    let expected = [2, 4, 6].map(|packet| (SubflowId(0), SubflowId(1), packet));
    assert!(of_the_second.eq(&expected), "{r:?}");
    assert!(r.useful >= 3, "{r:?}");
}

#[test]
fn a_copy_of_the_hole_alone_releases_no_data_of_an_unmodified_receiver() {
    let r = run(of("fuso-2"), held(of("fuso-2")));
    assert_eq!(r.done, u64::MAX, "{r:?}");
}

#[test]
fn a_modified_receiver_needs_only_a_copy_of_the_hole() {
    let r = run(of("fuso-2"), of("fuso-2"));
    assert!(r.done < 4000, "{r:?}");
}

#[test]
fn no_packet_is_copied_twice_or_on_its_own_subflow() {
    let r = run(of("fuso-unmodified-2"), held(of("fuso-2")));
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for (on, of, packet) in &r.copies {
        assert_ne!(on, of, "{r:?}");
        *times.entry(*packet).or_default() += 1;
    }
    assert!(times.values().all(|n| *n == 1), "{r:?}");
}

#[test]
fn for_unmodified_receivers_changes_only_the_sender() {
    let changed = for_unmodified_receivers(of("fuso-2"));
    let r = run(changed.clone(), held(of("fuso-2")));
    assert!(r.done < 4000, "{r:?}");
    let m = changed.multipath.expect("multipath");
    assert!(m.early_dsn_delivery, "its own receiver stays modified");
    // For a recovery that makes no difference between receivers, only two settings change: joined subflows wait
    // for the first DATA_ACK, and data held by a dead subflow are reinjected.
    for name in ["tcp", "mptcp", "mptcp-linux", "proactive"] {
        let (mut before, after) = (of(name), for_unmodified_receivers(of(name)));
        if let Some(m) = &mut before.multipath {
            m.joins_wait_for_data_ack = true;
            m.peer_holds_back = true;
        }
        assert_eq!(format!("{before:?}"), format!("{after:?}"));
    }
}

/// The data that such a receiver holds fill its window, and the rest of the window is smaller than a segment.
/// New data wait, and only the missing data open the window.
#[test]
fn a_window_full_of_held_data_is_opened_by_copies_without_a_timeout() {
    let narrow = |mut c: Config| {
        c.tcp.receive_buffer = (8 * PACKET + PACKET / 2) as usize;
        held(c)
    };
    let r = run_of(12, of("fuso-unmodified-2"), narrow(of("fuso-2")));
    assert!(r.done < 8000, "{r:?}");
    assert_eq!(r.timeouts, 0, "{r:?}");
    // Opportunistic retransmission also opens the window, one segment at a time, but not with a single subflow.
    let plain = run_of(12, of("mptcp-2"), narrow(of("mptcp-2")));
    assert!(r.done < plain.done, "{r:?} {plain:?}");
}

/// Each segment that such a receiver holds behind a hole of its subflow is also missing at the data level. If
/// one segment were sent again per round trip, the window would stay shut and the other subflow idle for as
/// many round trips.
#[test]
fn the_number_of_segments_sent_to_open_a_full_window_doubles_each_round_trip() {
    const ROUND_TRIP: u64 = 1000;
    let wide = |mut c: Config| {
        c.tcp.receive_buffer = (64 * PACKET + PACKET / 2) as usize;
        held(c)
    };
    let [one_by_one, more] = [of("mptcp-2"), for_unmodified_receivers(of("mptcp-2"))]
        .map(|sending| run_of(200, sending, wide(of("mptcp-2"))));
    assert_eq!(one_by_one.timeouts + more.timeouts, 0);
    let gained = one_by_one.done.saturating_sub(more.done);
    assert!(gained >= 3 * ROUND_TRIP, "{one_by_one:?} {more:?}");
}
