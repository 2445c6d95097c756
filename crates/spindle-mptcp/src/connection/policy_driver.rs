//! Interface between the recovery policy and the connection. It draws the policy's view and carries out its
//! actions. It enforces the window rule and the at-most-once rule, whatever the policy requests.

use spindle_units::Instant;
use spindle_wire::{Ecn, Packet, Segment};

use super::Connection;
use super::extensions::cofuso::sender::ParityRequest;
use super::subflow_table::Marks;
use super::transmit::Purpose;
use crate::config::Config;
use crate::ranges::Ranges;
use crate::recovery::{
    Action, Bucket, DropView, MessageHints, MessageView, Prospect, Recovery, RecoveryReceiver,
    RunView, SegmentView, SubflowView, Triggers, View, Window,
};
use crate::secrets::Generator;
use crate::subflow::scoreboard::Scoreboard;
use crate::subflow::sender::SendKind;
use crate::subflow::{Origin, Subflow};
use crate::types::{DataOffset, Eligibility, SubflowId, SubflowPosition};

/// Data offsets that were copied proactively and are not acknowledged yet. No byte is copied twice, whichever
/// subflows carry it by now (FUSO section 3.2).
#[derive(Debug, Default)]
pub(super) struct Copied {
    offsets: Ranges<DataOffset>,
    /// Copies made so far.
    made: u64,
    /// The values with which the subflows' views were last drawn: the data-level acknowledgement, the
    /// eligibility for copies, and the number of copies made by then.
    drawn_with: (DataOffset, Eligibility, u64),
}

impl Copied {
    fn insert(&mut self, start: DataOffset, end: DataOffset) {
        self.made += 1;
        self.offsets.insert(start, end);
    }

    fn overlaps(&self, start: DataOffset, end: DataOffset) -> bool {
        self.offsets.overlaps(start, end)
    }

    fn begins_below(&self, offset: DataOffset) -> bool {
        self.offsets.first().is_some_and(|r| r.0 < offset)
    }

    fn forget_below(&mut self, offset: DataOffset) {
        self.offsets.remove_below(offset);
    }
}

/// The recovery policy and what the connection keeps for it.
#[derive(Debug)]
pub(super) struct PolicyDriver {
    /// The sender's policy, if there is one.
    pub(super) sender: Option<Box<dyn Recovery>>,
    /// The receiver's part of the policy, if it has one.
    pub(super) receiver: Option<Box<dyn RecoveryReceiver>>,
    /// What has happened since the policy was last asked and requested nothing.
    pub(super) triggers: Triggers,
    /// When the policy was last asked and requested no action.
    pub(super) rested: Option<Instant>,
    pub(super) copied: Copied,
    /// Scratch list of the subflow views that are shown to the policy in place of those that the subflow table keeps.
    /// Each question to the policy empties it, and fills it if joins or pacing change a view.
    pub(super) changed_views: Vec<SubflowView>,
    /// What is left of the recovery budget, if there is one.
    bucket: Option<Bucket>,
    /// The message that the application described last, if it did.
    message: Option<MessageView>,
}

impl PolicyDriver {
    /// The policy that `config` names.
    pub(super) fn new(config: &Config, rng: &mut Generator) -> Self {
        let factory = config.recovery.as_ref();
        Self {
            sender: factory.map(|f| f.build(rng.next_u64())),
            receiver: factory.and_then(|f| f.build_receiver()),
            triggers: Triggers::default(),
            rested: None,
            copied: Copied::default(),
            changed_views: Vec::new(),
            bucket: config.recovery_budget.map(Bucket::new),
            message: None,
        }
    }
}

impl Connection {
    /// The application describes the message that it writes from now on.
    pub(crate) fn set_message(&mut self, hints: MessageHints) {
        let start = self.send.written;
        let message = MessageView { hints, start };
        self.policy.message = (hints != MessageHints::default()).then_some(message);
    }

