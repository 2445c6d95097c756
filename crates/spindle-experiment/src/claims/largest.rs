//! Tests of the largest difference over several points and transports, "by up to 45 %": `reduction` and
//! `largest-increase`.

use std::sync::Arc;

use super::{Claimed, Finding, Findings, Judge, Keys, Measured, ReadTest, Test};
use crate::catalog::Catalog;
use crate::document::ExperimentError;
use crate::stats::Pool;
use crate::units;

/// The direction in which a transport differs from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// It is lower than the others.
    Reduction,
    /// It is higher than the others.
    Increase,
}

impl Direction {
    const fn word(self) -> &'static str {
        match self {
            Self::Reduction => "reduction",
            Self::Increase => "increase",
        }
    }

    /// The difference in this direction, as a share of `b`.
    fn share(self, a: f64, b: f64) -> Option<f64> {
        let more = match self {
            Self::Reduction => b - a,
            Self::Increase => a - b,
        };
        (b > 0.0).then_some(more / b)
    }
}

/// Each of `of` is lower, or higher, by up to `up_to` than any of the others. The largest reduction `(other - of) /
/// other`, or increase `(of - other) / other`, over all points, transports and others is about `up_to`, neither
/// less nor more.
#[derive(Debug)]
struct Largest {
    direction: Direction,
    /// Transports.
    of: Vec<String>,
    /// The others.
    against: Vec<String>,
    /// The largest change claimed, 0 or more.
    up_to: f64,
    /// How far from `up_to` still counts as "about".
    slack: f64,
}

impl Largest {
    fn read(keys: &Keys<'_>, direction: Direction) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(Self {
            direction,
            of: keys.transports("of")?,
            against: keys.transports("against")?,
            up_to: keys.quantity("up_to")?,
            slack: keys.slack()?,
        }))
    }
}

impl Test for Largest {
    fn transports(&self) -> Vec<&str> {
        let all = self.of.iter().chain(&self.against);
        all.map(String::as_str).collect()
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (direction, up_to) = (self.direction, self.up_to);
        let mut pairs = Vec::new();
        for point in judge.points {
            for name in &self.of {
                let pool = judge.pool(point, name)?;
                for other in &self.against {
                    let place = format!("{name} against {other} at {}", point.label());
                    pairs.push((place, pool, judge.pool(point, other)?));
                }
            }
        }
        let runs = pairs.iter().map(|(_, p, _)| p.runs()).min().unwrap_or(0);
        if pairs
            .iter()
            .any(|(_, a, b)| a.runs() != runs || b.runs() != runs)
        {
            return Err("the transports have different numbers of runs".to_owned());
        }
        let one = |a: &Pool, b: &Pool, w: &[u32]| {
            let (a, b) = (a.weighted(judge.metric, w)?, b.weighted(judge.metric, w)?);
            direction.share(a, b)
        };
        let best = |w: &[u32]| {
            pairs
                .iter()
                .filter_map(|(_, a, b)| one(a, b, w))
                .max_by(f64::total_cmp)
        };
        let all = vec![1; runs];
        let Some(value) = best(&all) else {
            return Err("the others' values are all zero".to_owned());
        };
        let (_, first, _) = pairs.first().ok_or("there is no point")?;
        let found = Measured::new(judge.estimate(first, best)?);
        let i = found.interval();
        let place = pairs
            .iter()
            .find(|(_, a, b)| one(a, b, &all) == Some(value))
            .map_or_else(String::new, |(place, ..)| format!(", {place}"));
        let show = |v: f64| units::percent((v * 1e3).round() / 1e3);
        let text = format!(
            "largest {} {} [{} to {}]{place}; claimed about {}",
            direction.word(),
            show(value),
            show(i.low),
            show(i.high),
            show(up_to)
        );
        let claimed = Claimed::up_to(up_to, self.slack);
        Ok(vec![Finding::new(claimed, &found, text)])
    }
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let reduction = |keys: &Keys<'_>| Largest::read(keys, Direction::Reduction);
    let increase = |keys: &Keys<'_>| Largest::read(keys, Direction::Increase);
    let summary = "a transport is lower than the others by up to a share";
    catalog.add("reduction", summary, Arc::new(reduction));
    let summary = "a transport is higher than the others by up to a share";
    catalog.add("largest-increase", summary, Arc::new(increase));
}
