//! The schemes that FUSO is compared with, each in a situation where it matters: which losses they repair, how
//! soon, and whether without a timeout or retransmission.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::sync::Arc;

use spindle_mptcp::recovery::{
    Action, Capabilities, Recovery, RecoveryBudget, RecoveryFactory, View,
};
use spindle_mptcp::{Config, ConnectionInfo, Event, Handle, InitialWindow, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Flags, Payload};
use support::{CLIENT, Net, Path, SERVER, endpoint};

/// One-way delay. The round trip is 200 us, the minimum RTO is 5 ms.
const DELAY: Duration = Duration::from_micros(100);

fn config(name: &str) -> Config {
    let mut c = preset(name).expect("a preset").config;
    c.tcp.min_rto = Duration::from_millis(5);
    c.tcp.initial_window = InitialWindow::Total(16);
    c.tcp.msl = Duration::from_secs(1);
    c
}

struct Outcome {
    /// Time from the write to the last byte read.
    took: Duration,
    sender: ConnectionInfo,
    net: Net,
}

struct Transfer {
    configs: [Config; 2],
    bytes: u32,
    /// The server's data segments to drop, numbered from 0 over all its data segments.
    drops: Vec<usize>,
    real: bool,
}

impl Transfer {
    fn of(name: &str, bytes: u32, drops: &[usize]) -> Self {
        Self {
            configs: [config(name), config(name)],
            bytes,
            drops: drops.to_vec(),
            real: false,
        }
    }

    /// Connects, waits until all subflows are established, then sends from the server.
    fn run(&self) -> Outcome {
        let mut net = Net::new(1, vec![Path::clean(DELAY); 4]);
        net.keep_log = true;
        let [client, server] = self.configs.clone().map(Arc::new);
        net.stacks[SERVER]
            .listen(endpoint(2, 80), server)
            .expect("free");
        let to = endpoint(2, 80);
        let h = net.stacks[CLIENT]
            .connect(net.now, endpoint(1, 4000), to, client)
            .expect("connects");
        let ready = net.now + Duration::from_millis(3);
        net.stacks[CLIENT]
            .send(net.now, h, Payload::Length(100))
            .expect("open");
        while net.step(ready) {}
        let accepted = net.events.iter().find_map(|(_, _, e)| match e {
            Event::Accepted { handle, .. } => Some(*handle),
            _ => None,
        });
        let server = accepted.expect("accepted");
        net.now = ready;
        self.send(net, h, server)
    }

    fn send(&self, mut net: Net, client: Handle, server: Handle) -> Outcome {
        let drops = self.drops.clone();
        let mut at = 0;
        net.hook = Some(Box::new(move |_, side, seg| {
            let counted = side == SERVER && !seg.payload.is_empty();
            let pass = !(counted && drops.contains(&at));
            at += usize::from(counted);
            pass
        }));
        let content: Vec<u8> = (0..self.bytes).map(|x| (x * 31 % 251) as u8).collect();
        let data = match self.real {
            true => Payload::from(content.clone()),
            false => Payload::Length(self.bytes),
        };
        let start = net.now;
        let sent = net.stacks[SERVER].send(start, server, data);
        assert_eq!(sent, Ok(self.bytes as usize));
        let (mut got, mut end) = (0, start);
        let limit = start + Duration::from_secs(2);
        while got < content.len() && net.step(limit) {
            while let Ok(Some(p)) = net.stacks[CLIENT].recv(net.now, client, usize::MAX) {
                if let Payload::Bytes(b) = &p {
                    assert_eq!(&b[..], &content[got..got + b.len()], "content at {got}");
                }
                got += p.len();
                end = net.now;
            }
        }
        assert_eq!(got, content.len());
        while net.step(end + Duration::from_millis(50)) {}
        let sender = net.stacks[SERVER].info(server).expect("open");
        Outcome {
            took: end.since(start),
            sender,
            net,
        }
    }
}

fn micros(o: &Outcome) -> u64 {
    o.took.as_micros()
}