    /// Asks a policy whose actions are immediate, before further new data are sent.
    pub(super) fn immediate_recovery(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        if self
            .policy
            .sender
            .as_ref()
            .is_some_and(|r| r.is_immediate())
        {
            self.ask_policy(now)
        } else {
            None
        }
    }

    /// Proactive recovery, if nothing more urgent can be sent.
    pub(super) fn proactive(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        if self
            .policy
            .sender
            .as_ref()
            .is_some_and(|r| !r.is_immediate())
        {
            self.ask_policy(now)
        } else {
            None
        }
    }

    fn ask_policy(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        if self.policy.triggers.is_empty() || !self.connected || self.teardown.closed.is_some() {
            return None;
        }
        let (marks, sums) = (self.subflows.marks(), *self.subflows.sums());
        let prospect = Prospect {
            triggers: self.policy.triggers,
            new_data: self.has_new_data(),
            window_blocked: self.window_blocks(),
            outstanding: marks.any(Marks::OUTSTANDING),
            room: sums.in_flight < sums.cwnd,
        };
        self.refill_budget();
        let (done, paced);
        if self.policy.sender.as_ref()?.is_interested(&prospect) {
            paced = self.draw_view(now);
            let views = match self.policy.changed_views.is_empty() {
                true => self.subflows.kept_views(),
                false => &self.policy.changed_views,
            };
            let view = View {
                now,
                triggers: self.policy.triggers,
                new_data: prospect.new_data,
                window_blocked: prospect.window_blocked,
                decodes: self.sends_blocks(),
                budget_left: self.policy.bucket.map(|b| b.left()),
                message: self.policy.message.filter(|m| !m.ends_by(self.send.una)),
                subflows: views,
            };
            let action = self.policy.sender.as_mut()?.on_opportunity(&view);
            done = self.carry_out(now, action);
        } else {
            self.policy.copied.forget_below(self.send.una);
            paced = self.waits_for_pacing(now);
            done = None;
        }
        if done.is_none() {
            self.policy.rested = Some(now);
        }
        // If pacing holds back a subflow, the policy is asked again when pacing allows a transmission.
        if done.is_none() && !paced {
            self.policy.triggers = Triggers::default();
        }
        done
    }

    /// A subflow is about to retransmit. Until everything that is outstanding now has arrived, segments are noted
    /// whose data the peer received before the subflow's acknowledgement.
    #[cold] // a loss
    pub(super) fn watch_repairs(&mut self) {
        if self.is_multipath() {
            let outstanding = self.sent_to();
            self.scheduling.reinjections.note_again(outstanding);
            self.count_outrun();
        }
    }

    /// Counts the copies that delivered data before the first transmission was acknowledged, and notes the segments
    /// whose data arrived by another repair.
    pub(super) fn count_outrun(&mut self) {
        let acknowledged = self.send.una;
        let repairs = self.scheduling.reinjections.passed(acknowledged);
        if repairs || self.policy.copied.begins_below(acknowledged) {
            self.outbox.outrun = true;
            let eligibility = self.eligibility();
            for s in self.subflows.untracked() {
                s.tx.counters.recoveries_useful +=
                    s.tx.board.take_useful_copies(acknowledged, eligibility);
            }
        }
    }

    fn eligibility(&self) -> Eligibility {
        let policy = self.policy.sender.as_ref();
        policy.map_or_else(Eligibility::default, |r| r.eligibility())
    }

    /// Maximum number of segments in a block. 0 if no parities of blocks are sent.
    fn longest_block(&self) -> usize {
        let policy = self
            .policy
            .sender
            .as_ref()
            .filter(|_| self.extensions.parities.in_blocks());
        policy.map_or(0, |r| r.longest_block())
    }

