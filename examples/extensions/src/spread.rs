//! The test `spread`: a transport differs little from point to point.

use std::sync::Arc;

use spindle_experiment::ExperimentError;
use spindle_experiment::claims::{Finding, Findings, Judge, Keys, Test, Verdict};

/// What `spindle explain` prints.
pub(crate) const SUMMARY: &str = "the highest value over all points is near the lowest";

/// The highest value over all points is at most `within` times the lowest.
#[derive(Debug)]
struct Spread {
    of: String,
    within: f64,
}

/// Reads a claim with `test = "spread"`.
pub(crate) fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
    Ok(Arc::new(Spread {
        of: keys.text("of")?,
        within: keys.quantity("within")?,
    }))
}

impl Test for Spread {
    fn transports(&self) -> Vec<&str> {
        vec![&self.of]
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (mut lowest, mut highest) = (f64::INFINITY, 0.0_f64);
        for point in judge.points {
            let interval = judge.measure(judge.pool(point, &self.of)?)?.interval();
            lowest = lowest.min(interval.low);
            highest = highest.max(interval.high);
        }
        // The ends of the intervals show that values are near each other. They cannot show the opposite.
        let verdict = match highest <= self.within * lowest {
            true => Verdict::Holds,
            false => Verdict::Tied,
        };
        let text = format!(
            "{} lies within {} and {}",
            self.of,
            judge.metric.show(lowest),
            judge.metric.show(highest)
        );
        Ok(vec![Finding::judged(verdict, text)])
    }
}
