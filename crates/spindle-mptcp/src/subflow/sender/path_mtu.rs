//! What a change of the path MTU does to the sender (RFC 1191, RFC 8201, RFC 8899).

use spindle_units::Instant;

use super::{Phase, Sender};
use crate::subflow::loss::frto::Frto;

impl Sender {
    /// Payload bytes of a full segment as both ends agreed, options taken off.
    pub(crate) fn agreed_mss(&self) -> u64 {
        self.agreed_mss
    }

    /// The path carries `mss` payload bytes a segment; what both ends agreed on stays the limit.
    /// Segments that were sent and are too large are cut and sent again at once, without a reduction
    /// of the window: their loss is no sign of congestion (RFC 8201, section 5.4).
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
                self.recover = self.nxt;
            }
            // The timer expired for what could not pass: the path is not known to be congested.
            Phase::Loss { .. } if too_large_front => self.cc.undo(now),
            Phase::Recovery { .. } | Phase::Loss { .. } => {}
        }
        self.undo.end();
        self.frto = Frto::Off;
        self.tlp.cancel();
        self.presumed = 0;
        self.dupacks = 0;
        self.force_repeat = true;
        self.consecutive_timeouts = 0;
        self.rtt.end_back_off();
        self.arm_rto(now);
    }
}