#[test]
fn tcp_ir_repairs_a_lost_tail_without_a_timeout_or_a_retransmission() {
    for real in [false, true] {
        let mut transfer = Transfer::of("tcp-ir", 8 * 1400, &[7]);
        transfer.real = real;
        let o = transfer.run();
        let t = &o.sender.total;
        assert_eq!((t.timeouts, t.retransmissions, t.recoveries), (0, 0, 1));
        // The one-way delay, the bin of 1/2 RTT and 1/4 RTT. The RTT is 200 us.
        assert!((250..=260).contains(&micros(&o)), "{:?}", o.took);
        assert!(t.bytes_recovery > 0);
        let tcp = Transfer::of("tcp", 8 * 1400, &[7]).run();
        assert!(micros(&tcp) > 5000 && tcp.sender.total.timeouts == 1);
    }
}

#[test]
fn tcp_ir_reduces_the_window_after_a_repaired_loss() {
    let clean = Transfer::of("tcp-ir", 8 * 1400, &[]).run();
    let repaired = Transfer::of("tcp-ir", 8 * 1400, &[7]).run();
    let window = |o: &Outcome| o.sender.subflows[0].cwnd;
    assert!(window(&repaired) < window(&clean));
    assert_eq!(
        clean.sender.total.recoveries, 1,
        "the probe of a whole block"
    );
}

#[test]
fn tcp_ir_retransmits_at_once_if_losses_exceed_its_parities() {
    let o = Transfer::of("tcp-ir", 8 * 1400, &[6, 7]).run();
    let t = &o.sender.total;
    assert_eq!((t.timeouts, t.retransmissions), (0, 2));
    assert_eq!(t.fast_retransmits, 1);
    // The round trip of the coded packet and the one-way delay of the retransmissions.
    assert!((450..=470).contains(&micros(&o)), "{:?}", o.took);
}

#[test]
fn tcp_ir_codes_at_most_sixteen_packets_per_parity() {
    let o = Transfer::of("tcp-ir", 200 * 1400, &[]).run();
    let t = &o.sender.total;
    assert!(t.recoveries >= 200 / 16, "{t:?}");
    assert_eq!(t.retransmissions, 0);
    let experimental = |s: &spindle_wire::Segment| {
        let rare = s.options.rare.as_ref();
        rare.and_then(|r| r.experimental.first().map(|e| e.data.clone()))
    };
    let parities = o.net.log.iter().filter(|l| l.side == SERVER);
    let counts = parities
        .filter(|l| !l.segment.payload.is_empty())
        .filter_map(|l| Some(experimental(&l.segment)?[1]));
    assert!(counts.clone().count() as u64 == t.recoveries);
    assert!(counts.max() == Some(16));
}

#[test]
fn tcp_ir_parities_are_sent_only_to_a_peer_that_agreed() {
    let mut transfer = Transfer::of("tcp-ir", 8 * 1400, &[7]);
    transfer.configs[CLIENT] = config("tcp");
    let o = transfer.run();
    assert_eq!(o.sender.total.recoveries, 0);
    let full = |o: &Outcome| {
        let data = o.net.log.iter().filter(|l| l.side == SERVER);
        data.map(|l| l.segment.payload.len()).max()
    };
    let both = Transfer::of("tcp-ir", 8 * 1400, &[]).run();
    assert_eq!(full(&o), Some(1448));
    assert_eq!(full(&both), Some(1432), "room for a parity's option");
    let syn = o
        .net
        .log
        .iter()
        .find(|l| l.segment.flags.contains(Flags::SYN));
    assert!(syn.is_some_and(|l| l.side == CLIENT));
}

#[test]
fn tlp_repairs_a_tail_loss_after_two_rtts_and_corrective_sooner() {
    let tlp = Transfer::of("tlp", 8 * 1400, &[7]).run();
    assert_eq!((tlp.sender.total.timeouts, tlp.sender.total.probes), (0, 1));
    // The last acknowledgement after one round trip, two more round trips, and the one-way delay of the probe.
    assert!((640..=760).contains(&micros(&tlp)), "{:?}", tlp.took);
    let corrective = Transfer::of("corrective", 8 * 1400, &[7]).run();
    assert!(
        (200..=210).contains(&micros(&corrective)),
        "{:?}",
        corrective.took
    );
}

