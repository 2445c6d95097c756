//! AutoRec: replicas of retransmissions in the pauses of an application (T. Li et al., "AutoRec: Accelerating
//! Loss Recovery for Live Streaming in a Multi-Supplier Market", arXiv 2511.22046; X. Yan et al., "TOO:
//! Accelerating Loss Recovery by Taming On-Off Traffic Patterns", SIGCOMM 2023, poster).

use spindle_units::{Duration, Instant};

use super::replicas::Replicas;
use super::{
    Action, Capabilities, Prospect, Recovery, RecoveryFactory, SentView, SubflowView, View,
};
use crate::types::SubflowId;

/// The policy. Only the sender changes. A live stream has ON periods, in which there are new data, and OFF
/// periods, in which there are none. In an OFF period the sender repeats each segment that it has
/// retransmitted, on the same path, because the loss of a retransmission costs a timeout.
///
/// The number of replicas is the smallest that makes the loss of all of them rarer than [`Self::residual`],
/// within three bounds: [`Self::most`], the room in the expected OFF period, and the cost budget
/// ([`crate::Config::recovery_budget`]). AutoRec has the same three constraints (latency, goodput, cost), and
/// chooses by online learning within them. Our choice: the rate of retransmissions of the subflow is the
/// estimate of the loss rate, and the mean of the earlier OFF periods that of the OFF period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutoRec {
    /// Largest accepted probability that a retransmission and its replicas are all lost. 0.001 by default (our
    /// choice).
    pub residual: f64,
    /// Most replicas of a retransmission. 3 by default (our choice).
    pub most: u32,
}

impl Default for AutoRec {
    fn default() -> Self {
        Self {
            residual: 0.001,
            most: 3,
        }
    }
}

impl AutoRec {
    /// The number of replicas at a loss rate, without the bounds of the OFF period and of the budget: the
    /// smallest r with rate^(r + 1) <= residual, at most [`Self::most`].
    fn replicas(&self, rate: f64) -> u32 {
        let mut all_lost = rate;
        let mut replicas = 0;
        while all_lost > self.residual && replicas < self.most {
            all_lost *= rate;
            replicas += 1;
        }
        replicas
    }
}

/// The weight of a new OFF period in the mean is one over this (our choice: that of RFC 6298 for the RTT).
const MEMORY: u64 = 8;

/// The OFF periods of an application.
#[derive(Debug, Default)]
struct OffPeriods {
    /// When the current one began.
    since: Option<Instant>,
    /// Their mean length, if there was one.
    mean: Option<Duration>,
}

impl OffPeriods {
    fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    fn end(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            let length = now.since(since);
            self.mean = Some(match self.mean {
                None => length,
                Some(mean) => (mean * (MEMORY - 1) + length) / MEMORY,
            });
        }
    }

    /// How many segments of `len` bytes a subflow sends in a mean OFF period, at a window for each round trip.
    /// `None` if an OFF period or an RTT was never measured.
    fn room(&self, s: &SubflowView, len: u32) -> Option<u64> {
        let (mean, srtt) = (self.mean?, s.srtt?);
        let bytes = u128::from(s.cwnd) * u128::from(mean.as_nanos());
        let of_one = u128::from(len.max(1)) * u128::from(srtt.as_nanos().max(1));
        u64::try_from(bytes / of_one).ok()
    }
}

#[derive(Debug)]
struct AutoRecPolicy {
    settings: AutoRec,
    replicas: Replicas,
    off: OffPeriods,
}

