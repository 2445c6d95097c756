//! What `observe` keeps of each flow beside its time, and the metrics made of it (experiments/README.md,
//! "Proactive recovery").

use serde::{Deserialize, Serialize};

use crate::metrics::{RunResult, show_bytes};

/// Times after all data were sent within which spare room in windows is looked at, in milliseconds
/// (CoFUSO section 3.3, Fig 5).
pub const SPARE_WINDOWS_MS: [u64; 3] = [20, 50, 100];

/// What proactive recovery did for the flows of a run, as far as the server's end goes: the one that
/// sends the responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryOfFlows {
    /// For each flow to which a recovery packet brought data that had not arrived: how many had been
    /// sent up to and including the first that did.
    pub first_hits: Vec<u32>,
    /// Recovery packets sent: copies and parities.
    pub packets: u64,
    /// Of these, those that brought data that had not arrived.
    pub useful: u64,
    /// For each flow how many packets congestion windows would have let out, recovery packets that were
    /// sent among them, from when its data had all been sent until so long after
    /// ([`SPARE_WINDOWS_MS`]).
    pub spare: Vec<[u32; SPARE_WINDOWS_MS.len()]>,
}

/// A number made of what was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedMetric {
    /// Flows to which proactive recovery brought data, over all flows.
    RecoveredFlows,
    /// Recovery packets that brought data, over all recovery packets.
    UsefulRecoveries,
    /// Of the flows to which proactive recovery brought data, the share for which the first packet that
    /// did was one of these, counted from 1 (the last included).
    FirstHit(u32, u32),
    /// The share of flows with room for at most so many packets within the window of that index.
    Spare(usize, u32),
    /// Mean size in bytes.
    SizeMean,
    /// Median size in bytes, nearest rank.
    SizeMedian,
    /// The share of flows of at most so many bytes.
    SizeTo(u32),
}

/// All of them by name.
pub const OBSERVED_METRICS: [(&str, ObservedMetric); 13] = [
    ("recovery.flows", ObservedMetric::RecoveredFlows),
    ("recovery.useful", ObservedMetric::UsefulRecoveries),
    ("recovery.hit-by-4", ObservedMetric::FirstHit(1, 4)),
    ("recovery.hit-by-16", ObservedMetric::FirstHit(1, 16)),
    ("recovery.hit-5-to-16", ObservedMetric::FirstHit(5, 16)),
    ("spare.20ms.to-4", ObservedMetric::Spare(0, 4)),
    ("spare.50ms.to-4", ObservedMetric::Spare(1, 4)),
    ("spare.100ms.to-4", ObservedMetric::Spare(2, 4)),
    ("spare.20ms.to-3", ObservedMetric::Spare(0, 3)),
    ("spare.50ms.to-3", ObservedMetric::Spare(1, 3)),
    ("spare.100ms.to-3", ObservedMetric::Spare(2, 3)),
    ("size.mean", ObservedMetric::SizeMean),
    ("size.p50", ObservedMetric::SizeMedian),
];

impl ObservedMetric {
    /// The metric of that name.
    pub fn parse(name: &str) -> Option<Self> {
        let named = OBSERVED_METRICS.iter().find(|(n, _)| *n == name);
        named.map(|(_, metric)| *metric)
    }

    /// What has to be observed for it, by the name in experiment files.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::SizeMean | Self::SizeMedian | Self::SizeTo(_) => "sizes",
            _ => "recovery",
        }
    }

    /// What it is called in a sentence.
    pub fn title(self) -> String {
        match self {
            Self::RecoveredFlows => "flows that proactive recovery repaired".to_owned(),
            Self::UsefulRecoveries => "useful recovery packets".to_owned(),
            Self::FirstHit(1, to) => {
                format!("repaired flows that took at most {to} recovery packets")
            }
            Self::FirstHit(from, to) => {
                format!("repaired flows that took {from} to {to} recovery packets")
            }
            Self::Spare(window, most) => {
                let ms = SPARE_WINDOWS_MS[window];
                format!("flows with at most {most} spare packets within {ms} ms")
            }
            Self::SizeMean => "mean size".to_owned(),
            Self::SizeMedian => "median size".to_owned(),
            Self::SizeTo(most) => format!("flows of at most {}", show_bytes(f64::from(most))),
        }
    }

    /// A value of it as text with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::SizeMean | Self::SizeMedian => show_bytes(value),
            _ => crate::experiment::units::percent((value * 1e6).round() / 1e6),
        }
    }

    /// Whether it is a share, 0 to 1.
    pub const fn is_share(self) -> bool {
        !matches!(self, Self::SizeMean | Self::SizeMedian)
    }
}

/// What is kept of a run for these metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    flows: u64,
    recovery: Option<RecoveryOfFlows>,
    sizes: Vec<u64>,
}

