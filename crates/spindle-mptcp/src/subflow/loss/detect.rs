//! When duplicate acknowledgements indicate loss.

use crate::tcp_config::LossConfig;

/// Duplicate acknowledgements since the left edge last moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DuplicateAcks {
    /// Their number.
    pub(crate) count: u32,
    /// Number of segments presumed to have arrived, one per duplicate ACK. Used without SACK.
    pub(crate) presumed: u64,
}

/// The duplicate-ACK threshold in force, in segments: the configured threshold or that of Early Retransmit
/// (RFC 5827, section 3.2, segment-based). With fewer than four segments outstanding and no new data to send,
/// Early Retransmit's threshold is one less than the number of outstanding segments. If reordering has `raised`
/// the threshold, Early Retransmit does not apply.
pub(crate) fn threshold(
    config: &LossConfig,
    raised: u32,
    outstanding_segments: u64,
    new_data: bool,
) -> u32 {
    let early = config.early_retransmit
        && raised <= config.dupack_threshold
        && !new_data
        && outstanding_segments <= u64::from(config.dupack_threshold);
    if early {
        (outstanding_segments.saturating_sub(1) as u32).max(1)
    } else {
        config.dupack_threshold.max(raised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_retransmit_lowers_the_threshold_only_at_the_end_of_data() {
        let config = LossConfig {
            early_retransmit: true,
            ..LossConfig::default()
        };
        assert_eq!(threshold(&config, 0, 4, false), 3);
        assert_eq!(threshold(&config, 0, 3, false), 2);
        assert_eq!(threshold(&config, 0, 2, false), 1);
        assert_eq!(threshold(&config, 0, 2, true), 3);
        assert_eq!(threshold(&config, 5, 2, false), 5);
        assert_eq!(threshold(&LossConfig::default(), 0, 2, false), 3);
    }
}
