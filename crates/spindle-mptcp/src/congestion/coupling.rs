//! State that the controllers of one connection share.

use spindle_units::{Duration, Instant, prefetch};

/// If a row's window has changed by more than this fraction (one eighth) since shared values were last
/// computed, the values are stale before the window of data ends. The fraction is Spindle's own choice:
/// RFC 6356, section 4.1, leaves open when alpha is recomputed, from once per window to every ACK.
const MATERIAL_FRACTION: u64 = 8;

/// State that the controllers of one connection share. Rows are indexed by subflow. A controller writes its own
/// row and reads all rows.
#[derive(Clone, Debug, Default)]
pub struct Coupling {
    rows: Vec<CouplingRow>,
    /// Sum of cwnd over the active rows, unless `stale`.
    total: u64,
    stale: bool,
    epoch: u64,
}

/// One subflow's row of [`Coupling`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CouplingRow {
    /// Whether the subflow is established and takes part in the coupling.
    pub active: bool,
    /// Its cwnd in bytes. While it is in fast recovery, its ssthresh (RFC 6356, section 3).
    pub cwnd: u64,
    /// Its smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Bytes acknowledged since the last loss (OLIA's l2).
    pub since_loss: u64,
    /// Bytes acknowledged between the last two losses (OLIA's l1).
    pub before_loss: u64,
    /// The delay of the queue of a [delay-bounded](super::DelayBounded) subflow in its last round, if it was long.
    pub queue: Option<Duration>,
    /// When such a subflow last reduced its window because of a loss.
    pub lost_at: Option<Instant>,
    /// Its cwnd at the time of the last epoch change that this row caused.
    settled: u64,
}

impl CouplingRow {
    /// OLIA's l: the number of bytes acknowledged since the last loss or between the last two losses, whichever
    /// is larger (draft-khalili-mptcp-congestion-control-05, section 2).
    pub fn between_losses(&self) -> u64 {
        self.since_loss.max(self.before_loss)
    }
}

