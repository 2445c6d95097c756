//! The complementary distribution of flow completion times on two logarithmic axes, so that the tail takes as
//! much room as the body.

use super::super::format::{Quantity, count, micros, percent};
use super::super::palette::Look;
use super::super::{AxisSpec, Estimate};
use super::frame::{Area, Axis, KeyEntry, KeyMark, draw_frame, draw_key, empty_picture};
use super::scale::Scale;
use super::svg::number;
use super::{Layout, Picture};

/// A nanosecond. It replaces zero on a logarithmic axis.
const LEAST_US: f64 = 1e-3;

/// Shares that are marked on each line: 1 %, 0.1 %.
const MARKED: [f64; 2] = [0.01, 0.001];

/// A transport's line.
pub(crate) struct Distribution<'a> {
    /// The transport.
    pub(crate) name: &'a str,
    /// The name whose look the line has.
    pub(crate) colour: &'a str,
    /// Completion times in microseconds.
    pub(crate) samples: &'a [f64],
    /// The times at the shares in [`MARKED`] with their intervals, if known.
    pub(crate) marked: [Option<Estimate>; 2],
}

/// The distance between the drawn intervals of different transports, in user units. All intervals belong to the
/// same share.
const NUDGE: f64 = 2.2;

/// The complementary distribution of each transport's samples.
pub(crate) fn ccdf(layout: Layout, title: &str, transports: &[Distribution<'_>]) -> Picture {
    let sorted: Vec<(&str, Vec<f64>)> = transports
        .iter()
        .map(|t| (t.name, usable(t.samples)))
        .collect();
    let all = || {
        sorted
            .iter()
            .flat_map(|(_, s)| s.first().into_iter().chain(s.last()))
    };
    let Some(low) = all().copied().min_by(f64::total_cmp) else {
        return empty_picture(layout, title);
    };
    let high = all().copied().fold(low, f64::max);
    let most = sorted
        .iter()
        .map(|(_, s)| s.len())
        .max()
        .unwrap_or(1)
        .max(10);

    let mut p = Picture::new(layout.width(), 0.0, title);
    let keys = sorted
        .iter()
        .zip(transports)
        .map(|((name, _), t)| KeyEntry {
            name: (*name).to_owned(),
            look: p.look(t.colour),
            mark: KeyMark::Measured,
        })
        .collect::<Vec<_>>();
    let top = draw_key(&mut p, layout, 4.0, &keys) + 30.0;
    let area = Area {
        left: 56.0,
        right: layout.width() - layout.pick(24.0, 16.0),
        top,
        bottom: top + layout.pick(360.0, 300.0),
    };
    let spec = |name: &str, quantity| AxisSpec {
        name: name.to_owned(),
        quantity,
        log: true,
        cases: Vec::new(),
    };
    let times = spec("flow completion time", Quantity::Micros);
    let shares = spec(
        "share of flows that take at least this long",
        Quantity::Fraction,
    );
    let x = Axis {
        scale: Scale::log((low * 0.92, high * 1.08), (area.left, area.right)),
        spec: &times,
        values: Vec::new(),
        ticks: layout.pick(7.0, 4.0) as usize,
    };
    let y = Axis {
        scale: Scale::log((0.8 / most as f64, 1.0), (area.bottom, area.top)),
        spec: &shares,
        values: Vec::new(),
        ticks: 6,
    };
    draw_frame(&mut p, area, &x, &y);
    let middle = (transports.len() as f64 - 1.0) / 2.0;
    for (i, (t, (name, samples))) in transports.iter().zip(&sorted).enumerate() {
        let l = p.look(t.colour);
        draw_line(&mut p, &l, name, samples, &x.scale, &y.scale);
        let aside = (i as f64 - middle) * NUDGE;
        draw_intervals(&mut p, &l, t, samples.len(), aside, (&x.scale, &y.scale));
    }
    p.set_height(area.bottom + 50.0);
    p
}

/// The finite, non-negative samples in ascending order, at least a nanosecond each.
fn usable(samples: &[f64]) -> Vec<f64> {
    let fine = samples
        .iter()
        .copied()
        .filter(|v| v.is_finite() && *v >= 0.0);
    let mut out: Vec<f64> = fine.map(|v| v.max(LEAST_US)).collect();
    out.sort_by(f64::total_cmp);
    out
}

/// Draws the intervals of the marked times, each slightly above the previous one.
fn draw_intervals(
    p: &mut Picture,
    l: &Look,
    t: &Distribution<'_>,
    flows: usize,
    aside: f64,
    (x, y): (&Scale, &Scale),
) {
    let class = format!("error {}", l.class);
    for (share, estimate) in MARKED.iter().zip(t.marked) {
        let Some((low, high)) = estimate.and_then(|e| e.ci95) else {
            continue;
        };
        if (flows as f64) * share < 1.0 || !low.is_finite() || !high.is_finite() {
            continue;
        }
        let (from, to) = (x.at(low.max(LEAST_US)), x.at(high.max(LEAST_US)));
        let at = y.at(*share) + aside;
        p.line(&class, (from, at), (to, at));
        p.line(&class, (from, at - 2.5), (from, at + 2.5));
        p.line(&class, (to, at - 2.5), (to, at + 2.5));
    }
}

fn draw_line(p: &mut Picture, l: &Look, name: &str, samples: &[f64], x: &Scale, y: &Scale) {
    let n = samples.len();
    let share = |i: usize| (n - i) as f64 / n as f64;
    let point = |i: usize| (x.at(samples[i]), y.at(share(i)));
    let mut path = String::new();
    let mut last = (f64::MIN, f64::MIN);
    for i in 0..n {
        let (px, py) = point(i);
        // Points closer than a pixel cannot be distinguished. The last point is always drawn.
        let moved = (px - last.0).abs() >= 0.8 || (py - last.1).abs() >= 0.8;
        if moved || i + 1 == n {
            // A step: the share drops after each sample and stays constant until the next.
            path += &if path.is_empty() {
                format!("M{} {}", number(px), number(py))
            } else {
                format!("V{}H{}", number(py), number(px))
            };
            last = (px, py);
        }
    }
    if n > 1 {
        p.el("path")
            .a("class", &format!("series {}", l.class))
            .a("stroke-dasharray", l.dash)
            .a("d", &path)
            .tip(name);
    }
    for mark in MARKED {
        // The nearest rank: the smallest sample that at most `mark` of the flows exceed.
        let rank = (n as f64 * (1.0 - mark)).ceil().max(1.0) as usize - 1;
        if n as f64 * mark >= 1.0 {
            let text = format!(
                "{name}: {} of flows take {} or more",
                percent(mark),
                micros(samples[rank])
            );
            p.marker(l, (x.at(samples[rank]), y.at(share(rank))), 4.0)
                .tip(&text);
        }
    }
    if n > 0 {
        let text = format!(
            "{name}: the slowest of {} flows, {}",
            count(n as u64),
            micros(samples[n - 1])
        );
        p.marker(l, point(n - 1), 3.0).tip(&text);
    }
}
