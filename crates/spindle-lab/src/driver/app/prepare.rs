//! Preparation of the measurement: connections are opened, warmed, and left idle.

use std::collections::BTreeSet;
use std::sync::Arc;

use spindle_experiment::hosts::{address, endpoint, over_interfaces};
use spindle_experiment::registry::Application;
use spindle_experiment::rng::Purpose;
use spindle_experiment::traffic::{Role, Start};
use spindle_fabric::LinkId;
use spindle_mptcp::{Config, Stack};
use spindle_units::{Duration, Instant};
use spindle_wire::Endpoint;

use super::{App, Wake};
use crate::driver::conn::{Class, Conn};
use crate::driver::ids::{ConnId, FlowId, Transfer};

/// The port that servers listen on.
const PORT: u16 = 80;
/// The port that servers listen on for background traffic, which may have another transport.
const BACKGROUND_PORT: u16 = 8080;
/// The port that servers listen on for bystanders.
const BYSTANDER_PORT: u16 = 8081;
/// How long the set-up and warm-up of connections may take before the measurement starts anyway (our choice:
/// five SYNs have been sent by then).
const PREPARATION: Duration = Duration::from_secs(40);

/// Number of ports that are tried for a connection, and for a connection that must share no link with others.
/// With the latter number, the last free one of 40 paths is missed only once in 10^45 cases.
const ATTEMPTS: u32 = 64;
const ATTEMPTS_DISJOINT: u32 = 4096;

fn port_of(class: Class) -> u16 {
    match class {
        Class::First | Class::Replica => PORT,
        Class::Background => BACKGROUND_PORT,
        Class::Bystander => BYSTANDER_PORT,
    }
}

impl App {
    /// Starts the listeners and opens the persistent connections.
    pub(crate) fn start(&mut self, now: Instant, stacks: &mut [Stack]) {
        let mut servers: Vec<u32> = self.plan.connections.iter().map(|c| c.1).collect();
        servers.extend(self.plan.flows.iter().map(|f| f.server));
        servers.sort_unstable();
        servers.dedup();
        for host in servers {
            for class in [Class::First, Class::Background, Class::Bystander] {
                let local = endpoint(host, port_of(class));
                // A new stack has no bound addresses, so this cannot be refused.
                let _ = stacks[host as usize].listen(local, self.config_of(class).clone());
            }
        }
        let pairs = self.plan.connections.clone();
        let foreground = self.plan.foreground as usize;
        let bystanders = self.plan.flows.iter();
        let bystanders: BTreeSet<u32> = bystanders
            .filter(|f| f.role == Role::Bystander)
            .filter_map(|f| f.connection)
            .collect();
        for (n, &(client, server)) in pairs.iter().enumerate() {
            let class = match n < foreground {
                true if bystanders.contains(&(n as u32)) => Class::Bystander,
                true => Class::First,
                false => Class::Background,
            };
            self.open(now, (client, server), (class, None), stacks);
        }
        if matches!(self.usage.application, Application::Replicated { .. }) {
            for &(client, server) in &pairs[..foreground.min(pairs.len())] {
                self.open(now, (client, server), (Class::Replica, None), stacks);
            }
        }
        self.warming = self.conns.len() as u32;
        for (i, conn) in self.conns.iter().enumerate().rev() {
            self.to_warm
                .entry(conn.client_host)
                .or_default()
                .push(ConnId(i as u32));
        }
        match self.warming {
            0 => self.wake(now, Wake::Measure),
            _ => self.wake(now + PREPARATION, Wake::Prepared),
        }
    }

    /// Opens a connection for a flow.
    pub(super) fn open_for(
        &mut self,
        now: Instant,
        flow: FlowId,
        class: Class,
        stacks: &mut [Stack],
    ) -> Option<ConnId> {
        let planned = self.plan.flows[flow.index()];
        let ends = (planned.client, planned.server);
        let opened = self.open(now, ends, (class, Some(flow)), stacks)?;
        self.conns[opened.index()].counted = planned.counted;
        Some(opened)
    }

    /// Opens a connection from a random port. The port is drawn from the connection's own stream, or from the
    /// flow's, so that the n-th connection has the same ports under every transport. Returns `None` if the
    /// stack refuses, or if no port leads to a path that shares no link with others.
    fn open(
        &mut self,
        now: Instant,
        (client, server): (u32, u32),
        (class, flow): (Class, Option<FlowId>),
        stacks: &mut [Stack],
    ) -> Option<ConnId> {
        let index = ConnId(self.conns.len() as u32);
        let own = flow.filter(|_| self.plan.numbered).map_or(index.0, |f| f.0);
        let number = match class {
            Class::Replica => u64::from(own) | 1 << 32,
            Class::First | Class::Background | Class::Bystander => u64::from(own),
        };
        let disjoint = flow.is_some_and(|f| self.plan.flows[f.index()].disjoint);
        let mut ports = self.streams.stream(Purpose::Ports, number);
        let interfaces = self.usage.interfaces[client as usize];
        let interface = self.plan.interface(&self.streams, number, interfaces);
        for _ in 0..if disjoint {
            ATTEMPTS_DISJOINT
        } else {
            ATTEMPTS
        } {
            // RFC 6335 reserves ports from 49152 up for this use. A larger range leaves enough ports for
            // thousands of connections.
            let port = 10_000 + ports.below(55_000) as u16;
            let local = Endpoint::new(address(client, interface), port);
            let taken = self
                .by_endpoint
                .get(&local)
                .is_some_and(|c| !self.conns[c.index()].dead);
            let remote = endpoint(server, port_of(class));
            let Some(path) = self.free_path(disjoint, local, remote).filter(|_| !taken) else {
                continue;
            };
            let config = self.config_for(client, interface, class);
            if let Ok(handle) = stacks[client as usize].connect(now, local, remote, config) {
                self.taken.extend(path);
                self.conns.push(Conn::new(client, server, handle, class));
                self.by_handle.insert(client, handle, index);
                self.by_endpoint.insert(local, index);
                self.dirty.push(client);
                return Some(index);
            }
        }
        None
    }

