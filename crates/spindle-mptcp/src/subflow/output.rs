//! Outgoing segments of a subflow.

use spindle_units::Instant;
use spindle_wire::{Ecn, Flags, Options, Payload, Segment, SeqNumber};

use super::path_entropy::PathEvent;
use super::scoreboard::SentMap;
use super::sender::SendKind;
use super::{Origin, Subflow, TcpState};
use crate::tcp_config::EcnMode;
use crate::types::SubflowPosition;

/// What the connection supplies to every outgoing segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputContext {
    pub(crate) now: Instant,
    /// The receive window to announce, in bytes from the acknowledged position (at the data level, or on this
    /// subflow).
    pub(crate) window: u64,
    /// Whether the window counts from the data-level acknowledgement.
    pub(crate) data_level_window: bool,
}

impl Subflow {
    /// A segment without data, with `options` and the timestamps.
    fn plain(&mut self, cx: OutputContext, options: Options) -> Segment {
        let mut seg = Segment::blank();
        seg.options = options;
        self.put_plain(&mut seg, cx, Payload::EMPTY);
        seg
    }

    /// Like [`Self::plain`], but with data, and written into `seg`, which already contains the options. Sets
    /// field by field, because most segments start from this function.
    fn put_plain(&mut self, seg: &mut Segment, cx: OutputContext, payload: Payload) {
        (seg.src, seg.dst) = (self.local, self.remote);
        seg.seq = self.seq(self.tx.nxt);
        (seg.ack, seg.flags) = (SeqNumber(0), Flags::NONE);
        if self.state != TcpState::SynSent {
            seg.flags = Flags::ACK;
            seg.ack = self.expected();
            self.last_ack_sent = self.rx.nxt;
        }
        if self.rx.ece && self.tx.ecn {
            seg.flags |= Flags::ECE;
        }
        seg.window = self.window_field(cx);
        (seg.urgent, seg.segment_size) = (0, 0);
        (seg.ecn, seg.dscp) = (Ecn::NotEct, 0);
        seg.flow_label = self.next_label(cx.now, !payload.is_empty());
        seg.options.timestamps = self.timestamps_now(cx.now, false);
        seg.payload = payload;
    }

    /// The window field. An announced window is never taken back (RFC 9293, section 3.8.6).
    fn window_field(&mut self, cx: OutputContext) -> u16 {
        let window = if cx.data_level_window {
            cx.window
        } else {
            (self.rx.nxt + cx.window).max(self.announced_to) - self.rx.nxt
        };
        let synchronized = !matches!(self.state, TcpState::SynSent | TcpState::SynReceived);
        let scale = if synchronized && self.scales.negotiated {
            self.scales.receive
        } else {
            0
        };
        let field = (window >> scale).min(u64::from(u16::MAX)) as u16;
        let edge = self.rx.nxt + (u64::from(field) << scale);
        self.announced_to = self.announced_to.max(edge);
        field
    }

    /// The SYN or SYN/ACK that is due, with the connection's `rare` options.
    pub(crate) fn build_syn(&mut self, cx: OutputContext, options: Options) -> Segment {
        let answer = self.state == TcpState::SynReceived;
        self.due.syn = false;
        if !std::mem::take(&mut self.syn.copy_due) {
            self.syn.tries += 1;
            self.syn.sent_at = Some(cx.now);
            self.syn.at = Some(cx.now + self.tx.rtt.rto());
            self.syn.copy_due = std::mem::take(&mut self.syn.doubled);
            self.due.syn = self.syn.copy_due;
        }
        self.tx.nxt = self.tx.nxt.max(SubflowPosition::FIRST_BYTE);
        let mut seg = self.plain(cx, options);
        seg.seq = self.isn.iss;
        seg.options.timestamps = self.timestamps_now(cx.now, true);
        seg.flags |= Flags::SYN;
        let ecn = self.config.tcp.ecn != EcnMode::Off;
        if answer && self.tx.ecn {
            seg.flags |= Flags::ECE;
        } else if !answer && ecn {
            // ECN is not requested again if the SYN seems to be lost because of it (RFC 3168, section 6.1.1.1).
            if self.syn.tries <= 2 {
                seg.flags |= Flags::ECE | Flags::CWR;
            }
        }
        let config = &self.config.tcp;
        let (mss, scaling, sack) = (config.mss, config.window_scaling, config.sack);
        let rare = seg.options.rare_mut();
        rare.mss = Some(mss.min(65_495) as u16);
        rare.window_scale =
            (scaling && (!answer || self.scales.negotiated)).then_some(self.scales.receive);
        rare.sack_permitted = sack && (!answer || self.tx.sack);
        seg
    }

