//! What a custom scheduler sees of a connection, when it is asked, and how its decisions are carried out.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::sync::{Arc, Mutex, PoisonError};

use spindle_mptcp::path_manager::Ports;
use spindle_mptcp::scheduler::{
    Decision, MinRtt, Scheduler, SchedulerFactory, SubflowView, View, built_in,
};
use spindle_mptcp::{
    Config, Event, Handle, InitialWindow, SubflowId, TraceEvent, TraceKind, preset,
};
use spindle_units::{Duration, Instant};
use spindle_wire::{Packet, Payload};
use support::{CLIENT as SENDER, Net, Path, SERVER as RECEIVER, endpoint};

/// Payload bytes of a full segment: an MSS of 1032 minus 12 for timestamps and 20 for the DSS.
const PACKET: u64 = 1000;
/// Segments of the initial window of each subflow.
const WINDOW: u64 = 10;

/// What a scheduler saw at one time.
#[derive(Clone, Debug)]
struct Seen {
    at: Instant,
    subflows: Vec<SubflowView>,
    candidates: Vec<SubflowId>,
    unsent: u64,
    window: u64,
    message_left: Option<u64>,
}

type Record = Arc<Mutex<Vec<Seen>>>;

/// The rule of a [`Custom`] scheduler.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// The subflow with room and the smallest RTT.
    MinRtt,
    /// Like [`Self::MinRtt`], but each segment waits for this time.
    Each(Duration),
    /// Waits until a time in the past.
    Past,
}

/// Records what it sees.
#[derive(Clone, Debug)]
struct Custom {
    rule: Rule,
    sees_all: bool,
    record: Record,
    waits_until: Option<Instant>,
}

impl Custom {
    fn new(rule: Rule, sees_all: bool) -> Self {
        Self {
            rule,
            sees_all,
            record: Record::default(),
            waits_until: None,
        }
    }
}

impl SchedulerFactory for Custom {
    fn name(&self) -> &str {
        "custom"
    }

    fn summary(&self) -> &str {
        "records what it sees"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

impl Scheduler for Custom {
    fn sees_all(&self) -> bool {
        self.sees_all
    }

    fn pick(&mut self, view: &View<'_>) -> Decision {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.push(Seen {
            at: view.now,
            subflows: view.subflows.to_vec(),
            candidates: view.candidates.iter().map(|c| c.id).collect(),
            unsent: view.unsent,
            window: view.window(),
            message_left: view.message_left,
        });
        drop(record);
        match self.rule {
            Rule::MinRtt => MinRtt.pick(view),
            Rule::Past => Decision::WaitUntil(view.now),
            Rule::Each(wait) => match self.waits_until {
                None => {
                    self.waits_until = Some(view.now + wait);
                    Decision::WaitUntil(view.now + wait)
                }
                Some(until) if view.now < until => Decision::WaitUntil(until),
                Some(_) => {
                    self.waits_until = None;
                    MinRtt.pick(view)
                }
            },
        }
    }
}

struct Scene {
    net: Net,
    sender: Handle,
    receiver: Handle,
    start: Instant,
}

/// A connection with two subflows, which have round trips of 20 and 200 ms.
fn connect(scheduler: Arc<dyn SchedulerFactory>) -> Scene {
    let mut c: Config = preset("mptcp").expect("a preset").config;
    c.tcp.mss = PACKET as u32 + 32;
    c.tcp.timestamps = true;
    c.tcp.initial_window = InitialWindow::PerSubflow(WINDOW as u32);
    c.tcp.receive_buffer = 128_000;
    if let Some(m) = &mut c.multipath {
        m.path_manager = Arc::new(Ports(2));
        m.scheduler = scheduler;
    }
    let path = |ms| Path::clean(Duration::from_millis(ms));
    let mut net = Net::new(1, vec![path(10), path(100)]);
    // The first subflow that sends is on the path of 20 ms.
    let mut fast = None;
    net.route = Some(Box::new(move |packet: &Packet| {
        let port = match packet.src().port {
            80 => packet.dst().port,
            port => port,
        };
        usize::from(*fast.get_or_insert(port) != port)
    }));
    let (server, config) = (endpoint(2, 80), Arc::new(c));
    net.stacks[RECEIVER]
        .listen(server, Arc::clone(&config))
        .expect("free");
    let sender = net.stacks[SENDER]
        .connect(net.now, endpoint(1, 0), server, config)
        .expect("connects");
    let end = net.now + Duration::from_secs(1);
    while net.step(end) {}
    let accepted = net.events.iter().find_map(|(_, _, e)| match e {
        Event::Accepted { handle, .. } => Some(*handle),
        _ => None,
    });
    // Data from the peer allow the client to join.
    let receiver = accepted.expect("accepted");
    net.stacks[RECEIVER]
        .send(net.now, receiver, Payload::Length(1))
        .expect("sends");
    let end = end + Duration::from_secs(1);
    while net.step(end) {}
    let info = net.stacks[SENDER].info(sender).expect("there");
    assert_eq!(info.subflows.len(), 2);
    net.stacks[SENDER].set_trace(sender, true);
    net.now = end;
    Scene {
        start: net.now,
        receiver,
        net,
        sender,
    }
}

impl Scene {
    fn write(&mut self, segments: u64) {
        let data = Payload::Length((segments * PACKET) as u32);
        let written = self.net.stacks[SENDER].send(self.net.now, self.sender, data);
        assert_eq!(written, Ok((segments * PACKET) as usize));
    }

