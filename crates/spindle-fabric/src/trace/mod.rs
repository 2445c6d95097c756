//! Links whose rate and delay change over time ([`LinkTrace`]).
//!
//! A packet that is being sent keeps its rate. Waiting packets are sent at the rate of the instant at which
//! their transmission starts. A rate of 0 pauses the link: packets wait. A packet has the delay of the instant
//! at which its transmission starts, but it never arrives before the packet ahead of it.

mod leo;
mod lte;

use std::fmt;
use std::sync::Arc;

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_units::{BitRate, Duration, Instant};

use crate::random::{Purpose, stream};
use crate::{LinkId, NetworkError};

pub use leo::{LeoLike, LeoSettings};
pub use lte::{LteLike, LteSettings};

/// A change of a link's rate and delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// The instant of the change.
    pub at: Instant,
    /// The rate from then on. 0 pauses the link.
    pub rate: BitRate,
    /// The delay from then on.
    pub delay: Duration,
}

/// The link whose trace starts.
#[derive(Clone, Copy, Debug)]
pub struct TraceInfo {
    /// The link.
    pub link: LinkId,
    /// The simulation's seed.
    pub seed: u64,
    /// The rate of the link's parameters.
    pub rate: BitRate,
    /// The delay of the link's parameters.
    pub delay: Duration,
}

impl TraceInfo {
    /// The random stream of the link's trace.
    pub fn rng(&self) -> Xoshiro256PlusPlus {
        stream(self.seed, Purpose::Trace, u64::from(self.link.0))
    }
}

/// The steps of a trace, by ascending instants. They may be endless.
pub type TraceSteps = Box<dyn Iterator<Item = TraceStep> + Send>;

/// How the rate and the delay of a link change. Its `Debug` text must contain all of its settings, because
/// results are identified by a hash of it.
pub trait LinkTrace: fmt::Debug + Send + Sync {
    /// The steps for one link, from instant 0. A step that is not later than the one before it ends the trace.
    fn steps(&self, link: &TraceInfo) -> TraceSteps;
}

/// A trace as a link's parameters have it. Two are equal if their texts are.
#[derive(Clone)]
pub struct Trace(Arc<dyn LinkTrace>);

