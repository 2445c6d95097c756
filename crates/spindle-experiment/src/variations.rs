//! Variations: changes of values that a paper prints, to see whether a verdict depends on them.
//!
//! A [reading](crate::readings) chooses what a paper leaves open. A variation changes one kind of value in all of a
//! paper's experiments at once by a fixed factor, whatever the experiment has. Claims and their rules stay. A verdict that
//! no variation reverses is robust.

use spindle_units::Duration;

use crate::document::{UnknownName, suggestion};
use crate::scenario::{Buffer, Scenario};

/// A change of one kind of value in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variation {
    /// Seeds that no other run uses.
    OtherSeeds,
    /// An MSS of 7/10, which is 1022 bytes where the experiment has 1460.
    SmallerMss,
    /// Half of the queue size of every switch's port.
    HalfBuffers,
    /// Twice the queue size of every switch's port.
    DoubleBuffers,
    /// Half of the minimum RTO.
    HalfMinRto,
    /// Twice the minimum RTO.
    DoubleMinRto,
    /// Four fifths of the load: flows start at 4/5 of the rate.
    LowerLoad,
    /// Six fifths of the load: flows start at 6/5 of the rate.
    HigherLoad,
}

/// The distance between the seeds of [`Variation::OtherSeeds`] and an experiment's own. No experiment has as many
/// seeds.
const SEED_DISTANCE: u64 = 1_000_000;

impl Variation {
    /// All variations.
    pub const ALL: [Self; 8] = [
        Self::OtherSeeds,
        Self::SmallerMss,
        Self::HalfBuffers,
        Self::DoubleBuffers,
        Self::HalfMinRto,
        Self::DoubleMinRto,
        Self::LowerLoad,
        Self::HigherLoad,
    ];

    /// The name in `reproduce --vary`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OtherSeeds => "other-seeds",
            Self::SmallerMss => "smaller-mss",
            Self::HalfBuffers => "half-buffers",
            Self::DoubleBuffers => "double-buffers",
            Self::HalfMinRto => "half-min-rto",
            Self::DoubleMinRto => "double-min-rto",
            Self::LowerLoad => "lower-load",
            Self::HigherLoad => "higher-load",
        }
    }

    /// What the variation changes, in a few words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::OtherSeeds => "other seeds",
            Self::SmallerMss => "MSS x 0.7",
            Self::HalfBuffers => "switch buffers x 0.5",
            Self::DoubleBuffers => "switch buffers x 2",
            Self::HalfMinRto => "minimum RTO x 0.5",
            Self::DoubleMinRto => "minimum RTO x 2",
            Self::LowerLoad => "load x 0.8",
            Self::HigherLoad => "load x 1.2",
        }
    }

    /// The variation with that name.
    ///
    /// # Errors
    /// No variation has that name.
    pub fn find(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|v| v.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let near = suggestion(name, names);
            let names = names.join(", ");
            UnknownName(format!("found \"{name}\", want one of {names}{near}"))
        })
    }

    /// The first seed of an experiment whose first seed is `seed`.
    pub(crate) fn seed(self, seed: u64) -> u64 {
        match self {
            Self::OtherSeeds => seed.wrapping_add(SEED_DISTANCE),
            _ => seed,
        }
    }

    /// Changes a scenario. One without the value, such as a load where clients wait for their last response, stays.
    pub(crate) fn apply(self, scenario: &mut Scenario) {
        match self {
            Self::OtherSeeds => {}
            Self::SmallerMss => scenario.host.mss = (scenario.host.mss * 7 / 10).max(1),
            Self::HalfBuffers => buffers(scenario, |n| (n / 2).max(1)),
            Self::DoubleBuffers => buffers(scenario, |n| n.saturating_mul(2)),
            Self::HalfMinRto => min_rto(scenario, |rto| rto / 2),
            Self::DoubleMinRto => min_rto(scenario, |rto| rto * 2),
            Self::LowerLoad => load(scenario, 0.8),
            Self::HigherLoad => load(scenario, 1.2),
        }
    }
}

/// Changes the queue size of every switch's port.
fn buffers(scenario: &mut Scenario, change: fn(u64) -> u64) {
    let changed = |buffer| match buffer {
        Buffer::Bytes(n) => Buffer::Bytes(change(n)),
        Buffer::Packets(n) => {
            Buffer::Packets(u32::try_from(change(u64::from(n))).unwrap_or(u32::MAX))
        }
    };
    scenario.topology.links.buffer = changed(scenario.topology.links.buffer);
    let properties = scenario.links.iter_mut().flat_map(|l| &mut l.properties);
    for property in properties {
        if let Some(other) = property.with_buffer(&changed) {
            *property = other;
        }
    }
    if let Some(hotspots) = &mut scenario.hotspots {
        hotspots.buffer = changed(hotspots.buffer);
    }
}

