//! The key to the marks that occur in a flow's picture.

use super::super::frame::text_width;
use super::super::{Layout, Picture};
use super::marks::draw_parity;
use super::story::{Fate, Kind, Story};

/// Draws the key. Returns the y below it.
pub(super) fn draw_key(p: &mut Picture, layout: Layout, stories: &[Story]) -> f64 {
    let sent = || stories.iter().flat_map(|s| &s.sent);
    let has = |k: Kind| sent().any(|t| t.kind == k);
    let lost = sent().any(|t| matches!(t.fate, Fate::Lost(..)));
    let any = |f: fn(&Story) -> bool| stories.iter().any(f);
    let entries = [
        ("send kind-new", "sent, and on its way", has(Kind::New)),
        ("send kind-again", "retransmitted", has(Kind::Again)),
        ("send kind-copy", "recovery copy", has(Kind::Copy)),
        ("send kind-probe", "loss probe", has(Kind::Probe)),
        ("parity", "parity of these bytes", has(Kind::Parity)),
        (
            "repaired",
            "told from parities",
            any(|s| !s.repairs.is_empty()),
        ),
        ("cross", "lost", lost),
        (
            "fast",
            "found lost, no timeout",
            any(|s| !s.fast.is_empty()),
        ),
        ("wait", "wait for a timeout", any(|s| !s.waits.is_empty())),
        ("acked", "DATA_ACK", any(|s| !s.acked.is_empty())),
        ("cwnd", "cwnd", any(|s| !s.windows.is_empty())),
        ("in-flight", "in flight", any(|s| !s.windows.is_empty())),
        ("done", "done", true),
    ];
    let (mut x, mut y) = (8.0, 18.0);
    for (class, name, _) in entries.iter().filter(|e| e.2) {
        let width = 30.0 + text_width(name, 13.0);
        if x + width > layout.width() - 8.0 && x > 8.0 {
            (x, y) = (8.0, y + 21.0);
        }
        draw_mark(p, class, (x + 8.0, y - 4.0));
        p.text("label", (x + 21.0, y), "start", name);
        x += width + 8.0;
    }
    y + 12.0
}

fn draw_mark(p: &mut Picture, class: &str, (x, y): (f64, f64)) {
    match class {
        "cross" => {
            p.line(class, (x - 4.0, y - 4.0), (x + 4.0, y + 4.0));
            p.line(class, (x - 4.0, y + 4.0), (x + 4.0, y - 4.0));
        }
        "wait" => p.rect(class, (x - 7.0, y - 7.0), (15.0, 14.0)).end(),
        "acked" | "cwnd" => p.line(class, (x - 7.0, y), (x + 8.0, y)),
        "in-flight" => p.rect(class, (x - 7.0, y - 5.0), (15.0, 10.0)).end(),
        "done" => p.line(class, (x, y - 7.0), (x, y + 7.0)),
        "parity" => {
            p.line("flight kind-parity", (x, y), (x + 8.0, y));
            draw_parity(p, "send kind-parity", (x - 3.0, y), 14.0).end();
        }
        "repaired" => p
            .el("circle")
            .a("class", class)
            .n("cx", x)
            .n("cy", y)
            .n("r", 4.5)
            .end(),
        "fast" => {
            let corners = [(x, y - 4.0), (x - 4.5, y + 4.0), (x + 4.5, y + 4.0)];
            p.polygon(class, &corners).end();
        }
        _ => {
            p.rect(class, (x - 6.0, y - 5.0), (3.5, 10.0)).end();
            let kind = class.replace("send", "flight");
            p.line(&kind, (x - 6.0, y), (x + 8.0, y));
        }
    }
}
