//! A middlebox removes MPTCP options from some moment on (RFC 8684, section 3.7). A connection with one subflow
//! continues as plain TCP, and no byte is lost or delivered twice.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::sync::Arc;

use proptest::prelude::*;
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{CloseReason, preset};
use spindle_units::Duration;
use spindle_wire::Segment;
use support::apps::{App, End, Run};
use support::networks::try_all;
use support::{CLIENT, Net, Path, SERVER, endpoint};

/// Number of random transfers.
const TRANSFERS: u32 = 60;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Removes every MPTCP option.
fn strip(seg: &mut Segment) {
    seg.options.dss = None;
    if let Some(rare) = seg.options.rare.as_deref().cloned() {
        seg.options.rare = None;
        let kept = seg.options.rare_mut();
        (kept.mss, kept.window_scale) = (rare.mss, rare.window_scale);
        kept.sack_permitted = rare.sack_permitted;
    }
}

/// A transfer: the bytes written up and down, when stripping begins, and which sides' segments are stripped.
#[derive(Clone, Debug)]
struct Transfer {
    seed: u64,
    preset: &'static str,
    up: Vec<(u64, u32)>,
    down: Vec<(u64, u32)>,
    from: u64,
    stripped: [bool; 2],
    loss: f64,
    jitter: u64,
    checksum: bool,
    buffer: usize,
    /// Buffers begin small and grow, and the client reads 32 KiB each time after this many milliseconds. 0 stands for
    /// buffers of fixed size and a client that reads everything at once.
    slow_reads: u64,
}

impl Transfer {
    /// Half a megabyte down over a path with a round trip of 10 ms, stripped in both directions after 55 ms.
    fn calm() -> Self {
        Self {
            seed: 1,
            preset: "mptcp-1",
            up: vec![(0, 100)],
            down: vec![(20, 500_000)],
            from: 55,
            stripped: [true, true],
            loss: 0.0,
            jitter: 0,
            checksum: false,
            buffer: 1 << 20,
            slow_reads: 0,
        }
    }

    fn run(&self) -> Run {
        self.run_with(|_, _, _| {})
    }

    /// `change` may change segments in transit, by the time since the beginning and the side that sends them.
    fn run_with(&self, mut change: impl FnMut(Duration, usize, &mut Segment) + 'static) -> Run {
        let path = Path {
            loss: [self.loss; 2],
            jitter: Duration::from_micros(self.jitter),
            ..Path::clean(ms(5))
        };
        let mut net = Net::new(self.seed, vec![path]);
        let (start, from, stripped) = (net.now, ms(self.from), self.stripped);
        net.hook = Some(Box::new(move |now, side, seg| {
            let elapsed = now.since(start);
            change(elapsed, side, seg);
            if elapsed >= from && stripped[side] {
                strip(seg);
            }
            true
        }));
        let app = |writes: &[(u64, u32)], delay| App {
            writes: writes.iter().map(|(t, n)| (ms(*t), *n)).collect(),
            read_size: if delay > 0 { 1 << 15 } else { 1 << 20 },
            read_delay: ms(delay),
            end: End::AfterWrites,
        };
        let mut config = preset(self.preset).expect("a preset").config;
        config.tcp.msl = ms(10);
        config.tcp.user_timeout = Duration::from_secs(60);
        config.tcp.send_buffer = self.buffer;
        config.tcp.receive_buffer = self.buffer;
        config.tcp.autotune = self.slow_reads > 0;
        if let Some(m) = &mut config.multipath {
            m.checksum = self.checksum;
            m.path_manager = Arc::new(Passive);
        }
        let ends = (endpoint(1, 0), endpoint(2, 80));
        let configs = [config.clone(), config];
        let apps = [app(&self.up, self.slow_reads), app(&self.down, 0)];
        let mut run = Run::new(net, apps, configs, ends, true);
        run.finish(Duration::from_secs(400));
        run
    }

