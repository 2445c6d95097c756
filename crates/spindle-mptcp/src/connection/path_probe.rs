//! Path MTU probes: segments larger than a path is known to carry, which show whether the path carries them
//! (RFC 4821).

use spindle_units::Instant;
use spindle_wire::Segment;

use super::Connection;
use super::transmit::Purpose;
use crate::types::SubflowId;

/// Number of full segments that must follow a probe at once, so that SACKs reveal its loss and not a timeout.
/// It is one more than the number of duplicate ACKs that indicate a loss.
const BEHIND: u64 = 4;

impl Connection {
    /// Bytes of new data for a probe of the path of subflow `i`, if a probe is due and can be sent.
    pub(super) fn mtu_probe_len(&self, now: Instant, i: usize) -> Option<usize> {
        let sf = &self.subflows[i];
        let size = sf.tx.probe_size(now)?;
        let room = size + BEHIND * sf.tx.mss;
        let enough = self.send.unsent_bytes().min(self.send.window()) >= room
            && self.send.contiguous(size as usize) as u64 >= size
            && sf.tx.has_room(room);
        let plain = sf.stage.is_none()
            && !sf.tx.cwr_due
            && !self.scheduling.scheduler.repeats()
            && self.extensions.parities.header_room() == 0
            && self.first_data_keys(i, sf.tx.nxt).is_none();
        (enough && plain).then_some(size as usize)
    }

    /// Sends a probe of `len` bytes on subflow `i`.
    pub(super) fn put_mtu_probe(
        &mut self,
        now: Instant,
        i: usize,
        len: usize,
        next: &mut Segment,
    ) -> SubflowId {
        let new = self.send.take(len, len);
        let mss = self.subflows[i].tx.begin_probe(len as u64);
        let id = self.put_on(now, i, new, Purpose::NEW, next);
        self.subflows[i].tx.end_probe(mss);
        id
    }
}
