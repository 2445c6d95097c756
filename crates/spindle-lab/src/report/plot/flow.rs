//! The time-sequence picture of a flow: time to the right, data sequence number upwards, one lane
//! per subflow. Losses are crosses, copies are joined to their originals by an arrow, the wait for
//! a timeout is shaded.

use super::super::format::{Quantity, bytes, micros};
use super::super::trace::FlowTrace;
use super::flow_match::{Fate, Kind, Story, Transmission, read};
use super::frame::{Area, fit_text, text_width};
use super::scale::Scale;
use super::svg::number;
use super::{Layout, Picture};

/// What part of a flow is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowView {
    /// The flow alone, on a scale of its own.
    Alone,
    /// The flow and the one it is compared with, on one scale.
    Compared,
}

/// At most so many crosses and copies of a trace carry a text; all carry one when pointed at.
const MOST_LABELS: usize = 2;

const LANE_GAP: f64 = 8.0;

/// Draws a flow.
pub(crate) fn flow_picture(layout: Layout, trace: &FlowTrace, view: FlowView) -> Picture {
    let mut traces = vec![trace];
    if view == FlowView::Compared {
        traces.extend(trace.compare_with.as_deref());
    }
    let stories: Vec<Story> = traces.iter().map(|t| read(t)).collect();
    let longest = stories.iter().map(|s| s.completed).fold(0.001, f64::max);
    let (left, right) = (
        layout.pick(70.0, 56.0),
        layout.width() - layout.pick(20.0, 12.0),
    );
    let time = Scale::linear((0.0, longest * layout.pick(1.05, 1.09)), (left, right));

    let title = format!("{}, {}", trace.transport, trace.title);
    let mut p = Picture::new(layout.width(), 0.0, &title);
    let mut top = draw_key(&mut p, layout, &stories);
    for (trace, story) in traces.iter().zip(&stories) {
        let drawing = Drawing {
            layout,
            story,
            time,
            left,
            right,
        };
        top = drawing.draw(&mut p, trace, top, longest) + 14.0;
    }
    p.set_height(top);
    p
}

/// One trace being drawn.
struct Drawing<'a> {
    layout: Layout,
    story: &'a Story,
    time: Scale,
    left: f64,
    right: f64,
}