    /// Writes a pure acknowledgement into `seg`, which already contains the options, with as many SACK blocks as
    /// fit next to them.
    pub(crate) fn put_ack(&mut self, seg: &mut Segment, cx: OutputContext) {
        self.put_plain(seg, cx, Payload::EMPTY);
        if self.reports_sack() {
            self.add_sack(seg, usize::MAX);
        }
        self.note_acknowledged();
    }

    /// A pure acknowledgement with `options` and without SACK blocks.
    pub(crate) fn build_ack_without_sack(
        &mut self,
        cx: OutputContext,
        options: Options,
    ) -> Segment {
        let seg = self.plain(cx, options);
        self.note_acknowledged();
        seg
    }

    /// A segment acknowledges everything that has arrived.
    fn note_acknowledged(&mut self) {
        self.rx.acked();
        self.due.challenge = false;
    }

    /// Whether there are SACK blocks to send.
    fn reports_sack(&self) -> bool {
        self.tx.sack && self.rx.has_sack()
    }

    /// Adds as many SACK blocks as fit into the option space and into `most` bytes.
    #[inline(never)] // only with SACK blocks
    fn add_sack(&mut self, seg: &mut Segment, most: usize) {
        let room = seg.options.room().min(most);
        if room < 12 {
            return;
        }
        // Two padding bytes, kind and length, then 8 bytes per block.
        let blocks = (room - 4) / 8;
        let irs = self.isn.irs;
        for (left, right) in self.rx.sack_blocks(blocks) {
            let sack = &mut seg.options.sack;
            sack.push(left.sequence_number(irs), right.sequence_number(irs));
        }
    }

    /// A keepalive or window probe. Its sequence number is old, so that the peer must answer (RFC 9293,
    /// section 3.8.4).
    pub(crate) fn build_probe(&mut self, cx: OutputContext, options: Options) -> Segment {
        self.due.probe = false;
        let mut seg = self.build_ack_without_sack(cx, options);
        seg.seq = self.seq(self.tx.una) - 1;
        seg
    }

    /// A segment of new sequence space: data (possibly a burst), a FIN, or both. The options are complete.
    pub(crate) fn build_new(
        &mut self,
        cx: OutputContext,
        payload: Payload,
        fin: bool,
        map: Option<SentMap>,
        kind: SendKind,
        options: Options,
    ) -> Segment {
        let mut seg = Segment::blank();
        seg.options = options;
        self.put_new(&mut seg, cx, (payload, fin), map, kind);
        seg
    }

    /// Like [`Self::build_new`], but written into `seg`, which already contains the options.
    pub(crate) fn put_new(
        &mut self,
        seg: &mut Segment,
        cx: OutputContext,
        (payload, fin): (Payload, bool),
        map: Option<SentMap>,
        kind: SendKind,
    ) {
        self.tx.check_idle(cx.now);
        let start = self.tx.on_sent(cx.now, payload.clone(), fin, map, kind);
        let unit = self.tx.mss;
        self.put_data(seg, cx, start, (payload, fin));
        if seg.payload.len() as u64 > unit {
            seg.segment_size = unit as u16;
        }
        if self.tx.cwr_due && !seg.payload.is_empty() {
            seg.flags |= Flags::CWR;
            self.tx.cwr_due = false;
        }
        if self.tx.ecn && !seg.payload.is_empty() {
            seg.ecn = Ecn::Ect0;
        }
        if fin {
            self.state = match self.state {
                TcpState::CloseWait => TcpState::LastAck,
                _ => TcpState::FinWait1,
            };
        }
    }

