//! Short flows beside long ones.

use spindle_units::Duration;

use super::{Ask, Observe};
use crate::workload::SizeSampler;

/// Short flows from host to host beside long ones, each over a connection of its own (the CAPS paper; mechanisms T5
/// to T7). Long ones count as background: those of [`Self::long`], and of the others
/// those that the scenario's `short_below` makes long.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Who sends to whom.
    pub pairs: Pairs,
    /// Flows that are long by being so, if there are any.
    pub long: Option<LongFlows>,
    /// When the others come.
    pub starts: Starts,
    /// Most of them; none: as many as come within the duration.
    pub flows: Option<u64>,
    /// Their sizes.
    pub sizes: SizeSampler,
    /// When a flow's time begins: with the opening of its connection, or once it is established.
    pub ask: Ask,
    /// By how much long flows go before the others.
    pub head_start: Duration,
    /// What begins earlier is not counted, but for the flows of [`Self::long`]: of these what they do from
    /// then on.
    pub warm_up: Duration,
    /// The run is over then; none: once all short flows are.
    pub duration: Option<Duration>,
    /// The transport of long flows by name; none: the one under test.
    pub background: Option<String>,
    /// What is observed of each short flow.
    pub observe: Observe,
}

/// Who sends to whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// Hosts that send.
    pub from: Vec<String>,
    /// Hosts that are sent to.
    pub to: Vec<String>,
    /// How they find each other.
    pub matching: Matching,
    /// Never within one leaf, or pod; needs a topology that [has these](super::Topology::place).
    pub across: bool,
}

/// How senders and receivers find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// The n-th sender to the n-th receiver, each pair in its turn: short flows from the first pair on,
    /// long ones from the last one back, so that the former do not depend on the latter.
    OneToOne,
    /// Both drawn for each flow.
    Random,
    /// The senders drawn for each flow, one receiver drawn for the run.
    OneReceiver,
}

/// Flows that are long by being so.
#[derive(Clone, Debug, PartialEq)]
pub struct LongFlows {
    /// How many.
    pub count: u32,
    /// Their sizes; none: they go on to the end.
    pub sizes: Option<SizeSampler>,
    /// Who sends them to whom, if not who sends the others.
    pub pairs: Option<Pairs>,
    /// Whether ECMP is to send no two of them over the same link between switches: their ports are drawn
    /// until it does not (CAPS section VIII-A, Fig 13: "without hash collision").
    pub distinct: bool,
}

/// When short flows come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Starts {
    /// So many a second, one by one at random.
    Poisson(f64),
    /// So many a second, but only while it is on; both periods exponential (CAPS section VI-A, Fig 4a).
    /// The first one is on.
    OnOff {
        /// Mean length of a period in which flows come.
        on: Duration,
        /// Mean length of one in which none come.
        off: Duration,
        /// How many come a second in the former.
        rate: f64,
    },
    /// All at once.
    Together,
    /// So many again and again.
    Bursts {
        /// Flows of a burst.
        size: u32,
        /// When a burst begins.
        times: BurstTimes,
        /// Within how long its flows come, each at a random time; zero: all at once.
        spread: Duration,
    },
}

/// When bursts begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BurstTimes {
    /// At the beginning and then so often.
    Every(Duration),
    /// So many a second, at random.
    Poisson(f64),
}

impl Starts {
    /// Flows expected in a time, if only time limits them.
    pub fn expected(&self, within: Duration) -> f64 {
        let s = within.as_secs_f64();
        match *self {
            Self::Poisson(rate) => rate * s,
            Self::OnOff { on, off, rate } => {
                // What lies between the long run's share and a first period that fills all.
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
