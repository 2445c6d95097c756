//! Small types and functions that modules of several layers share.

use spindle_units::Instant;

/// A subflow's number within its connection. The first subflow is 0, and no other subflow ever gets that
/// number. Other numbers are reused only when all are used up. The number that has been free the longest is
/// reused first.
pub type SubflowId = u8;

/// Which segments may be copied proactively. Whatever the policy's choice, a segment may not be copied if it is
/// a recovery copy, was copied before, or is acknowledged at the data level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Eligibility {
    /// Segments that are neither acknowledged nor SACKed by their subflow (FUSO section 3.2, footnote 4). The
    /// receiver delivers data behind a hole.
    #[default]
    Unacknowledged,
    /// SACKed segments too. A receiver that was not modified delivers only data that are in order within their
    /// subflow, so a copy of the hole alone does not free the data that were SACKed behind it.
    NotDataAcked,
}

/// Use of ECN (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// ECN is neither requested nor accepted.
    #[default]
    Off,
    /// Classic ECN: the receiver echoes until CWR, the sender reduces once per window.
    Classic,
    /// DCTCP's exact echo of each mark (RFC 8257, section 3.2), for use with the DCTCP controller.
    Dctcp,
}

/// The earlier of two deadlines.
pub(crate) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A deadline that can be compared without checking whether it is set.
#[inline]
pub(crate) fn or_far_future(t: Option<Instant>) -> Instant {
    t.unwrap_or(Instant::FAR_FUTURE)
}