impl Trace {
    /// A trace by this model.
    pub fn new(trace: impl LinkTrace + 'static) -> Self {
        Self(Arc::new(trace))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Trace {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// A given list of steps.
#[derive(Clone, Debug)]
pub struct Steps {
    steps: Arc<[TraceStep]>,
    /// The time after which the list begins again.
    period: Option<Duration>,
}

impl Steps {
    /// A trace with these steps. If there is a `period`, the list begins again after it.
    ///
    /// # Errors
    /// [`NetworkError::Parameter`] if there are no steps, if their instants do not ascend, or if the period ends
    /// before the last step.
    pub fn new(
        steps: impl Into<Arc<[TraceStep]>>,
        period: Option<Duration>,
    ) -> Result<Self, NetworkError> {
        let steps = steps.into();
        let fail = |parameter, found: String, remedy| {
            Err(NetworkError::parameter("a trace", parameter, found, remedy))
        };
        let Some(last) = steps.last() else {
            return fail("steps", "none".to_owned(), "it has one step or more");
        };
        if let Some(pair) = steps.windows(2).find(|w| w[0].at >= w[1].at) {
            let found = format!("{} after {}", pair[1].at, pair[0].at);
            return fail("steps", found, "sort them by ascending instants");
        }
        if let Some(period) = period.filter(|p| Instant::ZERO + *p <= last.at) {
            let remedy = "the period is longer than the time of the last step";
            return fail("period", period.to_string(), remedy);
        }
        Ok(Self { steps, period })
    }
}

impl LinkTrace for Steps {
    fn steps(&self, _: &TraceInfo) -> TraceSteps {
        let steps = self.steps.clone();
        let period = self.period;
        let rounds = 0..period.map_or(1, |_| u64::MAX);
        Box::new(rounds.flat_map(move |round| {
            let offset = period.map_or(0, |p| p.as_nanos().saturating_mul(round));
            let steps = steps.clone();
            (0..steps.len()).map(move |i| TraceStep {
                at: steps[i].at + Duration::from_nanos(offset),
                ..steps[i]
            })
        }))
    }
}

/// A number from 0 to below 1.
fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// The current rate and delay of a link with a trace.
pub(crate) struct TraceState {
    steps: TraceSteps,
    next: Option<TraceStep>,
    rate: BitRate,
    /// The last rate above 0.
    last_rate: BitRate,
    delay: Duration,
}

impl fmt::Debug for TraceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceState")
            .field("rate", &self.rate)
            .field("delay", &self.delay)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl TraceState {
    pub(crate) fn new(trace: &Trace, info: &TraceInfo) -> Self {
        let mut steps = trace.0.steps(info);
        Self {
            next: steps.next(),
            steps,
            rate: info.rate,
            last_rate: info.rate,
            delay: info.delay,
        }
    }

    /// Applies the steps up to `now`. Returns whether there were any.
    pub(crate) fn advance(&mut self, now: u64) -> bool {
        let mut changed = false;
        while let Some(step) = self.next.filter(|step| step.at.as_nanos() <= now) {
            changed = true;
            self.rate = step.rate;
            self.delay = step.delay;
            if step.rate.0 > 0 {
                self.last_rate = step.rate;
            }
            self.next = self.steps.next().filter(|next| next.at > step.at);
        }
        changed
    }

    /// Whether the link pauses.
    pub(crate) fn is_paused(&self) -> bool {
        self.rate.0 == 0
    }

    /// The instant of the next step in nanoseconds.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.next.map(|step| step.at.as_nanos())
    }

    /// The delay in nanoseconds.
    pub(crate) fn delay(&self) -> u64 {
        self.delay.as_nanos()
    }

    /// The time to send one packet in nanoseconds. A link that pauses has its last rate here.
    pub(crate) fn time_to_send(&self, len: u32) -> u64 {
        self.time_for(u64::from(len))
    }

    /// The time to send this many bytes in nanoseconds.
    pub(crate) fn time_for(&self, bytes: u64) -> u64 {
        self.last_rate.time_to_send(bytes).as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64, rate: u64) -> TraceStep {
        TraceStep {
            at: Instant::ZERO + Duration::from_millis(ms),
            rate: BitRate(rate),
            delay: Duration::from_millis(ms),
        }
    }

    fn info() -> TraceInfo {
        TraceInfo {
            link: LinkId(0),
            seed: 1,
            rate: BitRate(1_000_000),
            delay: Duration::ZERO,
        }
    }

    #[test]
    fn list_with_a_period_begins_again_after_it() {
        let steps = Steps::new([at(0, 1), at(10, 2)], Some(Duration::from_millis(30))).unwrap();
        let seen = steps.steps(&info()).take(5);
        let seen: Vec<(u64, u64)> = seen.map(|s| (s.at.as_millis(), s.rate.0)).collect();
        assert_eq!(seen, [(0, 1), (10, 2), (30, 1), (40, 2), (60, 1)]);
    }

    #[test]
    fn impossible_lists_are_refused() {
        let wrong = |steps: &[TraceStep], period| Steps::new(steps, period).unwrap_err();
        assert!(wrong(&[], None).to_string().contains("one step or more"));
        let error = wrong(&[at(5, 1), at(5, 2)], None);
        assert!(error.to_string().contains("ascending"), "{error}");
        let error = wrong(&[at(5, 1)], Some(Duration::from_millis(5)));
        assert!(error.to_string().contains("longer than"), "{error}");
    }

    #[test]
    fn state_has_the_values_of_the_last_step_that_has_passed() {
        let steps = Steps::new([at(1, 8_000), at(2, 0), at(3, 16_000)], None).unwrap();
        let mut state = TraceState::new(&Trace::new(steps), &info());
        assert!(!state.advance(999_999));
        assert_eq!(state.time_to_send(125), 1_000_000, "1 Mbit/s");
        assert!(state.advance(2_500_000));
        assert!(state.is_paused());
        assert_eq!(state.next_at(), Some(3_000_000));
        assert!(state.advance(3_000_000) && !state.is_paused());
        assert_eq!(state.time_to_send(1), 500_000);
        assert_eq!((state.delay(), state.next_at()), (3_000_000, None));
    }
}