impl Drawing<'_> {
    /// Draws a trace from `top` on and returns the y below it.
    fn draw(&self, p: &mut Picture, trace: &FlowTrace, top: f64, longest: f64) -> f64 {
        let look = p.look(&trace.transport);
        p.marker(&look, (self.left + 6.0, top + 16.0), 5.0).end();
        let head = format!(
            "{}: done after {}",
            trace.transport,
            micros(self.story.completed)
        );
        let head = fit_text(&head, 15.0, self.right - self.left - 20.0);
        p.text("head", (self.left + 18.0, top + 21.0), "start", &head);
        let first = top + 34.0;
        let lanes = self.lanes(first);
        for (i, lane) in lanes.iter().enumerate() {
            self.draw_lane(p, i, *lane);
        }
        self.draw_acked(p, &lanes);
        self.draw_waits(p, &lanes);
        for t in &self.story.sent {
            self.draw_transmission(p, t, lanes[usize::from(t.subflow)]);
        }
        self.draw_fast(p, &lanes);
        let mut labels = Labels::new(self.right, &lanes);
        self.draw_copies(p, &lanes, &mut labels);
        self.draw_lost_labels(p, &lanes, &mut labels);
        let bottom = lanes.last().map_or(first, |l| l.bottom);
        self.draw_done(p, first, bottom, longest);
        self.draw_time_axis(p, bottom)
    }

    fn lanes(&self, first: f64) -> Vec<Area> {
        let height = (self.layout.pick(560.0, 560.0) / self.story.lanes as f64).clamp(70.0, 130.0);
        (0..self.story.lanes)
            .map(|i| {
                let top = first + i as f64 * (height + LANE_GAP);
                Area {
                    left: self.left,
                    right: self.right,
                    top,
                    bottom: top + height,
                }
            })
            .collect()
    }

    /// The y of a byte in a lane.
    fn y(&self, lane: Area, dsn: f64) -> f64 {
        Scale::linear(self.story.span, (lane.bottom - 4.0, lane.top + 20.0)).at(dsn)
    }

    fn draw_lane(&self, p: &mut Picture, i: usize, lane: Area) {
        let size = (lane.right - lane.left, lane.bottom - lane.top);
        p.rect("lane", (lane.left, lane.top), size).end();
        for t in self.time.ticks(self.layout.pick(8.0, 4.0) as usize) {
            p.line(
                "grid",
                (self.time.at(t), lane.top),
                (self.time.at(t), lane.bottom),
            );
        }
        let scale = Scale::linear(self.story.span, (lane.bottom - 4.0, lane.top + 20.0));
        for t in scale.ticks(2) {
            p.text(
                "tick",
                (lane.left - 6.0, scale.at(t) + 4.0),
                "end",
                &bytes(t),
            );
        }
        p.text(
            "muted halo",
            (lane.left + 8.0, lane.top + 15.0),
            "start",
            &format!("subflow {i}"),
        );
    }

    /// The connection's DATA_ACK, as steps, the same in every lane.
    fn draw_acked(&self, p: &mut Picture, lanes: &[Area]) {
        let Some(first) = self.story.acked.first() else {
            return;
        };
        for lane in lanes {
            let mut path = format!(
                "M{} {}",
                number(self.time.at(first.0)),
                number(self.y(*lane, 0.0))
            );
            for (at, dsn) in &self.story.acked {
                let (x, y) = (self.time.at(*at), self.y(*lane, *dsn));
                path += &format!("H{}V{}", number(x), number(y));
            }
            path += &format!("H{}", number(self.time.at(self.story.completed)));
            p.el("path")
                .a("class", "acked")
                .a("d", &path)
                .tip("acknowledged at the data level");
        }
    }

    fn draw_waits(&self, p: &mut Picture, lanes: &[Area]) {
        for w in &self.story.waits {
            let lane = lanes[usize::from(w.subflow)];
            let (from, to) = (self.time.at(w.from), self.time.at(w.to));
            let late = w.to > self.story.completed;
            let wait = micros(w.to - w.from);
            let tip = format!(
                "subflow {}: timeout {wait} after byte {} was sent{}",
                w.subflow,
                bytes(w.dsn),
                if late {
                    ", after the flow was done"
                } else {
                    ""
                }
            );
            let class = if late { "wait after" } else { "wait" };
            p.rect(class, (from, lane.top), (to - from, lane.bottom - lane.top))
                .tip(&tip);
            if late {
                continue;
            }
            p.line("timeout", (to, lane.top), (to, lane.bottom));
            let texts = [
                format!("waits {wait} for its timeout"),
                format!("waits {wait}"),
            ];
            let room = to - from - 10.0;
            let (x, y) = (
                f64::midpoint(from, to),
                f64::midpoint(lane.top, lane.bottom) + 4.0,
            );
            if let Some(text) = texts.iter().find(|t| text_width(t, 12.5) < room) {
                p.text("on-lost halo", (x, y), "middle", text);
            }
        }
    }

    fn draw_transmission(&self, p: &mut Picture, t: &Transmission, lane: Area) {
        if !self.time.holds(t.sent) {
            return;
        }
        let (x, high, low) = (
            self.time.at(t.sent),
            self.y(lane, t.dsn + t.len),
            self.y(lane, t.dsn),
        );
        let mid = f64::midpoint(high, low);
        let late = if t.sent > self.story.completed {
            " after"
        } else {
            ""
        };
        let kind = kind_class(t.kind);
        match &t.fate {
            Fate::Arrived(at) => {
                let end = self.time.at(*at);
                p.line(&format!("flight {kind}{late}"), (x, mid), (end, mid));
                let dot = p.el("circle").a("class", &format!("land {kind}{late}"));
                dot.n("cx", end).n("cy", mid).n("r", 1.7).end();
            }
            Fate::Lost(at, link) => {
                let end = self.time.at(*at).max(x + 5.0);
                p.line("gone", (x, mid), (end, mid));
                p.el("g").a("class", "cross").open();
                p.line("cross", (end - 5.0, mid - 5.0), (end + 5.0, mid + 5.0));
                p.line("cross", (end - 5.0, mid + 5.0), (end + 5.0, mid - 5.0));
                let tip = format!("lost at {link}, {}", describe(t));
                p.el("circle")
                    .n("cx", end)
                    .n("cy", mid)
                    .n("r", 7.0)
                    .a("fill-opacity", "0")
                    .a("stroke", "none")
                    .tip(&tip);
                p.close("g");
            }
            Fate::Unknown => {}
        }
        let width = if t.kind == Kind::New { 2.4 } else { 4.5 };
        // Small segments of a long flow still need a mark that can be seen.
        let height = (low - high).max(8.0);
        p.rect(
            &format!("send {kind}{late}"),
            (x - width / 2.0, mid - height / 2.0),
            (width, height),
        )
        .tip(&describe(t));
    }

    fn draw_fast(&self, p: &mut Picture, lanes: &[Area]) {
        for (subflow, at, dsn) in self.story.fast.iter().filter(|f| self.time.holds(f.1)) {
            let (x, y) = (
                self.time.at(*at),
                self.y(lanes[usize::from(*subflow)], *dsn) + 4.0,
            );
            let points = [(x, y), (x - 4.5, y + 8.0), (x + 4.5, y + 8.0)];
            let points = points
                .map(|(a, b)| format!("{},{}", number(a), number(b)))
                .join(" ");
            let tip = format!(
                "subflow {subflow}: loss found without a timeout, {}",
                micros(*at)
            );
            p.el("polygon")
                .a("class", "fast")
                .a("points", &points)
                .tip(&tip);
        }
    }

    fn draw_copies(&self, p: &mut Picture, lanes: &[Area], labels: &mut Labels) {
        let mut labelled = 0;
        for (from, to) in &self.story.copies {
            let (original, copy) = (&self.story.sent[*from], &self.story.sent[*to]);
            if !self.time.holds(copy.sent) {
                continue;
            }
            let mid = |t: &Transmission| self.y(lanes[usize::from(t.subflow)], t.dsn + t.len / 2.0);
            let (lost, start) = match original.fate {
                Fate::Lost(at, _) => (true, at),
                _ => (false, original.sent),
            };
            let a = (self.time.at(start), mid(original));
            let b = (self.time.at(copy.sent), mid(copy));
            arrow(p, a, b, lost);
            if lost && labelled < MOST_LABELS {
                let text = if original.subflow == copy.subflow {
                    "sent again, in the same lane".to_owned()
                } else {
                    format!("recovered on subflow {}", copy.subflow)
                };
                let y = (b.1 - 10.0).max(lanes[usize::from(copy.subflow)].top + 13.0);
                labelled += usize::from(labels.put(p, "on-copy halo", (b.0, y), &text));
            }
        }
    }

    fn draw_lost_labels(&self, p: &mut Picture, lanes: &[Area], labels: &mut Labels) {
        let mut labelled = 0;
        for t in &self.story.sent {
            let Fate::Lost(at, link) = &t.fate else {
                continue;
            };
            if *at > self.story.completed || labelled == MOST_LABELS {
                continue;
            }
            let y = self.y(lanes[usize::from(t.subflow)], t.dsn + t.len / 2.0);
            let link = fit_text(link, 12.0, self.layout.pick(160.0, 90.0));
            let point = (self.time.at(*at) + 3.0, y + 4.0);
            let text = format!("lost at {link}");
            labelled += usize::from(labels.put(p, "on-lost halo", point, &text));
        }
    }

    fn draw_done(&self, p: &mut Picture, top: f64, bottom: f64, longest: f64) {
        let x = self.time.at(self.story.completed);
        p.line("done", (x, top - 6.0), (x, bottom + 4.0));
        let saved = longest - self.story.completed;
        let text = format!("done, {} sooner", micros(saved));
        if saved > 0.0 && x + 14.0 + text_width(&text, 14.0) < self.right {
            let middle = f64::midpoint(top, bottom) + 5.0;
            p.text("head halo", (x + 12.0, middle), "start", &text);
        }
    }

    fn draw_time_axis(&self, p: &mut Picture, bottom: f64) -> f64 {
        for t in self.time.ticks(self.layout.pick(8.0, 4.0) as usize) {
            let x = self.time.at(t);
            p.text(
                "tick",
                (x, bottom + 18.0),
                "middle",
                &Quantity::Micros.show(t),
            );
        }
        let middle = f64::midpoint(self.left, self.right);
        p.text(
            "name",
            (middle, bottom + 36.0),
            "middle",
            "time since the request was issued",
        );
        bottom + 44.0
    }
}