    /// The links between switches of a connection that must share no link with others. `None` if one of them
    /// is already in use. For other connections, the list is empty.
    fn free_path(&self, disjoint: bool, local: Endpoint, remote: Endpoint) -> Option<Vec<LinkId>> {
        let path = match (&self.usage.routes, disjoint) {
            (Some(routes), true) => routes(local, remote),
            _ => Vec::new(),
        };
        let free = path.iter().all(|link| !self.taken.contains(link));
        free.then_some(path)
    }

    /// The configuration of connections of this class, on a host with one interface.
    fn config_of(&self, class: Class) -> &Arc<Config> {
        let own = match class {
            Class::First | Class::Replica => None,
            Class::Background => self.usage.background.as_ref(),
            Class::Bystander => self.usage.bystander.as_ref(),
        };
        own.unwrap_or(&self.usage.config)
    }

    fn config_for(&self, client: u32, interface: u32, class: Class) -> Arc<Config> {
        let config = self.config_of(class);
        match self.usage.interfaces[client as usize] {
            1 => config.clone(),
            n => {
                let subflows = &self.plan.subflows;
                Arc::new(over_interfaces(config, client, n, interface, subflows))
            }
        }
    }

    /// The number of subflows that a connection is planned to have.
    pub(super) fn planned_subflows(&self, c: ConnId) -> usize {
        let class = self.conns[c.index()].class;
        self.config_of(class).planned_subflows()
    }

    /// Warms the client's next connection. A connection that was warmed before all its subflows were
    /// established is warmed once more, so that every subflow has carried data (FUSO section 5.2: "to activate
    /// all the sub-flows"). The reason is that a client joins only once its first data is acknowledged (RFC
    /// 8684 section 3.2).
    pub(super) fn warm_next(&mut self, now: Instant, client: u32, stacks: &mut [Stack]) {
        if self.measuring.is_some() || self.warming == 0 {
            return;
        }
        let Some(&c) = self.to_warm.get(&client).and_then(|list| list.last()) else {
            return;
        };
        let planned = self.planned_subflows(c);
        let conn = &mut self.conns[c.index()];
        let whole = conn.joined + 1 >= planned;
        match (
            conn.dead,
            conn.connected && conn.responses.waiting.is_empty(),
        ) {
            (true, _) => self.warmed(now, c, stacks),
            (false, false) => {}
            (false, true) if self.plan.warm_up == 0 => self.warmed(now, c, stacks),
            (false, true) if conn.responses.received > 0 && whole && conn.warmed_whole => {
                self.warmed(now, c, stacks);
            }
            (false, true) if conn.responses.received > 0 && !whole => {}
            (false, true) => {
                conn.warmed_whole = whole;
                conn.ask(
                    Transfer::WarmUp,
                    self.plan.request,
                    (self.plan.warm_up, None),
                );
                conn.push_request(now, &mut stacks[client as usize]);
                self.dirty.push(client);
            }
        }
    }

    /// Handles a complete warm-up response. Subflows that were established while it was in transit took part in
    /// it.
    pub(super) fn warm_up_done(&mut self, now: Instant, c: ConnId, stacks: &mut [Stack]) {
        let planned = self.planned_subflows(c);
        let conn = &mut self.conns[c.index()];
        conn.warmed_whole |= conn.joined + 1 >= planned;
        let client = conn.client_host;
        self.warm_next(now, client, stacks);
    }

    /// Ends the warm-up of a connection.
    pub(super) fn warmed(&mut self, now: Instant, c: ConnId, stacks: &mut [Stack]) {
        let client = self.conns[c.index()].client_host;
        let list = self.to_warm.entry(client).or_default();
        if list.last() != Some(&c) || self.warming == 0 {
            return;
        }
        list.pop();
        self.warming -= 1;
        match self.warming {
            0 => self.wake(now + self.plan.idle, Wake::Measure),
            _ => self.warm_next(now, client, stacks),
        }
    }

    pub(super) fn measure(&mut self, now: Instant, stacks: &mut [Stack]) {
        if self.measuring.is_some() {
            return;
        }
        self.measuring = Some(now);
        if let Some(after) = self.plan.ends {
            self.wake(now + after, Wake::End);
        }
        self.wake_to_count(now);
        for c in 0..self.conns.len() {
            self.conns[c].base = self.conns[c].totals(stacks);
        }
        // Flows that wait for the previous one, as a chain per client. The next one is the last.
        for (i, flow) in self.plan.flows.iter().enumerate().rev() {
            if let Start::After(_) = flow.start {
                self.chains
                    .entry(flow.client)
                    .or_default()
                    .push(FlowId(i as u32));
            }
        }
        let mut clients: Vec<u32> = self.chains.keys().copied().collect();
        clients.sort_unstable();
        for client in clients {
            self.next_in_chain(now, client);
        }
        self.next_timed_issue(now);
        if self.pending == 0 && self.plan.ends.is_none() {
            self.wake(now, Wake::End);
        }
    }
}
