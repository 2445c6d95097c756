//! The preset `mptcp-linux` behaves like the Linux kernel: bursts are assigned ahead of the window, the
//! connection's timer reinjects over an idle subflow, and ssthresh comes from cwnd.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::sync::Arc;

use spindle_mptcp::path_manager::Ports;
use spindle_mptcp::{
    Config, Event, Handle, InitialWindow, ReductionBase, SendKind, SubflowId, TraceEvent,
    TraceKind, preset,
};
use spindle_units::{Duration, Instant};
use spindle_wire::Payload;
use support::{CLIENT as SENDER, Net, Path, SERVER as RECEIVER, endpoint};

/// Payload bytes of a full segment: an MSS of 1032 minus 12 for timestamps and 20 for the DSS.
const PACKET: u32 = 1000;
/// One burst of the kernel's scheduler.
const BURST: u64 = 65_428;

fn twin() -> Config {
    let mut c = preset("mptcp-linux").expect("a preset").config;
    c.tcp.mss = PACKET + 32;
    c.tcp.initial_window = InitialWindow::PerSubflow(10);
    if let Some(m) = &mut c.multipath {
        m.path_manager = Arc::new(Ports(2));
    }
    c
}

struct Scene {
    net: Net,
    sender: Handle,
    receiver: Handle,
    /// The sender's port on each subflow.
    ports: Vec<u16>,
    start: Instant,
}

/// Two subflows, each with a round trip of 10 ms.
fn connect() -> Scene {
    let path = Path::clean(Duration::from_millis(5));
    let mut net = Net::new(1, vec![path.clone(), path]);
    let server = endpoint(2, 80);
    let config = Arc::new(twin());
    net.stacks[RECEIVER]
        .listen(server, Arc::clone(&config))
        .expect("free");
    let sender = net.stacks[SENDER]
        .connect(net.now, endpoint(1, 0), server, config)
        .expect("connects");
    let end = net.now + Duration::from_millis(100);
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
    let info = net.stacks[SENDER].info(sender).expect("there");
    assert_eq!(info.subflows.len(), 2);
    let ports = info.subflows.iter().map(|s| s.local.port).collect();
    net.stacks[SENDER].set_trace(sender, true);
    net.now = end;
    Scene {
        start: net.now,
        net,
        sender,
        receiver,
        ports,
    }
}

impl Scene {
    fn write(&mut self, bytes: u32) {
        let written =
            self.net.stacks[SENDER].send(self.net.now, self.sender, Payload::Length(bytes));
        assert_eq!(written, Ok(bytes as usize));
    }

    /// Runs until `bytes` are read. Returns the time of the last read, in milliseconds since the start.
    fn read(&mut self, bytes: u32) -> u64 {
        let mut left = u64::from(bytes);
        let limit = self.start + Duration::from_secs(30);
        while left > 0 && self.net.step(limit) {
            let now = self.net.now;
            while let Ok(Some(p)) = self.net.stacks[RECEIVER].recv(now, self.receiver, usize::MAX) {
                left -= p.len() as u64;
            }
        }
        assert_eq!(left, 0, "all is read");
        self.net.now.since(self.start).as_micros() / 1000
    }

    /// Data segments that were sent: milliseconds since the start, subflow, kind, offset.
    fn sent(&mut self) -> Vec<(u64, SubflowId, SendKind, u64)> {
        let start = self.start;
        let sent = |e: TraceEvent| match e.kind {
            TraceKind::Sent { kind, offset, .. } => {
                let at = e.at.since(start).as_micros() / 1000;
                Some((at, e.subflow, kind, offset.since_start()))
            }
            _ => None,
        };
        let events = self.net.stacks[SENDER].take_trace(self.sender);
        events.into_iter().filter_map(sent).collect()
    }
}

#[test]
fn data_of_one_burst_stay_on_the_first_subflow_even_if_the_other_is_idle() {
    let mut s = connect();
    s.write(48_000);
    // Windows of 10, 20 and the rest: three round trips, of which the last counts as half.
    assert_eq!(s.read(48_000), 25);
    assert!(
        s.sent().iter().all(|e| e.1 == SubflowId(0)),
        "one burst, one subflow"
    );
}