    /// Draws the policy's view. Returns whether pacing keeps a subflow from sending now.
    fn draw_view(&mut self, now: Instant) -> bool {
        self.policy.copied.forget_below(self.send.una);
        let eligibility = self.eligibility();
        let data_acked = if self.is_multipath() {
            self.send.una
        } else {
            DataOffset::START
        };
        // Segments that are acknowledged or not eligible stay so, unless the data-level acknowledgement moves
        // back or the eligibility changes.
        let (before, allowed, made) = self.policy.copied.drawn_with;
        if data_acked < before || allowed != eligibility {
            self.subflows.forget_views();
        }
        self.policy.copied.drawn_with = (data_acked, eligibility, self.policy.copied.made);
        let rules = ViewRules {
            data_acked,
            eligibility,
            longest_block: self.longest_block(),
            header_room: self.extensions.parities.header_room(),
            copied: &self.policy.copied,
        };
        // Any segment of a run may have been acknowledged or copied since the view was drawn.
        let same = (data_acked, self.policy.copied.made) == (before, made);
        let copied = &self.policy.copied;
        let is_valid = |v: &SubflowView| {
            let whole = v.oldest_unprotected.is_none_or(|s| {
                let end = s.offset + u64::from(s.len);
                end > data_acked && !copied.overlaps(s.offset, end)
            });
            whole && (same || v.uncoded.is_none())
        };
        let draw = |s: &mut Subflow| view_of(s, &rules);
        self.subflows.draw_views(is_valid, draw);
        self.policy.changed_views.clear();
        if self.joins_wait() {
            self.mark_waiting_joins();
        }
        let paced = self.waits_for_pacing(now);
        if paced {
            self.mark_paced(now);
        }
        paced
    }

    /// Copies the kept views, so that they can be changed for the policy.
    fn change_views(&mut self) {
        if self.policy.changed_views.is_empty() {
            let kept = self.subflows.kept_views();
            self.policy.changed_views.extend_from_slice(kept);
        }
    }

    /// Copies are not sent on a joined subflow before new data may be sent there.
    #[cold] // only while a join is under way
    fn mark_waiting_joins(&mut self) {
        self.change_views();
        let views = self.policy.changed_views.iter_mut();
        for (view, s) in views.zip(self.subflows.iter()) {
            view.usable &= s.origin == Origin::Initial;
        }
    }

    /// Whether pacing keeps a subflow from sending now, for a policy that waits for pacing.
    #[inline]
    fn waits_for_pacing(&mut self, now: Instant) -> bool {
        let policy = self.policy.sender.as_ref();
        policy.is_some_and(|r| !r.is_immediate())
            && self.subflows.marks().any(Marks::GATED)
            && (0..self.subflows.len()).any(|i| self.is_held_back(now, i))
    }

    /// Whether nothing but pacing keeps the subflow at `i` from sending now.
    fn is_held_back(&mut self, now: Instant, i: usize) -> bool {
        let o = self.subflows.summary(i);
        let may = o.takes_data() && o.is(Marks::GATED) && o.has_room(u64::from(o.mss));
        may && !self.subflows[i].tx.is_paced_to(now)
    }

    /// Marks the views of the subflows that pacing keeps from sending now.
    #[inline(never)] // only with pacing
    fn mark_paced(&mut self, now: Instant) {
        self.change_views();
        for i in 0..self.subflows.len() {
            let paced = self.is_held_back(now, i);
            self.policy.changed_views[i].paced = paced;
        }
    }

    /// Adds to the recovery budget what the new data sent so far have earned.
    #[inline]
    fn refill_budget(&mut self) {
        if let Some(bucket) = &mut self.policy.bucket {
            let assigned = self.scheduling.assigned.total();
            bucket.refill(self.send.nxt.since_start().saturating_sub(assigned));
        }
    }

    /// Whether the recovery budget allows an action that sends `bytes` of payload. If not, the bytes are counted
    /// as refused.
    pub(super) fn budget_allows(&mut self, bytes: u64) -> bool {
        let allows = self.policy.bucket.is_none_or(|b| bytes <= b.left());
        if !allows {
            self.counters.budget_refused += bytes;
        }
        allows
    }

