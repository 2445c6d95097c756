//! TIME_WAIT (RFC 9293, section 3.3.2) and the connection limits. It does not count as an open connection, and
//! the number of connections in TIME_WAIT is limited.

use std::sync::Arc;

use spindle_mptcp::path_manager::Ports;
use spindle_mptcp::{
    Config, Event, Handle, Stack, StackConfig, StackError, SubflowInfo, TcpState, preset,
};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Flags, MpJoin, Payload, Segment, SeqNumber, Timestamps};

const MOST: usize = 4;
const MOST_TIME_WAIT: usize = 8;

struct Pair {
    now: Instant,
    stacks: [Stack; 2],
    config: Arc<Config>,
    server: Endpoint,
}

impl Pair {
    fn new() -> Self {
        let limits = StackConfig {
            max_connections: MOST,
            max_time_wait: MOST_TIME_WAIT,
            source_share: 100,
            ..StackConfig::default()
        };
        let config = Arc::new(preset("fuso").unwrap().config);
        let server = Endpoint::new("10.0.0.2".parse().unwrap(), 80);
        let mut stacks = [1, 2].map(|seed| Stack::deterministic(limits.clone(), seed));
        stacks[1].listen(server, config.clone()).unwrap();
        Self {
            now: Instant::from_nanos(1_000_000_000),
            stacks,
            config,
            server,
        }
    }

    /// A pair in which every connection of the client has two subflows.
    fn with_two_subflows() -> Self {
        let mut p = Self::new();
        let mut config = (*p.config).clone();
        config.multipath.as_mut().unwrap().path_manager = Arc::new(Ports(2));
        p.config = Arc::new(config);
        p
    }

    /// The server closes first and keeps TIME_WAIT on both subflows. The client keeps no state. Returns the
    /// subflows.
    fn close_by_server(&mut self, client: Handle, server: Handle) -> Vec<SubflowInfo> {
        self.stacks[1].shutdown(self.now, server);
        self.settle();
        self.stacks[0].close(self.now, client);
        self.settle();
        assert_eq!(self.stacks[0].handles().count(), 0, "the client is done");
        let info = self.stacks[1].info(server).unwrap();
        let states: Vec<_> = info.subflows.iter().map(|s| s.state).collect();
        assert_eq!(states, [TcpState::TimeWait; 2]);
        info.subflows
    }

    /// Runs until no segment is in flight. Returns the connections that the server accepted.
    fn settle(&mut self) -> Vec<Handle> {
        let mut accepted = Vec::new();
        let mut quiet = 0;
        while quiet < 2 {
            quiet += 1;
            for side in [0, 1] {
                while let Some(segment) = self.stacks[side].transmit(self.now) {
                    self.stacks[1 - side].receive(self.now, segment);
                    quiet = 0;
                }
                while let Some(event) = self.stacks[side].poll_event() {
                    if let Event::Accepted { handle, .. } = event {
                        accepted.push(handle);
                    }
                }
            }
            self.pass(Duration::from_millis(50));
        }
        accepted
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.stacks.iter_mut().for_each(|s| s.timeout(self.now));
    }

    fn open(&mut self) -> Result<Handle, StackError> {
        let local = Endpoint::new("10.0.0.1".parse().unwrap(), 0);
        self.stacks[0].connect(self.now, local, self.server, self.config.clone())
    }

    /// Opens and closes a connection. The client closes first and keeps TIME_WAIT.
    fn come_and_go(&mut self) {
        let client = self.open().unwrap();
        let accepted = self.settle();
        assert_eq!(accepted.len(), 1, "refused");
        self.stacks[0].close(self.now, client);
        self.settle();
        self.stacks[1].close(self.now, accepted[0]);
        self.settle();
    }
}

