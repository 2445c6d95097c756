//! The scenario of the FUSO slides (21 to 44, mechanisms A1.5), segment by segment: three subflows, packets P1
//! to P5, P2 lost.
//!
//! Each subflow starts with a window of one packet, so P1, P2 and P3 are sent on one subflow each. P3 is
//! acknowledged first, so that P4 and P5 are sent on the same subflow. Then P1, P4 and P5 are acknowledged
//! together. Now there is spare window and no new data to send. The client is the sender, because it opens the
//! subflows and therefore numbers them.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::sync::Arc;

use spindle_mptcp::scheduler::RoundRobin;
use spindle_mptcp::{
    Config, Event, Handle, InitialWindow, SendCounters, SendKind, TraceEvent, TraceKind, preset,
};
use spindle_units::{Duration, Instant};
use spindle_wire::{DataNumber, Endpoint, Payload};
use support::{CLIENT as SENDER, Net, Path, SERVER as RECEIVER, endpoint};

/// Payload bytes of a full segment: an MSS of 1032 minus 12 for timestamps and 20 for the DSS.
const PACKET: u32 = 1000;
const REQUEST: u32 = 100;

/// A data segment of the sender: microseconds since the data were written, subflow, kind, first packet (1 is
/// P1), bytes.
type Sent = (u64, u8, SendKind, u64, u32);

fn config(name: &str) -> Arc<Config> {
    let mut c = preset(name).expect("a preset").config;
    c.tcp.mss = PACKET + 32;
    c.tcp.initial_window = InitialWindow::PerSubflow(1);
    c.tcp.min_rto = Duration::from_millis(5);
    c.tcp.msl = Duration::from_secs(1);
    if let Some(m) = &mut c.multipath {
        // One packet on each subflow in turn, as in the slides.
        m.scheduler = Arc::new(RoundRobin);
    }
    Arc::new(c)
}

/// The result for the five packets.
#[derive(Debug)]
struct Outcome {
    sent: Vec<Sent>,
    /// The same segments as seen on the wire: time, subflow, first packet, bytes, whether it arrived.
    wire: Vec<(u64, u8, u64, u32, bool)>,
    /// When the receiver had read everything.
    done: u64,
    /// Retransmission timeouts up to that time, and in total.
    timeouts: (usize, usize),
    totals: SendCounters,
    /// Number of segments whose data did not arrive with their first transmission, and for how many microseconds they
    /// were missing, together.
    repairs: (u64, u64),
}

struct Scene {
    net: Net,
    sender: Handle,
    receiver: Handle,
    /// The sender's port on each subflow, in order.
    ports: Vec<u16>,
}

/// Connects and waits until three subflows are established, with RTTs of 400, 460 and 200 us.
fn connect(name: &str) -> Scene {
    let paths = [200, 230, 100].map(|us| Path::clean(Duration::from_micros(us)));
    let mut net = Net::new(1, paths.to_vec());
    let mut known: Vec<u16> = Vec::new();
    net.route = Some(Box::new(move |seg| {
        let port = if seg.src().port == 80 {
            seg.dst().port
        } else {
            seg.src().port
        };
        known.iter().position(|p| *p == port).unwrap_or_else(|| {
            known.push(port);
            known.len() - 1
        })
    }));
    net.batch = true;
    let at = |last, port| -> Endpoint { endpoint(last, port) };
    net.stacks[RECEIVER]
        .listen(at(2, 80), config(name))
        .expect("free");
    let sender = net.stacks[SENDER]
        .connect(net.now, at(1, 0), at(2, 80), config(name))
        .expect("connects");
    let end = net.now + Duration::from_millis(4);
    while net.events.len() < 2 && net.step(end) {}
    let accepted = net.events.iter().find_map(|(_, _, e)| match e {
        Event::Accepted { handle, .. } => Some(*handle),
        _ => None,
    });
    let receiver = accepted.expect("accepted");
    // Joins may begin once the receiver has shown that it has the keys (RFC 8684, section 3.1).
    let request = Payload::Length(REQUEST);
    let written = net.stacks[RECEIVER].send(net.now, receiver, request);
    assert_eq!(written, Ok(REQUEST as usize));
    while net.step(end) {}
    let info = net.stacks[SENDER].info(sender).expect("there");
    assert_eq!(info.received, u64::from(REQUEST));
    let rtts: Vec<_> = info
        .subflows
        .iter()
        .filter_map(|s| Some(s.srtt?.as_micros()))
        .collect();
    assert_eq!(rtts, [400, 460, 200], "measured by the handshakes");
    assert!(info.subflows.iter().all(|s| s.mss == u64::from(PACKET)));
    let ports = info.subflows.iter().map(|s| s.local.port).collect();
    net.now = end;
    Scene {
        net,
        sender,
        receiver,
        ports,
    }
}

/// Sends P1 to P5 and loses P2.
fn transfer(name: &str) -> Outcome {
    let mut scene = connect(name);
    let start = scene.net.now;
    lose_first_data_on(&mut scene.net, scene.ports[1]);
    scene.net.keep_log = true;
    scene.net.stacks[SENDER].set_trace(scene.sender, true);
    let five = Payload::Length(5 * PACKET);
    assert_eq!(
        scene.net.stacks[SENDER].send(start, scene.sender, five),
        Ok(5 * PACKET as usize)
    );
    let done = deliver(&mut scene, start).expect("delivered");
    let sender = &mut scene.net.stacks[SENDER];
    let totals = sender.totals(scene.sender).expect("there");
    let trace = sender.take_trace(scene.sender);
    let repairs = sender.counters().repair_times;
    Outcome {
        sent: trace.iter().filter_map(|e| sent(e, start)).collect(),
        wire: on_the_wire(&scene, start),
        done,
        timeouts: timeouts(&trace, start, done),
        totals,
        repairs: (repairs.count(), repairs.sum().as_micros()),
    }
}

