//! Small types and functions that modules of several layers share.

mod assumed_loss;
mod local_address;
mod stream;

use std::fmt;

use spindle_units::Instant;

pub use assumed_loss::AssumedLoss;
pub use local_address::LocalAddress;
pub(crate) use stream::MappingDelta;
pub use stream::{DataOffset, SubflowPosition};

/// A subflow's number within its connection. The first subflow is 0, and no other subflow ever gets that
/// number. Other numbers are reused only when all are used up. The number that has been free the longest is
/// reused first.
///
/// It is not the index of the subflow in a list of subflows. If another subflow has ended, `SubflowId(1)` may be
/// the first of the list.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubflowId(pub u8);

impl SubflowId {
    /// The first subflow of every connection.
    pub const FIRST: Self = Self(0);

    /// The largest identifier.
    pub const MAX: Self = Self(u8::MAX);

    /// The identifier as an index into a list with an entry for each identifier: the rows of the coupling of
    /// congestion controllers, and the initial windows of the planned subflows.
    #[inline]
    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for SubflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Only the number. The debug form of a configuration is part of the identity of results.
impl fmt::Debug for SubflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subflow_id_is_printed_as_its_number() {
        let id = SubflowId(7);
        assert_eq!(
            (format!("{id}"), format!("{id:?}")),
            ("7".into(), "7".into())
        );
    }
}
