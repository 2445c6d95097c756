//! A flow on a page: its pictures and its events in words, also as a separate page.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use maud::{Markup, html};
use spindle_experiment::flow_trace::FlowTrace;

use super::error::ReportError;
use super::format::{count, micros};
use super::page::{Kind, Page, badge, command};
use super::plot::{FlowView, flow_picture};

/// Writes the page `name` with the zoomable pictures of `flow` into `directory`, which is created if
/// necessary. Returns its path. `line` is the command that made the page. `back` is the address and the
/// title of the page that links to it.
///
/// # Errors
/// [`ReportError::Io`] if a file cannot be written.
pub fn write_flow(
    flow: &FlowTrace,
    directory: &Path,
    name: &str,
    line: &str,
    back: Option<(&str, &str)>,
) -> Result<PathBuf, ReportError> {
    let mut page = Page::default();
    let section = flow_section(&mut page, flow);
    let title = format!("One flow under {}, segment by segment", flow.transport);
    let body = html! {
        header {
            @if let Some((address, text)) = back { nav { a href=(address) { (text) } } }
            h1 { (title) }
            (command(line))
        }
        main { (section) }
        footer { p { "Spindle " (spindle_experiment::identity::VERSION) } }
    };
    page.write(directory, name, &title, &body)
}

/// A flow: the close-up on its own time scale, the comparison on a common scale, and its events in words.
pub(super) fn flow_section(page: &mut Page, trace: &FlowTrace) -> Markup {
    // The pictures of flows are not among the lines of a figure: transports have their own looks.
    page.repaint([]);
    let stem = format!("flow-{}", trace.transport);
    let other = trace.compare_with.as_deref();
    html! {
        p { (trace.title) }
        h3 { (badge(page, &trace.transport)) ", on its own scale of time" }
        (page.figure(&stem, FLOW_CAPTION, Kind::Zoomable, |l| flow_picture(l, trace, FlowView::Alone)))
        (story(trace))
        @if let Some(other) = other {
            h3 { "The same flow under " (badge(page, &other.transport)) ", on one scale of time" }
            (page.figure(&format!("{stem}-compared"), &format!("{} {COMPARED_CAPTION}", gain(trace, other)), Kind::Zoomable, |l| {
                flow_picture(l, trace, FlowView::Compared)
            }))
            (story(other))
        }
    }
}

const FLOW_CAPTION: &str = "Each lane is a subflow with its path. A bar is a segment as it leaves the sender, the \
    line after it its way to the receiver; height is its place in the data. A cross is a loss; the \
    arrow leads from there to the copy that another subflow carried. A lozenge is a parity, as high as \
    the bytes it is of; a broken line leads from where it arrives to the packets told from it. Below each lane its congestion \
    window and what was in flight, as each acknowledgement left them. Zoom with the buttons, two \
    fingers, a double click, the wheel (click first) or the keys + and \u{2212}; drag to move.";
const COMPARED_CAPTION: &str = "Both flows carry the same request over the same paths. Shaded is \
    the time from the lost segment's departure until the retransmission timer fires.";

/// How much earlier or later the flow was done than under the other transport.
fn gain(trace: &FlowTrace, other: &FlowTrace) -> String {
    let took = |t: &FlowTrace| t.completion_time().as_nanos() as f64 / 1e3;
    let (ours, theirs) = (took(trace), took(other));
    let order = match ours.total_cmp(&theirs) {
        Ordering::Less => "earlier",
        Ordering::Greater => "later",
        Ordering::Equal => {
            let (a, b) = (&trace.transport, &other.transport);
            return format!("Under {a} and {b} the flow is done after {}.", micros(ours));
        }
    };
    let factor = ours.max(theirs) / ours.min(theirs).max(1e-3);
    let times = match order {
        "earlier" => format!("{} takes {factor:.1} times as long", other.transport),
        _ => format!("{} takes {factor:.1} times as long", trace.transport),
    };
    format!(
        "Under {} the flow is done after {}, {} {order} than under {}: {times}.",
        trace.transport,
        micros(ours),
        micros((ours - theirs).abs()),
        other.transport
    )
}

/// The notable events of a trace as a list.
fn story(trace: &FlowTrace) -> Markup {
    let (lines, more) = super::story::lines(trace);
    html! {
        @if !lines.is_empty() {
            details {
                summary { "What happened under " (trace.transport) }
                ol class="story" {
                    @for (at, text) in &lines { li { b { (at) } " " (text) } }
                    @if more > 0 { li { "and " (count(more as u64)) " more" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use spindle_units::Instant;

    use super::*;

    fn flow(transport: &str, micros: u64) -> FlowTrace {
        FlowTrace {
            transport: transport.to_owned(),
            number: 0,
            title: String::new(),
            issued: Instant::ZERO,
            completed: Instant::from_nanos(1000 * micros),
            subflows: 1,
            paths: Vec::new(),
            events: Vec::new(),
            compare_with: None,
        }
    }

    #[test]
    fn gain_states_both_times_and_the_slower_transport() {
        let (fast, slow) = (flow("fuso", 1000), flow("tcp", 4500));
        let text = gain(&fast, &slow);
        assert!(
            text.starts_with("Under fuso the flow is done after 1"),
            "{text}"
        );
        assert!(
            text.ends_with("earlier than under tcp: tcp takes 4.5 times as long."),
            "{text}"
        );
        let text = gain(&slow, &fast);
        assert!(
            text.ends_with("later than under fuso: tcp takes 4.5 times as long."),
            "{text}"
        );
        let text = gain(&fast, &flow("tcp", 1000));
        assert!(
            text.starts_with("Under fuso and tcp the flow is done after"),
            "{text}"
        );
    }
}