fn us(start: Instant, t: Instant) -> u64 {
    t.since(start).as_micros()
}

/// Drops the first data segment that the sender sends from `port`.
fn lose_first_data_on(net: &mut Net, port: u16) {
    let mut lost = false;
    net.hook = Some(Box::new(move |_, side, seg| {
        let hit = side == SENDER && seg.src.port == port && !seg.payload.is_empty() && !lost;
        lost |= hit;
        !hit
    }));
}

/// Runs for 100 ms and reads at the receiver. Returns the microseconds after which all five packets were read.
fn deliver(scene: &mut Scene, start: Instant) -> Option<u64> {
    let Scene { net, receiver, .. } = scene;
    let (mut left, mut done) = (5 * u64::from(PACKET), None);
    while net.step(start + Duration::from_millis(100)) {
        while let Ok(Some(p)) = net.stacks[RECEIVER].recv(net.now, *receiver, usize::MAX) {
            left -= p.len() as u64;
        }
        if left == 0 {
            done.get_or_insert(us(start, net.now));
        }
    }
    done
}

/// The data segment of an event of the trace. `None` if the event is something else.
fn sent(e: &TraceEvent, start: Instant) -> Option<Sent> {
    let TraceKind::Sent {
        kind, offset, len, ..
    } = e.kind
    else {
        return None;
    };
    let packet = 1 + offset.since_start() / u64::from(PACKET);
    Some((us(start, e.at), e.subflow.0, kind, packet, len))
}

/// The number of timeouts up to `done`, and in total.
fn timeouts(trace: &[TraceEvent], start: Instant, done: u64) -> (usize, usize) {
    let timeouts = || {
        trace
            .iter()
            .filter(|e| matches!(e.kind, TraceKind::Timeout))
    };
    let before = timeouts().filter(|e| us(start, e.at) <= done);
    (before.count(), timeouts().count())
}

/// The sender's data segments in the log of the network, as [`Outcome::wire`].
fn on_the_wire(scene: &Scene, start: Instant) -> Vec<(u64, u8, u64, u32, bool)> {
    let mut first = None;
    let log = scene.net.log.iter();
    let data = log.filter(|l| l.side == SENDER && !l.segment.payload.is_empty());
    let wire = data.map(|l| {
        let mapping = l.segment.options.dss.and_then(|d| d.mapping);
        let map = mapping.expect("every segment is mapped");
        let DataNumber::Low(dsn) = map.dsn else {
            panic!("four bytes")
        };
        let offset = dsn.wrapping_sub(*first.get_or_insert(dsn));
        let mut ports = scene.ports.iter();
        let subflow = ports.position(|p| *p == l.segment.src.port);
        (
            us(start, l.at),
            subflow.expect("known") as u8,
            1 + u64::from(offset / PACKET),
            l.segment.payload.len() as u32,
            l.arrives,
        )
    });
    wire.collect()
}

/// P1 to P5 as they are sent with or without proactive recovery.
const ORIGINALS: [Sent; 5] = [
    (0, 0, SendKind::New, 1, PACKET),
    (0, 1, SendKind::New, 2, PACKET),
    (0, 2, SendKind::New, 3, PACKET),
    (200, 2, SendKind::New, 4, PACKET),
    (200, 2, SendKind::New, 5, PACKET),
];

fn check_wire(r: &Outcome) {
    let from_trace = r.sent.iter().map(|s| (s.0, s.1, s.3, s.4));
    let from_wire = r.wire.iter().map(|w| (w.0, w.1, w.2, w.3));
    assert!(from_trace.eq(from_wire), "{r:#?}");
    let lost: Vec<_> = r.wire.iter().filter(|w| !w.4).map(|w| w.2).collect();
    assert_eq!(lost, [2], "P2 and nothing else");
}

#[test]
fn fuso_copies_p2_on_the_best_subflow_as_soon_as_its_window_allows() {
    let r = transfer("fuso-3");
    let mut wanted = ORIGINALS.to_vec();
    // At 400 us P1, P4 and P5 are acknowledged. Only the second subflow has outstanding data, so it is the
    // worst. Among the other subflows the third is the best, by RTT because none of them has retransmitted.
    wanted.push((400, 2, SendKind::Recovery, 2, PACKET));
    // The worst subflow is not notified (mechanisms A1.1, rule 7). Its own timer still fires, too late to
    // matter.
    wanted.push((5000, 1, SendKind::Retransmission, 2, PACKET));
    assert_eq!(r.sent, wanted);
    check_wire(&r);
    assert_eq!(r.done, 500, "one way over the third subflow");
    assert_eq!(r.timeouts, (0, 1));
    let t = r.totals;
    assert_eq!((t.recoveries, t.recoveries_useful, t.losses), (1, 1, 1));
    // The acknowledgement of the copy. That of the retransmission does not count.
    assert_eq!(r.repairs, (1, 600));
}

#[test]
fn mptcp_retransmits_p2_only_after_the_timeout() {
    let r = transfer("mptcp-3");
    let mut wanted = ORIGINALS.to_vec();
    wanted.push((5000, 1, SendKind::Retransmission, 2, PACKET));
    assert_eq!(r.sent, wanted);
    check_wire(&r);
    assert_eq!(
        r.done, 5230,
        "one way over the second subflow after its timeout"
    );
    assert_eq!(r.timeouts, (1, 1));
    let t = r.totals;
    assert_eq!((t.recoveries, t.recoveries_useful, t.losses), (0, 0, 1));
    assert_eq!(r.repairs, (1, 5460));
}
