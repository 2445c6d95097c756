//! The elements of a flow's picture. Elements with a length in time are in the group `stretch`. Elements at one
//! point in time are in the group `points`.

use super::super::super::format::{bytes, micros};
use super::super::Picture;
use super::super::frame::{fit_text, text_width};
use super::super::scale::Scale;
use super::super::svg::{Element, number};
use super::labels::Labels;
use super::story::{Fate, Kind, Repair, Transmission};
use super::{Drawing, Lane};

/// At most this many crosses and copies of a trace have a text. All show one when pointed at.
const MOST_LABELS: usize = 2;

type Point = (f64, f64);

impl Drawing<'_> {
    fn lane<'l>(&self, lanes: &'l [Lane], subflow: u8) -> &'l Lane {
        // The story has a lane for each subflow with an event.
        &lanes[usize::from(subflow)]
    }

    /// The congestion windows and the bytes in flight after each acknowledgement and timeout.
    pub(super) fn draw_windows(&self, p: &mut Picture, lanes: &[Lane]) {
        for (i, lane) in lanes.iter().enumerate() {
            let Some(area) = lane.window else { continue };
            let y = Scale::linear((0.0, self.story.widest), (area.bottom, area.top + 3.0));
            let (mut cwnd, mut flight) = (String::new(), String::new());
            for w in self
                .story
                .windows
                .iter()
                .filter(|w| usize::from(w.subflow) == i)
            {
                let x = number(self.time.at(w.at));
                if cwnd.is_empty() {
                    cwnd = format!("M{x} {}", number(y.at(w.cwnd)));
                    flight = format!("M{x} {}", number(area.bottom));
                }
                cwnd += &format!("H{x}V{}", number(y.at(w.cwnd)));
                flight += &format!("H{x}V{}", number(y.at(w.in_flight)));
            }
            if cwnd.is_empty() {
                continue;
            }
            let end = number(self.time.at(self.story.completed));
            flight += &format!("H{end}V{}Z", number(area.bottom));
            let tip = format!("subflow {i}: in flight after each acknowledgement");
            let e = p.el("path").a("class", "in-flight");
            e.a("d", &flight).tip(&tip);
            let tip = format!("subflow {i}: congestion window");
            let path = format!("{cwnd}H{end}");
            p.el("path").a("class", "cwnd").a("d", &path).tip(&tip);
        }
    }

    /// The connection's DATA_ACK as steps, the same in every lane.
    pub(super) fn draw_acked(&self, p: &mut Picture, lanes: &[Lane]) {
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

    pub(super) fn draw_waits(&self, p: &mut Picture, lanes: &[Lane]) {
        for w in &self.story.waits {
            let lane = self.lane(lanes, w.subflow);
            let (top, bottom) = (lane.sequence.top, lane.bottom());
            let (from, to) = (self.time.at(w.from), self.time.at(w.to));
            let late = w.to > self.story.completed;
            let done = if late {
                ", after the flow was done"
            } else {
                ""
            };
            let tip = format!(
                "subflow {}: timeout {} after byte {} was sent{done}",
                w.subflow,
                micros(w.to - w.from),
                bytes(w.dsn)
            );
            let class = if late { "wait after" } else { "wait" };
            p.rect(class, (from, top), (to - from, bottom - top))
                .tip(&tip);
            if !late {
                p.line("timeout", (to, top), (to, bottom));
            }
        }
    }

    pub(super) fn draw_wait_labels(&self, p: &mut Picture, lanes: &[Lane]) {
        for w in self
            .story
            .waits
            .iter()
            .filter(|w| w.to <= self.story.completed)
        {
            let area = self.lane(lanes, w.subflow).sequence;
            let (from, to) = (self.time.at(w.from), self.time.at(w.to));
            let wait = micros(w.to - w.from);
            let texts = [
                format!("waits {wait} for its timeout"),
                format!("waits {wait}"),
            ];
            let (x, y) = (
                f64::midpoint(from, to),
                f64::midpoint(area.top, area.bottom) + 4.0,
            );
            let fits = |t: &&String| text_width(t, 12.5) < to - from - 10.0;
            if let Some(text) = texts.iter().find(fits) {
                let e = p.el("text").a("class", "on-lost halo").n("data-x", x);
                e.n("x", x).n("y", y).a("text-anchor", "middle").text(text);
            }
        }
    }

    /// The segments' paths through the network.
    pub(super) fn draw_flights(&self, p: &mut Picture, lanes: &[Lane]) {
        for t in self.story.sent.iter().filter(|t| self.time.holds(t.sent)) {
            let (x, mid) = self.place(lanes, t);
            match &t.fate {
                Fate::Arrived(at) => {
                    let class = format!("flight {}{}", kind_class(t.kind), self.late(t));
                    p.line(&class, (x, mid), (self.time.at(*at), mid));
                }
                Fate::Lost(at, _) => p.line("gone", (x, mid), (self.time.at(*at), mid)),
                Fate::Unknown => {}
            }
        }
    }

    /// The segments at the time they are sent and at the time they arrive or are lost.
    pub(super) fn draw_marks(&self, p: &mut Picture, lanes: &[Lane]) {
        for t in self.story.sent.iter().filter(|t| self.time.holds(t.sent)) {
            self.draw_fate(p, lanes, t);
            let (x, mid) = self.place(lanes, t);
            let lane = *self.lane(lanes, t.subflow);
            let width = if t.kind == Kind::New { 2.4 } else { 4.5 };
            // Small segments of a long flow still need a visible mark.
            let height = (self.y(lane, t.dsn) - self.y(lane, t.dsn + t.len)).max(8.0);
            let class = format!("send {}{}", kind_class(t.kind), self.late(t));
            if t.kind == Kind::Parity {
                let e = draw_parity(p, &class, (x, mid), height);
                e.n("data-x", x).tip(&describe(t));
                continue;
            }
            let corner = (x - width / 2.0, mid - height / 2.0);
            let e = p.rect(&class, corner, (width, height)).n("data-x", x);
            e.tip(&describe(t));
        }
        for (subflow, at, dsn) in self.story.fast.iter().filter(|f| self.time.holds(f.1)) {
            let (x, y) = (
                self.time.at(*at),
                self.y(*self.lane(lanes, *subflow), *dsn) + 4.0,
            );
            let tip = format!(
                "subflow {subflow}: loss found without a timeout, {}",
                micros(*at)
            );
            let corners = [(x, y), (x - 4.5, y + 8.0), (x + 4.5, y + 8.0)];
            p.polygon("fast", &corners).n("data-x", x).tip(&tip);
        }
        for r in self.story.repairs.iter().filter(|r| self.time.holds(r.at)) {
            let (x, y) = self.repair_place(lanes, r);
            let e = p.el("circle").a("class", "repaired").n("data-x", x);
            e.n("cx", x).n("cy", y).n("r", 4.5).tip(&format!(
                "bytes {} to {} of subflow {} told from parities at {}",
                r.dsn,
                r.dsn + r.len,
                r.subflow,
                micros(r.at)
            ));
        }
        for (a, b, strong) in self.links(lanes) {
            if strong {
                let (tip, down) = (arrow_tip(a, b), direction(a, b));
                let back = tip.1 - down * 8.0;
                let corners = [tip, (tip.0 - 4.0, back), (tip.0 + 4.0, back)];
                p.polygon("tip", &corners).n("data-x", tip.0).end();
            }
        }
    }

    fn draw_fate(&self, p: &mut Picture, lanes: &[Lane], t: &Transmission) {
        let (_, mid) = self.place(lanes, t);
        match &t.fate {
            Fate::Arrived(at) => {
                let end = self.time.at(*at);
                let class = format!("land {}{}", kind_class(t.kind), self.late(t));
                let dot = p.el("circle").a("class", &class).n("data-x", end);
                dot.n("cx", end).n("cy", mid).n("r", 1.7).end();
            }
            Fate::Lost(at, link) => {
                let end = self.time.at(*at);
                p.el("g").a("class", "loss").n("data-x", end).open();
                p.line("cross", (end - 5.0, mid - 5.0), (end + 5.0, mid + 5.0));
                p.line("cross", (end - 5.0, mid + 5.0), (end + 5.0, mid - 5.0));
                let tip = format!("lost at {link}, {}", describe(t));
                let target = p.el("circle").n("cx", end).n("cy", mid).n("r", 7.0);
                target.a("fill-opacity", "0").a("stroke", "none").tip(&tip);
                p.close("g");
            }
            Fate::Unknown => {}
        }
    }

    /// The place of a transmission at the time it is sent: the middle of its bytes.
    fn place(&self, lanes: &[Lane], t: &Transmission) -> Point {
        let lane = *self.lane(lanes, t.subflow);
        let (high, low) = (self.y(lane, t.dsn + t.len), self.y(lane, t.dsn));
        (self.time.at(t.sent), f64::midpoint(high, low))
    }

    /// The place of a packet at the time it is decoded from parities: the middle of its bytes.
    fn repair_place(&self, lanes: &[Lane], r: &Repair) -> Point {
        let lane = *self.lane(lanes, r.subflow);
        let (high, low) = (self.y(lane, r.dsn + r.len), self.y(lane, r.dsn));
        (self.time.at(r.at), f64::midpoint(high, low))
    }

    fn late(&self, t: &Transmission) -> &'static str {
        if t.sent > self.story.completed {
            " after"
        } else {
            ""
        }
    }

    /// The lines from each original, or its loss, to its copy, and whether the original was lost.
    fn links(&self, lanes: &[Lane]) -> Vec<(Point, Point, bool)> {
        let pair = |(from, to): &(usize, usize)| {
            let (original, copy) = (&self.story.sent[*from], &self.story.sent[*to]);
            let (strong, start) = match original.fate {
                Fate::Lost(at, _) => (true, at),
                _ => (false, original.sent),
            };
            let a = (self.time.at(start), self.place(lanes, original).1);
            self.time
                .holds(copy.sent)
                .then(|| (a, self.place(lanes, copy), strong))
        };
        self.story.copies.iter().filter_map(pair).collect()
    }

    pub(super) fn draw_links(&self, p: &mut Picture, lanes: &[Lane]) {
        for (a, b, strong) in self.links(lanes) {
            let class = if strong { "link" } else { "link faint" };
            let (tip, down) = (arrow_tip(a, b), direction(a, b));
            let (start, c1, c2) = if in_one_lane(a, b) {
                let c1 = (a.0 + (b.0 - a.0) * 0.3, a.1 - 26.0);
                ((a.0, a.1 - 6.0), c1, (b.0, b.1 - 26.0))
            } else {
                let bend = (b.1 - a.1) * 0.55;
                (
                    (a.0, a.1 + down * 7.0),
                    (a.0, a.1 + bend),
                    (b.0, b.1 - bend),
                )
            };
            let at = [start, c1, c2, tip].map(|(x, y)| format!("{} {}", number(x), number(y)));
            let path = format!("M{}C{},{},{}", at[0], at[1], at[2], at[3]);
            p.el("path").a("class", class).a("d", &path).end();
        }
    }

    /// The lines from each parity, at its arrival, to the packets decoded from it.
    pub(super) fn draw_repairs(&self, p: &mut Picture, lanes: &[Lane]) {
        for r in self.story.repairs.iter().filter(|r| self.time.holds(r.at)) {
            let Some(parity) = r.by.map(|i| &self.story.sent[i]) else {
                continue;
            };
            let Fate::Arrived(at) = parity.fate else {
                continue;
            };
            let (from, to) = (self.place(lanes, parity).1, self.repair_place(lanes, r));
            p.line("repair", (self.time.at(at), from), to);
        }
    }

    pub(super) fn draw_copy_labels(&self, p: &mut Picture, lanes: &[Lane], labels: &mut Labels) {
        let mut labelled = 0;
        for (from, to) in &self.story.copies {
            let (original, copy) = (&self.story.sent[*from], &self.story.sent[*to]);
            let lost = matches!(original.fate, Fate::Lost(..));
            if !lost || labelled == MOST_LABELS || !self.time.holds(copy.sent) {
                continue;
            }
            let text = if original.subflow == copy.subflow {
                "sent again, in the same lane".to_owned()
            } else {
                format!("recovered on subflow {}", copy.subflow)
            };
            let (x, y) = self.place(lanes, copy);
            let y = (y - 10.0).max(self.lane(lanes, copy.subflow).sequence.top + 13.0);
            labelled += usize::from(labels.put(p, "on-copy halo", (x, y), &text));
        }
    }

    pub(super) fn draw_lost_labels(&self, p: &mut Picture, lanes: &[Lane], labels: &mut Labels) {
        let mut labelled = 0;
        for t in &self.story.sent {
            let Fate::Lost(at, link) = &t.fate else {
                continue;
            };
            if *at > self.story.completed || labelled == MOST_LABELS {
                continue;
            }
            let link = fit_text(link, 12.0, self.layout.pick(160.0, 90.0));
            let point = (self.time.at(*at), self.place(lanes, t).1 + 4.0);
            let text = format!("lost at {link}");
            labelled += usize::from(labels.put(p, "on-lost halo", point, &text));
        }
    }

    /// How much sooner this flow was complete than the other one.
    pub(super) fn draw_saved(&self, p: &mut Picture, (top, bottom): Point, longest: f64) {
        let x = self.time.at(self.story.completed);
        let saved = longest - self.story.completed;
        let text = format!("done, {} sooner", micros(saved));
        if saved > 0.0 && x + 14.0 + text_width(&text, 14.0) < self.right {
            let middle = f64::midpoint(top, bottom) + 5.0;
            let e = p.el("text").a("class", "head halo").n("data-x", x);
            e.n("x", x + 12.0).n("y", middle).text(&text);
        }
    }
}

