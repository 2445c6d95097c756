//! The test `shape`: how a metric changes along an axis of the sweep.

use std::sync::Arc;

use super::{Finding, Findings, Judge, Keys, PointView, ReadTest, Test, Verdict};
use crate::catalog::Catalog;
use crate::document::ExperimentError;
use crate::stats::{Estimate, Pool};
use crate::units;

/// How a metric may change along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// It never falls.
    Rising,
    /// It never rises.
    Falling,
    /// It falls, then rises.
    Valley,
    /// It rises, then falls.
    Peak,
}

/// The metric of each transport has this shape along the axis, for each setting of the other axes. No step goes
/// in the opposite direction, and the values at the ends differ.
#[derive(Debug)]
struct Shaped {
    /// Transports.
    of: Vec<String>,
    /// Another transport. If given, the distance `(against - of) / against` is tested in place of the metric.
    against: Option<String>,
    /// The axis.
    axis: String,
    /// The shape.
    shape: Shape,
}

fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
    Ok(Arc::new(Shaped {
        of: keys.transports("of")?,
        against: keys.get("against")?,
        axis: keys.axis()?,
        shape: read_shape(keys)?,
    }))
}

fn read_shape(keys: &Keys<'_>) -> Result<Shape, ExperimentError> {
    const SHAPES: [(&str, Shape); 4] = [
        ("rising", Shape::Rising),
        ("falling", Shape::Falling),
        ("valley", Shape::Valley),
        ("peak", Shape::Peak),
    ];
    let s = keys.section();
    s.choice("shape", &SHAPES)?.ok_or_else(|| {
        let names = SHAPES.map(|(n, _)| n).join(", ");
        s.error("shape", format!("missing, want one of {names}"))
    })
}

impl Test for Shaped {
    fn transports(&self) -> Vec<&str> {
        self.of
            .iter()
            .chain(&self.against)
            .map(String::as_str)
            .collect()
    }

    /// Points without the axis do not count.
    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (against, axis) = (self.against.as_deref(), self.axis.as_str());
        let mut list = Vec::new();
        for name in &self.of {
            let describe = against.map(|other| format!("{name} below {other}"));
            for line in judge.lines(name, against, axis)? {
                let name = describe.as_deref().unwrap_or(name);
                list.push(judge.line(name, axis, &line, self.shape)?);
            }
        }
        match list.is_empty() {
            true => Err(format!("no point has a value of {axis}")),
            false => Ok(list),
        }
    }
}

/// A place on the axis.
struct Place<'a> {
    /// The axis' value as written.
    text: &'a str,
    pool: &'a Pool,
    /// The other transport's pool, if the distance from it is tested.
    against: Option<&'a Pool>,
    value: f64,
}

/// Points that differ only in the axis, in the order of the axis.
struct Line<'a> {
    /// The settings of the other axes.
    rest: String,
    places: Vec<Place<'a>>,
}