impl Coupling {
    /// A coupling without rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Prefetches the rows.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.rows[..]);
    }

    /// All rows, active or not, indexed by subflow.
    pub fn rows(&self) -> &[CouplingRow] {
        &self.rows
    }

    /// The row of subflow `i`. Creates an inactive row if there is none.
    pub fn row_mut(&mut self, i: usize) -> &mut CouplingRow {
        self.stale = true;
        self.epoch += 1;
        self.row(i)
    }

    /// The active rows.
    pub fn active(&self) -> impl Iterator<Item = &CouplingRow> + Clone {
        self.rows.iter().filter(|r| r.active)
    }

    /// Sum of cwnd over the active rows, in bytes.
    pub fn total_cwnd(&self) -> u64 {
        if self.stale { self.sum() } else { self.total }
    }

    /// Subflow `i` takes part from now on with this window and an empty history.
    pub fn activate(&mut self, i: usize, cwnd: u64) {
        *self.row_mut(i) = CouplingRow {
            active: true,
            cwnd,
            settled: cwnd,
            ..CouplingRow::default()
        };
    }

    /// Subflow `i` no longer takes part. Its row stays, so that the indices of the other rows remain valid.
    pub fn deactivate(&mut self, i: usize) {
        if i < self.rows.len() {
            self.row_mut(i).active = false;
        }
    }

    /// Changes whenever values derived from the rows must be recomputed before their window of data ends: a row
    /// was added, removed, reduced, or changed by more than an eighth.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Writes the window and round-trip time of subflow `i`.
    pub fn update(&mut self, i: usize, cwnd: u64, srtt: Option<Duration>) {
        if self.stale {
            self.total = self.sum();
            self.stale = false;
        }
        let row = self.row(i);
        let (old, active) = (row.cwnd, row.active);
        let first_rtt = row.srtt.is_none() && srtt.is_some();
        row.cwnd = cwnd;
        row.srtt = srtt.or(row.srtt);
        let material = cwnd.abs_diff(row.settled) > row.settled / MATERIAL_FRACTION;
        if material {
            row.settled = cwnd;
        }
        if active {
            self.total = self.total.saturating_sub(old).saturating_add(cwnd);
            self.epoch += u64::from(material || first_rtt || cwnd < old);
        }
    }

    /// Counts bytes acknowledged on subflow `i`.
    pub fn count_acked(&mut self, i: usize, bytes: u64) {
        let row = self.row(i);
        row.since_loss = row.since_loss.saturating_add(bytes);
    }

    /// Subflow `i` lost a segment. The bytes acknowledged so far are now those between the last two losses.
    pub fn count_loss(&mut self, i: usize) {
        let row = self.row(i);
        row.before_loss = row.since_loss;
        row.since_loss = 0;
        self.epoch += 1;
    }

    /// The queue of the delay-bounded subflow `i` had this delay in the last round, or was short (`None`).
    pub fn set_queue(&mut self, i: usize, queue: Option<Duration>) {
        self.row(i).queue = queue;
    }

    /// The delay-bounded subflow `i` reduced its window at this time because of a loss.
    pub fn note_loss(&mut self, i: usize, now: Instant) {
        self.row(i).lost_at = Some(now);
    }

    fn row(&mut self, i: usize) -> &mut CouplingRow {
        if i >= self.rows.len() {
            self.rows.resize(i + 1, CouplingRow::default());
        }
        &mut self.rows[i]
    }

    fn sum(&self) -> u64 {
        self.active().fold(0, |sum, r| sum.saturating_add(r.cwnd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn inactive_rows_do_not_count_in_the_total() {
        let mut c = Coupling::new();
        c.activate(2, 3000);
        c.activate(0, 1000);
        assert_eq!(c.rows().len(), 3);
        assert_eq!(c.total_cwnd(), 4000);
        c.update(0, 1500, None);
        c.update(1, 9000, None);
        assert_eq!(c.total_cwnd(), 4500);
        c.deactivate(2);
        c.deactivate(7);
        assert_eq!(c.total_cwnd(), 1500);
        assert_eq!(c.active().count(), 1);
    }

    #[test]
    fn epoch_changes_only_with_material_changes() {
        let mut c = Coupling::new();
        c.activate(0, 80_000);
        let start = c.epoch();
        c.update(0, 81_000, None);
        c.update(0, 90_000, None);
        assert_eq!(c.epoch(), start, "an eighth is not yet material");
        c.update(0, 90_001, None);
        assert_eq!(c.epoch(), start + 1);
        c.update(0, 90_000, None);
        assert_eq!(c.epoch(), start + 2, "any reduction counts");
        c.update(0, 90_000, Some(Duration::from_millis(1)));
        assert_eq!(c.epoch(), start + 3, "so does the first round-trip time");
    }

    #[test]
    fn loss_moves_since_loss_to_before_loss() {
        let mut c = Coupling::new();
        c.activate(0, 1000);
        c.count_acked(0, 700);
        c.count_loss(0);
        c.count_acked(0, 300);
        assert_eq!(
            (c.rows()[0].before_loss, c.rows()[0].since_loss),
            (700, 300)
        );
        assert_eq!(c.rows()[0].between_losses(), 700);
    }

    proptest! {
        #[test]
        fn total_cwnd_equals_the_sum_of_active_rows(ops in prop::collection::vec((0..4u8, 0..4usize, 0..1u64 << 40), 0..60)) {
            let mut c = Coupling::new();
            for (op, i, cwnd) in ops {
                match op {
                    0 => c.activate(i, cwnd),
                    1 => c.deactivate(i),
                    2 => c.row_mut(i).cwnd = cwnd,
                    _ => c.update(i, cwnd, None),
                }
                prop_assert_eq!(c.total_cwnd(), c.active().map(|r| r.cwnd).sum::<u64>());
            }
        }
    }
}