#[test]
fn second_burst_is_sent_on_the_other_subflow() {
    let mut s = connect();
    s.write(120_000);
    s.read(120_000);
    for (_, subflow, kind, offset) in s.sent() {
        assert_eq!(kind, SendKind::New);
        assert_eq!(
            u64::from(subflow.0),
            u64::from(offset >= BURST),
            "offset {offset}"
        );
    }
}

#[test]
fn blocked_subflow_keeps_its_burst_until_the_connection_timer() {
    let mut s = connect();
    let dead = s.ports[0];
    s.net.hook = Some(Box::new(move |_, _, seg| {
        seg.src.port != dead && seg.dst.port != dead
    }));
    s.write(20_000);
    let done = s.read(20_000);
    let sent = s.sent();
    // The second subflow gets no data before the timer, although the burst cannot be sent.
    assert!(
        sent.iter().all(|e| e.1 == SubflowId(0) || e.0 >= 200),
        "{sent:?}"
    );
    let first = sent.iter().filter(|e| e.2 == SendKind::New && e.3 < 10_000);
    assert!(first.clone().count() == 10 && first.clone().all(|e| e.1 == SubflowId(0)));
    let again: Vec<_> = sent
        .iter()
        .filter(|e| e.2 == SendKind::Reinjection)
        .collect();
    assert!(
        again.iter().all(|e| e.1 == SubflowId(1)),
        "on the idle subflow"
    );
    // The window of ten packets and the tail loss probe, which was new data.
    assert_eq!(again.len(), 11, "the part of the fragment that was sent");
    // The rest of the burst waits for the timer again, because the subflow is never considered dead.
    assert!(done > 400, "{done} ms");
}

#[test]
fn connection_timer_reinjects_nothing_without_an_idle_subflow() {
    let mut s = connect();
    let lossy = s.ports[0];
    let (mut first, start) = (None, s.start);
    s.net.hook = Some(Box::new(move |now, side, seg| {
        let data = side == SENDER && seg.src.port == lossy && !seg.payload.is_empty();
        let hit = data && *first.get_or_insert(seg.seq) == seg.seq;
        !(hit && now < start + Duration::from_millis(300))
    }));
    // The second subflow is busy with its burst until long after the timer.
    s.write(10 * BURST as u32);
    s.read(10 * BURST as u32);
    let early = s
        .sent()
        .into_iter()
        .filter(|e| e.2 == SendKind::Reinjection && e.0 < 200)
        .count();
    assert_eq!(early, 0);
}

#[test]
fn ssthresh_is_computed_from_cwnd_if_configured() {
    let reduced = |flight: ReductionBase| {
        let mut c = twin();
        c.loss.flight = flight;
        c.multipath = None;
        let mut net = Net::new(1, vec![Path::clean(Duration::from_millis(5))]);
        let server = endpoint(2, 80);
        let config = Arc::new(c);
        net.stacks[RECEIVER]
            .listen(server, Arc::clone(&config))
            .expect("free");
        let sender = net.stacks[SENDER]
            .connect(net.now, endpoint(1, 0), server, config)
            .expect("connects");
        let end = net.now + Duration::from_millis(100);
        while net.step(end) {}
        // Five segments of a window of ten are in flight. The first is lost.
        let mut lost = false;
        net.hook = Some(Box::new(move |_, side, seg| {
            let hit = side == SENDER && !seg.payload.is_empty() && !lost;
            lost |= hit;
            !hit
        }));
        net.now = end;
        let written = net.stacks[SENDER].send(net.now, sender, Payload::Length(5 * PACKET));
        assert_eq!(written, Ok(5 * PACKET as usize));
        let later = end + Duration::from_millis(60);
        while net.step(later) {}
        let info = net.stacks[SENDER].info(sender).expect("there");
        info.subflows[0].ssthresh
    };
    let (flight, cwnd) = (
        reduced(ReductionBase::FlightSize),
        reduced(ReductionBase::CongestionWindow),
    );
    // CUBIC reduces to seven tenths (RFC 9438, section 4.6).
    assert!(
        (cwnd as f64 / flight as f64 - 2.0).abs() < 0.1,
        "{flight} {cwnd}"
    );
}