/// Texts beside points, none of which covers another.
struct Labels {
    right: f64,
    /// Left end, right end and base line of each text.
    taken: Vec<(f64, f64, f64)>,
}

impl Labels {
    /// Room up to `right`, with the lanes' names in their places.
    fn new(right: f64, lanes: &[Area]) -> Self {
        let name = |l: &Area| (l.left, l.left + 76.0, l.top + 15.0);
        Self {
            right,
            taken: lanes.iter().map(name).collect(),
        }
    }

    /// Puts a text to the right of a point, or to its left where there is no room; leaves it out
    /// and says so if it would cover another.
    fn put(&mut self, p: &mut Picture, class: &str, (x, y): (f64, f64), text: &str) -> bool {
        let width = text_width(text, 12.5);
        let (anchor, at, from, y) = if x + 9.0 + width < self.right {
            ("start", x + 9.0, x + 9.0, y)
        } else {
            ("end", x - 12.0, x - 12.0 - width, y - 7.0)
        };
        let covers =
            |t: &(f64, f64, f64)| from < t.1 && t.0 < from + width && (t.2 - y).abs() < 14.0;
        if self.taken.iter().any(covers) {
            return false;
        }
        p.text(class, (at, y), anchor, text);
        self.taken.push((from, from + width, y));
        true
    }
}

