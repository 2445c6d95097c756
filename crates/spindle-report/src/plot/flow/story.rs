//! Turns a flow's events into what is drawn: each transmission with its fate, each copy with its original, each
//! timeout with the wait before it.

use std::collections::{HashMap, VecDeque};

use spindle_experiment::flow_trace::{FlowEvent, FlowEventKind, FlowTrace};
use spindle_units::Instant;

/// At most this many transmissions are drawn. A picture with more would be solid ink.
const MOST_DRAWN: usize = 3_000;

/// How many transmissions are searched for a timeout or copy if none starts at its DSN.
const LOOK_BACK: usize = 512;

/// The fate of a transmission.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fate {
    /// It reached the receiver, at this time in microseconds.
    Arrived(f64),
    /// It was dropped at this time by this link.
    Lost(f64, String),
    /// The trace does not contain its fate.
    Unknown,
}

/// Why a segment was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// For the first time.
    New,
    /// Again, by its own subflow.
    Again,
    /// As a copy of another subflow's data.
    Copy,
    /// As a loss probe.
    Probe,
    /// As a parity. Its bytes are those that it covers.
    Parity,
}

/// A segment's transmission. Times are in microseconds since the request, sequence numbers in bytes since the
/// flow's first byte.
#[derive(Clone, Debug)]
pub(crate) struct Transmission {
    /// The lane.
    pub(crate) subflow: u8,
    /// Why it was sent.
    pub(crate) kind: Kind,
    /// When it was sent.
    pub(crate) sent: f64,
    /// First byte.
    pub(crate) dsn: f64,
    /// Length in bytes.
    pub(crate) len: f64,
    /// The transmission's fate.
    pub(crate) fate: Fate,
    /// The note of the event.
    pub(crate) note: String,
    /// Whether it must be drawn regardless of the number of transmissions.
    telling: bool,
}

/// A wait for a retransmission timer.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    /// The lane.
    pub(crate) subflow: u8,
    /// When the segment waited for was sent.
    pub(crate) from: f64,
    /// When the timer fired.
    pub(crate) to: f64,
    /// First byte waited for.
    pub(crate) dsn: f64,
}

/// A packet that the receiver decoded from parities.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Repair {
    /// The lane of the packet.
    pub(crate) subflow: u8,
    /// The time, in microseconds since the request.
    pub(crate) at: f64,
    /// First byte.
    pub(crate) dsn: f64,
    /// Length in bytes.
    pub(crate) len: f64,
    /// The last parity to arrive that covers the packet, as an index into [`Story::sent`].
    pub(crate) by: Option<usize>,
}

/// A subflow's congestion window at an acknowledgement or timeout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    /// The lane.
    pub(crate) subflow: u8,
    /// The time, in microseconds since the request.
    pub(crate) at: f64,
    /// cwnd in bytes.
    pub(crate) cwnd: f64,
    /// Bytes in flight.
    pub(crate) in_flight: f64,
}

/// A flow that is ready to be drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// The transmissions, in the order sent.
    pub(crate) sent: Vec<Transmission>,
    /// Original and copy, as indices into `sent`.
    pub(crate) copies: Vec<(usize, usize)>,
    /// The packets decoded from parities.
    pub(crate) repairs: Vec<Repair>,
    /// The waits for timeouts.
    pub(crate) waits: Vec<Wait>,
    /// Fast retransmits: lane, time, DSN.
    pub(crate) fast: Vec<(u8, f64, f64)>,
    /// DATA_ACKs as the sender received them: time, DSN.
    pub(crate) acked: Vec<(f64, f64)>,
    /// Congestion windows, ordered by time.
    pub(crate) windows: Vec<Window>,
    /// The largest window or number of bytes in flight, at least one byte.
    pub(crate) widest: f64,
    /// Lowest and highest byte.
    pub(crate) span: (f64, f64),
    /// How many transmissions are left out of the drawing.
    pub(crate) left_out: usize,
    /// How long the flow took, in microseconds.
    pub(crate) completed: f64,
    /// The number of lanes: one for each subflow that the connection has or that has an event.
    pub(crate) lanes: usize,
}

