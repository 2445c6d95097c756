//! Local ports: a stream of its own for every (connection, subflow), so that the ports one draws do
//! not depend on what others do.

use crate::random::{mix, reduce};

/// The ephemeral range (RFC 6335, section 6: 49152-65535; widened to what today's kernels use).
const FIRST: u16 = 32_768;
const LAST: u16 = 60_999;

/// The ports to try for subflow `subflow` of connection `ordinal`, in order.
pub(super) fn stream(seed: u64, ordinal: u64, subflow: u8) -> impl Iterator<Item = u16> {
    let base = mix(mix(seed, ordinal), u64::from(subflow) + 1);
    let span = u64::from(LAST - FIRST) + 1;
    (0..4 * span).map(move |k| FIRST + reduce(mix(base, k), span) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let take = |o, s| stream(7, o, s).take(3).collect::<Vec<_>>();
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(1, 1));
        assert_ne!(take(1, 0), take(2, 0));
        assert!(
            stream(7, 1, 0)
                .take(1000)
                .all(|p| (FIRST..=LAST).contains(&p))
        );
    }
}