#[test]
fn time_wait_does_not_count_as_open_and_its_limit_ends_the_oldest_connection() {
    let mut p = Pair::new();
    for k in 1..=3 * MOST_TIME_WAIT {
        p.come_and_go();
        let there = p.stacks[0].handles().count();
        assert_eq!(there, k.min(MOST_TIME_WAIT), "after {k}");
    }
    let first = p.stacks[0].handles().count();
    assert_eq!(
        p.stacks[0].counters().closed as usize,
        3 * MOST_TIME_WAIT - first
    );
    // After 2 MSL no connection is left.
    p.pass(p.config.tcp.msl * 2 + Duration::from_millis(1));
    p.settle();
    assert_eq!(p.stacks[0].handles().count(), 0);
}

#[test]
fn open_connections_count_against_the_connection_limit() {
    let mut p = Pair::new();
    p.come_and_go();
    for _ in 0..MOST {
        p.open().unwrap();
        assert_eq!(p.settle().len(), 1);
    }
    assert_eq!(p.open(), Err(StackError::TooManyConnections(MOST)));
}

/// RFC 6191, section 2, for each subflow separately: a client may reuse the ports of one subflow while all
/// subflows are in TIME_WAIT.
#[test]
fn a_newer_syn_replaces_one_of_two_subflows_in_time_wait() {
    let mut p = Pair::with_two_subflows();
    let client = p.open().unwrap();
    let server = p.settle()[0];
    let subflows = p.close_by_server(client, server);
    p.stacks[1].close(p.now, server);
    for (n, old) in subflows.iter().enumerate() {
        let connected = p.stacks[0].connect(p.now, old.remote, old.local, p.config.clone());
        connected.unwrap();
        let syn = p.stacks[0].transmit(p.now).unwrap();
        p.stacks[1].receive(p.now, syn);
        let answer = p.stacks[1].transmit(p.now).unwrap();
        let answer = answer.tcp().unwrap();
        assert_eq!(answer.flags, Flags::SYN | Flags::ACK, "subflow {n}");
        let rests = p.stacks[1].info(server).is_some();
        assert_eq!(rests, n == 0, "the other subflow stays in TIME_WAIT");
    }
}

/// RFC 8684, section 3.2: a SYN from the ports of a subflow in TIME_WAIT may be a join.
#[test]
fn a_join_replaces_a_subflow_in_time_wait() {
    let mut p = Pair::with_two_subflows();
    let client = p.open().unwrap();
    let server = p.settle()[0];
    let old = p.close_by_server(client, server).remove(1);
    let next = p.open().unwrap();
    let accepted = p.settle();
    let token = p.stacks[1].info(accepted[0]).unwrap().token.unwrap();
    let mut syn = Segment::new(old.remote, old.local);
    (syn.flags, syn.seq) = (Flags::SYN, SeqNumber(1 << 31));
    syn.options.timestamps = Some(Timestamps {
        value: u32::MAX / 4,
        echo: 0,
    });
    syn.options.rare_mut().mp_join = Some(MpJoin::Syn {
        backup: false,
        address_id: 9,
        token,
        nonce: 7,
    });
    let before = p.stacks[1].info(accepted[0]).unwrap().subflows.len();
    p.stacks[1].receive(p.now, syn);
    let answer = p.stacks[1].transmit(p.now).unwrap();
    let answer = answer.tcp().unwrap();
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
    let after = p.stacks[1].info(accepted[0]).unwrap().subflows.len();
    assert_eq!(after, before + 1, "a subflow of the new connection");
    p.stacks[0].abort(p.now, next);
}

/// The application has unread data when the client reuses the ports.
#[test]
fn a_newer_syn_does_not_discard_unread_data_of_the_old_connection() {
    let mut p = Pair::with_two_subflows();
    let client = p.open().unwrap();
    let server = p.settle()[0];
    p.stacks[0]
        .send(p.now, client, Payload::from(vec![7; 1000]))
        .unwrap();
    p.settle();
    let subflows = p.close_by_server(client, server);
    for old in subflows {
        let connected = p.stacks[0].connect(p.now, old.remote, old.local, p.config.clone());
        connected.unwrap();
        assert_eq!(p.settle().len(), 1);
    }
    assert_eq!(p.stacks[1].readable(server), 1000);
}