/// Reads a trace.
pub(crate) fn read(trace: &FlowTrace) -> Story {
    let mut reader = Reader {
        issued: trace.issued,
        origin: trace
            .events
            .iter()
            .find(|e| e.kind == FlowEventKind::New)
            .map_or(0, |e| e.dsn),
        under_way: HashMap::new(),
        latest: HashMap::new(),
        story: Story {
            completed: micros(trace.issued, trace.completed),
            ..Story::default()
        },
    };
    for event in &trace.events {
        reader.take(event);
    }
    let mut story = reader.story;
    let top = trace
        .events
        .iter()
        .map(|e| usize::from(e.subflow) + 1)
        .max()
        .unwrap_or(0);
    story.lanes = top.max(usize::from(trace.subflows)).max(1);
    let (low, high) = story.sent.iter().fold((0.0f64, 1.0f64), |(l, h), t| {
        (l.min(t.dsn), h.max(t.dsn + t.len))
    });
    story.span = (low, high);
    let windows = story.windows.iter();
    story.widest = windows.fold(1.0, |w: f64, x| w.max(x.cwnd).max(x.in_flight));
    thin(&mut story);
    story
}

fn micros(from: Instant, to: Instant) -> f64 {
    to.since(from).as_nanos() as f64 / 1e3
}

struct Reader {
    issued: Instant,
    origin: u64,
    /// Transmissions whose fate is open, by lane, DSN and whether they are parities. A path keeps their order.
    under_way: HashMap<(u8, u64, bool), VecDeque<usize>>,
    /// The last transmission of data by lane and DSN.
    latest: HashMap<(u8, u64), usize>,
    story: Story,
}

impl Reader {
    fn take(&mut self, e: &FlowEvent) {
        let at = micros(self.issued, e.at);
        let dsn = e.dsn.wrapping_sub(self.origin) as i64 as f64;
        match &e.kind {
            FlowEventKind::New => self.send(e, at, dsn, Kind::New),
            FlowEventKind::Retransmission => self.send(e, at, dsn, Kind::Again),
            FlowEventKind::Probe => self.send(e, at, dsn, Kind::Probe),
            FlowEventKind::Parity { .. } => self.send(e, at, dsn, Kind::Parity),
            FlowEventKind::Recovery { copy_of_subflow } => {
                let original = self.carrier(*copy_of_subflow, e.dsn, dsn);
                self.send(e, at, dsn, Kind::Copy);
                if let Some(original) = original {
                    self.story.sent[original].telling = true;
                    self.story
                        .copies
                        .push((original, self.story.sent.len() - 1));
                }
            }
            FlowEventKind::Arrived => self.end(e, false, Fate::Arrived(at)),
            FlowEventKind::ParityArrived => self.end(e, true, Fate::Arrived(at)),
            FlowEventKind::Lost { link } => self.end(e, false, Fate::Lost(at, link.clone())),
            FlowEventKind::ParityLost { link } => self.end(e, true, Fate::Lost(at, link.clone())),
            FlowEventKind::Decoded => {
                let by = self.repairer(dsn);
                self.story.repairs.push(Repair {
                    subflow: e.subflow,
                    at,
                    dsn,
                    len: f64::from(e.len),
                    by,
                });
            }
            FlowEventKind::AckedData => {
                let before = self.story.acked.last().map_or(0.0, |a| a.1);
                if dsn > before {
                    self.story.acked.push((at, dsn));
                }
            }
            FlowEventKind::Rto => {
                let carrier = self.carrier(e.subflow, e.dsn, dsn);
                let from = carrier.map_or(at, |i| self.story.sent[i].sent);
                self.story.waits.push(Wait {
                    subflow: e.subflow,
                    from,
                    to: at,
                    dsn,
                });
            }
            FlowEventKind::FastRetransmit => self.story.fast.push((e.subflow, at, dsn)),
            FlowEventKind::Window { cwnd, in_flight } => self.story.windows.push(Window {
                subflow: e.subflow,
                at,
                cwnd: *cwnd as f64,
                in_flight: *in_flight as f64,
            }),
        }
    }

