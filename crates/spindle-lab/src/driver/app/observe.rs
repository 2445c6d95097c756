//! What proactive recovery achieved for each flow, observed at both ends: which of its packets brought data
//! that had not arrived, and how much room congestion windows left once all data was sent (CoFUSO sections 3.3
//! and 6.1.2).

use std::collections::HashMap;

use spindle_experiment::metrics::{RecoveryOfFlows, SPARE_WINDOWS_MS};
use spindle_mptcp::{
    ConnectionInfo, DataOffset, Handle, SendKind, Stack, SubflowId, SubflowPosition, TcpState,
    TraceEvent, TraceKind,
};
use spindle_units::{Duration, Instant};

use crate::driver::conn::Conn;
use crate::driver::ids::ConnId;

/// The flows of a run that are being observed, and the results of those that were.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    /// By connection.
    open: HashMap<ConnId, Observed>,
    result: RecoveryOfFlows,
}

/// A flow under observation.
#[derive(Debug)]
struct Observed {
    /// The number of the server's recovery packets before the flow.
    recoveries_before: u64,
    recoveries: u64,
    /// Whether its completion was observed. Nothing more is recorded then.
    complete: bool,
    /// When the last of its data was sent for the first time.
    all_sent: Option<Instant>,
    spare: [u32; SPARE_WINDOWS_MS.len()],
}

impl Observer {
    /// Starts to observe a flow that is requested on connection `c`.
    pub(super) fn begin(&mut self, c: ConnId, conn: &Conn, stacks: &mut [Stack]) {
        self.end(c, conn, stacks);
        stacks[conn.client_host as usize].set_trace(conn.client, true);
        let mut before = 0;
        if let Some(server) = conn.server {
            let stack = &mut stacks[conn.server_host as usize];
            stack.set_trace(server, true);
            before = stack.totals(server).map_or(0, |t| t.recoveries);
        }
        let observed = Observed {
            recoveries_before: before,
            recoveries: before,
            complete: false,
            all_sent: None,
            spare: [0; SPARE_WINDOWS_MS.len()],
        };
        self.open.insert(c, observed);
    }

    /// Starts to trace the server's end of connection `c`, which has just been accepted.
    pub(super) fn accepted(&self, c: ConnId, conn: &Conn, stacks: &mut [Stack]) {
        if let (true, Some(server)) = (self.open.contains_key(&c), conn.server) {
            stacks[conn.server_host as usize].set_trace(server, true);
        }
    }

    /// Records a host's windows after it has sent all that it can send now.
    pub(super) fn sample(&mut self, now: Instant, host: u32, conns: &[Conn], stacks: &[Stack]) {
        for (c, observed) in &mut self.open {
            let conn = &conns[c.index()];
            if conn.server_host != host {
                continue;
            }
            if let Some(info) = conn.server.and_then(|h| stacks[host as usize].info(h)) {
                observed.sample(now, &info, conn.is_answered());
            }
        }
    }

    /// Records that the flow on connection `c` is complete.
    pub(super) fn complete(&mut self, c: ConnId, conn: &Conn, stacks: &mut [Stack]) {
        let Some(observed) = self.open.get_mut(&c).filter(|o| !o.complete) else {
            return;
        };
        observed.complete = true;
        let Some(server) = conn.server else { return };
        let names = names(conn, server, stacks);
        let sent = record(&mut stacks[conn.server_host as usize], server);
        let arrived = record(&mut stacks[conn.client_host as usize], conn.client);
        let useful = useful(&sent, &arrived, &names);
        let hits = useful.iter().filter(|u| **u).count();
        if let Some(first) = useful.iter().position(|u| *u) {
            self.result.first_hits.push(first as u32 + 1);
        }
        self.result.useful += hits as u64;
    }

    /// Ends the observation of the flow on connection `c`.
    pub(super) fn end(&mut self, c: ConnId, conn: &Conn, stacks: &[Stack]) {
        let Some(mut observed) = self.open.remove(&c) else {
            return;
        };
        if let Some(h) = conn.server
            && let Some(totals) = stacks[conn.server_host as usize].totals(h)
        {
            observed.recoveries = totals.recoveries;
        }
        self.result.packets += observed.recoveries - observed.recoveries_before;
        self.result.spare.push(observed.spare);
    }

