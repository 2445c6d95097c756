//! The cost budget of recovery: a token bucket that new data fill and recovery empties.

/// Limits the bytes that a recovery policy may send, whichever policy it is. At any time, the payload bytes of
/// all copies, repeats and parities of a connection are at most `per_mille / 1000` of the bytes of new data
/// that it has sent, plus `depth`.
///
/// The budget is a token bucket (RFC 2697, section 3, uses the same construction for rates). It is full at
/// first. Each byte of new data adds `per_mille / 1000` bytes, up to `depth`. Each byte of recovery removes one.
/// A policy's action that would cost more than is left is refused. The repair of a segment that is known to be
/// lost ([`super::Action::Repair`]) costs nothing, because it replaces a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecoveryBudget {
    /// Bytes of recovery for each 1000 bytes of new data.
    pub per_mille: u32,
    /// The most that can be saved up, in payload bytes, and what is there at first. Below the length of a
    /// segment, no recovery is ever possible.
    pub depth: u64,
}

impl RecoveryBudget {
    /// The depth that presets and variants use: six segments of 1500-byte packets, or one of a 9000-byte packet
    /// (our choice). The tail of a short flow can be protected once, and links with jumbo frames are not
    /// excluded.
    pub const DEPTH: u64 = 9_000;

    /// A budget of `percent` % of the bytes of new data, with [`Self::DEPTH`].
    pub const fn percent(percent: u32) -> Self {
        Self {
            per_mille: percent.saturating_mul(10),
            depth: Self::DEPTH,
        }
    }
}

/// A thousandth of a byte is the unit of the bucket, so that no fraction is lost.
const UNIT: u64 = 1000;

/// What is left of a connection's budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    budget: RecoveryBudget,
    /// Tokens, in thousandths of a byte.
    tokens: u64,
    /// Bytes of new data that have been added.
    earned: u64,
}

impl Bucket {
    pub(crate) fn new(budget: RecoveryBudget) -> Self {
        Self {
            budget,
            tokens: budget.depth.saturating_mul(UNIT),
            earned: 0,
        }
    }

    /// The connection has sent `new_data` bytes for the first time, since its beginning.
    pub(crate) fn refill(&mut self, new_data: u64) {
        let more = new_data.saturating_sub(self.earned);
        self.earned = self.earned.max(new_data);
        let added = more.saturating_mul(u64::from(self.budget.per_mille));
        let most = self.budget.depth.saturating_mul(UNIT);
        self.tokens = self.tokens.saturating_add(added).min(most);
    }

    /// Whole bytes that recovery may cost now.
    pub(crate) fn left(&self) -> u64 {
        self.tokens / UNIT
    }

    /// Removes the cost of an action, which must not be more than is [left](Self::left).
    pub(crate) fn spend(&mut self, bytes: u64) {
        debug_assert!(
            bytes <= self.left(),
            "{bytes} of {} bytes left",
            self.left()
        );
        self.tokens = self.tokens.saturating_sub(bytes.saturating_mul(UNIT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn budget_of_5_percent_earns_50_bytes_for_1000_and_keeps_at_most_its_depth() {
        let mut bucket = Bucket::new(RecoveryBudget::percent(5));
        assert_eq!(bucket.left(), 9_000);
        bucket.spend(9_000);
        bucket.refill(1_000);
        assert_eq!(bucket.left(), 50);
        bucket.refill(1_000);
        assert_eq!(bucket.left(), 50, "the same 1000 bytes count once");
        bucket.refill(1_019);
        assert_eq!(bucket.left(), 50, "19 bytes earn 0.95 bytes");
        bucket.refill(1_020);
        assert_eq!(bucket.left(), 51, "fractions are kept");
        bucket.refill(1_000_000);
        assert_eq!(bucket.left(), 9_000);
    }

    proptest! {
        #[test]
        fn spent_bytes_never_exceed_the_share_of_new_data_and_the_depth(
            per_mille in 0u32..2000,
            depth in 0u64..20_000,
            steps in prop::collection::vec((0u64..5_000, 0u64..3_000), 1..200),
        ) {
            let mut bucket = Bucket::new(RecoveryBudget { per_mille, depth });
            let (mut new, mut spent) = (0, 0);
            for (sent, cost) in steps {
                new += sent;
                bucket.refill(new);
                if cost <= bucket.left() {
                    bucket.spend(cost);
                    spent += cost;
                }
                prop_assert!(spent * 1000 <= new * u64::from(per_mille) + depth * 1000);
            }
        }
    }
}
