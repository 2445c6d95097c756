//! The window every controller is made of: cwnd and ssthresh with their bounds, standard slow
//! start, and the memory that [`Window::undo`] needs.

use super::{AckSample, Parameters};

/// ssthresh never goes below this many segments (RFC 5681, equation 4).
pub(super) const MIN_SSTHRESH_SEGMENTS: u64 = 2;

/// cwnd and ssthresh of one subflow, in bytes. Invariant: mss <= cwnd <= max(max_window, mss).
#[derive(Clone, Debug)]
pub(super) struct Window {
    mss: u64,
    max: u64,
    cwnd: u64,
    ssthresh: u64,
    /// Growth not yet worth a segment, in bytes acknowledged; signed since OLIA may shrink.
    credit: f64,
    /// cwnd and ssthresh before the last reduction.
    before: Option<(u64, u64)>,
    /// The last reduction was a timeout and what was lost then is not yet repaired.
    after_timeout: bool,
    stretch_acks: bool,
}

impl Window {
    pub(super) fn new(p: &Parameters) -> Self {
        let mss = p.mss.max(1);
        let max = p.max_window.max(mss);
        Self {
            mss,
            max,
            cwnd: p.initial_window.clamp(mss, max),
            ssthresh: p
                .initial_ssthresh
                .max(mss.saturating_mul(MIN_SSTHRESH_SEGMENTS)),
            credit: 0.0,
            before: None,
            after_timeout: false,
            stretch_acks: p.stretch_acks,
        }
    }

    pub(super) fn cwnd(&self) -> u64 {
        self.cwnd
    }

    pub(super) fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    pub(super) fn mss(&self) -> u64 {
        self.mss
    }

    /// cwnd below ssthresh (RFC 5681, section 3.1).
    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// What the subflow counts for in the coupling: during fast recovery cwnd may be inflated or
    /// on its way down, so ssthresh (RFC 6356, section 3).
    pub(super) fn coupled_cwnd(&self, recovering: bool) -> u64 {
        if recovering && !self.after_timeout {
            self.ssthresh.min(self.max)
        } else {
            self.cwnd
        }
    }

    /// Whether the acknowledgement may open the window at all: not in fast recovery, where the loss
    /// state machine rules; not if cwnd was no limit; not with an ECN echo (RFC 3168, 6.1.2).
    pub(super) fn may_grow(&mut self, s: &AckSample) -> bool {
        self.after_timeout &= s.recovering;
        s.cwnd_limited && s.marked == 0 && (!s.recovering || self.after_timeout)
    }

    /// Slow start over `acked` bytes, of which at most `limit` segments count (RFC 5681, equation 2;
    /// RFC 3465's L) unless acknowledgements may stand for many. Returns the bytes left for congestion avoidance once ssthresh is reached.
    pub(super) fn slow_start(&mut self, acked: u64, limit: u64) -> u64 {
        if !self.in_slow_start() {
            return acked;
        }
        let growth = self.counted(acked, limit);
        let used = growth.min(self.ssthresh - self.cwnd);
        self.grow(used);
        growth - used
    }

    /// What of `acked` bytes slow start counts: at most `limit` segments, unless acknowledgements
    /// may stand for many.
    pub(super) fn counted(&self, acked: u64, limit: u64) -> u64 {
        if self.stretch_acks {
            acked
        } else {
            acked.min(limit.saturating_mul(self.mss))
        }
    }

    /// Congestion avoidance by byte counting (RFC 5681, section 3.1; RFC 3465, section 2.1): one
    /// segment more for each cwnd of credited bytes, at most one for each acknowledgement. Reno
    /// credits what was acknowledged, a coupled controller more or less.
    pub(super) fn congestion_avoidance(&mut self, credited: f64) {
        self.credit += credited;
        let cwnd = self.cwnd as f64;
        if self.credit >= cwnd {
            self.credit -= cwnd;
            self.grow(self.mss);
        } else if self.credit <= -cwnd {
            self.credit += cwnd;
            self.shrink_to(self.cwnd.saturating_sub(self.mss));
            // Else slow start would take the segment back at once.
            self.ssthresh = self.ssthresh.min(self.cwnd);
        }
        // A stretch acknowledgement must not buy a burst of segments later.
        let bound = self.cwnd as f64;
        self.credit = self.credit.clamp(-bound, bound);
    }

    /// cwnd larger by `bytes`, within the cap.
    pub(super) fn grow(&mut self, bytes: u64) {
        self.cwnd = self.cwnd.saturating_add(bytes).min(self.max);
    }

    /// cwnd as the loss state machine wants it.
    pub(super) fn set_cwnd(&mut self, cwnd: u64) {
        self.cwnd = cwnd.clamp(self.mss, self.max);
    }

    /// cwnd no larger than this.
    pub(super) fn shrink_to(&mut self, cwnd: u64) {
        self.set_cwnd(cwnd.min(self.cwnd));
    }

    /// A congestion signal: both values become `ssthresh`, raised to `floor_segments`.
    pub(super) fn reduce(&mut self, ssthresh: u64, floor_segments: u64) {
        self.remember();
        self.set_ssthresh(ssthresh, floor_segments);
        // The flight may exceed cwnd (proactive copies, a cwnd just lowered): never a raise.
        self.shrink_to(self.ssthresh);
        self.after_timeout = false;
    }

    /// A timeout: cwnd is one segment, ssthresh as given if this is the `first` for that data.
    pub(super) fn timeout(&mut self, ssthresh: u64, floor_segments: u64, first: bool) {
        if first {
            self.remember();
            self.set_ssthresh(ssthresh, floor_segments);
        }
        self.set_cwnd(self.mss);
        self.credit = 0.0;
        self.after_timeout = true;
    }

    /// Nothing is known of the path any more.
    pub(super) fn forget_ssthresh(&mut self) {
        self.ssthresh = u64::MAX;
        self.before = None;
    }

    /// Slow start ends here without a loss (HyStart++).
    pub(super) fn end_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
        self.after_timeout = false;
    }

    /// Back to before the last reduction, never down. False if there was none to undo.
    pub(super) fn undo(&mut self) -> bool {
        let Some((cwnd, ssthresh)) = self.before.take() else {
            return false;
        };
        self.set_cwnd(cwnd.max(self.cwnd));
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.after_timeout = false;
        true
    }

    pub(super) fn set_mss(&mut self, mss: u64) {
        self.mss = mss.max(1);
        self.max = self.max.max(self.mss);
        self.set_cwnd(self.cwnd);
    }

    fn remember(&mut self) {
        self.before = Some((self.cwnd, self.ssthresh));
        self.credit = 0.0;
    }

    fn set_ssthresh(&mut self, ssthresh: u64, floor_segments: u64) {
        self.ssthresh = ssthresh.max(self.mss.saturating_mul(floor_segments));
    }
}