fn min_rto(scenario: &mut Scenario, change: fn(Duration) -> Duration) {
    scenario.host.min_rto = change(scenario.host.min_rto);
}

fn load(scenario: &mut Scenario, factor: f64) {
    if let Some(traffic) = scenario.traffic.at_load(factor) {
        scenario.traffic = traffic;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Overrides;
    use crate::library;
    use crate::registry::Registry;
    use crate::results::Registration;

    fn varied(id: &str, variation: Option<Variation>) -> crate::Experiment {
        let overrides = Overrides {
            variation,
            ..Overrides::default()
        };
        let experiment = library::find(id).unwrap();
        experiment.read(&Registry::standard(), &overrides).unwrap()
    }

    fn scenario(id: &str, variation: Option<Variation>) -> Scenario {
        varied(id, variation).points[0].scenario.clone()
    }

    #[test]
    fn every_variation_is_found_by_its_name() {
        for variation in Variation::ALL {
            assert_eq!(Variation::find(variation.name()).unwrap(), variation);
        }
        let wrong = Variation::find("half-buffer").unwrap_err().to_string();
        assert!(wrong.ends_with("did you mean \"half-buffers\"?"), "{wrong}");
    }

    #[test]
    fn every_variation_changes_the_runs_of_every_paper_and_no_claim() {
        let registry = Registry::standard();
        for variation in Variation::ALL {
            for paper in library::PAPERS.iter().filter(|p| !p.joint) {
                let changed = library::of_paper(paper.id).unwrap().iter().any(|b| {
                    let overrides = |variation| Overrides {
                        variation,
                        ..Overrides::default()
                    };
                    let own = b.read(&registry, &overrides(None)).unwrap();
                    let other = b.read(&registry, &overrides(Some(variation))).unwrap();
                    let claims = |e| Registration::of(e).claims;
                    assert_eq!(claims(&own), claims(&other), "{}", b.id);
                    let hashes =
                        |e: &crate::Experiment| e.points.iter().map(|p| p.hash).collect::<Vec<_>>();
                    own.seed != other.seed || hashes(&own) != hashes(&other)
                });
                assert!(changed, "{} {}", variation.name(), paper.id);
            }
        }
    }

    #[test]
    fn variation_multiplies_the_value_that_the_experiment_has() {
        let own = scenario("fuso-fig4ab", None);
        let with = |v| scenario("fuso-fig4ab", Some(v));
        assert_eq!(
            (own.host.mss, with(Variation::SmallerMss).host.mss),
            (1460, 1022)
        );
        let rto = own.host.min_rto;
        assert_eq!(with(Variation::HalfMinRto).host.min_rto * 2, rto);
        assert_eq!(with(Variation::DoubleMinRto).host.min_rto, rto * 2);
        let Buffer::Bytes(bytes) = own.topology.links.buffer else {
            panic!("{:?}", own.topology.links.buffer);
        };
        let buffer = |v| with(v).topology.links.buffer;
        assert_eq!(buffer(Variation::HalfBuffers), Buffer::Bytes(bytes / 2));
        assert_eq!(buffer(Variation::DoubleBuffers), Buffer::Bytes(bytes * 2));
    }

    #[test]
    fn buffers_of_hotspots_change_with_the_others() {
        let hotspots = |v| {
            let points = varied("mmptcp-fig3", v).points;
            let found = points.into_iter().find_map(|p| p.scenario.hotspots);
            found.unwrap().buffer
        };
        let Buffer::Packets(packets) = hotspots(None) else {
            panic!("hotspots have buffers in packets");
        };
        let half = hotspots(Some(Variation::HalfBuffers));
        assert_eq!(half, Buffer::Packets(packets / 2));
    }

    #[test]
    fn other_seeds_are_far_from_those_of_the_experiment() {
        let (own, other) = (
            varied("fuso-fig4ab", None),
            varied("fuso-fig4ab", Some(Variation::OtherSeeds)),
        );
        assert_eq!(other.seed, own.seed + SEED_DISTANCE);
        assert!(own.seeds < SEED_DISTANCE);
    }
}
