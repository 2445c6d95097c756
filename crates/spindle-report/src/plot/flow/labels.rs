//! Texts next to points. No text covers another.

use super::super::Picture;
use super::super::frame::{Area, text_width};

/// The texts placed so far.
pub(super) struct Labels {
    right: f64,
    /// Left end, right end and base line of each text.
    taken: Vec<(f64, f64, f64)>,
}

impl Labels {
    /// Starts with room up to `right`, with the lanes' names, which have these widths, in place.
    pub(super) fn new(right: f64, lanes: &[(Area, f64)]) -> Self {
        let name = |(l, width): &(Area, f64)| (l.left, l.left + width + 20.0, l.top + 15.0);
        Self {
            right,
            taken: lanes.iter().map(name).collect(),
        }
    }

    /// Puts a text to the right of a point, or to its left if there is no room. If it would cover another text,
    /// it is left out and the result is false.
    pub(super) fn put(
        &mut self,
        p: &mut Picture,
        class: &str,
        (x, y): (f64, f64),
        text: &str,
    ) -> bool {
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
        let e = p.el("text").a("class", class).n("data-x", x);
        e.n("x", at).n("y", y).a("text-anchor", anchor).text(text);
        self.taken.push((from, from + width, y));
        true
    }
}
