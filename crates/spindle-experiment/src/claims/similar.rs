//! The test `similar`: two transports differ by little.

use std::sync::Arc;

use super::judge::above;
use super::{Claimed, Finding, Findings, Judge, Keys, PointView, ReadTest, Test};
use crate::catalog::Catalog;
use crate::document::ExperimentError;

/// The two differ by at most a share of the second, at each point. Equal values do not differ, even if both are
/// zero.
#[derive(Debug)]
struct Similar {
    /// The transport.
    of: String,
    /// The other.
    against: String,
    /// The largest relative difference.
    within: f64,
}

fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
    Ok(Arc::new(Similar {
        of: keys.text("of")?,
        against: keys.text("against")?,
        within: keys.quantity("within")?,
    }))
}

impl Test for Similar {
    fn transports(&self) -> Vec<&str> {
        vec![&self.of, &self.against]
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (of, against, within) = (&self.of, &self.against, self.within);
        let compare = |point: &PointView<'_>| {
            let (_, _, found) = judge.paired(point, of, against, above)?;
            let text = judge.two(point, of, against)?;
            let finding = Finding::new(Claimed::Within(-within, within), &found, text);
            Ok(finding.at(point, judge.metric))
        };
        judge.points.iter().map(compare).collect()
    }
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let summary = "two transports differ by at most a share";
    catalog.add("similar", summary, Arc::new(read));
}