    /// Checks that every byte read is the byte sent, and that all bytes arrive. The exception is the kernel's
    /// twin if it had retransmitted data at the data level. Like the kernel, it then resets the connection.
    fn check(&self) -> Run {
        let run = self.run();
        let sum = |writes: &[(u64, u32)]| writes.iter().map(|(_, n)| u64::from(*n)).sum::<u64>();
        for (side, sent) in [(SERVER, sum(&self.up)), (CLIENT, sum(&self.down))] {
            let s = &run.sides[side];
            assert_eq!(s.wrong_at, None, "{self:?}");
            let reset = run
                .sides
                .iter()
                .any(|s| s.closed.is_some_and(|c| c.1 != CloseReason::Finished));
            if !(self.preset == "mptcp-linux" && reset) {
                assert_eq!(s.got, sent, "side {side} of {self:?}: {s:#?}");
            }
        }
        run
    }
}

/// For each side, whether it ended in plain TCP, and its close reason.
fn ends(run: &Run) -> [(bool, CloseReason); 2] {
    [CLIENT, SERVER].map(|k| {
        let s = &run.sides[k];
        let multipath = s.last.as_ref().is_some_and(|i| i.multipath);
        (!multipath, s.closed.expect("closed").1)
    })
}

#[test]
fn a_transfer_falls_back_to_plain_tcp_whichever_direction_is_stripped() {
    for preset in ["mptcp-1", "fuso-unmodified-1", "mptcp-linux"] {
        for stripped in [[true, true], [true, false], [false, true]] {
            for buffer in [1 << 16, 1 << 20] {
                let t = Transfer {
                    preset,
                    stripped,
                    buffer,
                    ..Transfer::calm()
                };
                let plain = (true, CloseReason::Finished);
                assert_eq!(ends(&t.check()), [plain; 2], "{t:?}");
            }
        }
    }
}

/// The client's data level is busy for more than three round trips, so that the DATA_ACK stands still while the subflow
/// acknowledges. Linux does this if the system is busy. Data that were sent a second time for it no longer were in order
/// on the subflow, and the connection was reset when the options vanished.
#[test]
fn connection_whose_data_acks_were_late_still_falls_back() {
    let t = Transfer {
        from: 75,
        ..Transfer::calm()
    };
    let mut known = None;
    let run = t.run_with(move |elapsed, side, seg| {
        let Some(dss) = seg.options.dss.as_mut().filter(|_| side == CLIENT) else {
            return;
        };
        match (ms(35)..ms(70)).contains(&elapsed) {
            true => dss.data_ack = known,
            false => known = dss.data_ack,
        }
    });
    let plain = (true, CloseReason::Finished);
    assert_eq!(ends(&run), [plain; 2]);
    let client = &run.sides[CLIENT];
    assert_eq!((client.wrong_at, client.got), (None, 500_000));
}

/// The client's window closes between its reads. The end of a window that closed before the fallback and opened with it
/// made room in the send buffer without an event, so that the application wrote no more.
#[test]
fn application_goes_on_writing_after_a_fallback_while_the_window_was_closed() {
    for from in (30..=400).step_by(5) {
        let t = Transfer {
            from,
            slow_reads: 40,
            ..Transfer::calm()
        };
        let plain = (true, CloseReason::Finished);
        assert_eq!(ends(&t.check()), [plain; 2], "{t:?}");
    }
}

#[test]
fn a_short_response_stripped_from_its_first_segment_on_is_intact() {
    for n in 1..6 {
        for stripped in [[true, true], [false, true]] {
            let t = Transfer {
                down: vec![(20, 100), (30, n * 1460)],
                from: 45,
                stripped,
                ..Transfer::calm()
            };
            t.check();
        }
    }
}

/// A megabyte each way over two subflows. The options vanish on the first subflow, the second or both.
fn of_two(first: bool, second: bool) -> Run {
    let mut net = Net::new(5, vec![Path::clean(ms(5)); 2]);
    let at = net.now + ms(45);
    let mut first_port = None;
    net.hook = Some(Box::new(move |now, side, seg| {
        let port = if side == CLIENT {
            seg.src.port
        } else {
            seg.dst.port
        };
        let of_first = *first_port.get_or_insert(port) == port;
        if now >= at && if of_first { first } else { second } {
            strip(seg);
        }
        true
    }));
    let app = || App {
        writes: vec![(ms(1), 1_000_000)],
        read_size: 1 << 20,
        read_delay: Duration::ZERO,
        end: End::AfterWrites,
    };
    let mut config = preset("mptcp-2").expect("a preset").config;
    config.tcp.msl = ms(10);
    if let Some(m) = &mut config.multipath {
        m.close_timeout = Duration::from_secs(2);
    }
    let ends = (endpoint(1, 0), endpoint(2, 80));
    let mut run = Run::new(net, [app(), app()], [config.clone(), config], ends, true);
    run.finish(Duration::from_secs(400));
    run
}

