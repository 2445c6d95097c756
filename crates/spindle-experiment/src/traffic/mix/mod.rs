//! `mix`: short flows mixed with long ones (the CAPS paper, mechanisms T5 to T7).

mod plan;
mod read;

use std::sync::Arc;

use spindle_units::{BitRate, Duration};

use super::plan::apart;
use super::{Ask, Observe, OnlyInLab, Plan, PlanError, PlanRequest, Traffic, TrafficKind};
use crate::catalog::Catalog;
use crate::workload::SizeSampler;

/// Short flows from host to host mixed with long ones, each over its own connection (the CAPS paper; mechanisms
/// T5 to T7). Long flows count as background: those of [`Self::long`], and all others that the scenario's
/// `short_below` makes long.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Which host sends to which.
    pub pairs: Pairs,
    /// Flows that are declared as long, if there are any.
    pub long: Option<LongFlows>,
    /// When the other flows start.
    pub starts: Starts,
    /// Largest number of other flows. If `None`, as many as arrive within the duration.
    pub flows: Option<u64>,
    /// Sizes of the other flows.
    pub sizes: SizeSampler,
    /// When a flow's time begins: when its connection is opened, or once it is established.
    pub ask: Ask,
    /// How much earlier than the others long flows start.
    pub head_start: Duration,
    /// Flows that start before this time are not counted. Flows of [`Self::long`] are an exception: what they
    /// do from this time on is counted.
    pub warm_up: Duration,
    /// When the run ends. If `None`, it ends once all short flows are complete.
    pub duration: Option<Duration>,
    /// Name of the transport of long flows. If `None`, it is the transport under test.
    pub background: Option<String>,
    /// What is observed of each short flow.
    pub observe: Observe,
}

/// Which host sends to which.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// Hosts that send.
    pub from: Vec<String>,
    /// Hosts that receive.
    pub to: Vec<String>,
    /// How senders and receivers are paired.
    pub matching: Matching,
    /// Whether a pair never lies within one leaf or pod. This needs a topology that [has leaves or
    /// pods](crate::topologies::Topology::place).
    pub across: bool,
}

/// How senders and receivers are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// The n-th sender sends to the n-th receiver, and the pairs take turns. Short flows use the pairs from the
    /// first one on, long flows from the last one back, so that short flows do not depend on long ones.
    OneToOne,
    /// Both are drawn for each flow.
    Random,
    /// The sender is drawn for each flow. One receiver is drawn for the run.
    OneReceiver,
}

/// Flows that are declared as long.
#[derive(Clone, Debug, PartialEq)]
pub struct LongFlows {
    /// Number of flows.
    pub count: u32,
    /// Their sizes. If `None`, the flows last until the end of the run.
    pub sizes: Option<SizeSampler>,
    /// Which host sends them to which, if not the pairs of the other flows.
    pub pairs: Option<Pairs>,
    /// Whether ECMP must send no two of them over the same link between switches. Their ports are drawn until
    /// this holds (CAPS section VIII-A, Fig 13: "without hash collision").
    pub distinct: bool,
}

/// When short flows start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Starts {
    /// This many per second, one by one at random times.
    Poisson(f64),
    /// This many per second, but only while the source is on. On and off periods have exponential lengths (CAPS
    /// section VI-A, Fig 4a). The first period is on.
    OnOff {
        /// Mean length of a period in which flows start.
        on: Duration,
        /// Mean length of a period in which no flows start.
        off: Duration,
        /// Flows per second in an on period.
        rate: f64,
    },
    /// All at once.
    Together,
    /// Repeated bursts.
    Bursts {
        /// Number of flows in a burst.
        size: u32,
        /// When a burst begins.
        times: BurstTimes,
        /// Time within which the flows of a burst start, each at a random time. If zero, they start all at
        /// once.
        spread: Duration,
    },
}

/// When bursts begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BurstTimes {
    /// At the beginning, and then at this interval.
    Every(Duration),
    /// This many per second, at random times.
    Poisson(f64),
}

