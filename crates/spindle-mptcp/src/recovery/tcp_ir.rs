//! TCP Instant Recovery, also called Corrective: one coded packet for each batch of packets (FUSO
//! section 5.1; mechanisms A5.4).

use std::collections::VecDeque;

use spindle_units::{Duration, Instant};

use super::{Action, Capabilities, Recovery, RecoveryFactory, SentView, SubflowView, View};
use crate::types::earliest;
use crate::types::{SubflowId, SubflowPosition};

/// The policy. The data segments that are sent for the first time within a time bin form a block. Some time
/// after the bin has ended or the block is full, its XOR follows, outside the congestion window.
///
/// With the XOR, the receiver repairs one loss of a block and reports what it found. A repaired loss reduces
/// the window once, as a retransmission would have. Losses that cannot be repaired are taken for losses at
/// once, so that the coded packet is a probe as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpIr {
    /// The time bin is the smoothed RTT divided by this.
    pub bins_per_rtt: u32,
    /// The coded packet waits for the smoothed RTT divided by this.
    pub delays_per_rtt: u32,
    /// Most packets of a block.
    pub block: usize,
}

impl TcpIr {
    /// As FUSO configures it: a bin of 1/2 RTT, a delay of 1/4 RTT, 16 packets (FUSO section 5.1).
    pub const FUSO: Self = Self {
        bins_per_rtt: 2,
        delays_per_rtt: 4,
        block: 16,
    };

    /// As CoFUSO configures it, under the name Corrective: a bin of 1/4 RTT (CoFUSO section 6.2.1).
    pub const COFUSO: Self = Self {
        bins_per_rtt: 4,
        ..Self::FUSO
    };
}

/// Consecutive segments of a subflow.
#[derive(Clone, Copy, Debug)]
struct Block {
    of: SubflowId,
    first: SubflowPosition,
    end: SubflowPosition,
    packets: usize,
    /// When its first segment was sent.
    opened: Instant,
    /// When it became full.
    full: Option<Instant>,
}

#[derive(Debug)]
struct TcpIrPolicy {
    settings: TcpIr,
    /// The blocks that wait, in the order in which they were begun.
    blocks: VecDeque<Block>,
    /// The lengths of the bin and of the delay, by the last RTT.
    times: Option<(Duration, Duration)>,
}

/// How many waiting blocks are looked at, the oldest first. A block may overtake the one before it, if its bin
/// ended when bins were shorter, or if it was full at once.
const LOOKED_AT: usize = 2;

/// Most waiting blocks; more than a window has for any practical use.
const MAX_BLOCKS: usize = 4096;

impl RecoveryFactory for TcpIr {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(TcpIrPolicy {
            settings: *self,
            blocks: VecDeque::new(),
            times: None,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            parities: true,
            ..Capabilities::default()
        }
    }
}

impl TcpIrPolicy {
    /// When the coded packet of a block is due.
    fn due(&self, block: &Block) -> Option<Instant> {
        let (bin, delay) = self.times?;
        let end = block.opened + bin;
        Some(block.full.map_or(end, |full| full.min(end)) + delay)
    }

    fn measure(&mut self, subflows: &[SubflowView]) {
        let srtt = subflows.iter().find_map(|s| s.srtt);
        let s = self.settings;
        let part =
            |rtt: Duration, of: u32| Duration::from_nanos(rtt.as_nanos() / u64::from(of.max(1)));
        self.times = srtt.map(|rtt| (part(rtt, s.bins_per_rtt), part(rtt, s.delays_per_rtt)));
    }
}