    /// Carries out an action and pays for it from the budget. Returns the segment, if the action was not refused.
    fn carry_out(&mut self, now: Instant, action: Action) -> Option<(SubflowId, Segment)> {
        let is_repair = matches!(action, Action::Repair { .. });
        let sent = self.try_action(now, action)?;
        if let Some(bucket) = self.policy.bucket.as_mut().filter(|_| !is_repair) {
            let bytes = sent.1.payload.len() as u64;
            bucket.spend(bytes);
            self.counters.budget_spent += bytes;
        }
        Some(sent)
    }

    fn try_action(&mut self, now: Instant, action: Action) -> Option<(SubflowId, Segment)> {
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
                ect,
            } => {
                let i = self.index(of)?;
                let board = &self.subflows[i].tx.board;
                let sent = board.get(position).filter(|s| !s.sacked)?;
                let len = sent.payload.len() as u64;
                if window == Window::Inside && !self.subflows[i].tx.has_room(len) {
                    return None;
                }
                if !self.budget_allows(len) {
                    return None;
                }
                let (id, mut seg) = self.repeat(now, i, position, SendKind::Repeat)?;
                if ect && self.subflows[i].tx.ecn && !seg.payload.is_empty() {
                    seg.ecn = Ecn::Ect0;
                }
                Some((id, seg))
            }
            Action::Parity { of, first, end } => self.send_parity(now, of, first, end),
            Action::BlockParity {
                of,
                first,
                segments,
                index,
                parities,
                on,
            } => {
                let ask = ParityRequest {
                    of,
                    first,
                    segments,
                    index,
                    parities,
                    on,
                };
                self.send_block_parity(now, &ask)
            }
            Action::Repair { of, position } => {
                let i = self.index(of)?;
                let board = &mut self.subflows[i].tx.board;
                let start = board.get(position).filter(|s| !s.sacked)?.start;
                board.mark_lost(start);
                self.repeat(now, i, start, SendKind::Retransmission)
            }
        }
    }

    /// The network dropped a packet of subflow `i` and reported it. Returns the packet that is sent in its
    /// place, if the policy is notified of drops. A packet without data is sent again unchanged. For an encoded
    /// packet, the policy is notified of the drop of its unit's first segment.
    pub(crate) fn on_drop(&mut self, now: Instant, i: usize, dropped: &Packet) -> Option<Packet> {
        let factory = self.config.recovery.as_ref();
        if !factory.is_some_and(|f| f.capabilities().drops) {
            return None;
        }
        if dropped.payload().is_empty() {
            return Some(dropped.clone());
        }
        let sf = &self.subflows[i];
        let drop = DropView {
            now,
            subflow: sf.id,
            position: SubflowPosition::from_signed(sf.send_position(dropped.first_seq()?))?,
        };
        let action = self.policy.sender.as_mut()?.on_drop(&drop);
        let (_, repair) = self.carry_out(now, action)?;
        let mut repair = Packet::Tcp(repair);
        self.settle(now);
        self.mark(&mut repair);
        Some(repair)
    }

    /// Sends a copy in new sequence space of subflow `on`. This needs MPTCP, because plain TCP has no second
    /// place for the same data.
    fn copy(
        &mut self,
        now: Instant,
        of: SubflowId,
        position: SubflowPosition,
        on: SubflowId,
        window: Window,
    ) -> Option<(SubflowId, Segment)> {
        self.multipath()?;
        let (w, b) = (self.index(of)?, self.index(on)?);
        // The path of the other subflow may carry only smaller segments.
        let most = self.subflows[b].tx.mss as usize;
        self.subflows[w].tx.board.split(position, most);
        let eligibility = self.eligibility();
        let sent = self.subflows[w].tx.board.get(position)?;
        let eligible = sent.may_be_copied(eligibility);
        let (start, payload, offset) = (sent.start, sent.payload.clone(), sent.map?.offset);
        let end = offset + payload.len() as u64;
        let again = self.policy.copied.overlaps(offset, end);
        let target = &mut self.subflows[b];
        let fits = payload.len() as u64 <= target.tx.mss;
        let takes = target.is_usable() && !target.scheduling.draining && !target.tx.is_full();
        if !eligible || again || !fits || !takes {
            return None;
        }
        target.tx.check_idle(now);
        let len = payload.len() as u64;
        if len > target.tx.window_room() || window == Window::Inside && !target.tx.has_room(len) {
            return None;
        }
        if !self.budget_allows(len) {
            return None;
        }
        self.subflows[w].tx.board.protect(start);
        self.policy.copied.insert(offset, end);
        Some(self.send_on(now, b, offset, payload, Purpose::copy(of, window)))
    }
}