    fn send(&mut self, e: &FlowEvent, sent: f64, dsn: f64, kind: Kind) {
        let index = self.story.sent.len();
        let parity = kind == Kind::Parity;
        self.under_way
            .entry((e.subflow, e.dsn, parity))
            .or_default()
            .push_back(index);
        if !parity {
            self.latest.insert((e.subflow, e.dsn), index);
        }
        self.story.sent.push(Transmission {
            subflow: e.subflow,
            kind,
            sent,
            dsn,
            len: f64::from(e.len),
            fate: Fate::Unknown,
            note: e.note.clone(),
            telling: kind != Kind::New,
        });
    }

    fn end(&mut self, e: &FlowEvent, parity: bool, fate: Fate) {
        let waiting = self.under_way.get_mut(&(e.subflow, e.dsn, parity));
        let Some(index) = waiting.and_then(VecDeque::pop_front) else {
            return;
        };
        let t = &mut self.story.sent[index];
        t.telling |= matches!(fate, Fate::Lost(..));
        t.fate = fate;
    }

    /// The last parity to arrive that covers a byte.
    fn repairer(&self, dsn: f64) -> Option<usize> {
        let covers =
            |t: &Transmission| t.kind == Kind::Parity && t.dsn <= dsn && dsn < t.dsn + t.len;
        let arrived = |t: &Transmission| match t.fate {
            Fate::Arrived(at) => Some(at),
            Fate::Lost(..) | Fate::Unknown => None,
        };
        let recent = self.story.sent.iter().enumerate().rev().take(LOOK_BACK);
        let all = recent.filter(|(_, t)| covers(t));
        let all = all.filter_map(|(i, t)| Some((arrived(t)?, i)));
        all.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, i)| i)
    }

    /// The last transmission on a lane that carried a byte.
    fn carrier(&self, subflow: u8, dsn: u64, relative: f64) -> Option<usize> {
        let covers = |t: &Transmission| {
            let data = t.kind != Kind::Parity && t.subflow == subflow;
            data && t.dsn <= relative && relative < t.dsn + t.len
        };
        let recent = self.story.sent.iter().enumerate().rev().take(LOOK_BACK);
        let exact = self.latest.get(&(subflow, dsn)).copied();
        exact.or_else(|| recent.into_iter().find(|(_, t)| covers(t)).map(|(i, _)| i))
    }
}

