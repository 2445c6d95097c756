//! Bars from zero: one panel per metric, one bar per transport, with 95 % intervals.
//!
//! Each panel has a separate axis. If a median and a 99.9th percentile shared an axis, one of them would be
//! unreadable, and bars on a logarithmic axis have no true length.

use super::super::format::{NONE, Quantity};
use super::super::{Estimate, PaperNumber};
use super::frame::{empty_picture, fit_text, paper_entry, text_width};
use super::scale::{Scale, round_up};
use super::svg::PAPER_RADIUS;
use super::{Layout, Picture};

/// A panel of bars.
pub(crate) struct BarPanel {
    /// Its heading.
    pub(crate) title: String,
    /// The quantity that the bars measure.
    pub(crate) quantity: Quantity,
    /// One bar per transport.
    pub(crate) rows: Vec<BarRow>,
}

/// One bar.
pub(crate) struct BarRow {
    /// The transport.
    pub(crate) name: String,
    /// The name whose colour the bar has.
    pub(crate) colour: String,
    /// Its value, if it has one.
    pub(crate) value: Option<Estimate>,
    /// The target of a click.
    pub(crate) href: Option<String>,
    /// The numbers that the paper prints for it.
    pub(crate) paper: Vec<PaperNumber>,
}

const ROW: f64 = 26.0;
const HEAD: f64 = 34.0;
const FOOT: f64 = 40.0;
const GAP: f64 = 28.0;
/// Values are printed bold. Bold text is as wide as regular text of this size.
const BOLD: f64 = 15.5;

/// The panels: two side by side on a desktop, one below the other on a phone.
pub(crate) fn bar_panels(layout: Layout, title: &str, panels: &[BarPanel]) -> Picture {
    if panels.is_empty() {
        return empty_picture(layout, title);
    }
    let columns = if layout.is_narrow() || panels.len() < 2 {
        1
    } else {
        2
    };
    let width = (layout.width() - GAP * (columns as f64 - 1.0)) / columns as f64;
    let mut p = Picture::new(layout.width(), 0.0, title);
    let mut top = 0.0;
    for row in panels.chunks(columns) {
        let most = row.iter().map(|panel| panel.rows.len()).max().unwrap_or(0);
        for (i, panel) in row.iter().enumerate() {
            draw_panel(&mut p, (i as f64 * (width + GAP), top), width, panel);
        }
        top += HEAD + most as f64 * ROW + FOOT;
    }
    p.set_height(top.max(20.0));
    p
}

fn draw_panel(p: &mut Picture, (left, top): (f64, f64), width: f64, panel: &BarPanel) {
    let printed = || panel.rows.iter().flat_map(|r| &r.paper);
    // The figure has the whole title above the picture.
    let mut room = width - 8.0;
    if printed().next().is_some() {
        let entry = paper_entry();
        room -= text_width(&entry.name, 13.0) + 32.0;
        p.text(
            "label",
            (left + width - 8.0, top + 20.0),
            "end",
            &entry.name,
        );
        let at = left + width - 8.0 - text_width(&entry.name, 13.0) - 14.0;
        p.paper_marker(&entry.look, None, (at, top + 16.0)).end();
    }
    let title = fit_text(&panel.title, BOLD, room);
    p.text("head", (left + 4.0, top + 20.0), "start", &title);
    let names = panel
        .rows
        .iter()
        .map(|r| text_width(&r.name, 13.0))
        .fold(30.0, f64::max);
    let names = names.min(width * 0.34) + 10.0;
    let values = panel
        .rows
        .iter()
        .map(|r| text_width(&value_text(panel, r), BOLD))
        .fold(20.0, f64::max);
    let (from, to) = (left + names, left + width - values - 12.0);
    let largest = panel
        .rows
        .iter()
        .filter_map(|r| r.value)
        .map(|e| upper(e).max(e.value))
        .chain(printed().map(|n| n.y));
    let largest = largest.filter(|v| v.is_finite()).fold(0.0, f64::max);
    let scale = Scale::linear((0.0, round_up(largest)), (from, to));
    let (first, bottom) = (top + HEAD, top + HEAD + panel.rows.len() as f64 * ROW);
    for t in scale.ticks(((to - from) / 85.0) as usize) {
        p.line("grid", (scale.at(t), first), (scale.at(t), bottom + 4.0));
        p.text(
            "tick",
            (scale.at(t), bottom + 19.0),
            "middle",
            &panel.quantity.show(t),
        );
    }
    for (i, row) in panel.rows.iter().enumerate() {
        draw_bar(p, (left, names), first + i as f64 * ROW, &scale, panel, row);
    }
    p.line("axis", (from, first), (from, bottom + 4.0));
}

fn draw_bar(
    p: &mut Picture,
    (left, names): (f64, f64),
    top: f64,
    scale: &Scale,
    panel: &BarPanel,
    row: &BarRow,
) {
    let mid = top + ROW / 2.0;
    let zero = scale.at(0.0);
    let name = fit_text(&row.name, 13.0, names - 10.0);
    p.text("label", (left + names - 8.0, mid + 4.5), "end", &name);
    let look = p.look(&row.colour);
    let mut end = zero;
    // The value's text and the gap before it.
    let room = text_width(&value_text(panel, row), BOLD) + 8.0 + PAPER_RADIUS;
    if let Some(e) = row.value.filter(|e| e.value.is_finite()) {
        end = scale.at(e.value);
        let length = (end - zero).max(if e.value > 0.0 { 1.5 } else { 0.0 });
        let text = tip(panel, row, e);
        p.open_link(row.href.as_deref());
        p.rect(
            &format!("bar {}", look.class),
            (zero, top + 5.0),
            (length, ROW - 10.0),
        )
        .tip(&text);
        p.close_link(row.href.as_deref());
        if let Some((low, high)) = e.ci95.filter(|(l, h)| l.is_finite() && h.is_finite()) {
            let (a, b) = (scale.at(low), scale.at(high));
            p.line("whisker", (a, mid), (b, mid));
            p.line("whisker", (a, mid - 4.0), (a, mid + 4.0));
            p.line("whisker", (b, mid - 4.0), (b, mid + 4.0));
            end = end.max(b);
        }
    }
    for number in row.paper.iter().filter(|n| n.y.is_finite()) {
        let at = scale.at(number.y);
        let value = number.show(panel.quantity);
        let text = format!(
            "paper, {}, {}: {value} ({})",
            row.name,
            panel.title,
            number.origin()
        );
        p.paper_marker(&look, number.limit, (at, mid)).tip(&text);
        if (end - PAPER_RADIUS..end + room).contains(&at) {
            end = at + PAPER_RADIUS;
        }
    }
    p.text(
        "value",
        (end + 8.0, mid + 4.5),
        "start",
        &value_text(panel, row),
    );
}

fn upper(e: Estimate) -> f64 {
    e.ci95.map_or(e.value, |(_, high)| high)
}

fn value_text(panel: &BarPanel, row: &BarRow) -> String {
    row.value
        .map_or_else(|| NONE.to_owned(), |e| panel.quantity.show(e.value))
}

fn tip(panel: &BarPanel, row: &BarRow, e: Estimate) -> String {
    let value = panel.quantity.show(e.value);
    match e.ci95 {
        Some(ci) => format!(
            "{}, {}: {value} (95% interval {})",
            row.name,
            panel.title,
            panel.quantity.show_interval(ci)
        ),
        None => format!("{}, {}: {value}", row.name, panel.title),
    }
}