    /// Runs until `segments` full segments are read. Returns the time of the last read, in milliseconds since
    /// the start.
    fn read(&mut self, segments: u64) -> u64 {
        let mut left = segments * PACKET;
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

    /// Data segments that were sent: milliseconds since the start, and the subflow.
    fn sent(&mut self) -> Vec<(u64, u8)> {
        let start = self.start;
        let sent = |e: TraceEvent| match e.kind {
            TraceKind::Sent { .. } => Some((e.at.since(start).as_micros() / 1000, e.subflow.0)),
            _ => None,
        };
        let events = self.net.stacks[SENDER].take_trace(self.sender);
        events.into_iter().filter_map(sent).collect()
    }
}

/// Runs a transfer of `segments` full segments. Returns the scene after it and what the scheduler saw in it.
fn transfer(custom: Custom, segments: u64) -> (Scene, Vec<Seen>) {
    let record = Arc::clone(&custom.record);
    let mut s = connect(Arc::new(custom));
    record.lock().expect("not poisoned").clear();
    s.net.stacks[SENDER].message_ends_after(s.sender, segments * PACKET);
    s.write(segments);
    s.read(segments);
    let seen = record.lock().expect("not poisoned").clone();
    (s, seen)
}

#[test]
fn scheduler_that_waits_until_a_time_is_asked_again_at_that_time_and_not_in_between() {
    let wait = Duration::from_millis(7);
    let (mut s, seen) = transfer(Custom::new(Rule::Each(wait), false), 2);
    assert_eq!(s.sent(), [(7, 0), (14, 0)]);
    let start = s.start;
    let asked: Vec<_> = seen
        .iter()
        .filter(|seen| seen.unsent > 0)
        .map(|seen| seen.at.since(start).as_micros() / 1000)
        .collect();
    assert_eq!(asked, [0, 7, 7, 14]);
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "is not later than"))]
fn wait_until_a_time_that_is_not_in_the_future_panics_in_debug_builds_and_never_loops() {
    let mut s = connect(Arc::new(Custom::new(Rule::Past, false)));
    s.write(1);
    let limit = s.start + Duration::from_secs(1);
    while s.net.step(limit) {}
    assert_eq!(s.sent(), []);
}

#[test]
fn scheduler_that_sees_all_is_shown_subflows_without_room() {
    let (_, seen) = transfer(Custom::new(Rule::MinRtt, true), 25);
    let first = &seen[0];
    assert_eq!(first.subflows.len(), 2);
    assert!(
        first
            .subflows
            .iter()
            .all(|s| s.has_room && s.in_flight == 0)
    );
    let milliseconds = |d: Option<Duration>| d.map(|d| d.as_micros() / 1000);
    let rtts = first.subflows.iter().map(|s| milliseconds(s.min_rtt));
    assert_eq!(rtts.collect::<Vec<_>>(), [Some(20), Some(200)]);
    let full = seen.iter().find(|s| s.candidates == [SubflowId(1)]);
    let fast = full.expect("the first subflow was full").subflows[0];
    assert_eq!(
        (fast.has_room, fast.in_flight, fast.queued),
        (false, WINDOW * PACKET, WINDOW * PACKET)
    );
    assert_eq!(
        (fast.cwnd, fast.mss, fast.in_slow_start),
        (WINDOW * PACKET, PACKET, true)
    );
    assert!(fast.rtt_variation.is_some() && fast.pacing_rate.is_some());
    assert_eq!((fast.sent, fast.retransmitted), (WINDOW, 0));
    assert_eq!(seen[0].window, 128_000);
}

#[test]
fn other_schedulers_are_shown_only_the_candidates() {
    let (_, seen) = transfer(Custom::new(Rule::MinRtt, false), 25);
    let shown = |s: &Seen| !s.subflows.is_empty() || s.message_left.is_some();
    assert!(!seen.iter().any(shown));
}

#[test]
fn message_left_is_what_remains_of_the_declared_message_whether_written_or_not() {
    let custom = Custom::new(Rule::MinRtt, true);
    let record = Arc::clone(&custom.record);
    let mut s = connect(Arc::new(custom));
    record.lock().expect("not poisoned").clear();
    s.net.stacks[SENDER].message_ends_after(s.sender, 3 * PACKET);
    s.net.stacks[SENDER].message_ends_after(s.sender, 5 * PACKET);
    s.write(2);
    s.read(2);
    s.write(4);
    s.read(4);
    let seen = record.lock().expect("not poisoned").clone();
    let asked = seen.iter().filter(|seen| seen.unsent > 0);
    let left: Vec<_> = asked.map(|s| s.message_left.map(|n| n / PACKET)).collect();
    // Two segments of the first message, its last one, two of the second, and one of no declared message.
    let expected = [Some(3), Some(2), Some(1), Some(2), Some(1), None];
    assert_eq!(left, expected);
}

/// Time of the last arrival of a response, in milliseconds, and the number of segments on the slow subflow.
fn response(scheduler: &str, segments: u64) -> (u64, usize) {
    let found = built_in().iter().find(|s| s.name() == scheduler);
    let mut s = connect(Arc::clone(found.expect("built in")));
    s.write(segments);
    let took = s.read(segments);
    (took, s.sent().iter().filter(|e| e.1 == 1).count())
}

/// Windows of 10, 20 and the rest on the fast subflow: two round trips and a half of 20 ms.
#[test]
fn ecf_and_blest_send_a_short_response_on_the_fast_subflow_alone_and_min_rtt_does_not() {
    assert_eq!(response("minrtt", 35), (100, 10));
    assert_eq!(response("ecf", 35), (50, 0));
    assert_eq!(response("blest", 35), (50, 0));
}