impl RecoveryFactory for AutoRec {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(AutoRecPolicy {
            settings: *self,
            replicas: Replicas::default(),
            off: OffPeriods::default(),
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

impl Recovery for AutoRecPolicy {
    fn on_sent(&mut self, sent: &SentView) {
        if sent.new {
            self.off.end(sent.now);
        }
        self.replicas.on_sent(sent);
    }

    fn on_subflow_ended(&mut self, subflow: SubflowId) {
        self.replicas.forget(subflow);
    }

    fn is_interested(&self, prospect: &Prospect) -> bool {
        !prospect.new_data && (!self.replicas.is_empty() || self.off.since.is_none())
    }

    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        if view.new_data {
            return Action::Nothing;
        }
        self.off.begin(view.now);
        let (settings, off) = (self.settings, &self.off);
        self.replicas.next(view, |s, len| {
            let wanted = settings.replicas(s.retransmission_rate());
            let room = off.room(s, len).unwrap_or(u64::MAX);
            u32::try_from(room).map_or(wanted, |room| wanted.min(room))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{subflow, view};
    use super::super::{SegmentView, Trigger, Window};
    use super::*;
    use crate::types::{DataOffset, SubflowPosition};

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn sent(micros: u64, new: bool) -> SentView {
        SentView {
            now: at(micros),
            subflow: SubflowId::FIRST,
            segment: SegmentView {
                position: SubflowPosition::FIRST_BYTE,
                len: 1000,
                offset: DataOffset::START,
                sent_at: at(micros),
                retransmitted: false,
            },
            new,
        }
    }

    const REPLICA: Action = Action::Repeat {
        of: SubflowId::FIRST,
        position: SubflowPosition::FIRST_BYTE,
        window: Window::Inside,
        ect: false,
    };

    /// Asks until nothing is requested, and reports each replica as sent. Returns the number of replicas.
    fn ask(policy: &mut dyn Recovery, v: &View<'_>) -> usize {
        let mut replicas = 0;
        while policy.on_opportunity(v) == REPLICA {
            policy.on_sent(&sent(v.now.as_micros(), false));
            replicas += 1;
            assert!(replicas < 10, "a replica has replicas");
        }
        replicas
    }

    #[test]
    fn replicas_make_the_loss_of_all_rarer_than_one_in_a_thousand() {
        let s = AutoRec::default();
        for (rate, replicas) in [
            (0.0, 0),
            (0.001, 0),
            (0.01, 1), // 0.0001
            (0.05, 2), // 0.000125
            (0.09, 2), // 0.00073
            (0.15, 3), // 0.0005
            (0.5, 3),  // 0.0625: the most
        ] {
            assert_eq!(s.replicas(rate), replicas, "{rate}");
        }
    }

    #[test]
    fn retransmission_is_repeated_in_an_off_period_only() {
        let mut subflows = [subflow(SubflowId::FIRST)];
        (subflows[0].sent, subflows[0].retransmitted) = (100, 5);
        let mut policy = AutoRec::default().build(1);
        policy.on_sent(&sent(0, true));
        policy.on_sent(&sent(10, false));
        assert_eq!(ask(&mut *policy, &view(&subflows, true, Trigger::Sent)), 0);
        let off = view(&subflows, false, Trigger::Ack);
        assert!(policy.is_interested(&off.prospect()));
        assert_eq!(ask(&mut *policy, &off), 2, "5 % loss");
        assert_eq!(ask(&mut *policy, &off), 0, "once");
        policy.on_sent(&sent(20, false));
        subflows[0].acked_to = SubflowPosition(1001);
        let acked = view(&subflows, false, Trigger::Ack);
        assert_eq!(ask(&mut *policy, &acked), 0, "it has arrived");
        assert!(!policy.is_interested(&acked.prospect()));
    }

    #[test]
    fn replicas_fit_the_mean_off_period() {
        let mut subflows = [subflow(SubflowId::FIRST)];
        (subflows[0].sent, subflows[0].retransmitted) = (100, 50);
        let mut policy = AutoRec::default().build(1);
        // An OFF period of 56 us. At a window of 10 segments for each 280 us, it has room for two.
        let mut v = view(&subflows, false, Trigger::Ack);
        v.now = at(100);
        assert_eq!(ask(&mut *policy, &v), 0);
        policy.on_sent(&sent(156, true));
        policy.on_sent(&sent(300, false));
        v.now = at(300);
        assert_eq!(ask(&mut *policy, &v), 2);
    }

    #[test]
    fn replica_waits_for_room_in_the_window_and_in_the_budget() {
        let mut subflows = [subflow(SubflowId::FIRST)];
        (subflows[0].sent, subflows[0].retransmitted) = (100, 5);
        subflows[0].in_flight = 9_500;
        let mut policy = AutoRec::default().build(1);
        policy.on_sent(&sent(0, false));
        assert_eq!(ask(&mut *policy, &view(&subflows, false, Trigger::Ack)), 0);
        subflows[0].in_flight = 9_000;
        let mut v = view(&subflows, false, Trigger::Ack);
        v.budget_left = Some(999);
        assert_eq!(ask(&mut *policy, &v), 0);
        v.budget_left = Some(1000);
        assert_eq!(ask(&mut *policy, &v), 2);
    }
}
