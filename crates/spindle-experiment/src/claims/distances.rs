//! Tests that compare two transports' completion times flow by flow or as distributions, and tests of
//! differences in a metric's own unit.

use super::Verdict;
use super::evaluate::{Finding, Findings, Judge, PointView};
use crate::stats::{Interval, Pool, Resamples};
use crate::units;

fn percent(share: f64) -> String {
    units::percent((share * 1e4).round() / 1e4)
}

fn holds_if_it_meets(i: Interval, (low, high): (f64, f64)) -> Verdict {
    match i.high < low || i.low > high {
        true => Verdict::Fails,
        false => Verdict::Holds,
    }
}

impl Judge<'_> {
    /// The pools of both transports, which must have the same number of runs.
    fn both<'p>(
        &self,
        point: &PointView<'p>,
        of: &str,
        against: &str,
    ) -> Result<(&'p Pool, &'p Pool), String> {
        let (a, b) = (self.pool(point, of)?, self.pool(point, against)?);
        match a.runs() == b.runs() {
            true => Ok((a, b)),
            false => Err(format!("{of} and {against} have different numbers of runs")),
        }
    }

    /// `of` minus `against`, in the metric's unit.
    pub(super) fn difference(
        &self,
        (of, against): (&str, &str),
        between: (f64, f64),
        slack: f64,
    ) -> Findings {
        let range = (between.0 - slack, between.1 + slack);
        self.points
            .iter()
            .map(|point| {
                let (a, b, i) = self.paired(point, of, against, |a, b| a - b)?;
                // The sign is added here, because a metric shows magnitudes.
                let show = |v: f64| {
                    let sign = if v < 0.0 { "-" } else { "+" };
                    format!("{sign}{}", self.metric.show(v.abs()))
                };
                let text = format!(
                    "{}: {of} differs from {against} by {} [{} to {}]",
                    point.label(),
                    show(a - b),
                    show(i.low),
                    show(i.high)
                );
                Ok(Finding {
                    verdict: holds_if_it_meets(i, range),
                    text,
                })
            })
            .collect()
    }

    /// The largest distance between the distributions of completion times.
    pub(super) fn ks(&self, of: &str, against: &str, below: f64) -> Findings {
        self.points
            .iter()
            .map(|point| {
                let (a, b) = self.both(point, of, against)?;
                let value = a.ks(b, &vec![1; a.runs()]).ok_or("no flow completed")?;
                let i = Resamples::new(a.runs())
                    .interval(|w| a.ks(b, w))
                    .ok_or("intervals need two or more runs")?
                    .around(value);
                let verdict = match () {
                    () if i.high < below => Verdict::Holds,
                    () if i.low >= below => Verdict::Fails,
                    () => Verdict::Tied,
                };
                let text = format!(
                    "{}: the distributions of {of} and {against} are {} apart at most [{} to {}]",
                    point.label(),
                    percent(value),
                    percent(i.low),
                    percent(i.high)
                );
                Ok(Finding { verdict, text })
            })
            .collect()
    }

    /// The share of flows that take less time under `of` than under `against` by a share within `gain`.
    pub(super) fn gains(
        &self,
        (of, against): (&str, &str),
        gain: (f64, f64),
        share: (f64, f64),
    ) -> Findings {
        self.points
            .iter()
            .map(|point| {
                let (a, b) = self.both(point, of, against)?;
                let counts = a.gains(b, gain).ok_or("not every flow completed")?;
                let over = |w: &[u32]| {
                    let sum = |f: fn(&(u64, u64)) -> u64| -> f64 {
                        let weighted = counts.iter().zip(w);
                        weighted.map(|(c, w)| f(c) as f64 * f64::from(*w)).sum()
                    };
                    let all = sum(|c| c.1);
                    (all > 0.0).then(|| sum(|c| c.0) / all)
                };
                let value = over(&vec![1; a.runs()]).ok_or("no flow completed")?;
                let i = Resamples::new(a.runs())
                    .interval(over)
                    .ok_or("intervals need two or more runs")?
                    .around(value);
                let all: u64 = counts.iter().map(|c| c.1).sum();
                let text = format!(
                    "{}: {} [{} to {}] of {all} flows take {} to {} less time under {of} than under \
                     {against}",
                    point.label(),
                    percent(value),
                    percent(i.low),
                    percent(i.high),
                    percent(gain.0),
                    percent(gain.1)
                );
                Ok(Finding {
                    verdict: holds_if_it_meets(i, share),
                    text,
                })
            })
            .collect()
    }
}
