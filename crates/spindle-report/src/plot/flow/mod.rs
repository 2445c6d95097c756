//! The time-sequence picture of a flow. Time runs to the right and the data sequence number upwards. Each
//! subflow has a lane with its congestion window below. Losses are crosses. Arrows join copies to their
//! originals. Parities are lozenges that are joined to the packets decoded from them. The wait for a timeout is
//! shaded.
//!
//! A page's script zooms into time without drawing the picture again. Elements in a group `stretch` are scaled
//! along x. Elements in a group `points` are moved by their `data-x` and keep their shape. The group `ticks` is
//! rewritten.

mod key;
mod labels;
mod marks;
mod story;

use spindle_experiment::flow_trace::FlowTrace;

use super::super::format::{Quantity, bytes, micros};
use super::frame::{Area, fit_text, text_width};
use super::scale::Scale;
use super::svg::number;
use super::{Layout, Picture};
use key::draw_key;
use labels::Labels;
use story::{Story, read};

/// The part of a flow that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowView {
    /// The flow alone, on its own scale.
    Alone,
    /// The flow and the flow it is compared with, on one scale.
    Compared,
}

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
    let shown = longest * layout.pick(1.05, 1.09);
    let time = Scale::linear((0.0, shown), (left, right));

    let title = format!("{}, {}", trace.transport, trace.title);
    let mut p = Picture::new(layout.width(), 0.0, &title);
    p.data("from", left);
    p.data("to", right);
    p.data("time", shown);
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

/// The areas of a subflow: its segments above, its congestion window below.
#[derive(Clone, Copy, Debug)]
struct Lane {
    sequence: Area,
    window: Option<Area>,
}

impl Lane {
    fn bottom(&self) -> f64 {
        self.window.unwrap_or(self.sequence).bottom
    }
}

/// A trace that is being drawn.
struct Drawing<'a> {
    layout: Layout,
    story: &'a Story,
    time: Scale,
    left: f64,
    right: f64,
}

impl Drawing<'_> {
    /// Draws a trace from `top` downwards. Returns the y below it.
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
        let bottom = lanes.last().map_or(first, Lane::bottom);
        for lane in &lanes {
            self.draw_lane(p, *lane);
        }
        self.draw_time_axis(p, first, bottom);
        self.open_clip(p, first - 6.0, bottom + 4.0);
        p.el("g").a("class", "stretch").open();
        self.draw_windows(p, &lanes);
        self.draw_acked(p, &lanes);
        self.draw_waits(p, &lanes);
        self.draw_flights(p, &lanes);
        self.draw_links(p, &lanes);
        self.draw_repairs(p, &lanes);
        let x = self.time.at(self.story.completed);
        p.line("done", (x, first - 6.0), (x, bottom + 4.0));
        p.close("g");
        p.el("g").a("class", "points").open();
        let names: Vec<(Area, f64)> = (lanes.iter().enumerate())
            .map(|(i, l)| (l.sequence, text_width(&self.lane_name(trace, i), 12.5)))
            .collect();
        let mut labels = Labels::new(self.right, &names);
        self.draw_marks(p, &lanes);
        self.draw_wait_labels(p, &lanes);
        self.draw_copy_labels(p, &lanes, &mut labels);
        self.draw_lost_labels(p, &lanes, &mut labels);
        self.draw_saved(p, (first, bottom), longest);
        p.close("g");
        p.close("svg");
        for (i, lane) in lanes.iter().enumerate() {
            self.draw_lane_names(p, &self.lane_name(trace, i), *lane);
        }
        bottom + 44.0
    }

    /// Clips the elements that follow, up to the end of this `svg`, at the lanes' edges.
    fn open_clip(&self, p: &mut Picture, top: f64, bottom: f64) {
        let (w, h) = (self.right - self.left, bottom - top);
        let view = [self.left, top, w, h].map(number).join(" ");
        let e = p.el("svg").a("class", "clip").n("x", self.left).n("y", top);
        e.n("width", w).n("height", h).a("viewBox", &view).open();
    }

    fn lanes(&self, first: f64) -> Vec<Lane> {
        let share = 620.0 / self.story.lanes as f64;
        let height = share.clamp(70.0, 130.0);
        let strip = match self.story.windows.is_empty() {
            true => 0.0,
            false => (share * 0.3).clamp(26.0, 40.0),
        };
        let area = |top: f64, height: f64| Area {
            left: self.left,
            right: self.right,
            top,
            bottom: top + height,
        };
        (0..self.story.lanes)
            .map(|i| {
                let top = first + i as f64 * (height + strip + LANE_GAP);
                Lane {
                    sequence: area(top, height),
                    window: (strip > 0.0).then(|| area(top + height, strip)),
                }
            })
            .collect()
    }

    fn bytes_scale(&self, lane: Lane) -> Scale {
        let area = lane.sequence;
        Scale::linear(self.story.span, (area.bottom - 7.0, area.top + 20.0))
    }

    /// The y of a byte in a lane.
    fn y(&self, lane: Lane, dsn: f64) -> f64 {
        self.bytes_scale(lane).at(dsn)
    }

    fn draw_lane(&self, p: &mut Picture, lane: Lane) {
        for area in std::iter::once(lane.sequence).chain(lane.window) {
            let size = (area.right - area.left, area.bottom - area.top);
            p.rect("lane", (area.left, area.top), size).end();
        }
        let scale = self.bytes_scale(lane);
        for t in scale.ticks(2) {
            let at = (self.left - 6.0, scale.at(t) + 4.0);
            p.text("tick", at, "end", &bytes(t));
        }
        if let Some(window) = lane.window {
            let at = (self.left - 6.0, window.top + 16.0);
            p.text("tick", at, "end", &bytes(self.story.widest));
        }
    }

    /// The subflow's number and its path.
    fn lane_name(&self, trace: &FlowTrace, i: usize) -> String {
        let path = trace.paths.get(i).filter(|path| !path.is_empty());
        let name = path.map_or_else(
            || format!("subflow {i}"),
            |path| format!("subflow {i}: {path}"),
        );
        fit_text(&name, 12.5, (self.right - self.left) * 0.6)
    }

    fn draw_lane_names(&self, p: &mut Picture, text: &str, lane: Lane) {
        let name = |area: Area| (area.left + 8.0, area.top + 15.0);
        p.text("muted halo", name(lane.sequence), "start", text);
        if let Some(window) = lane.window {
            let at = (window.left + 8.0, window.top + 13.0);
            p.text("muted halo", at, "start", "cwnd");
        }
    }

    /// Draws grid lines with their times. The script rewrites them when it zooms.
    fn draw_time_axis(&self, p: &mut Picture, first: f64, bottom: f64) {
        let most = self.layout.pick(8.0, 4.0);
        let e = p.el("g").a("class", "ticks").n("data-top", first);
        e.n("data-bottom", bottom).n("data-most", most).open();
        for t in self.time.ticks(most as usize) {
            let x = self.time.at(t);
            p.line("grid", (x, first), (x, bottom));
            let text = Quantity::Micros.show(t);
            let over = x + text_width(&text, 12.0) / 2.0 > self.right + 8.0;
            let (anchor, x) = if over {
                ("end", self.right + 8.0)
            } else {
                ("middle", x)
            };
            p.text("tick", (x, bottom + 18.0), anchor, &text);
        }
        p.close("g");
        let middle = f64::midpoint(self.left, self.right);
        let text = "time since the request was issued";
        p.text("name", (middle, bottom + 36.0), "middle", text);
    }
}
