//! Tests that compare two transports' completion times flow by flow or as distributions, and tests of
//! differences in a metric's own unit: `difference`, `ks` and `gains`.

use std::sync::Arc;

use super::{Claimed, Finding, Findings, Judge, Keys, Measured, PointView, ReadTest, Test};
use crate::catalog::Catalog;
use crate::document::ExperimentError;
use crate::metrics::Metric;
use crate::stats::Pool;
use crate::units;

fn percent(share: f64) -> String {
    units::percent((share * 1e4).round() / 1e4)
}

/// The pools of both transports, which must have the same number of runs. The claim's metric does not matter,
/// because all completion times are compared.
fn both<'p>(
    judge: &Judge<'_>,
    point: &PointView<'p>,
    of: &str,
    against: &str,
) -> Result<(&'p Pool, &'p Pool), String> {
    let judge = Judge {
        metric: Metric::FctMean,
        ..*judge
    };
    let (a, b) = (judge.pool(point, of)?, judge.pool(point, against)?);
    match a.runs() == b.runs() {
        true => Ok((a, b)),
        false => Err(format!("{of} and {against} have different numbers of runs")),
    }
}

/// At each point, `of` minus `against` is within the range, in the metric's unit ([`Claimed::Range`]).
#[derive(Debug)]
struct Difference {
    /// The transport.
    of: String,
    /// The other.
    against: String,
    /// Lower and upper end of the range.
    between: (f64, f64),
    /// How far outside the range still counts as "about".
    slack: f64,
}

impl Difference {
    fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(Self {
            of: keys.text("of")?,
            against: keys.text("against")?,
            between: keys.range("between")?,
            slack: keys.quantity("slack")?,
        }))
    }
}

impl Test for Difference {
    fn transports(&self) -> Vec<&str> {
        vec![&self.of, &self.against]
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (of, against) = (&self.of, &self.against);
        let range = (self.between.0 - self.slack, self.between.1 + self.slack);
        judge
            .points
            .iter()
            .map(|point| {
                let (_, _, found) = judge.paired(point, of, against, |a, b| a - b)?;
                let i = found.interval();
                // The sign is added here, because a metric shows magnitudes.
                let show = |v: f64| {
                    let sign = if v < 0.0 { "-" } else { "+" };
                    format!("{sign}{}", judge.metric.show(v.abs()))
                };
                let text = format!(
                    "{}: {of} differs from {against} by {} [{} to {}]",
                    point.label(),
                    show(found.value()),
                    show(i.low),
                    show(i.high)
                );
                let claimed = Claimed::Range(range.0, range.1);
                Ok(Finding::new(claimed, &found, text).at(point, judge.metric))
            })
            .collect()
    }
}

/// At each point, the Kolmogorov-Smirnov distance of the two transports' completion times is below this value.
#[derive(Debug)]
struct Ks {
    /// The transport.
    of: String,
    /// The other.
    against: String,
    /// The distance, 0 to 1.
    below: f64,
}

impl Ks {
    fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(Self {
            of: keys.text("of")?,
            against: keys.text("against")?,
            below: keys.quantity("below")?,
        }))
    }
}

impl Test for Ks {
    fn transports(&self) -> Vec<&str> {
        vec![&self.of, &self.against]
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (of, against, below) = (&self.of, &self.against, self.below);
        judge
            .points
            .iter()
            .map(|point| {
                let (a, b) = both(judge, point, of, against)?;
                let value = a.ks(b, &vec![1; a.runs()]).ok_or("no flow completed")?;
                let found = Measured::new(judge.estimate(a, |w| a.ks(b, w))?);
                let i = found.interval().within(0.0, 1.0);
                let text = format!(
                    "{}: the distributions of {of} and {against} are {} apart at most [{} to {}]",
                    point.label(),
                    percent(value),
                    percent(i.low),
                    percent(i.high)
                );
                let finding = Finding::new(Claimed::Below(below), &found, text);
                Ok(finding.at(point, judge.metric))
            })
            .collect()
    }
}

/// At each point, about this share of flows takes less time by a share within the range. Each flow is compared
/// with the same flow under the other transport. The share of flows is `share` plus or minus the slack
/// ([`Claimed::Range`]).
#[derive(Debug)]
struct Gains {
    /// The transport.
    of: String,
    /// The other.
    against: String,
    /// Lower and upper end of the gain `(other - of) / other`.
    gain: (f64, f64),
    /// The share of flows, 0 to 1.
    share: f64,
    /// How far from `share` still counts as "about".
    slack: f64,
}

impl Gains {
    fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(Self {
            of: keys.text("of")?,
            against: keys.text("against")?,
            gain: keys.range("gain")?,
            share: keys.quantity("share")?,
            slack: keys.slack()?,
        }))
    }
}

impl Test for Gains {
    fn transports(&self) -> Vec<&str> {
        vec![&self.of, &self.against]
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (of, against, gain) = (&self.of, &self.against, self.gain);
        let share = (self.share - self.slack, self.share + self.slack);
        judge.points
            .iter()
            .map(|point| {
                let (a, b) = both(judge, point, of, against)?;
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
                let found = Measured::new(judge.estimate(a, over)?);
                let i = found.interval().within(0.0, 1.0);
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
                let claimed = Claimed::Range(share.0, share.1);
                Ok(Finding::new(claimed, &found, text).at(point, judge.metric))
            })
            .collect()
    }
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let difference = "two transports differ by an amount within a range";
    let ks = "the distributions of two transports' completion times are near each other";
    let gains = "a share of flows takes less time than under another transport";
    catalog.add("difference", difference, Arc::new(Difference::read));
    catalog.add("ks", ks, Arc::new(Ks::read));
    catalog.add("gains", gains, Arc::new(Gains::read));
}
