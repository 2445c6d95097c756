//! Reactions of a host when the network, or its own system, reports that a path does not reach the peer.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use spindle_mptcp::path_manager::Ports;
use spindle_mptcp::{CloseReason, Config, Event, Handle, PathError, Stack, StackConfig, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Payload};

const CLIENT: usize = 0;
const SERVER: usize = 1;

fn at(host: u8, port: u16) -> Endpoint {
    Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), port)
}

/// Two stacks and a network with almost no delay. [`World::settle`] serves no timers.
struct World {
    stacks: [Stack; 2],
    now: Instant,
    /// Whether segments from or to this port of the client are lost.
    lost: Box<dyn Fn(u16) -> bool>,
    got: usize,
    closed: Option<CloseReason>,
}

impl World {
    fn new(config: &Arc<Config>) -> (Self, Handle) {
        let now = Instant::ZERO + Duration::from_secs(1);
        let stack = |seed| Stack::deterministic(StackConfig::default(), seed);
        let mut stacks = [stack(1), stack(2)];
        let server = stacks[SERVER].listen(at(2, 80), config.clone());
        server.expect("a free endpoint");
        let client = stacks[CLIENT].connect(now, at(1, 0), at(2, 80), config.clone());
        let handle = client.expect("a connection");
        let lost: Box<dyn Fn(u16) -> bool> = Box::new(|_| false);
        let world = Self {
            stacks,
            now,
            lost,
            got: 0,
            closed: None,
        };
        (world, handle)
    }

    /// Delivers segments until there are none.
    fn settle(&mut self) {
        loop {
            let mut quiet = true;
            for side in [CLIENT, SERVER] {
                while let Some(seg) = self.stacks[side].transmit(self.now) {
                    quiet = false;
                    let port = if side == CLIENT {
                        seg.src().port
                    } else {
                        seg.dst().port
                    };
                    if !(self.lost)(port) {
                        self.now += Duration::from_micros(1);
                        self.stacks[1 - side].receive(self.now, seg);
                    }
                }
                self.events(side);
            }
            if quiet {
                return;
            }
        }
    }

    fn events(&mut self, side: usize) {
        while let Some(event) = self.stacks[side].poll_event() {
            match event {
                Event::Closed { reason, .. } if side == CLIENT => self.closed = Some(reason),
                Event::Readable { handle } => {
                    let stack = &mut self.stacks[side];
                    while let Ok(Some(piece)) = stack.recv(self.now, handle, usize::MAX) {
                        self.got += piece.len();
                    }
                }
                _ => {}
            }
        }
    }

    /// Reports an error of one of the client's subflows to its stack.
    fn error(&mut self, h: Handle, subflow: usize, why: PathError) {
        let info = self.stacks[CLIENT].info(h).expect("a connection");
        let s = &info.subflows[subflow];
        self.stacks[CLIENT].unreachable(self.now, s.local, s.remote, why);
        self.events(CLIENT);
    }

    fn send(&mut self, h: Handle, bytes: u32) {
        let taken = self.stacks[CLIENT].send(self.now, h, Payload::Length(bytes));
        assert_eq!(taken, Ok(bytes as usize));
    }
}

fn config(name: &str, subflows: usize) -> Arc<Config> {
    let mut config = preset(name).expect("a preset").config;
    if let Some(m) = &mut config.multipath {
        m.path_manager = Arc::new(Ports(subflows));
    }
    Arc::new(config)
}

#[test]
fn a_path_error_fails_a_connection_attempt_at_once_with_its_reason() {
    for name in ["tcp", "mptcp"] {
        for (why, reason) in [
            (PathError::Refused, CloseReason::Refused),
            (PathError::NoRoute, CloseReason::NoRoute),
        ] {
            let (mut w, h) = World::new(&config(name, 2));
            assert!(w.stacks[CLIENT].transmit(w.now).is_some(), "the SYN");
            w.error(h, 0, why);
            assert_eq!(w.closed, Some(reason), "{name}");
        }
    }
}

#[test]
fn data_on_a_path_with_an_error_are_reinjected_on_another_before_any_timer() {
    let (mut w, h) = World::new(&config("mptcp", 2));
    w.settle();
    w.send(h, 1000);
    w.settle();
    let info = w.stacks[CLIENT].info(h).expect("a connection");
    assert_eq!(info.subflows.len(), 2);
    let second = info.subflows[1].local.port;
    w.lost = Box::new(move |port| port == second);
    w.send(h, 20_000);
    w.settle();
    assert!(w.got < 21_000, "the second path carried no data");
    w.error(h, 1, PathError::NoRoute);
    w.settle();
    assert_eq!(w.got, 21_000);
    assert_eq!(w.closed, None);
}

#[test]
fn the_only_path_of_an_established_connection_survives_its_errors() {
    for name in ["tcp", "mptcp"] {
        let (mut w, h) = World::new(&config(name, 1));
        w.settle();
        w.send(h, 5_000);
        w.settle();
        for why in [PathError::Refused, PathError::NoRoute] {
            w.error(h, 0, why);
            w.send(h, 5_000);
            w.settle();
        }
        assert_eq!((w.got, w.closed), (15_000, None), "{name}");
    }
}

#[test]
fn a_join_with_a_path_error_is_retried_and_the_connection_continues() {
    let (mut w, h) = World::new(&config("mptcp", 2));
    let syn = w.stacks[CLIENT].transmit(w.now).expect("the SYN");
    let first = syn.src().port;
    w.stacks[SERVER].receive(w.now, syn);
    w.lost = Box::new(move |port| port != first);
    w.settle();
    w.send(h, 1000);
    w.settle();
    let subflows = |w: &World| {
        let info = w.stacks[CLIENT].info(h).expect("it is open");
        info.subflows.len()
    };
    assert_eq!(subflows(&w), 2);
    w.error(h, 1, PathError::Refused);
    assert_eq!(subflows(&w), 1);
    w.lost = Box::new(|_| false);
    while subflows(&w) == 1 {
        w.stacks[CLIENT].timeout(w.now);
        w.settle();
        w.now += Duration::from_millis(100);
        assert!(w.now < Instant::ZERO + Duration::from_secs(10));
    }
    assert_eq!((w.got, w.closed), (1000, None));
}
