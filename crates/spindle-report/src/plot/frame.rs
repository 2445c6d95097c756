//! The frame of a plot: two axes with grid, ticks and names, and the key above it.

use super::super::AxisSpec;
use super::super::palette::{Look, Marker};
use super::scale::Scale;
use super::{Layout, Picture};

/// An axis: its scale, what it measures and its name.
pub(crate) struct Axis<'a> {
    /// Maps values to coordinates.
    pub(crate) scale: Scale,
    /// The axis's name and how its ticks are printed.
    pub(crate) spec: &'a AxisSpec,
    /// The approximate number of ticks.
    pub(crate) ticks: usize,
    /// The values of the ticks, if they are given.
    pub(crate) values: Vec<f64>,
}

/// The rectangle inside the axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    /// Left edge.
    pub(crate) left: f64,
    /// Right edge.
    pub(crate) right: f64,
    /// Upper edge.
    pub(crate) top: f64,
    /// Lower edge.
    pub(crate) bottom: f64,
}

/// Draws grid lines, ticks, tick texts and axis names around `area`.
pub(crate) fn draw_frame(p: &mut Picture, area: Area, x: &Axis<'_>, y: &Axis<'_>) {
    for t in y.scale.ticks(y.ticks) {
        let at = y.scale.at(t);
        p.line("grid", (area.left, at), (area.right, at));
        p.text(
            "tick",
            (area.left - 8.0, at + 4.0),
            "end",
            &y.spec.quantity.show(t),
        );
    }
    let mut taken = f64::MIN;
    let ticks = match (x.spec.cases.len(), x.values.is_empty()) {
        (0, true) => x.scale.ticks(x.ticks),
        (0, false) => x.values.clone(),
        (n, _) => (0..n).map(|i| i as f64).collect(),
    };
    for t in ticks {
        let at = x.scale.at(t);
        p.line("grid", (at, area.top), (at, area.bottom));
        p.line("axis", (at, area.bottom), (at, area.bottom + 4.0));
        let text = x.spec.show(t);
        let half = text_width(&text, 12.0) / 2.0;
        if at - half > taken {
            let over = at + half > area.right + 14.0;
            let (anchor, x) = if over {
                ("end", area.right + 14.0)
            } else {
                ("middle", at)
            };
            p.text("tick", (x, area.bottom + 18.0), anchor, &text);
            taken = at + half + 8.0;
        }
    }
    p.line("axis", (area.left, area.bottom), (area.right, area.bottom));
    let middle = f64::midpoint(area.left, area.right);
    let name = fit_text(&x.spec.name, 12.0, area.right - area.left);
    p.text("name", (middle, area.bottom + 38.0), "middle", &name);
    p.text(
        "name",
        (area.left - 48.0, area.top - 12.0),
        "start",
        &fit_text(&y.spec.name, 12.0, area.right - area.left + 48.0),
    );
}

/// An entry of the key: a name, its look, and whether it has a marker.
pub(crate) struct KeyEntry {
    /// The text.
    pub(crate) name: String,
    /// Its line and marker.
    pub(crate) look: Look,
    /// The marks of the entry.
    pub(crate) mark: KeyMark,
}

/// The marks of an entry of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyMark {
    /// A line without markers.
    Line,
    /// A line with markers of measured values.
    Measured,
    /// The mark of numbers that the paper prints, without a line.
    Paper,
}

/// The entry for numbers that the paper prints.
pub(crate) fn paper_entry() -> KeyEntry {
    KeyEntry {
        name: "paper".to_owned(),
        look: Look {
            class: "reference".to_owned(),
            light: String::new(),
            dark: String::new(),
            dash: "",
            marker: Marker::Circle,
        },
        mark: KeyMark::Paper,
    }
}

/// Draws the key from (`left`, `top`) in as many rows as it needs. A name that is wider than the picture is cut; the
/// table of values has all of it. Returns the y below the key.
pub(crate) fn draw_key(p: &mut Picture, layout: Layout, top: f64, entries: &[KeyEntry]) -> f64 {
    let (left, right) = (8.0, layout.width() - 8.0);
    let (mut x, mut y) = (left, top + 14.0);
    for e in entries {
        let name = fit_text(&e.name, 13.0, right - left - 32.0);
        let width = 44.0 + text_width(&name, 13.0);
        if x > left && x + width > right {
            x = left;
            y += 22.0;
        }
        let mid = y - 4.0;
        let centre = (x + 13.0, mid);
        if e.mark == KeyMark::Paper {
            p.paper_marker(&e.look, None, centre).end();
        } else {
            p.el("line")
                .a("class", &format!("series {}", e.look.class))
                .a("stroke-dasharray", e.look.dash)
                .n("x1", x)
                .n("y1", mid)
                .n("x2", x + 26.0)
                .n("y2", mid)
                .end();
        }
        if e.mark == KeyMark::Measured {
            p.marker(&e.look, centre, 4.0).end();
        }
        p.text("label", (x + 32.0, y), "start", &name);
        x += width + 10.0;
    }
    if entries.is_empty() { top } else { y + 8.0 }
}

/// The approximate width of a text in a sans-serif font of `size` units.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars()
        .map(|c| match c {
            '@' | '%' | 'm' | 'W' | '\u{2026}' => 1.0,
            '+' | '=' | '<' | '>' | '~' | 'w' | 'M' => 0.85,
            'A'..='Z' => 0.72,
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' => 0.33,
            'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '/' | '-' => 0.42,
            _ => 0.64,
        })
        .sum::<f64>()
        * size
}

/// `text` cut to about `width` units, with an ellipsis where it was cut.
pub(crate) fn fit_text(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut cut: String = text.to_owned();
    while cut.pop().is_some() {
        let shown = format!("{cut}\u{2026}");
        if text_width(&shown, size) <= width {
            return shown;
        }
    }
    "\u{2026}".to_owned()
}

/// A picture that states that there is nothing to show.
pub(crate) fn empty_picture(layout: Layout, title: &str) -> Picture {
    let mut p = Picture::new(layout.width(), 90.0, title);
    p.text(
        "muted",
        (layout.width() / 2.0, 50.0),
        "middle",
        "nothing was measured",
    );
    p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_text_is_no_wider_than_its_room() {
        for text in ["tcp+ordered@presto", "mmmmmmmm", "WWWW@@@@%%%%"] {
            for width in [20.0, 45.5, 90.0] {
                let cut = fit_text(text, 13.0, width);
                assert!(text_width(&cut, 13.0) <= width, "{text} {width}: {cut}");
                assert!(cut == text || cut.ends_with('\u{2026}'), "{cut}");
            }
        }
        assert_eq!(fit_text("tcp", 13.0, 90.0), "tcp");
    }
}