fn kind_class(kind: Kind) -> &'static str {
    match kind {
        Kind::New => "kind-new",
        Kind::Again => "kind-again",
        Kind::Copy => "kind-copy",
        Kind::Probe => "kind-probe",
        Kind::Parity => "kind-parity",
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::New => "sent",
        Kind::Again => "retransmitted",
        Kind::Copy => "recovery copy",
        Kind::Probe => "loss probe",
        Kind::Parity => "parity",
    }
}

/// Describes a transmission in words.
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

/// A parity's mark: a lozenge as high as the bytes that it covers. The caller must close the element.
pub(super) fn draw_parity<'p>(
    p: &'p mut Picture,
    class: &str,
    (x, y): Point,
    height: f64,
) -> Element<'p> {
    let (half, side) = (height / 2.0, 4.0);
    let corners = [(x, y - half), (x + side, y), (x, y + half), (x - side, y)];
    p.polygon(class, &corners)
}

fn in_one_lane(a: Point, b: Point) -> bool {
    (a.1 - b.1).abs() < 12.0
}

/// Whether an arrow arrives from above (1) or from below (-1).
fn direction(a: Point, b: Point) -> f64 {
    if in_one_lane(a, b) || b.1 > a.1 {
        1.0
    } else {
        -1.0
    }
}

fn arrow_tip(a: Point, b: Point) -> Point {
    (b.0, b.1 - direction(a, b) * 5.0)
}