impl Recovery for TcpIrPolicy {
    fn on_sent(&mut self, sent: &SentView) {
        if !sent.new {
            return;
        }
        let (start, len) = (sent.segment.position, u64::from(sent.segment.len));
        let bin = self.times.map(|t| t.0);
        let most = self.settings.block.max(1);
        if let Some(b) = self.blocks.back_mut() {
            let in_bin = bin.is_none_or(|bin| sent.now < b.opened + bin);
            let fits = b.packets < most && b.of == sent.subflow && b.end == start;
            if in_bin && fits {
                b.end = start + len;
                b.packets += 1;
                b.full = (b.packets == most).then_some(sent.now);
                return;
            }
        }
        if self.blocks.len() == MAX_BLOCKS {
            self.blocks.pop_front();
        }
        self.blocks.push_back(Block {
            of: sent.subflow,
            first: start,
            end: start + len,
            packets: 1,
            opened: sent.now,
            full: (most == 1).then_some(sent.now),
        });
    }

    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        self.measure(view.subflows);
        let needless = |b: &Block| {
            let subflow = view.subflows.iter().find(|s| s.id == b.of);
            subflow.is_none_or(|s| s.acked_to >= b.end)
        };
        self.blocks.retain(|b| !needless(b));
        let is_due = |b: &Block| self.due(b).is_some_and(|at| at <= view.now);
        let next = self.blocks.iter().take(LOOKED_AT).position(is_due);
        let Some(block) = next.and_then(|at| self.blocks.remove(at)) else {
            return Action::Nothing;
        };
        Action::Parity {
            of: block.of,
            first: block.first,
            end: block.end,
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let waiting = self.blocks.iter().take(LOOKED_AT);
        waiting.fold(None, |due, b| earliest(due, self.due(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{subflow, view};
    use super::super::{SegmentView, Trigger};
    use super::*;
    use crate::types::DataOffset;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn send(policy: &mut dyn Recovery, micros: u64, packet: u64, new: bool) {
        policy.on_sent(&SentView {
            now: at(micros),
            subflow: SubflowId(0),
            segment: SegmentView {
                position: SubflowPosition::FIRST_BYTE + packet * 1000,
                len: 1000,
                offset: DataOffset(packet * 1000),
                sent_at: at(micros),
                retransmitted: false,
            },
            new,
        });
    }

    fn parity(first: u64, end: u64) -> Action {
        Action::Parity {
            of: SubflowId(0),
            first: SubflowPosition(first),
            end: SubflowPosition(end),
        }
    }

    fn ask(policy: &mut dyn Recovery, micros: u64, acked_to: u64) -> Action {
        let mut subflows = [subflow(SubflowId(0))];
        subflows[0].acked_to = SubflowPosition(acked_to);
        let mut v = view(&subflows, true, Trigger::Timer);
        v.now = at(micros);
        policy.on_opportunity(&v)
    }

    #[test]
    fn one_parity_per_bin_is_sent_a_quarter_rtt_after_it() {
        // The RTT of the views is 280 us, so a bin has 140 us and the delay is 70 us.
        let mut policy = TcpIr::FUSO.build(1);
        assert_eq!(ask(&mut *policy, 0, 1), Action::Nothing);
        for (micros, packet) in [(0, 0), (139, 1), (140, 2)] {
            send(&mut *policy, micros, packet, true);
        }
        send(&mut *policy, 141, 0, false);
        assert_eq!(policy.next_timeout(), Some(at(210)));
        assert_eq!(ask(&mut *policy, 209, 1), Action::Nothing);
        assert_eq!(ask(&mut *policy, 210, 1), parity(1, 2001));
        assert_eq!(policy.next_timeout(), Some(at(350)));
        assert_eq!(ask(&mut *policy, 350, 1), parity(2001, 3001));
        assert_eq!(ask(&mut *policy, 351, 1), Action::Nothing);
        assert_eq!(policy.next_timeout(), None);
    }

    #[test]
    fn sixteen_packets_fill_a_block_and_acknowledged_blocks_need_no_parity() {
        let mut policy = TcpIr::FUSO.build(1);
        ask(&mut *policy, 0, 1);
        for packet in 0..17 {
            send(&mut *policy, 0, packet, true);
        }
        let full = parity(1, 16_001);
        assert_eq!(
            ask(&mut *policy, 70, 1),
            full,
            "it does not wait for its bin"
        );
        assert_eq!(ask(&mut *policy, 70, 1), Action::Nothing);
        assert_eq!(ask(&mut *policy, 210, 17_001), Action::Nothing);
        assert_eq!(policy.next_timeout(), None);
    }

    #[test]
    fn full_block_overtakes_a_block_whose_bin_is_open() {
        let mut policy = TcpIr::FUSO.build(1);
        ask(&mut *policy, 0, 1);
        send(&mut *policy, 0, 0, true);
        // Not adjacent to the first packet: a separate block, which is full long before the first block's bin
        // is over.
        for packet in 2..18 {
            send(&mut *policy, 10, packet, true);
        }
        assert_eq!(policy.next_timeout(), Some(at(80)));
        assert_eq!(ask(&mut *policy, 80, 1), parity(2001, 18_001));
        assert_eq!(policy.next_timeout(), Some(at(210)));
        assert_eq!(ask(&mut *policy, 80, 1), Action::Nothing);
        assert_eq!(ask(&mut *policy, 210, 1), parity(1, 1001));
        assert_eq!(policy.next_timeout(), None);
    }

    #[test]
    fn blocks_wait_without_a_timer_before_an_rtt_is_measured() {
        let mut policy = TcpIr::FUSO.build(1);
        send(&mut *policy, 0, 0, true);
        assert_eq!(policy.next_timeout(), None);
    }
}