/// The rules by which views are drawn.
#[derive(Clone, Copy, Debug)]
struct ViewRules<'a> {
    /// Data are acknowledged up to here.
    data_acked: DataOffset,
    eligibility: Eligibility,
    /// Maximum number of segments in a run. 0 disables the search for runs.
    longest_block: usize,
    /// Bytes of the header in front of a parity.
    header_room: u64,
    copied: &'a Copied,
}

/// Draws the policy's view of a subflow.
fn view_of(s: &mut Subflow, rules: &ViewRules<'_>) -> SubflowView {
    let ViewRules {
        data_acked,
        eligibility,
        copied,
        ..
    } = *rules;
    let oldest = oldest_uncopied(&mut s.tx.board, data_acked, eligibility, copied);
    let uncoded = first_run(s, rules);
    let c = &s.tx.counters;
    SubflowView {
        id: s.id,
        usable: s.is_usable() && !s.dead && !s.scheduling.draining,
        paced: false,
        sent: c.segments,
        retransmitted: c.retransmissions,
        loss: s.tx.loss(),
        since_retransmission: c.since_retransmission,
        srtt: s.tx.srtt(),
        rttvar: s.tx.rtt.variation(),
        cwnd: s.tx.cc.cwnd(),
        in_flight: s.tx.in_flight(),
        window_room: s.tx.window_room(),
        mss: s.tx.mss,
        acked_to: s.tx.una,
        sent_to: s.tx.nxt,
        oldest_unprotected: oldest.filter(|_| !s.dead),
        uncoded: uncoded.filter(|_| !s.dead),
        coded_to: s.tx.board.coded_to(),
    }
}

/// The first run of segments that a block may be made of, if blocks are used at all.
fn first_run(s: &mut Subflow, rules: &ViewRules<'_>) -> Option<RunView> {
    if rules.longest_block == 0 {
        return None;
    }
    let longest = s.tx.mss.saturating_sub(rules.header_room) as usize;
    let is_over = |start, end| end <= rules.data_acked || rules.copied.overlaps(start, end);
    let board = &mut s.tx.board;
    let run = board.first_run(rules.longest_block, longest, is_over)?;
    Some(RunView {
        first: run.first,
        segments: run.segments,
        parity_len: run.longest as u32 + rules.header_room as u32,
    })
}

/// The oldest segment that may be copied. Segments whose data were already copied from another subflow are
/// skipped and marked as protected.
fn oldest_uncopied(
    board: &mut Scoreboard,
    data_acked: DataOffset,
    eligibility: Eligibility,
    copied: &Copied,
) -> Option<SegmentView> {
    loop {
        let s = board.next_unprotected(data_acked, eligibility)?;
        let (position, len) = (s.start, s.payload.len() as u32);
        let offset = s.map.map_or(DataOffset::START, |m| m.offset);
        if !copied.overlaps(offset, offset + u64::from(len)) {
            return Some(SegmentView {
                position,
                len,
                offset,
                sent_at: s.unanswered_since(),
                retransmitted: s.lost && s.repeated,
            });
        }
        board.protect(position);
    }
}
