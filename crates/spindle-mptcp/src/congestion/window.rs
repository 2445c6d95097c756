//! The window that every controller contains: cwnd and ssthresh with their bounds, standard slow start, and the
//! state that [`Window::undo`] needs.

use super::{AckSample, Parameters};

/// ssthresh is never lower than this many segments (RFC 5681, equation 4).
pub const MIN_SSTHRESH_SEGMENTS: u64 = 2;

/// cwnd and ssthresh of one subflow, in bytes. Invariant: mss <= cwnd <= max(max_window, mss).
///
/// Every controller contains one, so that its cwnd stays within the bounds whatever it computes.
#[derive(Clone, Debug)]
pub struct Window {
    mss: u64,
    max: u64,
    cwnd: u64,
    ssthresh: u64,
    /// Growth of less than a segment so far, in acknowledged bytes. Signed because OLIA may shrink the window.
    credit: f64,
    /// cwnd and ssthresh before the last reduction.
    before: Option<(u64, u64)>,
    /// The last reduction was a timeout, and the losses of that time are not yet repaired.
    after_timeout: bool,
    stretch_acks: bool,
    /// Slow start also applies while cwnd equals ssthresh.
    through_ssthresh: bool,
}

impl Window {
    /// A window in slow start, with the initial values and bounds of `p`.
    pub fn new(p: &Parameters) -> Self {
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
            through_ssthresh: p.through_ssthresh,
        }
    }

    /// cwnd in bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// ssthresh in bytes; `u64::MAX` while unlimited.
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// Segment size in bytes, above zero.
    pub fn mss(&self) -> u64 {
        self.mss
    }

    /// Whether cwnd is below ssthresh, or equals it if slow start applies then. RFC 5681, section 3.1, allows
    /// both.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh || (self.through_ssthresh && self.cwnd == self.ssthresh)
    }

    /// The subflow's window for the coupling. During fast recovery cwnd may be inflated or still falling, so
    /// this is ssthresh then (RFC 6356, section 3).
    pub fn coupled_cwnd(&self, recovering: bool) -> u64 {
        if recovering && !self.after_timeout {
            self.ssthresh.min(self.max)
        } else {
            self.cwnd
        }
    }

    /// Whether the acknowledgement may increase the window at all. It may not in fast recovery, where the loss
    /// state machine sets the window. It may not if cwnd did not limit the sender, and not with an ECN echo
    /// (RFC 3168, 6.1.2).
    pub fn may_grow(&mut self, s: &AckSample) -> bool {
        self.after_timeout &= s.recovering;
        s.cwnd_limited && s.marked == 0 && (!s.recovering || self.after_timeout)
    }

    /// Slow start over `acked` bytes. At most `limit` segments count (RFC 5681, equation 2; RFC 3465's L),
    /// unless stretch acknowledgements are enabled. Returns the bytes left for congestion avoidance after
    /// ssthresh is reached. If slow start also applies at ssthresh, it ends one segment above (Linux 3.18
    /// `tcp_slow_start`).
    pub fn slow_start(&mut self, acked: u64, limit: u64) -> u64 {
        if !self.in_slow_start() {
            return acked;
        }
        let growth = self.counted(acked, limit);
        let limit = match self.through_ssthresh {
            true => self.ssthresh.saturating_add(self.mss),
            false => self.ssthresh,
        };
        let used = growth.min(limit.saturating_sub(self.cwnd));
        self.grow(used);
        growth - used
    }

    /// The part of `acked` bytes that slow start counts: at most `limit` segments, unless stretch
    /// acknowledgements are enabled.
    pub fn counted(&self, acked: u64, limit: u64) -> u64 {
        if self.stretch_acks {
            acked
        } else {
            acked.min(limit.saturating_mul(self.mss))
        }
    }

    /// Congestion avoidance by byte counting (RFC 5681, section 3.1; RFC 3465, section 2.1): one segment more
    /// for each cwnd of credited bytes, at most one for each acknowledgement. Reno credits the acknowledged
    /// bytes. A coupled controller credits more or fewer bytes.
    pub fn congestion_avoidance(&mut self, credited: f64) {
        self.credit += credited;
        let cwnd = self.cwnd as f64;
        if self.credit >= cwnd {
            self.credit -= cwnd;
            self.grow(self.mss);
        } else if self.credit <= -cwnd {
            self.credit += cwnd;
            self.shrink_to(self.cwnd.saturating_sub(self.mss));
            // Otherwise slow start would regain the segment at once.
            self.ssthresh = self.ssthresh.min(self.cwnd);
        }
        // A stretch acknowledgement must not allow a burst of segments later.
        let bound = self.cwnd as f64;
        self.credit = self.credit.clamp(-bound, bound);
    }

    /// Increases cwnd by `bytes`, up to the cap.
    pub fn grow(&mut self, bytes: u64) {
        self.cwnd = self.cwnd.saturating_add(bytes).min(self.max);
    }

    /// Sets cwnd as the loss state machine requires.
    pub fn set_cwnd(&mut self, cwnd: u64) {
        self.cwnd = cwnd.clamp(self.mss, self.max);
    }

    /// Reduces cwnd to at most `cwnd`.
    pub fn shrink_to(&mut self, cwnd: u64) {
        self.set_cwnd(cwnd.min(self.cwnd));
    }

    /// Processes a congestion signal. Both values become `ssthresh`, raised to `floor_segments`.
    pub fn reduce(&mut self, ssthresh: u64, floor_segments: u64) {
        self.remember();
        self.set_ssthresh(ssthresh, floor_segments);
        // The flight may exceed cwnd (proactive copies, a recently lowered cwnd). A signal never raises cwnd.
        self.shrink_to(self.ssthresh);
        self.after_timeout = false;
    }

    /// Processes a timeout. cwnd becomes one segment. ssthresh is set as given if this is the `first` timeout
    /// for that data.
    pub fn timeout(&mut self, ssthresh: u64, floor_segments: u64, first: bool) {
        if first {
            self.remember();
            self.set_ssthresh(ssthresh, floor_segments);
        }
        self.set_cwnd(self.mss);
        self.credit = 0.0;
        self.after_timeout = true;
    }

    /// Raises ssthresh to at least 3/4 of cwnd (RFC 2861, section 3.1), so that slow start leads back to the
    /// window that is reduced next.
    pub fn raise_ssthresh(&mut self) {
        self.ssthresh = self.ssthresh.max(self.cwnd - self.cwnd / 4);
    }

    /// Removes the threshold because the state of the path is no longer known.
    pub fn forget_ssthresh(&mut self) {
        self.ssthresh = u64::MAX;
        self.before = None;
    }

    /// Ends slow start here without a loss (HyStart++).
    pub fn end_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
        self.after_timeout = false;
    }

    /// Restores the values before the last reduction, but never lowers them. Returns false if there is no
    /// reduction to undo.
    pub fn undo(&mut self) -> bool {
        let Some((cwnd, ssthresh)) = self.before.take() else {
            return false;
        };
        self.set_cwnd(cwnd.max(self.cwnd));
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.after_timeout = false;
        true
    }

    /// Sets the segment size in bytes. Zero counts as one. cwnd stays within its bounds.
    pub fn set_mss(&mut self, mss: u64) {
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