impl Kept {
    pub(crate) fn of(run: &RunResult) -> Self {
        Self {
            flows: run.flows,
            recovery: run.recovery.clone(),
            sizes: run.sizes.clone(),
        }
    }

    /// What the metric is made of as a ratio of sums over runs: what is counted, and what there is.
    fn parts(&self, metric: ObservedMetric) -> Option<(f64, f64)> {
        let shares = |hits: usize, all: usize| Some((hits as f64, all as f64));
        let r = self.recovery.as_ref();
        match metric {
            ObservedMetric::RecoveredFlows => {
                shares(r?.first_hits.len(), usize::try_from(self.flows).ok()?)
            }
            ObservedMetric::UsefulRecoveries => {
                let r = r?;
                Some((r.useful as f64, r.packets as f64))
            }
            ObservedMetric::FirstHit(from, to) => {
                let hits = &r?.first_hits;
                let within = hits.iter().filter(|n| (from..=to).contains(*n)).count();
                shares(within, hits.len())
            }
            ObservedMetric::Spare(window, most) => {
                let spare = &r?.spare;
                shares(
                    spare.iter().filter(|s| s[window] <= most).count(),
                    spare.len(),
                )
            }
            ObservedMetric::SizeMean => {
                let sum: u64 = self.sizes.iter().sum();
                Some((sum as f64, self.sizes.len() as f64))
            }
            ObservedMetric::SizeTo(most) => {
                let within = self.sizes.iter().filter(|s| **s <= u64::from(most));
                shares(within.count(), self.sizes.len())
            }
            ObservedMetric::SizeMedian => None,
        }
    }
}

/// The metric over runs, run i counted `weights[i]` times; none if nothing was observed.
pub(crate) fn weighted(runs: &[Kept], metric: ObservedMetric, weights: &[u32]) -> Option<f64> {
    if metric == ObservedMetric::SizeMedian {
        return median_size(runs, weights);
    }
    let parts = runs
        .iter()
        .zip(weights)
        .filter_map(|(r, w)| Some((r.parts(metric)?, f64::from(*w))));
    let (hits, all) = parts.fold((0.0, 0.0), |sum, ((a, b), w)| {
        (sum.0 + a * w, sum.1 + b * w)
    });
    (all > 0.0).then_some(hits / all)
}

fn median_size(runs: &[Kept], weights: &[u32]) -> Option<f64> {
    let mut all: Vec<(u64, u64)> = runs
        .iter()
        .zip(weights)
        .flat_map(|(r, w)| r.sizes.iter().map(|s| (*s, u64::from(*w))))
        .collect();
    all.sort_unstable();
    let n: u64 = all.iter().map(|(_, w)| w).sum();
    let rank = crate::stats::rank(n, 0.5);
    let mut seen = 0;
    let found = all.iter().find(|(_, w)| {
        seen += w;
        seen >= rank
    });
    found.map(|(s, _)| *s as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first_hits: &[u32], spare: &[[u32; 3]]) -> Kept {
        Kept {
            flows: 10,
            recovery: Some(RecoveryOfFlows {
                first_hits: first_hits.to_vec(),
                packets: 100,
                useful: 10,
                spare: spare.to_vec(),
            }),
            sizes: vec![10, 30],
        }
    }

    #[test]
    fn metrics_are_ratios_of_sums_over_weighted_runs() {
        let runs = [
            run(&[1, 5, 16, 17], &[[3, 4, 5]]),
            run(&[2], &[[9, 9, 9], [0, 0, 0]]),
        ];
        let of = |name: &str, w: [u32; 2]| {
            let metric = ObservedMetric::parse(name).expect("a name");
            weighted(&runs, metric, &w)
        };
        assert_eq!(of("recovery.flows", [1, 1]), Some(0.25));
        assert_eq!(of("recovery.flows", [0, 1]), Some(0.1));
        assert_eq!(of("recovery.useful", [1, 1]), Some(0.1));
        assert_eq!(of("recovery.hit-by-4", [1, 1]), Some(0.4));
        assert_eq!(of("recovery.hit-5-to-16", [1, 0]), Some(0.5));
        assert_eq!(of("spare.20ms.to-4", [1, 1]), Some(2.0 / 3.0));
        assert_eq!(of("spare.50ms.to-3", [1, 0]), Some(0.0));
        assert_eq!(of("size.mean", [1, 1]), Some(20.0));
        assert_eq!(of("size.p50", [1, 1]), Some(10.0));
        let to = |most| weighted(&runs, ObservedMetric::SizeTo(most), &[1, 1]);
        assert_eq!((to(9), to(10), to(30)), (Some(0.0), Some(0.5), Some(1.0)));
        assert_eq!(of("recovery.hit-by-4", [0, 0]), None);
        assert_eq!(
            weighted(&[Kept::default()], ObservedMetric::SizeMedian, &[1]),
            None
        );
    }
}
