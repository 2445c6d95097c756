//! Tests of the largest difference over several points and transports: "by up to 45 %".

use super::Verdict;
use super::evaluate::{Finding, Findings, Judge};
use crate::stats::{Pool, Resamples};
use crate::units;

/// The direction in which a transport differs from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It is lower than the others.
    Reduction,
    /// It is higher than the others.
    Increase,
}

impl Way {
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

impl Judge<'_> {
    /// The largest reduction or increase of `of` against any of the others at any point.
    pub(super) fn largest(
        &self,
        way: Way,
        (of, against): (&str, &[String]),
        up_to: f64,
        slack: f64,
    ) -> Findings {
        let mut pairs = Vec::new();
        for point in self.points {
            let pool = self.pool(point, of)?;
            for other in against {
                pairs.push((point, other, pool, self.pool(point, other)?));
            }
        }
        let runs = pairs.iter().map(|(_, _, p, _)| p.runs()).min().unwrap_or(0);
        if pairs
            .iter()
            .any(|(_, _, a, b)| a.runs() != runs || b.runs() != runs)
        {
            return Err("the transports have different numbers of runs".to_owned());
        }
        let one = |a: &Pool, b: &Pool, w: &[u32]| {
            let (a, b) = (a.weighted(self.metric, w)?, b.weighted(self.metric, w)?);
            way.share(a, b)
        };
        let best = |w: &[u32]| {
            pairs
                .iter()
                .filter_map(|(_, _, a, b)| one(a, b, w))
                .max_by(f64::total_cmp)
        };
        let all = vec![1; runs];
        let Some(value) = best(&all) else {
            return Err("the others' values are all zero".to_owned());
        };
        let i = Resamples::new(runs)
            .interval(best)
            .ok_or("intervals need two or more runs")?;
        let place = pairs
            .iter()
            .find(|(_, _, a, b)| one(a, b, &all) == Some(value))
            .map_or_else(String::new, |(p, o, _, _)| {
                format!(", against {o} at {}", p.label())
            });
        let enough = up_to - slack;
        let verdict = match () {
            () if i.low >= enough => Verdict::Holds,
            () if i.high < enough => Verdict::Fails,
            () => Verdict::Tied,
        };
        let show = |v: f64| units::percent((v * 1e3).round() / 1e3);
        let text = format!(
            "largest {} {} [{} to {}]{place}; claimed about {}",
            way.word(),
            show(value),
            show(i.low),
            show(i.high),
            show(up_to)
        );
        Ok(vec![Finding { verdict, text }])
    }
}