#[test]
fn a_transfer_continues_on_the_other_of_two_subflows_when_one_is_stripped() {
    for (first, second) in [(true, false), (false, true)] {
        let run = of_two(first, second);
        for s in &run.sides {
            assert_eq!((s.got, s.wrong_at), (1_000_000, None));
            assert_eq!(s.closed.map(|c| c.1), Some(CloseReason::Finished));
        }
    }
}

#[test]
fn a_connection_with_two_stripped_subflows_ends_within_seconds() {
    let run = of_two(true, true);
    for (k, s) in run.sides.iter().enumerate() {
        let (at, reason) = s.closed.expect("closed");
        assert!(s.wrong_at.is_none() && at.since(run.start) < Duration::from_secs(5));
        // A side that reports success is right about the data that its peer has.
        assert!(reason == CloseReason::Reset || run.sides[1 - k].got == 1_000_000);
    }
}

fn writes() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let size = prop_oneof![1u32..3000, 1u32..300_000];
    prop::collection::vec((0u64..60, size), 1..5)
}

fn transfer() -> impl Strategy<Value = Transfer> {
    (
        any::<u64>(),
        prop::sample::select(vec!["mptcp-1", "fuso-unmodified-1", "mptcp-linux"]),
        (writes(), writes()),
        30u64..200,
        prop::sample::select(vec![[true, true], [true, false], [false, true]]),
        prop_oneof![Just(0.0), Just(0.02), Just(0.1)],
        prop_oneof![Just(0u64), Just(3000)],
        any::<bool>(),
        prop::sample::select(vec![1usize << 15, 1 << 17, 1 << 20]),
        prop::sample::select(vec![0u64, 0, 40]),
    )
        .prop_map(
            |(
                seed,
                preset,
                (up, down),
                from,
                stripped,
                loss,
                jitter,
                checksum,
                buffer,
                slow_reads,
            )| Transfer {
                seed,
                preset,
                up,
                down,
                from,
                stripped,
                loss,
                jitter,
                checksum,
                buffer,
                slow_reads,
            },
        )
}

fn try_transfers(cases: u32, check: impl Fn(&Transfer)) {
    try_all(cases, [7; 32], &transfer(), |t| check(&t));
}

/// `fuso-1` is not tested here. It sends copies of data on its only subflow, and a receiver that falls back at
/// that moment cannot recognize a copy.
#[test]
fn random_transfers_with_stripped_options_never_deliver_a_wrong_byte() {
    try_transfers(TRANSFERS, |t| {
        t.check();
    });
}

/// If parities are negotiated, data without options may be a parity. No parity is delivered as data, and a
/// connection that cannot continue reports it. There is no loss, so the handshake is over before the options
/// vanish. Before that, recovery sends only copies, like `fuso-1`.
#[test]
fn no_parity_is_delivered_as_data_when_its_option_is_stripped() {
    try_transfers(10 * TRANSFERS, |t| {
        let t = Transfer {
            preset: "cofuso-1",
            checksum: false,
            loss: 0.0,
            ..t.clone()
        };
        let run = t.run();
        let sides = &run.sides;
        for (s, peer) in [
            (&sides[CLIENT], &sides[SERVER]),
            (&sides[SERVER], &sides[CLIENT]),
        ] {
            assert_eq!(s.wrong_at, None, "{t:?}");
            let whole = s.got == peer.accepted;
            let told = sides
                .iter()
                .filter_map(|s| s.closed)
                .any(|c| c.1 != CloseReason::Finished);
            let ends = [s, peer].map(|s| (s.got, s.accepted, s.closed));
            assert!(whole || told, "{t:?}: {ends:?}");
        }
    });
}
