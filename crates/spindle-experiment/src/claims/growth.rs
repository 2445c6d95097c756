//! The test `growth`: the power with which a metric grows along an axis.

use std::sync::Arc;

use super::{Claimed, Finding, Findings, Judge, Keys, Measured, ReadTest, Test};
use crate::catalog::Catalog;
use crate::document::ExperimentError;
use crate::units;

/// The metric of each transport grows with the axis to a power within the range (slope in a log-log plane).
#[derive(Debug)]
struct Growth {
    /// Transports.
    of: Vec<String>,
    /// The axis.
    axis: String,
    /// Range of the exponent.
    between: (f64, f64),
}

fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
    Ok(Arc::new(Growth {
        of: keys.transports("of")?,
        axis: keys.axis()?,
        between: keys.range("between")?,
    }))
}

impl Test for Growth {
    fn transports(&self) -> Vec<&str> {
        self.of.iter().map(String::as_str).collect()
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let grow = |name: &String| self.finding(judge, name);
        self.of.iter().map(grow).collect()
    }
}

impl Growth {
    /// The comparison of one transport.
    fn finding(&self, judge: &Judge<'_>, of: &str) -> Result<Finding, String> {
        let axis = &self.axis;
        let mut xs = Vec::new();
        for point in judge.points {
            let x = point
                .set
                .iter()
                .find(|(a, _)| a == axis)
                .and_then(|(_, v)| units::quantity(v));
            let x = x
                .filter(|x| *x > 0.0)
                .ok_or("the axis has a value that is no number above 0")?;
            xs.push((x.ln(), judge.pool(point, of)?));
        }
        let runs = xs.iter().map(|(_, p)| p.runs()).min().unwrap_or(0);
        let slope = |w: &[u32]| {
            let points: Option<Vec<(f64, f64)>> = xs
                .iter()
                .map(|(x, p)| {
                    p.weighted(judge.metric, w)
                        .filter(|y| *y > 0.0)
                        .map(|y| (*x, y.ln()))
                })
                .collect();
            points.and_then(|p| fitted_slope(&p))
        };
        if slope(&vec![1; runs]).is_none() {
            return Err("fewer than two points, or a value of zero".to_owned());
        }
        let (_, first) = xs.first().ok_or("there is no point")?;
        let found = Measured::new(judge.estimate(first, slope)?);
        let (value, i, between) = (found.value(), found.interval(), self.between);
        let text = format!(
            "{of}: grows as {axis}^{value:.2} [{:.2} to {:.2}], {:.2} to {:.2} claimed",
            i.low, i.high, between.0, between.1
        );
        let claimed = Claimed::Within(between.0, between.1);
        Ok(Finding::new(claimed, &found, text))
    }
}

/// The slope by least squares. `None` if there are fewer than two different x.
fn fitted_slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let (mx, my) = points
        .iter()
        .fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let (num, den) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| {
        (a + (x - mx) * (y - my), b + (x - mx).powi(2))
    });
    (den > 0.0).then_some(num / den)
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let summary = "the metric grows with an axis to a power within a range";
    catalog.add("growth", summary, Arc::new(read));
}
