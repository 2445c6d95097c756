//! Scripted losses: one packet of each response, on whatever link it would use (CoFUSO section 6.1.1).

use spindle_experiment::rng::{Purpose, Streams};
use spindle_experiment::scenario::ResponseLoss;
use spindle_mptcp::{ConnectionInfo, Handle, Stack, SubflowId};
use spindle_wire::{Endpoint, Packet};

use crate::driver::ids::FlowId;

/// The scripts of a run's flows.
#[derive(Debug, Default)]
pub(crate) struct Script {
    losses: Vec<ResponseLoss>,
    pending: Vec<Pending>,
}

/// A packet that will be lost.
#[derive(Debug)]
struct Pending {
    /// The subflows whose packets count, as pairs of server and client.
    ends: Vec<(Endpoint, Endpoint)>,
    /// The number of the packet to lose, from 1. `seen` is the number of packets so far.
    packet: u64,
    seen: u64,
}

impl Script {
    pub(crate) fn new(losses: Vec<ResponseLoss>) -> Self {
        Self {
            losses,
            pending: Vec::new(),
        }
    }

    /// Whether the script loses no packets at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.losses.is_empty()
    }

    /// Prepares the losses of a response of `bytes` bytes that is about to be requested. `server` is the
    /// server's end of its connection.
    pub(super) fn begin(
        &mut self,
        flow: FlowId,
        bytes: u64,
        server: &ConnectionInfo,
        streams: &Streams,
    ) {
        for (number, loss) in self.losses.iter().enumerate() {
            let counts = |id: SubflowId| loss.subflow.is_none_or(|s| s == id.0);
            let ends = server.subflows.iter().filter(|s| counts(s.id));
            let packet = loss.packet.unwrap_or_else(|| {
                let index = u64::from(flow.0) | (number as u64) << 32;
                let mut draw = streams.stream(Purpose::ResponseLoss, index);
                1 + draw.below(bytes.div_ceil(full_packet(server)))
            });
            self.pending.push(Pending {
                ends: ends.map(|s| (s.local, s.remote)).collect(),
                packet,
                seen: 0,
            });
        }
    }

    /// Whether this packet, which its host is sending, is lost.
    pub(crate) fn loses(&mut self, packet: &Packet) -> bool {
        if self.pending.is_empty() || packet.payload().is_empty() {
            return false;
        }
        let ends = (packet.src(), packet.dst());
        let mut lost = false;
        for p in self.pending.iter_mut().filter(|p| p.ends.contains(&ends)) {
            p.seen += 1;
            lost |= p.seen == p.packet;
        }
        self.pending.retain(|p| p.seen < p.packet);
        lost
    }
}

/// Bytes of a full packet of data on the connection's first subflow.
fn full_packet(server: &ConnectionInfo) -> u64 {
    server.subflows.first().map_or(1, |s| s.most_data.max(1))
}

/// Bytes of a response of this many full packets from this end of a connection. `None` if the end no longer
/// exists.
pub(super) fn bytes_of(packets: u32, stack: &Stack, server: Option<Handle>) -> Option<u64> {
    let info = stack.info(server?)?;
    Some(u64::from(packets) * full_packet(&info))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_wire::{Payload, Segment};
    use std::net::Ipv4Addr;

    fn end(n: u8) -> Endpoint {
        Endpoint::new(Ipv4Addr::new(10, 0, 0, n).into(), 80)
    }

    #[test]
    fn script_loses_the_numbered_packet_of_its_subflow_once() {
        let mut script = Script::new(Vec::new());
        script.pending.push(Pending {
            ends: vec![(end(1), end(2))],
            packet: 2,
            seen: 0,
        });
        let segment = |to: u8, len: u32| Segment {
            payload: Payload::Length(len),
            ..Segment::new(end(1), end(to))
        };
        let all = [(2, 0), (2, 9), (3, 9), (2, 9), (2, 9)];
        let lost = all.map(|(to, len)| script.loses(&segment(to, len).into()));
        assert_eq!(lost, [false, false, false, true, false]);
    }
}
