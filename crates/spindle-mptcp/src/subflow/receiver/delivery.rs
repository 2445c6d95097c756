//! Passes payload up to the data level. Payload that the data level cannot take yet is held here.

use spindle_wire::Payload;

use super::{Mapped, Piece, ReceivedMap, Receiver, part};
use crate::types::{DataOffset, SubflowPosition};

/// Whether payload of a connection with mappings may be passed up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryRules {
    /// The checksum of a mapping must be verified before its bytes are passed up (RFC 8684, section 3.3.1).
    pub(crate) verify: bool,
    /// Payload is passed up although it is out of order on its subflow.
    pub(crate) early: bool,
}

/// Payload that may be passed up.
#[derive(Debug)]
pub(crate) enum Deliverable {
    /// Bytes that are passed up by [`Receiver::next_run`].
    Piece(Piece),
    /// The bytes of a whole mapping, whose checksum must be verified first.
    Unverified(ReceivedMap, Vec<Payload>),
}

/// What comes next in order.
#[derive(Debug)]
pub(crate) enum NextInOrder {
    /// Payload that may be passed up.
    Deliverable(Deliverable),
    /// This many bytes are in order, and the first of them has no mapping.
    Unmapped(u64),
    /// Nothing may be passed up.
    Nothing,
}

impl Receiver {
    /// Takes payload that arrived. Returns it if it may be passed up, and holds it otherwise.
    pub(crate) fn deliver(&mut self, piece: Piece, rules: DeliveryRules) -> Option<Deliverable> {
        let in_order = piece.0 < self.nxt;
        if rules.verify {
            let covers = |m: &&ReceivedMap| m.start == piece.0 && m.len == piece.1.len() as u64;
            let whole = self.map_at(piece.0).filter(covers).copied();
            if rules.early
                && let Some(map) = whole
            {
                return Some(Deliverable::Unverified(map, vec![piece.1]));
            }
        } else if rules.early || (in_order && self.held.is_empty()) {
            return Some(Deliverable::Piece(piece));
        }
        self.hold(piece);
        None
    }

    /// Takes the next mapped bytes of `piece`, with their data offset. Bytes without a mapping are held, and
    /// `piece` is then used up.
    pub(crate) fn next_run(&mut self, piece: &mut Option<Piece>) -> Option<(DataOffset, Payload)> {
        let (at, payload) = piece.take()?;
        match self.locate(at) {
            Mapped::Run { offset, len } => {
                let n = (len as usize).min(payload.len());
                let run = part(&payload, 0, n);
                if n < payload.len() {
                    *piece = Some((at + n as u64, payload.slice(n, payload.len() - n)));
                }
                Some((offset, run))
            }
            Mapped::Unmapped => {
                self.hold((at, payload));
                None
            }
        }
    }

    /// Takes the next held payload that is in order and mapped. With `verify`, mappings are passed up whole.
    pub(crate) fn next_in_order(&mut self, verify: bool) -> NextInOrder {
        let Some(at) = self.first_in_order() else {
            return NextInOrder::Nothing;
        };
        let Some(map) = self.map_at(at).copied() else {
            return NextInOrder::Unmapped(self.nxt - at);
        };
        if verify && map.end() > self.nxt {
            return NextInOrder::Nothing;
        }
        if verify && at == map.start {
            let parts = self.take_map(&map);
            return NextInOrder::Deliverable(Deliverable::Unverified(map, parts));
        }
        match self.take_in_order() {
            Some(piece) => NextInOrder::Deliverable(Deliverable::Piece(piece)),
            None => NextInOrder::Nothing,
        }
    }

    /// Takes the next held bytes, in order or not, for a connection that goes on without mappings. A mapping
    /// that covers them gives their data offset.
    pub(crate) fn next_held(&mut self) -> Option<(Mapped, Piece)> {
        let (at, payload) = self.take_held()?;
        let place = self.locate(at);
        if let Mapped::Run { len, .. } = place
            && (len as usize) < payload.len()
        {
            let n = len as usize;
            self.hold((at + len, payload.slice(n, payload.len() - n)));
            return Some((place, (at, payload.slice(0, n))));
        }
        Some((place, (at, payload)))
    }

    /// Whether the next held bytes in order have no mapping.
    pub(crate) fn misses_mapping(&self) -> bool {
        self.first_in_order()
            .is_some_and(|at| self.map_at(at).is_none())
    }

    /// Whether any payload is held.
    #[inline]
    pub(crate) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    fn hold(&mut self, piece: Piece) {
        self.held_bytes += piece.1.len() as u64;
        if let Some(old) = self.held.insert(piece.0, piece.1) {
            self.held_bytes -= old.len() as u64;
        }
    }

    /// The position of the first held payload, if some of it is in order.
    fn first_in_order(&self) -> Option<SubflowPosition> {
        let (at, _) = self.held.first_key_value()?;
        (*at < self.nxt).then_some(*at)
    }

    /// Takes the first held payload, if all of it is in order.
    fn take_in_order(&mut self) -> Option<Piece> {
        let first = self.held.first_entry()?;
        if *first.key() + first.get().len() as u64 > self.nxt {
            return None;
        }
        let (start, payload) = first.remove_entry();
        self.held_bytes -= payload.len() as u64;
        Some((start, payload))
    }

    /// Takes the first held payload, in order or not.
    fn take_held(&mut self) -> Option<Piece> {
        let piece = self.held.pop_first()?;
        self.held_bytes -= piece.1.len() as u64;
        Some(piece)
    }

    /// Takes the held payload of a whole mapping. Bytes beyond the mapping stay held.
    fn take_map(&mut self, map: &ReceivedMap) -> Vec<Payload> {
        let end = map.end();
        let mut parts = Vec::new();
        while self.held.first_key_value().is_some_and(|(s, _)| *s < end) {
            let Some((at, payload)) = self.take_in_order() else {
                break;
            };
            let inside = ((end - at) as usize).min(payload.len());
            if inside < payload.len() {
                self.hold((end, part(&payload, inside, payload.len() - inside)));
            }
            parts.push(part(&payload, 0, inside));
        }
        parts
    }
}
