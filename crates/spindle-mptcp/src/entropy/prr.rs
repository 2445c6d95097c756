//! Protective ReRoute.

use super::{Entropy, EntropyFactory, EntropyParameters, EntropyView, Feedback, LabelStream};

/// The duplicate reception of data at which the receiver changes the path of its acknowledgements: the second, since
/// the first may be a spurious retransmission or a tail loss probe (Wetherall et al., SIGCOMM 2023;
/// Linux `tcp_rcv_spurious_retrans`).
const REROUTING_DUPLICATE: u32 = 2;

/// Protective ReRoute: one label until the path seems to have failed, and then another: "prr".
///
/// A host draws another label at each of these signs of an outage: a retransmission timeout, a SYN timeout, the SYN
/// received again, and the second and each later segment of data that was received before.
///
/// Source: Wetherall et al., "Improving Network Availability with Protective ReRoute", SIGCOMM 2023. The
/// labels are random. They may hash to the failed path again, and then the next timeout draws another.
#[derive(Clone, Copy, Debug)]
pub struct ProtectiveReroute;

impl EntropyFactory for ProtectiveReroute {
    fn name(&self) -> &str {
        "prr"
    }

    fn summary(&self) -> &str {
        "Protective ReRoute: another flow label after each timeout, and for acknowledgements at the second duplicate reception (Wetherall et al. 2023)"
    }

    fn build(&self, p: &EntropyParameters) -> Box<dyn Entropy> {
        Box::new(Prr::new(p))
    }
}

#[derive(Debug)]
struct Prr {
    labels: LabelStream,
    label: u32,
}

impl Prr {
    fn new(p: &EntropyParameters) -> Self {
        let mut labels = LabelStream::new(p.seed);
        let label = labels.draw();
        Self { labels, label }
    }
}

impl Entropy for Prr {
    fn next(&mut self, _: &EntropyView) -> u32 {
        self.label
    }

    fn feedback(&mut self, _: &EntropyView, _: u32, feedback: Feedback) {
        let failed = match feedback {
            Feedback::Timeout | Feedback::SynTimeout | Feedback::DuplicateSyn => true,
            Feedback::DuplicateData { consecutive } => consecutive >= REROUTING_DUPLICATE,
            Feedback::Acknowledged | Feedback::Marked | Feedback::Lost => false,
        };
        if failed {
            self.label = self.labels.draw();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{policy, view};
    use super::*;

    /// Whether the policy has another label after `feedback`.
    fn reroutes(p: &mut dyn Entropy, feedback: Feedback) -> bool {
        let v = view(0, 1, 1);
        let before = p.next(&v);
        p.feedback(&v, before, feedback);
        p.next(&v) != before
    }

    #[test]
    fn prr_changes_the_label_after_timeouts_only() {
        let mut p = policy(&ProtectiveReroute);
        for feedback in [
            Feedback::Timeout,
            Feedback::SynTimeout,
            Feedback::DuplicateSyn,
            Feedback::Timeout,
        ] {
            assert!(reroutes(p.as_mut(), feedback), "{feedback:?}");
        }
        for feedback in [Feedback::Acknowledged, Feedback::Marked, Feedback::Lost] {
            assert!(!reroutes(p.as_mut(), feedback), "{feedback:?}");
        }
    }

    #[test]
    fn prr_changes_the_label_from_the_second_duplicate_reception_on() {
        let mut p = policy(&ProtectiveReroute);
        let found = [1, 2, 3, 1, 2]
            .map(|consecutive| reroutes(p.as_mut(), Feedback::DuplicateData { consecutive }));
        assert_eq!(found, [false, true, true, false, true]);
    }
}
