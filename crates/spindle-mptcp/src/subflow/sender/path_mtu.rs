//! The effects of a path MTU change on the sender (RFC 1191, RFC 8201, RFC 8899).

use spindle_units::Instant;

use super::mtu_search::{MtuSearch, Probe, Verdict};
use super::{Phase, Sender};
use crate::subflow::loss::frto::Frto;
use crate::types::SubflowPosition;

impl Sender {
    /// Payload bytes of a full segment as both ends agreed, without options.
    pub(crate) fn agreed_mss(&self) -> u64 {
        self.agreed_mss
    }

    /// From now on options take `bytes` more bytes of every segment. Outstanding segments keep their size.
    pub(crate) fn shorten_segments(&mut self, bytes: u64) {
        let shorter = |mss: u64| mss.saturating_sub(bytes).max(1);
        self.agreed_mss = shorter(self.agreed_mss);
        self.mss = shorter(self.mss);
        self.cc.set_mss(self.mss);
        if let Some(search) = &mut self.search {
            search.shorten(bytes);
        }
    }

    /// The MSS is known now. If the configuration enables MTU probing, the path is watched for the segment
    /// sizes that it carries. `base` payload bytes are assumed to pass on nearly every path. Segments are never
    /// made smaller than `least`.
    pub(crate) fn watch_path(&mut self, base: u64, least: u64) {
        let watched = self.config.tcp.mtu_probing;
        self.search = watched.then(|| Box::new(MtuSearch::new(base, least, self.agreed_mss)));
    }

    /// A router or the link reports that the path carries `mss` payload bytes per segment. If that is less than
    /// the current size, it is believed at once, and larger segments are tried again later. If it is more and
    /// the path is watched, larger segments are tried one at a time.
    pub(crate) fn limit_path_mss(&mut self, now: Instant, mss: u64) {
        let less = mss < self.mss;
        self.repeat_probe_in_pieces(now);
        if less || self.search.is_none() {
            self.set_path_mss(now, mss);
        }
        let high = mss.min(self.agreed_mss);
        if let Some(search) = &mut self.search {
            search.begin(now, high, less);
        }
    }

    /// If a probe may be sent now: payload bytes of a segment of new data that would show whether the path
    /// carries more than the current segment size.
    #[inline]
    pub(crate) fn probe_size(&self, now: Instant) -> Option<u64> {
        let search = self.search.as_ref()?;
        let size = search.next_size(now, self.mss, self.agreed_mss)?;
        matches!(self.phase, Phase::Open).then_some(size)
    }

    /// The next segment, of `len` bytes, will be larger than the path is known to carry. Returns the segment
    /// size that [`Self::end_probe`] restores after the probe was sent.
    pub(crate) fn begin_probe(&mut self, len: u64) -> u64 {
        let probe = Probe {
            start: self.nxt,
            len,
            shows: len,
        };
        if let Some(search) = &mut self.search {
            search.on_probe(probe, self.agreed_mss);
        }
        std::mem::replace(&mut self.mss, len)
    }

    /// The probe was sent. Further segments have `mss` bytes again.
    pub(crate) fn end_probe(&mut self, mss: u64) {
        self.mss = mss;
    }

    /// Updates the state of the outstanding probe after an acknowledgement or a timer.
    pub(super) fn settle_probe(&mut self, now: Instant) {
        let Some(search) = &mut self.search else {
            return;
        };
        let Some(probe) = search.probe else {
            return;
        };
        let delivered = self.una >= probe.start + probe.len;
        let sent = self.board.get(probe.start);
        if delivered || sent.is_some_and(|s| s.sacked) {
            search.passed();
            self.set_path_mss(now, probe.shows);
        } else if sent.is_some_and(|s| s.lost) {
            self.repeat_probe_in_pieces(now);
        }
    }

    /// The probe, if there is one, is lost. If nothing else is lost, that is no sign of congestion (RFC 4821,
    /// section 7.7).
    fn repeat_probe_in_pieces(&mut self, now: Instant) {
        let Some(search) = &mut self.search else {
            return;
        };
        let Some(probe) = search.probe else {
            return;
        };
        search.lost(now, self.mss);
        let first = self.board.front().is_some_and(|s| s.start == probe.start);
        let alone = first && self.board.lost_bytes() == probe.len;
        self.board.resegment(self.mss as usize);
        if let Phase::Recovery {
            prr, uncongested, ..
        } = &mut self.phase
            && alone
        {
            *prr = None;
            *uncongested = true;
            self.cc.undo(now);
            self.spurious.undo.end();
        }
    }

    /// Segments up to `ack` are about to be acknowledged. While timeouts raise a suspicion, their sizes show
    /// which segment sizes the path carries.
    pub(super) fn note_delivered_sizes(&mut self, ack: SubflowPosition) {
        let Some(search) = self.search.as_mut().filter(|s| s.watches()) else {
            return;
        };
        for sent in self.board.iter().take_while(|s| s.end() <= ack) {
            search.on_delivered(sent.payload.len() as u64);
        }
    }

    /// The retransmission timer expired, and everything outstanding is marked lost. Checks whether segments are
    /// lost because they are full.
    pub(super) fn look_for_black_hole(&mut self, now: Instant) {
        self.settle_probe(now);
        let Some(search) = &mut self.search else {
            return;
        };
        for sent in self.board.iter().filter(|s| s.sacked) {
            search.on_delivered(sent.payload.len() as u64);
        }
        let Some(front) = self.board.front() else {
            return;
        };
        let (start, len) = (front.start, front.payload.len() as u64);
        match search.on_timeout(len, self.consecutive_timeouts) {
            Verdict::Nothing => {}
            Verdict::TrySmall(small) => self.board.split(start, small as usize),
            Verdict::BlackHole(passes) => {
                search.begin(now, self.mss - 1, false);
                self.set_path_mss(now, passes);
            }
        }
    }

    /// The path carries `mss` payload bytes per segment. The size that both ends agreed on stays the upper
    /// limit. Segments that were sent and are too large are split and retransmitted at once, without a
    /// reduction of the window. Their loss is no sign of congestion (RFC 8201, section 5.4).
    pub(crate) fn set_path_mss(&mut self, now: Instant, mss: u64) {
        let mss = mss.clamp(1, self.agreed_mss);
        if mss == self.mss {
            return;
        }
        let smaller = mss < self.mss;
        self.mss = mss;
        self.cc.set_mss(mss);
        let too_large_front = self
            .board
            .front()
            .is_some_and(|s| !s.sacked && s.payload.len() as u64 > mss);
        if !smaller || self.board.resegment(mss as usize) == 0 {
            return;
        }
        match self.phase {
            Phase::Open => {
                self.phase = Phase::Recovery {
                    point: self.nxt,
                    partial_acks: 0,
                    prr: None,
                    uncongested: true,
                };
                self.marks.recover = self.nxt;
            }
            // The timer expired for a segment that could not pass, so the path is not known to be congested.
            Phase::Loss { .. } if too_large_front => self.cc.undo(now),
            Phase::Recovery { .. } | Phase::Loss { .. } => {}
        }
        self.spurious.undo.end();
        self.spurious.frto = Frto::Off;
        self.tlp.cancel();
        self.duplicates.presumed = 0;
        self.duplicates.count = 0;
        self.force_repeat = true;
        self.consecutive_timeouts = 0;
        self.rtt.end_back_off();
        self.arm_rto(now);
    }
}