    /// The segment that retransmits the data sent at `start`. The caller records the retransmission. The
    /// segment is never ECT (RFC 3168, section 6.1.5).
    pub(crate) fn build_repeat(
        &mut self,
        cx: OutputContext,
        start: SubflowPosition,
        payload: Payload,
        fin: bool,
        options: Options,
    ) -> Segment {
        if self.entropy.is_some() && self.tx.repairs_loss(start) {
            self.note_path_event(cx.now, PathEvent::Lost(start));
        }
        let mut seg = Segment::blank();
        seg.options = options;
        self.put_data(&mut seg, cx, start, (payload, fin));
        seg
    }

    fn put_data(
        &mut self,
        seg: &mut Segment,
        cx: OutputContext,
        start: SubflowPosition,
        (payload, fin): (Payload, bool),
    ) {
        self.put_plain(seg, cx, payload);
        seg.seq = self.seq(start);
        if let Some(entropy) = &mut self.entropy {
            let end = start + seg.payload.len() as u64 + u64::from(fin);
            entropy.on_sent(start, end, self.tx.mss);
        }
        if self.reports_sack() {
            // SACK blocks must not make the packet too large.
            let used = seg.payload.len() + seg.options.encoded_len();
            let most = self.packet_room().saturating_sub(used);
            self.add_sack(seg, most);
        }
        if !seg.payload.is_empty() {
            seg.flags |= Flags::PSH;
        }
        if fin {
            seg.flags |= Flags::FIN;
        }
        self.note_acknowledged();
    }

    /// Bytes of payload and options that a packet can carry.
    fn packet_room(&self) -> usize {
        let overhead = self.stage.as_ref().map_or(0, |s| s.overhead());
        let full = (self.tx.mss + self.options_room()) as usize;
        full.saturating_sub(overhead)
    }

    /// Whether a segment with `len` bytes of payload has room for `options` and the timestamps, which are added
    /// later.
    pub(crate) fn has_room_for(&self, len: usize, options: &Options) -> bool {
        let timestamps = self.timestamps.state.map_or(0, |_| Options::TIMESTAMPS_LEN);
        len + options.encoded_len() + timestamps <= self.packet_room()
    }

    /// An RST for this subflow, with `options` (MP_TCPRST, MP_FASTCLOSE).
    pub(crate) fn build_rst(&mut self, cx: OutputContext, options: Options) -> Segment {
        let mut seg = self.plain(cx, options);
        seg.flags = if self.state == TcpState::SynSent {
            Flags::RST
        } else {
            Flags::RST | Flags::ACK
        };
        self.state = TcpState::Closed;
        seg
    }

    /// The third ACK of a join was sent. It is retransmitted until the fourth ACK arrives (RFC 8684,
    /// section 3.2).
    pub(crate) fn join_ack_sent(&mut self, now: Instant) {
        let (rto, most) = (self.tx.rtt.rto(), self.config.tcp.max_rto);
        if let Origin::Join(j) = &mut self.origin {
            let wait = rto * (1 << j.repeats.min(6));
            j.repeat_at = Some(now + wait.min(most.max(rto)));
        }
    }
}

/// An RST in answer to a segment that belongs to no connection (RFC 9293, section 3.10.7.1).
#[cold] // a segment of no connection
pub(crate) fn reset_for(seg: &Segment) -> Option<Segment> {
    if seg.flags.contains(Flags::RST) {
        return None;
    }
    let mut rst = Segment::new(seg.dst, seg.src);
    if seg.flags.contains(Flags::ACK) {
        rst.seq = seg.ack;
        rst.flags = Flags::RST;
    } else {
        rst.seq = SeqNumber(0);
        rst.ack = seg.seq + seg.seq_len();
        rst.flags = Flags::RST | Flags::ACK;
    }
    Some(rst)
}
