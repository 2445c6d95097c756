//! A flow on a page: its pictures and its events in words, also as a separate page.

use std::path::{Path, PathBuf};

use maud::{Markup, html};
use spindle_experiment::flow_trace::FlowTrace;

use super::error::ReportError;
use super::format::count;
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
    let stem = format!("flow-{}", trace.transport);
    let other = trace.compare_with.as_deref();
    html! {
        p { (trace.title) }
        h3 { (badge(page, &trace.transport)) ", on its own scale of time" }
        (page.figure(&stem, FLOW_CAPTION, Kind::Zoomable, |l| flow_picture(l, trace, FlowView::Alone)))
        (story(trace))
        @if let Some(other) = other {
            h3 { "The same flow under " (badge(page, &other.transport)) ", on one scale of time" }
            (page.figure(&format!("{stem}-compared"), COMPARED_CAPTION, Kind::Zoomable, |l| {
                flow_picture(l, trace, FlowView::Compared)
            }))
            (story(other))
        }
    }
}

const FLOW_CAPTION: &str = "Each lane is a subflow. A bar is a segment as it leaves the sender, the \
    line after it its way to the receiver; height is its place in the data. A cross is a loss; the \
    arrow leads from there to the copy that another subflow carried. A lozenge is a parity, as high as \
    the bytes it is of; a broken line leads from where it arrives to the packets told from it. Below each lane its congestion \
    window and what was in flight, as each acknowledgement left them. Zoom with the buttons, two \
    fingers, a double click, the wheel (click first) or the keys + and \u{2212}; drag to move.";
const COMPARED_CAPTION: &str = "Both flows carry the same request over the same paths. Shaded is \
    the time from the lost segment's departure until the retransmission timer fires.";

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
