//! Requests that wait until their new connection, or all its subflows, are established.

use spindle_experiment::scenario::Ask;
use spindle_mptcp::Stack;
use spindle_units::{Duration, Instant};

use super::{App, Wake};
use crate::driver::ids::{ConnId, FlowId, Transfer};

/// How long a request waits for the subflows of its connection (our choice: three SYNs).
const JOIN_PATIENCE: Duration = Duration::from_secs(7);

impl App {
    /// Lets [`Self::ask_if_ready`] request the flow later.
    pub(super) fn ask_later(&mut self, now: Instant, flow: FlowId, c: ConnId) {
        self.conns[c.index()].to_ask = Some(flow);
        if self.plan.ask == Ask::WhenJoined {
            self.wake(now + JOIN_PATIENCE, Wake::AskAnyway(flow));
        }
    }

    /// Requests the flow that waits on the connection, if everything that it waits for is established. Subflows
    /// are joined only once data was acknowledged (RFC 8684, section 3.2). A client that waits for them
    /// therefore first sends a request without a response. A response, or its loss, would affect the sender's
    /// window and loss history.
    pub(super) fn ask_if_ready(&mut self, now: Instant, c: ConnId, stacks: &mut [Stack]) {
        let planned = self.planned_subflows(c);
        let request = self.plan.request;
        let conn = &mut self.conns[c.index()];
        if conn.to_ask.is_none() || !conn.connected {
            return;
        }
        if self.plan.ask == Ask::AtOnce || conn.joined + 1 >= planned {
            self.ask_now(now, c, stacks);
        } else if !conn.greeted {
            conn.greeted = true;
            conn.ask(Transfer::JoinTrigger, request, (0, None));
            conn.push_request(now, &mut stacks[conn.client_host as usize]);
            self.dirty.push(conn.client_host);
        }
    }

    /// Requests the flow on the subflows that exist, because it has waited long enough.
    pub(super) fn ask_anyway(&mut self, now: Instant, flow: FlowId, stacks: &mut [Stack]) {
        let conns = self.flows[flow.index()].conns;
        for c in conns.into_iter().flatten() {
            if self.conns[c.index()].to_ask == Some(flow) {
                self.ask_now(now, c, stacks);
            }
        }
    }

    fn ask_now(&mut self, now: Instant, c: ConnId, stacks: &mut [Stack]) {
        let Some(flow) = self.conns[c.index()].to_ask.take() else {
            return;
        };
        // The flow's time starts here. A second connection of the same request does not change the start.
        let planned = self.plan.flows[flow.index()];
        let state = &mut self.flows[flow.index()];
        if !state.asked {
            state.asked = true;
            state.issued = Some(now);
            let group = &mut self.groups[planned.group as usize];
            group.first = Some(now);
        }
        self.ask(now, flow, c, planned.bytes, stacks);
    }
}