    /// The results, including flows that are still observed.
    pub(super) fn result(&self) -> RecoveryOfFlows {
        let mut result = self.result.clone();
        let mut open: Vec<_> = self.open.iter().collect();
        open.sort_unstable_by_key(|(c, _)| **c);
        for (_, o) in open {
            result.packets += o.recoveries - o.recoveries_before;
            result.spare.push(o.spare);
        }
        result
    }
}

impl Observed {
    fn sample(&mut self, now: Instant, server: &ConnectionInfo, answered: bool) {
        self.recoveries = server.total.recoveries;
        if answered && server.sent == server.written {
            self.all_sent.get_or_insert(now);
        }
        let Some(since) = self.all_sent else { return };
        let took = now.since(since);
        let chances = self.recoveries - self.recoveries_before + room(server);
        for (most, ms) in self.spare.iter_mut().zip(SPARE_WINDOWS_MS) {
            if took <= Duration::from_millis(ms) {
                *most = (*most).max(u32::try_from(chances).unwrap_or(u32::MAX));
            }
        }
    }
}

/// Number of full packets that the congestion windows of all subflows would allow now.
fn room(server: &ConnectionInfo) -> u64 {
    let sends = |s: TcpState| matches!(s, TcpState::Established | TcpState::CloseWait);
    let usable = server.subflows.iter().filter(|s| sends(s.state));
    usable
        .map(|s| s.cwnd.saturating_sub(s.in_flight) / s.mss.max(1))
        .sum()
}

/// The server's identifiers of subflows, by the client's identifiers.
type Names = HashMap<SubflowId, SubflowId>;

fn names(conn: &Conn, server: Handle, stacks: &[Stack]) -> Names {
    let ends = |host: u32, h: Handle| stacks[host as usize].info(h).map(|i| i.subflows);
    let server = ends(conn.server_host, server).unwrap_or_default();
    let client = ends(conn.client_host, conn.client).unwrap_or_default();
    let of = |c: &spindle_mptcp::SubflowInfo| {
        let same = |s: &&spindle_mptcp::SubflowInfo| (s.local, s.remote) == (c.remote, c.local);
        server.iter().find(same).map(|s| (c.id, s.id))
    };
    client.iter().filter_map(of).collect()
}

fn record(stack: &mut Stack, h: Handle) -> Vec<TraceEvent> {
    stack.set_trace(h, false);
    stack.take_trace(h)
}

/// For each recovery packet that was sent, in order, whether it was useful. A copy was useful if its data had
/// not arrived before. Of a block's parity packets, as many were useful as packets were decoded from the block.
/// The first parity packets count as the useful ones.
fn useful(sent: &[TraceEvent], arrived: &[TraceEvent], names: &Names) -> Vec<bool> {
    let mut packets = Vec::new();
    for e in sent {
        if let TraceKind::Sent {
            kind,
            offset,
            position,
            copy_of,
            ..
        } = e.kind
        {
            match kind {
                SendKind::Recovery => packets.push(Packet::Copy(e.subflow, position)),
                SendKind::Parity => packets.push(Packet::Parity(copy_of, offset)),
                _ => {}
            }
        }
    }
    let mut useful = vec![false; packets.len()];
    let mut mark = |which: &dyn Fn(&Packet) -> bool| {
        let unmarked = |(k, p): (usize, &Packet)| (!useful[k] && which(p)).then_some(k);
        if let Some(k) = packets.iter().enumerate().find_map(unmarked) {
            useful[k] = true;
        }
    };
    for e in arrived {
        match e.kind {
            TraceKind::Arrived {
                position, fresh, ..
            } if fresh > 0 => {
                if let Some(on) = names.get(&e.subflow) {
                    mark(&|p| *p == Packet::Copy(*on, position));
                }
            }
            TraceKind::Decoded { offset, fresh, .. } if fresh > 0 => {
                if let Some(block) = block_of(sent, offset) {
                    mark(&|p| *p == block);
                }
            }
            _ => {}
        }
    }
    useful
}

