//! Packets that leave the far end of a link later than they reach it ([`crate::late`]).

use super::{Event, Kind, Pending, Simulation};
use crate::event::EventQueue;
use crate::late::{Held, LATE, LateState, Stage};
use crate::network::NONE;
use crate::port::store::Meta;
use crate::{DropCause, LinkId, LinkSpec, Loss, Packet};

impl<P: Packet, Q: EventQueue<Pending>> Simulation<P, Q> {
    /// Starts a link's jitter, reordering and local retransmission.
    pub(super) fn start_late(&mut self, link: LinkId, spec: &LinkSpec) {
        if let Some(state) = LateState::new(spec, self.seed, link.0) {
            self.ports[link.0 as usize].flags |= LATE;
            self.sides[link.0 as usize].late = Some(Box::new(state));
        }
    }

    /// Adapts local retransmission to a link's new loss process.
    pub(super) fn adapt_copies(&mut self, link: LinkId, loss: &Loss) {
        if let Some(late) = &mut self.sides[link.0 as usize].late {
            late.copies = crate::LocalRetransmission::copies(loss);
        }
    }

    /// Whether a packet that reaches the end of a late link leaves it now. Otherwise it is held there, or it is
    /// lost and discarded.
    #[cold] // links with jitter, reordering or local retransmission
    pub(super) fn leaves_now(&mut self, link: u32, meta: &Meta) -> bool {
        let lost = self.loses(link, meta);
        let port = &mut self.ports[link as usize];
        let Some(late) = &mut self.sides[link as usize].late else {
            return true;
        };
        if lost && late.local.is_none() {
            self.discard(link, meta, DropCause::Loss);
            return false;
        }
        let sending = self.times.time(port.rate, meta.len);
        let round_trip = port.delay.saturating_mul(2);
        let recovery = lost.then(|| round_trip.saturating_add(sending));
        let Some(at) = late.leaves(self.now, sending, recovery) else {
            self.note_if_watched(link, meta);
            return true;
        };
        let (at, stage) = match lost {
            true => (self.now.saturating_add(port.delay), Stage::Notify(at)),
            false => (at, Stage::Leave),
        };
        late.hold(at, Held { meta: *meta, stage });
        self.wait(at, Kind::Late(link));
        false
    }

    /// Handles the event that a held packet may leave a link now.
    #[cold] // links with jitter, reordering or local retransmission
    pub(super) fn leave_late(&mut self, link: u32) -> Option<Event<P>> {
        let late = self.sides[link as usize].late.as_mut()?;
        // The packet of this event was lost if the link went down.
        let Held { meta, stage } = late.take(self.now)?;
        let copies = late.copies;
        match stage {
            Stage::Leave => {}
            Stage::Notify(at) => {
                self.send_copies(link, meta, at);
                return None;
            }
            Stage::Copies if (0..copies).all(|_| self.loses(link, &meta)) => {
                self.discard(link, &meta, DropCause::Loss);
                return None;
            }
            Stage::Copies => self.sides[link as usize].recovered += 1,
        }
        self.note_if_watched(link, &meta);
        self.leave(link, &meta, NONE)
    }

    /// Sends the copies of a lost packet, of which the first arrives at `at`. They use the link's capacity.
    fn send_copies(&mut self, link: u32, meta: Meta, at: u64) {
        let port = &mut self.ports[link as usize];
        let Some(late) = &mut self.sides[link as usize].late else {
            return;
        };
        let sending = self.times.time(port.rate, meta.len);
        let time = sending.saturating_mul(u64::from(late.copies));
        port.free_at = port.free_at.max(self.now).saturating_add(time);
        port.busy = port.busy.saturating_add(time);
        let stage = Stage::Copies;
        late.hold(at, Held { meta, stage });
        self.wait(at, Kind::Late(link));
    }

    /// Discards the packets that are held at the end of a link that goes down.
    pub(super) fn discard_late(&mut self, link: u32) {
        let Some(late) = &mut self.sides[link as usize].late else {
            return;
        };
        for held in late.clear().into_values() {
            self.discard(link, &held.meta, DropCause::Down);
        }
    }
}
