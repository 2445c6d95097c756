//! Which subflow new data go on.

use std::fmt;
use std::str::FromStr;

use spindle_units::Duration;

use crate::subflow::SubflowId;

/// The scheduler, as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchedulerKind {
    /// The subflow with room and the lowest smoothed RTT (catalogue A0).
    #[default]
    MinRtt,
    /// Subflows with room in turn, a segment each.
    RoundRobin,
    /// Every byte on every subflow.
    Redundant,
}

impl SchedulerKind {
    /// Every kind with its name.
    pub const ALL: &[(Self, &'static str)] = &[
        (Self::MinRtt, "minrtt"),
        (Self::RoundRobin, "roundrobin"),
        (Self::Redundant, "redundant"),
    ];

    /// The scheduler itself.
    pub fn build(self) -> Box<dyn Scheduler> {
        match self {
            Self::MinRtt => Box::new(MinRtt),
            Self::RoundRobin => Box::new(RoundRobin {
                last: SubflowId::MAX,
            }),
            Self::Redundant => Box::new(Redundant),
        }
    }
}

impl fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL
            .iter()
            .find(|(k, _)| k == self)
            .map_or("", |(_, n)| n);
        f.pad(name)
    }
}

/// No scheduler has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scheduler {0:?}; known are minrtt, roundrobin, redundant")]
pub struct UnknownScheduler(pub String);

impl FromStr for SchedulerKind {
    type Err = UnknownScheduler;

    fn from_str(s: &str) -> Result<Self, UnknownScheduler> {
        let found = Self::ALL.iter().find(|(_, n)| *n == s);
        found
            .map(|(k, _)| *k)
            .ok_or_else(|| UnknownScheduler(s.to_owned()))
    }
}

/// A subflow that may take data: established, not dead, with room for a segment, and not a backup
/// while a regular one is there.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its identifier.
    pub id: SubflowId,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Highest data offset it has carried, for schedulers that send data more than once.
    pub carried_to: u64,
}

/// What a scheduler decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The subflow.
    pub subflow: SubflowId,
    /// Send data that were sent before, from this offset; none for the next new data.
    pub again_from: Option<u64>,
}

/// A scheduler. It is asked for one segment at a time.
pub trait Scheduler: Send + fmt::Debug {
    /// Whether it assigns data that were sent before, and so wants to be asked without new data.
    fn repeats(&self) -> bool {
        false
    }

    /// The subflow to use next of `candidates` (in order of identifier), or none to wait. `sent_to`
    /// is the data offset up to which data were sent for the first time, `acked_to` that up to which
    /// they are acknowledged, `unsent` what the application has waiting.
    fn pick(
        &mut self,
        candidates: &[Candidate],
        acked_to: u64,
        sent_to: u64,
        unsent: u64,
    ) -> Option<Assignment>;
}

fn new_data(subflow: SubflowId) -> Option<Assignment> {
    Some(Assignment {
        subflow,
        again_from: None,
    })
}

/// Lowest smoothed RTT; unmeasured sorts last; ties to the lower identifier.
#[derive(Debug)]
struct MinRtt;

impl Scheduler for MinRtt {
    fn pick(
        &mut self,
        candidates: &[Candidate],
        _acked: u64,
        _sent: u64,
        unsent: u64,
    ) -> Option<Assignment> {
        if unsent == 0 {
            return None;
        }
        let best = candidates
            .iter()
            .min_by_key(|c| (c.srtt.map_or(u64::MAX, |d| d.as_nanos()), c.id))?;
        new_data(best.id)
    }
}

#[derive(Debug)]
struct RoundRobin {
    last: SubflowId,
}

impl Scheduler for RoundRobin {
    fn pick(
        &mut self,
        candidates: &[Candidate],
        _acked: u64,
        _sent: u64,
        unsent: u64,
    ) -> Option<Assignment> {
        if unsent == 0 {
            return None;
        }
        let next = candidates
            .iter()
            .find(|c| c.id > self.last && self.last != SubflowId::MAX);
        let chosen = next.or(candidates.first())?;
        self.last = chosen.id;
        new_data(chosen.id)
    }
}

#[derive(Debug)]
struct Redundant;

impl Scheduler for Redundant {
    fn repeats(&self) -> bool {
        true
    }

    fn pick(
        &mut self,
        candidates: &[Candidate],
        acked: u64,
        sent: u64,
        unsent: u64,
    ) -> Option<Assignment> {
        let behind = candidates
            .iter()
            .filter(|c| c.carried_to.max(acked) < sent)
            .min_by_key(|c| (c.carried_to, c.id));
        if let Some(c) = behind {
            return Some(Assignment {
                subflow: c.id,
                again_from: Some(c.carried_to.max(acked)),
            });
        }
        if unsent == 0 {
            return None;
        }
        new_data(candidates.first()?.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: SubflowId, rtt_us: Option<u64>, carried_to: u64) -> Candidate {
        Candidate {
            id,
            srtt: rtt_us.map(Duration::from_micros),
            carried_to,
        }
    }

    #[test]
    fn minimum_rtt_with_unmeasured_last() {
        let mut s = SchedulerKind::MinRtt.build();
        let list = [
            candidate(0, None, 0),
            candidate(1, Some(300), 0),
            candidate(2, Some(200), 0),
        ];
        assert_eq!(s.pick(&list, 0, 0, 1), new_data(2));
        assert_eq!(s.pick(&list[..1], 0, 0, 1), new_data(0));
        assert_eq!(s.pick(&list, 0, 0, 0), None);
    }

    #[test]
    fn round_robin_goes_round() {
        let mut s = SchedulerKind::RoundRobin.build();
        let list = [
            candidate(0, None, 0),
            candidate(1, None, 0),
            candidate(2, None, 0),
        ];
        let picks: Vec<_> = (0..4)
            .filter_map(|_| s.pick(&list, 0, 0, 1))
            .map(|a| a.subflow)
            .collect();
        assert_eq!(picks, [0, 1, 2, 0]);
    }

    #[test]
    fn redundant_repeats_what_a_subflow_has_not_carried() {
        let mut s = SchedulerKind::Redundant.build();
        let list = [candidate(0, None, 3000), candidate(1, None, 1000)];
        assert_eq!(
            s.pick(&list, 0, 3000, 5),
            Some(Assignment {
                subflow: 1,
                again_from: Some(1000)
            })
        );
        assert_eq!(
            s.pick(&list, 2000, 3000, 5),
            Some(Assignment {
                subflow: 1,
                again_from: Some(2000)
            })
        );
        assert_eq!(s.pick(&list, 3000, 3000, 5), new_data(0));
    }

    #[test]
    fn names_round_trip() {
        for (kind, name) in SchedulerKind::ALL {
            assert_eq!(name.parse(), Ok(*kind));
            assert_eq!(&kind.to_string(), name);
        }
        assert!("fastest".parse::<SchedulerKind>().is_err());
    }
}