#[test]
fn deadline_reinjection_copies_data_that_are_two_rtts_old() {
    // Four segments on each of four subflows. The last one is lost.
    let o = Transfer::of("deadline-reinjection", 16 * 1400, &[15]).run();
    assert_eq!(o.sender.subflows.len(), 4);
    let t = &o.sender.total;
    assert_eq!((t.recoveries, t.recoveries_useful), (1, 1));
    assert!((500..=520).contains(&micros(&o)), "{:?}", o.took);
    let mptcp = Transfer::of("mptcp", 16 * 1400, &[15]).run();
    assert!(micros(&mptcp) > 5000, "{:?}", mptcp.took);
}

#[test]
fn oracle_repairs_losses_at_once_without_timeout_or_fast_retransmit() {
    for (name, drops) in [
        ("oracle", &[15][..]),
        ("oracle-1", &[3, 4, 9]),
        ("oracle", &[0, 1, 2]),
    ] {
        let clean = Transfer::of(name, 40 * 1400, &[]).run();
        let o = Transfer::of(name, 40 * 1400, drops).run();
        let t = &o.sender.total;
        assert_eq!(t.retransmissions, drops.len() as u64, "{name}");
        assert_eq!(
            (t.timeouts, t.fast_retransmits, t.recoveries),
            (0, 0, 0),
            "{name}"
        );
        assert_eq!(
            micros(&o),
            micros(&clean),
            "{name}: dropped segments delay the transfer"
        );
        let windows = |o: &Outcome| o.sender.subflows.iter().map(|s| s.cwnd).sum::<u64>();
        assert!(windows(&o) > 0);
    }
}

/// A policy whose timer is always due and that never requests an action.
#[derive(Clone, Copy, Debug)]
struct Restless;

impl RecoveryFactory for Restless {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(*self)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

impl Recovery for Restless {
    fn on_opportunity(&mut self, _view: &View<'_>) -> Action {
        Action::Nothing
    }

    fn next_timeout(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }
}

#[test]
fn recovery_timer_that_is_always_due_does_not_stop_the_transfer() {
    let mut transfer = Transfer::of("mptcp", 60_000, &[3]);
    for c in &mut transfer.configs {
        c.recovery = Some(Arc::new(Restless));
    }
    let restless = transfer.run().took;
    assert_eq!(restless, Transfer::of("mptcp", 60_000, &[3]).run().took);
}

#[test]
fn policy_whose_every_action_the_budget_refuses_changes_nothing_and_ends() {
    for name in ["fuso", "cofuso", "deadline-reinjection", "proactive"] {
        let mut transfer = Transfer::of(name, 60_000, &[3]);
        let mut without = Transfer::of(name, 60_000, &[3]);
        for k in 0..2 {
            transfer.configs[k].recovery_budget = Some(RecoveryBudget {
                per_mille: 0,
                depth: 0,
            });
            without.configs[k].recovery = Some(Arc::new(Restless));
        }
        let o = transfer.run();
        let (total, data) = (o.sender.total, o.sender.data);
        assert_eq!((total.recoveries, data.budget_spent), (0, 0), "{name}");
        assert!(data.budget_refused > 0, "{name}");
        if name != "cofuso" {
            // CoFUSO's data segments leave room for the header of a parity.
            assert_eq!(o.took, without.run().took, "{name}");
        }
    }
}

#[test]
fn budget_of_a_share_lets_recovery_spend_its_depth_and_the_share() {
    let spent = |per_mille, depth| {
        let mut transfer = Transfer::of("proactive", 100_000, &[]);
        for c in &mut transfer.configs {
            c.recovery_budget = Some(RecoveryBudget { per_mille, depth });
        }
        let o = transfer.run();
        let spent = o.sender.data.budget_spent;
        assert_eq!(spent, o.sender.total.bytes_recovery);
        spent
    };
    assert_eq!(spent(1000, 10_000), 100_000, "every byte twice");
    // Each copy costs a whole segment of 1400 bytes, so less than that is left at the end.
    let tenth = spent(100, 3_000);
    assert!(tenth > 13_000 - 1_400 && tenth <= 13_000, "{tenth}");
}
