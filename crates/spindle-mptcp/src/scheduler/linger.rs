//! The default scheduler of the Linux kernel.

use super::{Candidate, Decision, Scheduler, SchedulerFactory, View};
use crate::types::SubflowId;

/// Bursts to the subflow with the lowest linger time (queued bytes over pacing rate), ahead of its window:
/// "linger". This is the Linux kernel's default.
#[derive(Clone, Copy, Debug)]
pub struct Linger;

impl SchedulerFactory for Linger {
    fn name(&self) -> &str {
        "linger"
    }

    fn summary(&self) -> &str {
        "the Linux kernel's default, bursts to the lowest linger time"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(LingerScheduler::default())
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
struct LingerScheduler {
    /// Averaged pacing rates, in bytes a second.
    rates: Vec<(SubflowId, u64)>,
}

impl LingerScheduler {
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

impl Scheduler for LingerScheduler {
    fn forget(&mut self, subflow: SubflowId) {
        self.rates.retain(|r| r.0 != subflow);
    }

    fn burst(&self) -> Option<u64> {
        Some(LINGER_BURST)
    }

    fn pick(&mut self, view: &View<'_>) -> Decision {
        // Nanoseconds, so that short queues on fast paths differ.
        let linger = |c: &&Candidate| {
            let queued = u128::from(c.queued) * 1_000_000_000;
            self.rate(c)
                .map_or(u128::MAX, |rate| queued / u128::from(rate.max(1)))
        };
        let Some(best) = view.candidates.iter().min_by_key(linger) else {
            return Decision::Wait;
        };
        if view.unsent == 0 || best.queued >= LINGER_WINDOWS * best.cwnd {
            return Decision::Wait;
        }
        self.average(best, view.unsent.min(LINGER_BURST));
        Decision::new_data(best.id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{candidate, view};
    use super::*;

    #[test]
    fn linger_time_is_queue_over_rate_and_ties_go_to_the_first() {
        let mut s = Linger.build();
        let mut list = [
            candidate(SubflowId(3), Some(300), 0),
            candidate(SubflowId(1), Some(200), 0),
        ];
        assert_eq!(
            s.pick(&view(&list, 1)),
            Decision::new_data(SubflowId(3)),
            "a tie"
        );
        list[0].queued = 65_428;
        assert_eq!(s.pick(&view(&list, 1)), Decision::new_data(SubflowId(1)));
        list[1].queued = 65_428;
        assert_eq!(
            s.pick(&view(&list, 1)),
            Decision::new_data(SubflowId(1)),
            "the faster drains it sooner"
        );
        list[1].queued = 6 * 14_480;
        assert_eq!(
            s.pick(&view(&list, 1)),
            Decision::Wait,
            "its buffer is full, the other's is not"
        );
        list[1].queued = 4 * 65_428;
        assert_eq!(s.pick(&view(&list, 1)), Decision::new_data(SubflowId(3)));
        assert_eq!(s.pick(&view(&list, 0)), Decision::Wait);
    }
}
