//! The DSCP of a connection (RFC 2474), set as by a socket option.

use std::sync::Arc;

use spindle_mptcp::{Config, Event, Handle, Stack, StackConfig, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Flags, Payload, Segment};

const AF21: u8 = 18;

struct Pair {
    now: Instant,
    stacks: [Stack; 2],
    config: Arc<Config>,
    /// Every segment that was sent, by sending end.
    sent: [Vec<Segment>; 2],
    accepted: Option<Handle>,
    /// The DSCP that the server sets after it has accepted.
    answer: u8,
}

impl Pair {
    fn new(config: Config, answer: u8) -> Self {
        let config = Arc::new(config);
        let seeded = |seed| Stack::deterministic(StackConfig::default(), seed);
        let mut stacks = [seeded(1), seeded(2)];
        stacks[1].listen(end(2, 80), config.clone()).unwrap();
        Self {
            now: Instant::from_nanos(1_000_000_000),
            stacks,
            config,
            sent: Default::default(),
            accepted: None,
            answer,
        }
    }

    fn open(&mut self) -> Handle {
        let ends = (end(1, 4000), end(2, 80));
        let opened = self.stacks[0].connect(self.now, ends.0, ends.1, self.config.clone());
        opened.unwrap()
    }

    /// Runs until no segment is in flight.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 4 {
            quiet += 1;
            for side in [0, 1] {
                while let Some(packet) = self.stacks[side].transmit(self.now) {
                    self.sent[side].extend(packet.tcp().cloned());
                    self.stacks[1 - side].receive(self.now, packet);
                    quiet = 0;
                }
                while let Some(event) = self.stacks[side].poll_event() {
                    if let Event::Accepted { handle, .. } = event {
                        self.stacks[1].set_dscp(handle, self.answer);
                        self.accepted = Some(handle);
                    }
                }
            }
            self.now += Duration::from_millis(50);
            self.stacks.iter_mut().for_each(|s| s.timeout(self.now));
        }
    }
}

fn end(host: u8, port: u16) -> Endpoint {
    Endpoint::new([10, 0, 0, host].into(), port)
}

/// Opens a connection, sends data in both directions and closes it at both ends.
fn exchange(config: Config, (ours, theirs): (u8, u8)) -> [Vec<Segment>; 2] {
    let mut pair = Pair::new(config, theirs);
    let client = pair.open();
    pair.stacks[0].set_dscp(client, ours);
    pair.settle();
    let server = pair.accepted.expect("accepted");
    for (side, handle) in [(0, client), (1, server)] {
        let data = Payload::Length(20_000);
        assert_eq!(pair.stacks[side].send(pair.now, handle, data), Ok(20_000));
    }
    pair.settle();
    for (side, handle) in [(0, client), (1, server)] {
        while let Ok(Some(_)) = pair.stacks[side].recv(pair.now, handle, usize::MAX) {}
        pair.stacks[side].close(pair.now, handle);
    }
    pair.settle();
    pair.sent
}

fn config(name: &str) -> Config {
    preset(name).expect("a preset").config
}

#[test]
fn every_segment_carries_the_dscp_of_its_sender_except_the_syn_ack() {
    for name in ["tcp", "mptcp", "mmptcp", "ps", "cofuso"] {
        let [ours, theirs] = exchange(config(name), (AF21, 46));
        assert!(ours.len() > 10 && ours[0].flags.contains(Flags::SYN));
        assert!(ours.iter().any(|s| s.flags.contains(Flags::FIN)));
        assert!(ours.iter().all(|s| s.dscp == AF21), "{name}");
        let (answers, rest) = theirs.split_at(1);
        assert!(answers[0].flags.contains(Flags::SYN) && answers[0].dscp == 0);
        assert!(rest.iter().all(|s| s.dscp == 46), "{name}");
    }
}

#[test]
fn dscp_of_one_end_changes_neither_the_other_end_nor_other_fields() {
    let plain = exchange(config("tcp"), (0, 0));
    assert!(plain.iter().flatten().all(|s| s.dscp == 0));
    let mut marked = exchange(config("tcp"), (AF21, 0));
    assert!(marked[1].iter().all(|s| s.dscp == 0));
    marked[0].iter_mut().for_each(|s| s.dscp = 0);
    assert_eq!(marked, plain);
}

#[test]
fn dscp_is_six_bits_can_be_changed_and_is_set_on_a_reset() {
    let mut pair = Pair::new(config("tcp"), 0);
    let client = pair.open();
    pair.stacks[0].set_dscp(client, 0xc0 | AF21);
    pair.settle();
    assert!(pair.sent[0].iter().all(|s| s.dscp == AF21));
    pair.stacks[0].set_dscp(client, 8);
    pair.stacks[0].abort(pair.now, client);
    pair.settle();
    let reset = pair.sent[0].last().expect("sent");
    assert_eq!((reset.flags.contains(Flags::RST), reset.dscp), (true, 8));
    // Setting the DSCP of a connection that no longer exists has no effect.
    pair.stacks[0].set_dscp(client, 1);
}
