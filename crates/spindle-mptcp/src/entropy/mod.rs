//! Path entropy: the value that a host puts into its packets so that switches choose a path for them.
//!
//! Switches with equal-cost paths hash the flow label of IPv6 together with addresses and ports (RFC 6438). A host
//! that changes the label of a flow changes its path, without any knowledge of the network. An [`Entropy`] policy
//! decides when: once per connection, after a failure, after congestion, or for each packet.
//!
//! An [`EntropyFactory`] is the configuration value, which makes the policy of each subflow. [`built_in`] has those
//! that come with Spindle. Each has a file that contains both. Other crates implement the same two traits. Without a
//! factory, segments have no label.

mod flowbender;
mod labels;
mod path_table;
mod plb;
mod prr;
mod reps;
mod rounds;
mod spray;

/// The policies that come with Spindle. A new one needs a line here and its `mod` line above.
static BUILT_IN: LazyLock<Vec<Arc<dyn EntropyFactory>>> = LazyLock::new(|| {
    vec![
        Arc::new(prr::ProtectiveReroute),
        Arc::new(plb::Plb::default()),
        Arc::new(flowbender::FlowBender::default()),
        Arc::new(reps::Reps::default()),
        Arc::new(path_table::PathTable::default()),
        Arc::new(spray::Spray),
    ]
});

use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use spindle_units::{Duration, Instant};

pub use flowbender::FlowBender;
pub use labels::{LABELS, LabelStream};
pub use path_table::PathTable;
pub use plb::Plb;
pub use prr::ProtectiveReroute;
pub use reps::Reps;
pub use rounds::{MarkedRounds, MarkedShare};
pub use spray::Spray;

use crate::types::{SubflowId, SubflowPosition};

/// The policies that come with Spindle, always in the same order.
pub fn built_in() -> &'static [Arc<dyn EntropyFactory>] {
    &BUILT_IN
}

/// What a policy may know about its subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntropyView {
    /// The current time.
    pub now: Instant,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Position of the first byte that is not acknowledged.
    pub acked_to: SubflowPosition,
    /// Position of the next new byte. In [`Entropy::next`], the segment that gets the value is already counted.
    pub next: SubflowPosition,
    /// The congestion window in full segments.
    pub window_segments: u64,
    /// Whether the segment that gets the value carries payload. False in [`Entropy::feedback`].
    pub carries_data: bool,
}

impl EntropyView {
    /// Whether all that was sent is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.acked_to >= self.next
    }
}

/// What happened to a segment that had a certain value, or what its receiver saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// The segment was acknowledged, cumulatively or by SACK, without a congestion mark.
    Acknowledged,
    /// The segment was acknowledged with a congestion mark (ECN-Echo; RFC 3168, section 6.1, or RFC 8257,
    /// section 3.2).
    Marked,
    /// Loss detection found that the segment is lost, by duplicate ACKs, SACK or RACK. It is reported when the
    /// segment is about to be retransmitted, and not after a retransmission timeout.
    Lost,
    /// The retransmission timer expired. The value is that of the first segment that is not acknowledged.
    Timeout,
    /// The SYN or SYN/ACK was not answered in time.
    SynTimeout,
    /// The SYN was received again: the peer did not receive the SYN/ACK. The value is that of the segment sent
    /// last.
    DuplicateSyn,
    /// Data were received again: the peer did not receive their acknowledgement. The value is that of the segment
    /// sent last.
    DuplicateData {
        /// How many such segments have arrived since the last new data, including this one.
        consecutive: u32,
    },
}

/// The parameters of a new policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntropyParameters {
    /// The subflow.
    pub subflow: SubflowId,
    /// A seed for the policy's random numbers. It differs between subflows and between the two ends.
    pub seed: u64,
}

/// Makes the policy of each subflow. It is what a configuration contains, and holds the policy's settings, if it
/// has any.
///
/// The policies that come with Spindle and those of other crates implement it alike. The [`Debug`] text must contain
/// every setting, because results are identified by a hash of the configuration's text.
pub trait EntropyFactory: Send + Sync + Debug {
    /// The policy's name after a plus sign on the command line and in experiment files. It consists of lower-case
    /// letters, digits and hyphens.
    fn name(&self) -> &str;

    /// What the policy does, in one line with its source.
    fn summary(&self) -> &str;

    /// Makes the policy of a subflow.
    fn build(&self, p: &EntropyParameters) -> Box<dyn Entropy>;
}

/// The policy of one subflow. It cannot change congestion control or loss recovery.
pub trait Entropy: Send + Debug {
    /// The value for the segment that is about to be sent: a flow label of 20 bits (RFC 6437, section 3), of which
    /// higher bits are ignored. It is asked for each segment, including SYNs, retransmissions and acknowledgements.
    /// Segments with the same value take the same path. 0 means no label.
    fn next(&mut self, view: &EntropyView) -> u32;

    /// Processes what happened to a segment with the value `entropy`. Segments that carry no data get no
    /// [`Feedback::Acknowledged`], [`Feedback::Marked`] or [`Feedback::Lost`]. A segment that was retransmitted counts
    /// with the value of its last transmission.
    fn feedback(&mut self, view: &EntropyView, entropy: u32, feedback: Feedback);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A view at `ms` with bytes below `acked_to` acknowledged and bytes below `next` sent.
    pub(super) fn view(ms: u64, acked_to: u64, next: u64) -> EntropyView {
        EntropyView {
            now: Instant::from_nanos(ms * 1_000_000),
            srtt: Some(Duration::from_millis(1)),
            acked_to: SubflowPosition(acked_to),
            next: SubflowPosition(next),
            window_segments: 10,
            carries_data: true,
        }
    }

    /// A policy with a fixed seed.
    pub(super) fn policy(factory: &dyn EntropyFactory) -> Box<dyn Entropy> {
        factory.build(&EntropyParameters {
            subflow: SubflowId::FIRST,
            seed: 7,
        })
    }

    #[test]
    fn built_in_policies_have_distinct_names_a_summary_and_labels_of_20_bits() {
        let mut names: Vec<_> = built_in().iter().map(|f| f.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), built_in().len());
        for factory in built_in() {
            assert!(!factory.summary().is_empty(), "{}", factory.name());
            let mut p = policy(factory.as_ref());
            for _ in 0..1000 {
                let label = p.next(&view(0, 1, 1));
                assert!((1..LABELS).contains(&label), "{}: {label}", factory.name());
            }
        }
    }
}
