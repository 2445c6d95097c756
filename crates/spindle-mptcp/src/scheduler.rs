//! Schedulers: the choice of the subflow for new data.

use std::fmt;
use std::str::FromStr;

use spindle_units::Duration;

use crate::types::SubflowId;

/// The scheduler, as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchedulerKind {
    /// The subflow with room and the lowest smoothed RTT (mechanisms A0).
    #[default]
    MinRtt,
    /// Subflows with room in turn, a segment each.
    RoundRobin,
    /// Every byte on every subflow.
    Redundant,
    /// Bursts to the subflow with the lowest linger time (queued bytes over pacing rate), ahead of its window.
    /// This is the Linux kernel's default.
    Linger,
}

impl SchedulerKind {
    /// Every kind with its name.
    pub const ALL: &[(Self, &'static str)] = &[
        (Self::MinRtt, "minrtt"),
        (Self::RoundRobin, "roundrobin"),
        (Self::Redundant, "redundant"),
        (Self::Linger, "linger"),
    ];

    /// Creates the scheduler.
    pub fn build(self) -> Box<dyn Scheduler> {
        match self {
            Self::MinRtt => Box::new(MinRtt),
            Self::RoundRobin => Box::new(RoundRobin {
                last: SubflowId::MAX,
            }),
            Self::Redundant => Box::new(Redundant),
            Self::Linger => Box::new(Linger::default()),
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
#[error("unknown scheduler {0:?}; known are minrtt, roundrobin, redundant, linger")]
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

/// A subflow that may get data. It is established, not dead, and has room for a segment. A backup is a
/// candidate only if there is no regular one.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its identifier.
    pub id: SubflowId,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Highest data offset it has carried, for schedulers that send data more than once.
    pub carried_to: u64,
    /// Bytes that it was given and that are not acknowledged yet.
    pub queued: u64,
    /// Its congestion window in bytes.
    pub cwnd: u64,
    /// The rate at which pacing would send its segments, in bytes a second, if measured. Only set for
    /// schedulers that assign [bursts](Scheduler::burst).
    pub pacing_rate: Option<u64>,
}

/// The decision of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The subflow.
    pub subflow: SubflowId,
    /// Send data again that were sent before, from this offset. `None` for the next new data.
    pub again_from: Option<u64>,
}

/// A scheduler. It is asked for one segment at a time, or one [burst](Self::burst).
pub trait Scheduler: Send + fmt::Debug {
    /// Whether it assigns data that were sent before, and so must be asked even if there are no new data.
    fn repeats(&self) -> bool {
        false
    }

    /// Bytes that it assigns to a subflow at once, ahead of the subflow's window. `None` if it assigns a
    /// segment only when the segment may be sent. If it is `Some`, the candidates are all usable subflows, with
    /// or without room, and `unsent` is the number of bytes that would be assigned.
    fn burst(&self) -> Option<u64> {
        None
    }

    /// The subflow to use next of `candidates` (in the order in which they were added), or `None` to wait.
    /// `sent_to` is the data offset up to which data were sent for the first time. `acked_to` is the data
    /// offset up to which they are acknowledged. `unsent` is the number of bytes that the application has
    /// waiting.
    fn pick(
        &mut self,
        candidates: &[Candidate],
        acked_to: u64,
        sent_to: u64,
        unsent: u64,
    ) -> Option<Assignment>;

    /// A subflow has ended. Its identifier may be reused for another subflow.
    fn forget(&mut self, subflow: SubflowId) {
        let _ = subflow;
    }
}

fn new_data(subflow: SubflowId) -> Option<Assignment> {
    Some(Assignment {
        subflow,
        again_from: None,
    })
}

/// Lowest smoothed RTT. Subflows without a measurement sort last. Ties go to the lower identifier.
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
        // The candidates are in the order in which they were added. With reused identifiers this is not the
        // order of identifiers.
        let later = candidates.iter().filter(|c| c.id > self.last);
        let next = later.min_by_key(|c| c.id);
        let chosen = next.or(candidates.iter().min_by_key(|c| c.id))?;
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

/// Bytes assigned at once (Linux `MPTCP_SEND_BURST_SIZE`: 64 KiB less room for headers).
const LINGER_BURST: u64 = 65_428;
/// A subflow gets no data while it holds this many congestion windows. Linux lets a send buffer grow to memory
/// for two windows (`tcp_sndbuf_expand`) and counts 4352 bytes for each segment of about 1448 bytes. But data
/// that are passed on in bursts take little more memory than their length.
const LINGER_WINDOWS: u64 = 6;

/// The Linux kernel's default scheduler (net/mptcp, since 5.17). In its terms, the linger time of a subflow is
/// the bytes that it has queued, including unacknowledged bytes, over its pacing rate. The pacing rate is
/// averaged, weighted by the bytes that the subflow held and was given. Ties go to the earliest subflow. If the
/// send buffer of the chosen subflow is full, the data wait even if another subflow has room.
#[derive(Debug, Default)]
struct Linger {
    /// Averaged pacing rates, in bytes a second.
    rates: Vec<(SubflowId, u64)>,
}

impl Linger {
    fn rate(&self, c: &Candidate) -> Option<u64> {
        let known = self.rates.iter().find(|r| r.0 == c.id).map(|r| r.1);
        known.or(c.pacing_rate)
    }

    fn average(&mut self, c: &Candidate, burst: u64) {
        let (Some(before), Some(now)) = (self.rate(c), c.pacing_rate) else {
            return;
        };
        let sum = u128::from(before) * u128::from(c.queued) + u128::from(now) * u128::from(burst);
        let average = (sum / u128::from((c.queued + burst).max(1))) as u64;
        self.rates.retain(|r| r.0 != c.id);
        self.rates.push((c.id, average.max(1)));
    }
}

impl Scheduler for Linger {
    fn forget(&mut self, subflow: SubflowId) {
        self.rates.retain(|r| r.0 != subflow);
    }

    fn burst(&self) -> Option<u64> {
        Some(LINGER_BURST)
    }

    fn pick(
        &mut self,
        candidates: &[Candidate],
        _acked: u64,
        _sent: u64,
        unsent: u64,
    ) -> Option<Assignment> {
        // Nanoseconds, so that short queues on fast paths differ.
        let linger = |c: &&Candidate| {
            let queued = u128::from(c.queued) * 1_000_000_000;
            self.rate(c)
                .map_or(u128::MAX, |rate| queued / u128::from(rate.max(1)))
        };
        let best = *candidates.iter().min_by_key(linger)?;
        if unsent == 0 || best.queued >= LINGER_WINDOWS * best.cwnd {
            return None;
        }
        self.average(&best, unsent.min(LINGER_BURST));
        new_data(best.id)
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
            queued: 0,
            cwnd: 14_480,
            pacing_rate: rtt_us.map(|us| 2 * 14_480_000_000 / (us * 1000)),
        }
    }

    #[test]
    fn linger_time_is_queue_over_rate_and_ties_go_to_the_first() {
        let mut s = SchedulerKind::Linger.build();
        let mut list = [candidate(3, Some(300), 0), candidate(1, Some(200), 0)];
        assert_eq!(s.pick(&list, 0, 0, 1), new_data(3), "a tie");
        list[0].queued = 65_428;
        assert_eq!(s.pick(&list, 0, 0, 1), new_data(1));
        list[1].queued = 65_428;
        assert_eq!(
            s.pick(&list, 0, 0, 1),
            new_data(1),
            "the faster drains it sooner"
        );
        list[1].queued = 6 * 14_480;
        assert_eq!(
            s.pick(&list, 0, 0, 1),
            None,
            "its buffer is full, the other's is not"
        );
        list[1].queued = 4 * 65_428;
        assert_eq!(s.pick(&list, 0, 0, 1), new_data(3));
        assert_eq!(s.pick(&list, 0, 0, 0), None);
    }

    #[test]
    fn min_rtt_picks_the_lowest_rtt_and_unmeasured_subflows_last() {
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
    fn round_robin_picks_subflows_in_turn() {
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
    fn redundant_resends_data_that_a_subflow_has_not_carried() {
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