fn kind_class(kind: Kind) -> &'static str {
    match kind {
        Kind::New => "kind-new",
        Kind::Again => "kind-again",
        Kind::Copy => "kind-copy",
        Kind::Probe => "kind-probe",
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::New => "sent",
        Kind::Again => "retransmitted",
        Kind::Copy => "recovery copy",
        Kind::Probe => "loss probe",
    }
}

/// A transmission in words.
fn describe(t: &Transmission) -> String {
    let note = if t.note.is_empty() {
        String::new()
    } else {
        format!("; {}", t.note)
    };
    format!(
        "{} on subflow {} at {}: bytes {} to {}{note}",
        kind_name(t.kind),
        t.subflow,
        micros(t.sent),
        t.dsn,
        t.dsn + t.len
    )
}

/// An arrow from a loss to its copy.
fn arrow(p: &mut Picture, a: (f64, f64), b: (f64, f64), strong: bool) {
    let class = if strong { "link" } else { "link faint" };
    let same_lane = (a.1 - b.1).abs() < 12.0;
    let down = if same_lane || b.1 > a.1 { 1.0 } else { -1.0 };
    let tip = (b.0, b.1 - down * 5.0);
    let (c1, c2) = if same_lane {
        let dx = (b.0 - a.0) * 0.3;
        ((a.0 + dx, a.1 - 26.0), (b.0, b.1 - 26.0))
    } else {
        let bend = (b.1 - a.1) * 0.55;
        ((a.0, a.1 + bend), (b.0, b.1 - bend))
    };
    let start = if same_lane {
        (a.0, a.1 - 6.0)
    } else {
        (a.0, a.1 + down * 7.0)
    };
    let at = [start, c1, c2, tip].map(|(x, y)| format!("{} {}", number(x), number(y)));
    let path = format!("M{}C{},{},{}", at[0], at[1], at[2], at[3]);
    p.el("path").a("class", class).a("d", &path).end();
    if strong {
        let head = [
            tip,
            (tip.0 - 4.0, tip.1 - down * 8.0),
            (tip.0 + 4.0, tip.1 - down * 8.0),
        ];
        let head = head
            .map(|(x, y)| format!("{},{}", number(x), number(y)))
            .join(" ");
        p.el("polygon").a("class", "tip").a("points", &head).end();
    }
}

/// The key to the marks that occur, and the y below it.
fn draw_key(p: &mut Picture, layout: Layout, stories: &[Story]) -> f64 {
    let has = |k: Kind| stories.iter().any(|s| s.sent.iter().any(|t| t.kind == k));
    let lost = stories
        .iter()
        .any(|s| s.sent.iter().any(|t| matches!(t.fate, Fate::Lost(..))));
    let waits = stories.iter().any(|s| !s.waits.is_empty());
    let acked = stories.iter().any(|s| !s.acked.is_empty());
    let entries = [
        ("send kind-new", "sent, and on its way", has(Kind::New)),
        ("send kind-again", "retransmitted", has(Kind::Again)),
        ("send kind-copy", "recovery copy", has(Kind::Copy)),
        ("send kind-probe", "loss probe", has(Kind::Probe)),
        ("cross", "lost", lost),
        ("wait", "wait for a timeout", waits),
        ("acked", "DATA_ACK", acked),
        ("done", "done", true),
    ];
    let (mut x, mut y) = (8.0, 18.0);
    for (class, name, _) in entries.iter().filter(|e| e.2) {
        let width = 30.0 + text_width(name, 13.0);
        if x + width > layout.width() - 8.0 && x > 8.0 {
            (x, y) = (8.0, y + 21.0);
        }
        key_mark(p, class, (x + 8.0, y - 4.0));
        p.text("label", (x + 21.0, y), "start", name);
        x += width + 8.0;
    }
    y + 12.0
}

fn key_mark(p: &mut Picture, class: &str, (x, y): (f64, f64)) {
    match class {
        "cross" => {
            p.line(class, (x - 4.0, y - 4.0), (x + 4.0, y + 4.0));
            p.line(class, (x - 4.0, y + 4.0), (x + 4.0, y - 4.0));
        }
        "wait" => p.rect(class, (x - 7.0, y - 7.0), (15.0, 14.0)).end(),
        "acked" => p.line(class, (x - 7.0, y), (x + 8.0, y)),
        "done" => p.line(class, (x, y - 7.0), (x, y + 7.0)),
        _ => {
            p.rect(class, (x - 6.0, y - 5.0), (3.5, 10.0)).end();
            let kind = class.replace("send", "flight");
            p.line(&kind, (x - 6.0, y), (x + 8.0, y));
        }
    }
}
