//! Where the recovery policy meets the connection: its view is drawn, its actions are carried out,
//! and the window's law and the at-most-once rule are kept whatever it says.

use spindle_units::Instant;
use spindle_wire::Segment;

use super::Connection;
use super::output::Purpose;
use crate::recovery::{Action, SegmentView, SubflowView, Triggers, View, Window};
use crate::subflow::SubflowId;
use crate::subflow::sender::SendKind;

impl Connection {
    /// A policy whose actions come at once is asked before further new data leave.
    pub(super) fn immediate_recovery(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        if self.recovery.as_ref().is_some_and(|r| r.is_immediate()) {
            self.ask_policy(now)
        } else {
            None
        }
    }

    /// Proactive recovery, when nothing more urgent can be sent.
    pub(super) fn proactive(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        if self.recovery.as_ref().is_some_and(|r| !r.is_immediate()) {
            self.ask_policy(now)
        } else {
            None
        }
    }

    fn ask_policy(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        if self.triggers.is_empty() || !self.connected || self.closed.is_some() {
            return None;
        }
        self.draw_view();
        let view = View {
            now,
            triggers: self.triggers,
            new_data: self.has_new_data(),
            subflows: &self.views,
        };
        let action = self.recovery.as_mut()?.on_opportunity(&view);
        let done = self.carry_out(now, action);
        if done.is_none() {
            self.triggers = Triggers::default();
        }
        done
    }

    fn draw_view(&mut self) {
        self.views.clear();
        let data_acked = self.send.una;
        let multipath = self.is_multipath();
        for s in &mut self.subflows {
            let data_acked = if multipath { data_acked } else { 0 };
            let oldest =
                s.tx.board
                    .next_unprotected(data_acked)
                    .map(|x| SegmentView {
                        position: x.start,
                        len: x.payload.len() as u32,
                        offset: x.map.map_or(0, |m| m.offset),
                        sent_at: x.sent_at,
                    });
            let c = &s.tx.counters;
            self.views.push(SubflowView {
                id: s.id,
                usable: s.is_usable() && !s.dead,
                sent: c.segments,
                retransmitted: c.retransmissions,
                since_retransmission: c.since_retransmission,
                srtt: s.tx.srtt(),
                cwnd: s.tx.cc.cwnd(),
                in_flight: s.tx.in_flight(),
                mss: s.tx.mss,
                oldest_unprotected: if s.dead { None } else { oldest },
            });
        }
    }

    fn carry_out(&mut self, now: Instant, action: Action) -> Option<(SubflowId, Segment)> {
        match action {
            Action::Nothing => None,
            Action::Copy {
                of,
                position,
                on,
                window,
            } => self.copy(now, of, position, on, window),
            Action::Repeat {
                of,
                position,
                window,
            } => {
                let i = self.index(of)?;
                let sent = self.subflows[i].tx.board.get(position)?;
                let len = sent.payload.len() as u64;
                if window == Window::Inside && !self.subflows[i].tx.has_room(len) {
                    return None;
                }
                self.repeat(now, i, position, SendKind::Repeat)
            }
        }
    }

    /// A copy in new sequence space of subflow `on`; needs MPTCP, since plain TCP has no second
    /// place for the same data.
    fn copy(
        &mut self,
        now: Instant,
        of: SubflowId,
        position: u64,
        on: SubflowId,
        window: Window,
    ) -> Option<(SubflowId, Segment)> {
        self.multipath()?;
        let (w, b) = (self.index(of)?, self.index(on)?);
        let sent = self.subflows[w].tx.board.get(position)?;
        let eligible =
            !sent.protected && !sent.recovery && !sent.sacked && !sent.payload.is_empty();
        let (start, payload, offset) = (sent.start, sent.payload.clone(), sent.map?.offset);
        let target = &mut self.subflows[b];
        let fits = payload.len() as u64 <= target.tx.mss;
        if !eligible || !fits || !target.is_usable() {
            return None;
        }
        target.tx.check_idle(now);
        if window == Window::Inside && !target.tx.has_room(payload.len() as u64) {
            return None;
        }
        self.subflows[w].tx.board.protect(start);
        Some(self.send_on(now, b, offset, payload, Purpose::copy(of, window)))
    }
}