impl Judge<'_> {
    fn lines(
        &self,
        name: &str,
        against: Option<&str>,
        axis: &str,
    ) -> Result<Vec<Line<'_>>, String> {
        let mut lines: Vec<(Line<'_>, Vec<f64>)> = Vec::new();
        for point in self.points {
            let Some((text, x, rest)) = split(point, axis)? else {
                continue;
            };
            let pool = self.pool(point, name)?;
            let against = against.map(|other| self.pool(point, other)).transpose()?;
            let mut place = Place {
                text,
                pool,
                against,
                value: 0.0,
            };
            let value = self.at(&place, &vec![1; pool.runs()]);
            place.value = value.ok_or("no flow completed, or the other's value is zero")?;
            let at = lines.iter().position(|(l, _)| l.rest == rest);
            let at = at.unwrap_or_else(|| {
                let places = Vec::new();
                lines.push((Line { rest, places }, Vec::new()));
                lines.len() - 1
            });
            let (line, xs) = &mut lines[at];
            let before = xs.partition_point(|other| *other < x);
            line.places.insert(before, place);
            xs.insert(before, x);
        }
        Ok(lines.into_iter().map(|(line, _)| line).collect())
    }

    fn line(
        &self,
        name: &str,
        axis: &str,
        line: &Line<'_>,
        shape: Shape,
    ) -> Result<Finding, String> {
        let places = &line.places;
        let turn = match shape {
            Shape::Rising => 0,
            Shape::Falling => places.len() - 1,
            Shape::Valley => extreme(places, 1.0),
            Shape::Peak => extreme(places, -1.0),
        };
        // The metric goes down to the turn and up from there. A peak is a valley upside down.
        let sign = if shape == Shape::Peak { -1.0 } else { 1.0 };
        let (against, chance) = self.steps_against(places, turn, sign)?;
        let inside = turn > 0 && turn + 1 < places.len();
        let turns = matches!(shape, Shape::Valley | Shape::Peak);
        let sides = [(turn, 0), (turn, places.len() - 1)];
        let mut sure = places.len() > 1 && (inside || !turns);
        for (from, to) in sides.into_iter().filter(|(a, b)| a != b) {
            sure &= self
                .change(&places[from], &places[to], sign)?
                .interval()
                .low
                > 0.0;
        }
        let verdict = if sure { Verdict::Holds } else { Verdict::Tied };
        let mut finding = Finding::judged(verdict, String::new());
        let no_turn = match turns && !inside {
            true => self.no_turn(places, turn, sign)?,
            false => None,
        };
        let no_margin = self.no_margin(places)?;
        if !against.is_empty() {
            (finding.verdict, finding.chance) = (Verdict::Fails, chance);
        } else if let Some(chance) = no_turn {
            (finding.verdict, finding.chance) = (Verdict::Fails, chance);
        } else if let Some((verdict, chance)) = no_margin {
            (finding.verdict, finding.chance) = (verdict, chance);
        }
        let show = |p: &Place<'_>| match p.against {
            None => self.metric.show(p.value),
            Some(_) => units::percent((p.value * 1e3).round() / 1e3),
        };
        let at = |p: &Place<'_>| format!("{} at {axis} {}", show(p), p.text);
        let mut text = match line.rest.is_empty() {
            true => name.to_owned(),
            false => format!("{}: {name}", line.rest),
        };
        let shown = [0, turn, places.len() - 1];
        let mut shown: Vec<usize> = shown.to_vec();
        shown.dedup();
        let shown: Vec<String> = shown.into_iter().map(|i| at(&places[i])).collect();
        text = format!("{text} {}", shown.join(", "));
        if let Some(first) = against.first() {
            let (a, b) = (&places[*first], &places[first + 1]);
            let (n, steps) = (against.len(), places.len() - 1);
            text = format!(
                "{text}; {n} of {steps} steps go the other way, first from {} to {}",
                at(a),
                at(b)
            );
        } else if turns && !inside {
            text = format!("{text}; it turns nowhere");
        } else if no_margin.is_some() {
            text = format!("{text}; nowhere is it surely above zero");
        }
        finding.text = text;
        Ok(finding)
    }

    /// The steps that go in the opposite direction at a level that is corrected for their number, and the
    /// probability of the clearest of them by chance. The metric goes down to `turn` and up from there, or the
    /// other way if `sign` is -1.
    fn steps_against(
        &self,
        places: &[Place<'_>],
        turn: usize,
        sign: f64,
    ) -> Result<(Vec<usize>, f64), String> {
        let (mut against, mut chance) = (Vec::new(), 1.0f64);
        let steps = (places.len() - 1) as f64;
        for (i, pair) in places.windows(2).enumerate() {
            let up = if i < turn { -sign } else { sign };
            let change = self.change(&pair[0], &pair[1], up)?;
            let p = steps * change.p_value(0.0);
            if change.value < 0.0 && p <= 0.05 {
                against.push(i);
                chance = chance.min(p);
            }
        }
        Ok((against, chance))
    }

    /// For a line whose extreme is at its end `turn`: the probability by chance that this end is as far beyond
    /// all places between the ends. `None` if chance explains it.
    fn no_turn(&self, places: &[Place<'_>], turn: usize, sign: f64) -> Result<Option<f64>, String> {
        let Some(inner) = places.get(1..places.len().saturating_sub(1)) else {
            return Ok(Some(0.0));
        };
        if inner.is_empty() {
            return Ok(Some(0.0));
        }
        let change = self.change(&places[turn], &inner[extreme(inner, sign)], sign)?;
        let p = change.p_value(0.0);
        Ok((change.value > 0.0 && p <= 0.05).then_some(p))
    }

    /// A distance from another transport can have a shape only if there is a distance. The verdict and the
    /// probability by chance if it is surely above zero at no place.
    fn no_margin(&self, places: &[Place<'_>]) -> Result<Option<(Verdict, f64)>, String> {
        let margins = places.iter().filter(|p| p.against.is_some());
        let Some(largest) = margins.max_by(|a, b| a.value.total_cmp(&b.value)) else {
            return Ok(None);
        };
        let margin = self.estimate(largest.pool, |w| self.at(largest, w))?;
        let i = margin.interval();
        Ok(match () {
            () if i.high < 0.0 => Some((Verdict::Fails, margin.p_value(0.0))),
            () if i.low <= 0.0 => Some((Verdict::Tied, 1.0)),
            () => None,
        })
    }

    /// How far `to` is above `from`, or below it if `sign` is -1, under the same resampled runs.
    fn change(&self, from: &Place<'_>, to: &Place<'_>, sign: f64) -> Result<Estimate, String> {
        let runs = from.pool.runs();
        let pools = [Some(to.pool), from.against, to.against];
        if pools.into_iter().flatten().any(|p| p.runs() != runs) {
            return Err("the points have different numbers of runs".to_owned());
        }
        self.estimate(from.pool, |w| {
            Some(sign * (self.at(to, w)? - self.at(from, w)?))
        })
    }

    /// The metric at a place. With another transport, its distance below the other's as a share of the other's.
    fn at(&self, place: &Place<'_>, weights: &[u32]) -> Option<f64> {
        let own = place.pool.weighted(self.metric, weights)?;
        let Some(other) = place.against else {
            return Some(own);
        };
        let other = other.weighted(self.metric, weights)?;
        (other > 0.0).then_some((other - own) / other)
    }
}

/// The axis' value as written and as a number, and the other settings. `None` if the point does not have the
/// axis.
fn split<'p>(point: &PointView<'p>, axis: &str) -> Result<Option<(&'p str, f64, String)>, String> {
    let Some((_, text)) = point.set.iter().find(|(a, _)| a == axis) else {
        return Ok(None);
    };
    let x = units::quantity(text).ok_or("the axis has a value that is no number")?;
    let rest = point.set.iter().filter(|(a, _)| a != axis);
    let rest: Vec<String> = rest.map(|(a, v)| format!("{a} {v}")).collect();
    Ok(Some((text, x, rest.join(", "))))
}

/// Where the smallest value is, or the largest if `sign` is -1. If there are several, the first of them.
fn extreme(places: &[Place<'_>], sign: f64) -> usize {
    let values = places.iter().map(|p| sign * p.value).enumerate();
    let least = values.min_by(|a, b| a.1.total_cmp(&b.1));
    least.map_or(0, |(i, _)| i)
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let summary = "the metric rises, falls, or turns along an axis";
    catalog.add("shape", summary, Arc::new(read));
}
