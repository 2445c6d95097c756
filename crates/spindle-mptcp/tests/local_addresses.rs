//! A client whose addresses change while its connections are open.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use spindle_mptcp::path_manager::FullMesh;
use spindle_mptcp::{
    CloseReason, Config, Event, Handle, LocalAddress, Stack, StackConfig, SubflowEnd, TcpState,
    preset,
};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Packet, Payload};

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// One way of each path.
const DELAY: Duration = Duration::from_millis(5);

fn addr(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))
}

fn listed(numbers: &[u8]) -> Vec<LocalAddress> {
    numbers.iter().map(|n| addr(*n).into()).collect()
}

/// A client, a server at 10.0.0.100 port 80, and a network in which a path is identified by the client's address.
struct World {
    stacks: [Stack; 2],
    now: Instant,
    flying: Vec<(Instant, usize, Packet)>,
    /// Addresses of the client whose path carries nothing.
    down: Vec<u8>,
    client: Handle,
    server: Option<Handle>,
    got: [usize; 2],
    closed: Option<CloseReason>,
}

impl World {
    fn new(config: Config, addresses: &[u8]) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let further = StackConfig {
            addresses: addresses.iter().map(|n| addr(*n)).collect(),
            ..StackConfig::default()
        };
        let mut stacks = [
            Stack::deterministic(further, 1),
            Stack::deterministic(StackConfig::default(), 2),
        ];
        let (config, at) = (Arc::new(config), Endpoint::new(addr(100), 80));
        stacks[SERVER].listen(at, config.clone()).expect("free");
        let from = Endpoint::new(addr(addresses[0]), 0);
        let client = stacks[CLIENT].connect(now, from, at, config);
        let mut world = Self {
            stacks,
            now,
            flying: Vec::new(),
            down: Vec::new(),
            client: client.expect("a connection"),
            server: None,
            got: [0; 2],
            closed: None,
        };
        world.run(Duration::from_secs(1));
        let server = world.server.expect("accepted");
        world.stacks[SERVER].acknowledge(world.now, server);
        world.run(Duration::from_secs(1));
        world
    }

    fn is_lost(&self, packet: &Packet) -> bool {
        let of = |n: &u8| packet.src().addr == addr(*n) || packet.dst().addr == addr(*n);
        self.down.iter().any(of)
    }

    /// Takes what both stacks send, and their events.
    fn collect(&mut self) {
        for side in [CLIENT, SERVER] {
            while let Some(packet) = self.stacks[side].transmit(self.now) {
                if !self.is_lost(&packet) {
                    self.flying.push((self.now + DELAY, 1 - side, packet));
                }
            }
            while let Some(event) = self.stacks[side].poll_event() {
                match event {
                    Event::Accepted { handle, .. } => self.server = Some(handle),
                    Event::Closed { reason, .. } if side == CLIENT => self.closed = Some(reason),
                    Event::Readable { handle } => {
                        let stack = &mut self.stacks[side];
                        while let Ok(Some(piece)) = stack.recv(self.now, handle, usize::MAX) {
                            self.got[side] += piece.len();
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.collect();
            let arrival = self.flying.iter().map(|f| f.0).min();
            let timers = self.stacks.iter().filter_map(Stack::next_timeout).min();
            let next = [arrival, timers].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            for stack in &mut self.stacks {
                if stack.next_timeout().is_some_and(|t| t <= self.now) {
                    stack.timeout(self.now);
                }
            }
            let due = |f: &(Instant, usize, Packet)| f.0 <= self.now;
            while let Some(i) = self.flying.iter().position(due) {
                let (_, side, packet) = self.flying.remove(i);
                if !self.is_lost(&packet) {
                    self.stacks[side].receive(self.now, packet);
                }
            }
        }
        self.now = end;
    }

    fn set(&mut self, addresses: &[u8]) {
        self.stacks[CLIENT].set_local_addresses(self.now, &listed(addresses));
    }

    /// The last bytes of the client's addresses of the subflows that a side has established.
    fn paths(&self, side: usize) -> Vec<u8> {
        let handle = [Some(self.client), self.server][side].expect("a connection");
        let info = self.stacks[side].info(handle).expect("a connection");
        let up = info
            .subflows
            .iter()
            .filter(|s| s.state == TcpState::Established);
        let client = |e: Endpoint| match e.addr {
            IpAddr::V4(a) => a.octets()[3],
            IpAddr::V6(_) => 0,
        };
        let mut list: Vec<u8> = up.map(|s| client([s.local, s.remote][side])).collect();
        list.sort_unstable();
        list
    }

    /// Sends bytes from a side. Returns how many of them the other side has after `time`.
    fn send(&mut self, side: usize, bytes: u32, time: Duration) -> usize {
        let handle = [Some(self.client), self.server][side].expect("a connection");
        let taken = self.stacks[side].send(self.now, handle, Payload::Length(bytes));
        assert_eq!(taken, Ok(bytes as usize));
        let before = self.got[1 - side];
        self.run(time);
        self.got[1 - side] - before
    }

    fn ends(&self) -> Vec<SubflowEnd> {
        let info = self.stacks[CLIENT].info(self.client).expect("a connection");
        info.ended.iter().map(|e| e.end).collect()
    }
}

fn config() -> Config {
    let mut config = preset("mptcp").expect("a preset").config;
    if let Some(m) = &mut config.multipath {
        m.path_manager = Arc::new(FullMesh);
    }
    config
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_new_address_is_joined_at_once_and_a_lost_one_is_left_at_both_ends() {
    let mut w = World::new(config(), &[1]);
    assert_eq!((w.paths(CLIENT), w.paths(SERVER)), (vec![1], vec![1]));
    w.set(&[1, 2]);
    w.run(ms(50));
    assert_eq!((w.paths(CLIENT), w.paths(SERVER)), (vec![1, 2], vec![1, 2]));
    // The address is lost while the server sends over both paths. The reset cannot leave over the lost path.
    let server = w.server.expect("accepted");
    let data = Payload::Length(400_000);
    assert!(
        w.stacks[SERVER]
            .send(w.now, server, data)
            .is_ok_and(|n| n > 100_000)
    );
    w.run(ms(8));
    w.down = vec![1];
    w.set(&[2]);
    assert_eq!(w.paths(CLIENT), [2]);
    assert_eq!(w.ends(), [SubflowEnd::Withdrawn]);
    w.run(Duration::from_secs(5));
    assert_eq!(w.paths(SERVER), [2]);
    assert!(w.got[CLIENT] > 100_000 && w.closed.is_none());
    // It returns, and is joined at once.
    w.down.clear();
    w.set(&[2, 1]);
    w.run(ms(50));
    assert_eq!((w.paths(CLIENT), w.paths(SERVER)), (vec![1, 2], vec![1, 2]));
    assert_eq!(w.send(SERVER, 200_000, Duration::from_secs(2)), 200_000);
}

#[test]
fn the_last_subflow_is_kept_without_an_address_until_another_is_established() {
    for (after, name) in [(3, "another address"), (1, "the same address")] {
        let mut w = World::new(config(), &[1]);
        w.down = vec![1];
        w.set(&[]);
        assert_eq!(
            w.send(SERVER, 100_000, Duration::from_secs(40)),
            0,
            "{name}"
        );
        assert_eq!(w.closed, None, "{name}");
        w.down.clear();
        w.set(&[after]);
        // The server's timer has backed off for much longer than this.
        w.run(ms(500));
        assert_eq!(w.got[CLIENT], 100_000, "{name}");
        w.run(Duration::from_secs(10));
        assert_eq!(w.paths(CLIENT), [after], "{name}");
        assert_eq!(w.paths(SERVER), [after], "{name}");
        assert_eq!(w.send(CLIENT, 50_000, Duration::from_secs(2)), 50_000);
    }
}

#[test]
fn all_addresses_may_be_replaced_in_one_step() {
    let mut w = World::new(config(), &[1, 2]);
    w.down = vec![1, 2];
    w.set(&[3, 4]);
    assert_eq!(w.send(SERVER, 100_000, Duration::from_secs(3)), 100_000);
    w.run(Duration::from_secs(10));
    assert_eq!((w.paths(CLIENT), w.paths(SERVER)), (vec![3, 4], vec![3, 4]));
    // So are addresses that were lost one after the other, some time before.
    w.down = vec![1, 2, 3, 4];
    w.set(&[4]);
    w.set(&[]);
    w.run(Duration::from_secs(20));
    w.set(&[5]);
    w.run(Duration::from_secs(10));
    assert_eq!((w.paths(CLIENT), w.paths(SERVER)), (vec![5], vec![5]));
}

#[test]
fn a_client_that_has_closed_its_direction_still_replaces_its_last_address() {
    let mut w = World::new(config(), &[1]);
    w.stacks[CLIENT].shutdown(w.now, w.client);
    w.run(ms(100));
    w.down = vec![1];
    w.set(&[2]);
    assert_eq!(w.send(SERVER, 100_000, Duration::from_secs(3)), 100_000);
}

#[test]
fn a_connection_attempt_from_an_address_that_is_lost_ends_at_once() {
    let mut w = World::new(config(), &[1]);
    w.down = vec![1];
    let at = Endpoint::new(addr(100), 80);
    let from = Endpoint::new(addr(1), 0);
    let second = w.stacks[CLIENT].connect(w.now, from, at, Arc::new(config()));
    let second = second.expect("a connection");
    w.run(ms(100));
    w.set(&[]);
    w.collect();
    assert!(w.closed.is_some());
    assert!(
        w.stacks[CLIENT]
            .info(w.client)
            .is_some_and(|i| i.closed.is_none())
    );
    assert!(
        w.stacks[CLIENT]
            .info(second)
            .is_none_or(|i| i.closed.is_some())
    );
}

#[test]
fn an_address_that_becomes_a_backup_is_reported_to_the_peer() {
    let mut w = World::new(config(), &[1, 2]);
    let backup = |w: &World| {
        let server = w.stacks[SERVER].info(w.server.expect("accepted"));
        let list = server.expect("a connection").subflows;
        let second = list.iter().find(|s| s.remote.addr == addr(2));
        second.expect("the second path").backup
    };
    assert!(!backup(&w));
    for is_backup in [true, false] {
        let mut list = listed(&[1, 2]);
        list[1].backup = is_backup;
        w.stacks[CLIENT].set_local_addresses(w.now, &list);
        w.run(ms(50));
        assert_eq!(backup(&w), is_backup);
    }
    // A path that appears as a backup is joined as one.
    w.set(&[1]);
    w.run(ms(50));
    let mut list = listed(&[1, 2]);
    list[1].backup = true;
    w.stacks[CLIENT].set_local_addresses(w.now, &list);
    w.run(ms(50));
    assert!(backup(&w));
}

#[test]
fn probing_all_paths_sends_outstanding_data_at_once_and_probes_idle_subflows() {
    let mut w = World::new(config(), &[1, 2]);
    let idle = w.now;
    w.run(Duration::from_secs(30));
    w.stacks[CLIENT].probe_paths(w.now);
    w.run(ms(20));
    let info = w.stacks[CLIENT].info(w.client).expect("a connection");
    assert!(
        info.subflows
            .iter()
            .all(|s| s.last_heard > idle + ms(29_000))
    );
    // Outstanding data, and timers that have backed off.
    let mut w = World::new(config(), &[1]);
    w.down = vec![1];
    assert_eq!(w.send(CLIENT, 20_000, Duration::from_secs(40)), 0);
    w.down.clear();
    w.stacks[CLIENT].probe_paths(w.now);
    w.run(ms(200));
    assert_eq!(w.got[SERVER], 20_000);
}

#[test]
fn plain_tcp_keeps_its_only_subflow_whatever_happens_to_its_address() {
    let mut w = World::new(preset("tcp").expect("a preset").config, &[1]);
    w.set(&[2]);
    assert_eq!(w.send(SERVER, 10_000, Duration::from_secs(1)), 10_000);
    assert_eq!(w.closed, None);
}