/// A recovery packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packet {
    /// A copy at this position of this subflow of the server's.
    Copy(SubflowId, SubflowPosition),
    /// A parity packet of the block of this subflow that starts at this data offset.
    Parity(Option<SubflowId>, DataOffset),
}

/// The block that contains data offset `at`. Blocks of a subflow follow each other in the order of its data.
fn block_of(sent: &[TraceEvent], at: DataOffset) -> Option<Packet> {
    let of = sent.iter().find_map(|e| match e.kind {
        TraceKind::Sent {
            kind: SendKind::New,
            offset,
            len,
            ..
        } if (offset..offset + u64::from(len)).contains(&at) => Some(e.subflow),
        _ => None,
    })?;
    let begins = sent.iter().filter_map(|e| match e.kind {
        TraceKind::Sent {
            kind: SendKind::Parity,
            offset,
            copy_of,
            ..
        } if copy_of == Some(of) && offset <= at => Some(offset),
        _ => None,
    });
    Some(Packet::Parity(Some(of), begins.max()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(subflow: u8, kind: SendKind, offset: u64, position: u64, of: Option<u8>) -> TraceEvent {
        let kind = TraceKind::Sent {
            kind,
            offset: DataOffset(offset),
            position: SubflowPosition(position),
            len: 100,
            copy_of: of.map(SubflowId),
            parity: None,
        };
        TraceEvent {
            at: Instant::ZERO,
            subflow: SubflowId(subflow),
            kind,
        }
    }

    fn came(subflow: u8, kind: TraceKind) -> TraceEvent {
        TraceEvent {
            at: Instant::ZERO,
            subflow: SubflowId(subflow),
            kind,
        }
    }

    fn arrived(subflow: u8, offset: u64, position: u64, fresh: u32) -> TraceEvent {
        let kind = TraceKind::Arrived {
            offset: DataOffset(offset),
            position: SubflowPosition(position),
            fresh,
            len: 100,
        };
        came(subflow, kind)
    }

    #[test]
    fn copy_is_useful_if_its_data_had_not_arrived() {
        let events = [
            sent(0, SendKind::New, 0, 1, None),
            sent(1, SendKind::New, 100, 1, None),
            sent(1, SendKind::Recovery, 0, 101, Some(0)),
            sent(0, SendKind::Recovery, 100, 101, Some(1)),
            // If the subflow retransmits a copy itself, the retransmission has the position of the copy.
            sent(0, SendKind::Retransmission, 100, 101, None),
        ];
        // The client's subflow 2 is the server's subflow 1.
        let names = Names::from([(0, 0), (2, 1)].map(|(c, s)| (SubflowId(c), SubflowId(s))));
        let came = [
            arrived(0, 0, 1, 100),
            arrived(2, 0, 101, 0),
            arrived(0, 100, 101, 100),
        ];
        assert_eq!(useful(&events, &came, &names), [false, true]);
    }

    #[test]
    fn as_many_parities_of_a_block_are_useful_as_packets_were_decoded() {
        let parity = |block: u64| sent(1, SendKind::Parity, block, 1000, Some(0));
        let events = [
            sent(0, SendKind::New, 0, 1, None),
            sent(1, SendKind::New, 100, 1, None),
            sent(0, SendKind::New, 200, 101, None),
            sent(0, SendKind::New, 300, 201, None),
            parity(0),
            parity(0),
            parity(300),
        ];
        let decoded = |offset| {
            let (fresh, len, by) = (100, 100, SubflowId(1));
            let kind = TraceKind::Decoded {
                offset: DataOffset(offset),
                fresh,
                len,
                by,
            };
            came(0, kind)
        };
        let of = |came: &[TraceEvent]| useful(&events, came, &Names::new());
        assert_eq!(of(&[decoded(200)]), [true, false, false]);
        assert_eq!(of(&[decoded(300), decoded(0)]), [true, false, true]);
        assert_eq!(of(&[decoded(200), decoded(0)]), [true, true, false]);
    }
}