impl Starts {
    /// The same starts, but flows of `sizes` offer at most the load `most` in an on period. If they offer more, on
    /// and off periods are longer by the factor by which the rate of flows is lower, so an on period has as many
    /// flows, and as large a share of the time, as before.
    fn stretched(self, sizes: &SizeSampler, most: Option<BitRate>) -> Self {
        let (Self::OnOff { on, off, rate }, Some(most)) = (self, most) else {
            return self;
        };
        let factor = rate * sizes.mean() * 8.0 / most.0 as f64;
        if factor <= 1.0 {
            return self;
        }
        let longer =
            |time: Duration| Duration::from_nanos((time.as_nanos() as f64 * factor) as u64);
        Self::OnOff {
            on: longer(on),
            off: longer(off),
            rate: rate / factor,
        }
    }

    /// The same starts, `factor` times as often. `None` for those that come all at once.
    fn at_load(self, factor: f64) -> Option<Self> {
        Some(match self {
            Self::Together => return None,
            Self::Poisson(rate) => Self::Poisson(rate * factor),
            Self::OnOff { on, off, rate } => Self::OnOff {
                on,
                off,
                rate: rate * factor,
            },
            Self::Bursts {
                size,
                times,
                spread,
            } => Self::Bursts {
                size,
                times: match times {
                    BurstTimes::Every(every) => BurstTimes::Every(apart(every, factor)),
                    BurstTimes::Poisson(rate) => BurstTimes::Poisson(rate * factor),
                },
                spread,
            },
        })
    }

    /// Number of flows expected within a time, if only the time limits them.
    pub fn expected(&self, within: Duration) -> f64 {
        let s = within.as_secs_f64();
        match *self {
            Self::Poisson(rate) => rate * s,
            Self::OnOff { on, off, rate } => {
                // An upper bound: the long-run share of on periods, plus a whole first period, which is on.
                let (on, off) = (on.as_secs_f64(), off.as_secs_f64());
                rate * (s * on / (on + off) + on.min(s))
            }
            Self::Together => 0.0,
            Self::Bursts { size, times, .. } => {
                let bursts = match times {
                    BurstTimes::Every(every) => s / every.as_secs_f64().max(1e-9) + 1.0,
                    BurstTimes::Poisson(rate) => s * rate,
                };
                f64::from(size) * bursts
            }
        }
    }
}

impl Traffic for Mix {
    fn size(&self) -> String {
        let flows = self.flows.map(|n| format!("{n} flows"));
        let duration = self.duration.map(|d| d.to_string());
        let parts: Vec<String> = flows.into_iter().chain(duration).collect();
        parts.join(" in ")
    }

    fn plan(&self, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan::mix(self, request)
    }

    fn observes(&self, what: &str) -> bool {
        self.observe.has(what)
    }

    fn at_load(&self, factor: f64) -> Option<Arc<dyn Traffic>> {
        let starts = self.starts.at_load(factor)?;
        Some(Arc::new(Self {
            starts,
            ..self.clone()
        }))
    }

    fn keeps_hosts_busy(&self) -> bool {
        true
    }

    fn long_flows(&self, short_below: Option<u64>) -> Option<u32> {
        let others_are_short = self.sizes.largest() < short_below?;
        others_are_short.then(|| self.long.as_ref().map_or(0, |long| long.count))
    }

    fn only_in_lab(&self) -> Option<OnlyInLab> {
        if self.background.is_some() {
            let remedy = "only the lab has two transports at a time; leave `background` out";
            return Some(OnlyInLab::new(
                "traffic",
                "with a background transport",
                remedy,
            ));
        }
        if self.long.as_ref().is_some_and(|l| l.distinct) {
            let remedy = "only the lab knows the ports' paths beforehand; want hashed";
            return Some(OnlyInLab::new("long_paths", "distinct", remedy));
        }
        if self.observe != Observe::default() {
            let remedy = "only the lab sees into its hosts; leave `observe` out";
            return Some(OnlyInLab::new("observe", "something", remedy));
        }
        None
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TrafficKind>) {
    let summary = "short flows mixed with long ones (mechanisms T5 to T7)";
    catalog.add("mix", summary, Arc::new(read::Kind));
}