/// Leaves out ordinary transmissions at even distances until the rest can be drawn.
fn thin(story: &mut Story) {
    story.windows.truncate(2 * MOST_DRAWN);
    if story.sent.len() <= MOST_DRAWN {
        return;
    }
    let telling = story.sent.iter().filter(|t| t.telling).count();
    let room = MOST_DRAWN.saturating_sub(telling).max(1);
    let stride = (story.sent.len() - telling).div_ceil(room).max(1);
    let mut index = HashMap::new();
    let mut kept = Vec::new();
    for (i, t) in story.sent.drain(..).enumerate() {
        let stays = if t.telling {
            kept.len() < 2 * MOST_DRAWN
        } else {
            i % stride == 0
        };
        if stays {
            index.insert(i, kept.len());
            kept.push(t);
        } else {
            story.left_out += 1;
        }
    }
    story.sent = kept;
    let find = |i: &usize| index.get(i).copied();
    story.copies = story
        .copies
        .iter()
        .filter_map(|(a, b)| Some((find(a)?, find(b)?)))
        .collect();
    for repair in &mut story.repairs {
        repair.by = repair.by.as_ref().and_then(find);
    }
    story.repairs.truncate(MOST_DRAWN);
    story.acked.truncate(MOST_DRAWN);
    story.waits.truncate(MOST_DRAWN);
    story.fast.truncate(MOST_DRAWN);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(us: u64, subflow: u8, kind: FlowEventKind, dsn: u64) -> FlowEvent {
        let at = Instant::from_nanos(us * 1_000);
        FlowEvent {
            at,
            subflow,
            kind,
            dsn,
            len: 1460,
            note: String::new(),
        }
    }

    fn trace(events: Vec<FlowEvent>) -> FlowTrace {
        FlowTrace {
            transport: "fuso".into(),
            number: 7,
            title: "a flow".into(),
            issued: Instant::ZERO,
            completed: Instant::from_nanos(1_000_000),
            subflows: 2,
            paths: Vec::new(),
            events,
            compare_with: None,
        }
    }

    #[test]
    fn copies_are_joined_to_originals_and_timeouts_to_waits() {
        let start = u64::MAX - 1459;
        let story = read(&trace(vec![
            event(0, 0, FlowEventKind::New, start),
            event(1, 1, FlowEventKind::New, 0),
            event(50, 0, FlowEventKind::Lost { link: "p1".into() }, start),
            event(90, 1, FlowEventKind::Arrived, 0),
            event(
                200,
                1,
                FlowEventKind::Recovery { copy_of_subflow: 0 },
                start,
            ),
            event(290, 1, FlowEventKind::Arrived, start),
            event(5_000, 0, FlowEventKind::Rto, start),
        ]));
        assert_eq!(story.copies, [(0, 2)]);
        assert_eq!(story.sent[0].fate, Fate::Lost(50.0, "p1".into()));
        assert_eq!(story.sent[2].fate, Fate::Arrived(290.0));
        assert_eq!((story.waits[0].from, story.waits[0].to), (0.0, 5_000.0));
        assert_eq!(story.span, (0.0, 2920.0), "sequence numbers wrap");
    }

    #[test]
    fn parities_are_joined_to_the_packets_they_repaired() {
        let parity = |again| FlowEventKind::Parity {
            of_subflow: 0,
            packets: 2,
            again,
        };
        let of = |us, subflow, kind| FlowEvent {
            len: 2920,
            ..event(us, subflow, kind, 0)
        };
        let lost = |link: &str| link.to_owned();
        let story = read(&trace(vec![
            event(0, 0, FlowEventKind::New, 0),
            event(1, 0, FlowEventKind::New, 1460),
            of(2, 0, parity(false)),
            of(3, 1, parity(false)),
            event(50, 0, FlowEventKind::Lost { link: lost("p1") }, 1460),
            event(90, 0, FlowEventKind::Arrived, 0),
            of(95, 0, FlowEventKind::ParityLost { link: lost("p1") }),
            of(99, 1, FlowEventKind::ParityArrived),
            event(99, 0, FlowEventKind::Decoded, 1460),
            event(900, 0, FlowEventKind::Rto, 0),
        ]));
        let fates: Vec<_> = story.sent.iter().map(|t| t.fate.clone()).collect();
        let gone = |at| Fate::Lost(at, lost("p1"));
        let arrived = Fate::Arrived;
        assert_eq!(
            fates,
            [arrived(90.0), gone(50.0), gone(95.0), arrived(99.0)]
        );
        let repair = Repair {
            subflow: 0,
            at: 99.0,
            dsn: 1460.0,
            len: 1460.0,
            by: Some(3),
        };
        assert_eq!(story.repairs, [repair]);
        assert_eq!(
            story.waits[0].from, 0.0,
            "a parity is not what is waited for"
        );
        assert_eq!(story.span, (0.0, 2920.0));
    }

    #[test]
    fn a_long_flow_is_thinned_and_keeps_its_copies() {
        let mut events: Vec<_> = (0..100_000)
            .map(|i| event(i, 0, FlowEventKind::New, i * 1460))
            .collect();
        events.push(event(
            100_000,
            1,
            FlowEventKind::Recovery { copy_of_subflow: 0 },
            1460,
        ));
        let story = read(&trace(events));
        assert!(story.sent.len() <= 2 * MOST_DRAWN, "{}", story.sent.len());
        assert_eq!(story.sent.len() + story.left_out, 100_001);
        let (from, to) = story.copies[0];
        assert_eq!(story.sent[from].dsn, story.sent[to].dsn);
    }

    #[test]
    fn events_without_a_transmission_are_ignored() {
        let story = read(&trace(vec![
            event(1, 7, FlowEventKind::Arrived, 5),
            event(2, 7, FlowEventKind::Rto, 5),
            event(3, 7, FlowEventKind::Recovery { copy_of_subflow: 3 }, 5),
        ]));
        assert_eq!(
            (story.lanes, story.copies.len(), story.sent.len()),
            (8, 0, 1)
        );
    }
}
