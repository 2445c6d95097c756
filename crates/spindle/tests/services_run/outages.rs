//! How long a download stalls, and how soon new connections open, in each state of a client's two uplinks and while the
//! gateway restarts.
//!
//! `SPINDLE_OUTAGES=full` downloads 1 GB and requires that no stall is longer than half a second while an uplink
//! works, that each connection opens within 250 ms (the round trip takes less than 1 ms), and within 400 ms if the
//! default path is dead. Otherwise the
//! download is small and times only turn a hang into a failure.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::program::{Running, wait_for};
use crate::two_hosts::{StopOnDrop, have, within};
use crate::uplinks::{
    Net, PORT, carries, downloads, fits, gateway, gateway_command, uplinks, works,
};

/// What the test does and requires.
struct Size {
    /// Bytes of the download. Without it, the download ends after the last state.
    len: Option<usize>,
    /// The rate of each uplink, as tc writes it.
    rate: &'static str,
    /// How long each state lasts.
    state: Duration,
    /// New connections in each state.
    opens: u32,
    /// The longest stall.
    stall: Duration,
    /// The longest time until a new connection has brought its first bytes.
    open: Duration,
    /// The same if the default path is dead.
    first: Duration,
}

const FULL: Size = Size {
    len: Some(1_000_000_000),
    rate: "300mbit",
    state: Duration::from_secs(1),
    opens: 20,
    stall: Duration::from_millis(500),
    open: Duration::from_millis(250),
    first: Duration::from_millis(400),
};
const QUICK: Size = Size {
    len: None,
    rate: "8mbit",
    state: Duration::from_millis(300),
    opens: 3,
    stall: Duration::from_secs(5),
    open: Duration::from_secs(5),
    first: Duration::from_secs(5),
};

fn size() -> Size {
    match std::env::var("SPINDLE_OUTAGES") {
        Ok(value) if value == "full" => FULL,
        _ => QUICK,
    }
}

/// A download that is going on.
#[derive(Default)]
struct Progress {
    /// Bytes so far.
    got: AtomicU64,
    /// The longest time without any bytes since the last call of `longest`, in microseconds.
    longest: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    /// Downloads bytes and checks each.
    fn run(&self, len: usize) {
        let port: SocketAddr = PORT.parse().expect("an address");
        let mut stream = TcpStream::connect(port).expect("a connection");
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("a timeout");
        stream.write_all(&(len as u64).to_be_bytes()).expect("room");
        let (mut at, mut last) = (0, Instant::now());
        let mut buffer = vec![0; 1 << 18];
        while at < len && !self.stop.load(Ordering::Relaxed) {
            let n = stream.read(&mut buffer).expect("the next bytes");
            assert!(n > 0, "the download ended at {at}");
            let gap = last.elapsed().as_micros() as u64;
            self.longest.fetch_max(gap, Ordering::Relaxed);
            last = Instant::now();
            assert!(fits(&buffer[..n], at), "at {at}");
            at += n;
            self.got.store(at as u64, Ordering::Relaxed);
        }
    }

    /// The longest stall since the last call.
    fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.swap(0, Ordering::Relaxed))
    }
}

/// A state of the uplinks: how it begins, and the address that must carry data then.
struct State {
    name: &'static str,
    address: &'static str,
    begin: fn(&Rig<'_>),
    /// How long connect itself stands still, or there is no uplink: no stall of an uplink.
    asleep: Duration,
}

/// What a state begins with.
struct Rig<'a> {
    net: &'a Net,
    connect: &'a Running,
    /// Lets another process take over from the gateway.
    restart: &'a (dyn Fn() + Sync),
}

/// How long there is no uplink.
const NONE: Duration = Duration::from_millis(500);
const SLEEP: Duration = Duration::from_secs(2);
const STATES: [State; 13] = [
    State {
        name: "one uplink",
        address: "10.3.1.2",
        begin: |_| {},
        asleep: Duration::ZERO,
    },
    State {
        name: "a second one appears, behind a NAT",
        address: "10.3.2.2",
        begin: |rig| rig.net.up(2, 2),
        asleep: Duration::ZERO,
    },
    State {
        name: "the first one changes its address",
        address: "10.3.1.7",
        begin: |rig| {
            rig.net.client.run(
                "ip addr flush dev u1; ip addr add 10.3.1.7/24 dev u1; \
                 ip route replace default via 10.3.1.1 dev u1 metric 1",
            );
        },
        asleep: Duration::ZERO,
    },
    State {
        name: "the first one loses its carrier",
        address: "10.3.2.2",
        begin: |rig| {
            rig.net.router.run("ip link set r1 down");
            wait_for("the status tells of it", || {
                uplinks(rig.connect)[0] == "u1 10.3.1.7 down" && !carries(rig.connect, "10.3.1.7")
            });
        },
        asleep: Duration::ZERO,
    },
    State {
        name: "it returns",
        address: "10.3.1.7",
        begin: |rig| {
            rig.net.router.run("ip link set r1 up");
        },
        asleep: Duration::ZERO,
    },
    State {
        name: "packets of the first one vanish",
        address: "10.3.2.2",
        begin: |rig| {
            rig.net.hole();
        },
        asleep: Duration::ZERO,
    },
    State {
        name: "they pass again",
        address: "10.3.1.7",
        begin: |rig| {
            rig.net.router.run("nft delete table ip hole");
        },
        asleep: Duration::ZERO,
    },
    State {
        name: "the second one is gone",
        address: "10.3.1.7",
        begin: |rig| {
            rig.net.client.run("ip link set u2 down");
        },
        asleep: Duration::ZERO,
    },
    State {
        name: "it returns with another address",
        address: "10.3.2.9",
        begin: |rig| {
            rig.net
                .client
                .run("ip addr flush dev u2; ip link set u2 up");
            rig.net.up(2, 9);
        },
        asleep: Duration::ZERO,
    },
    State {
        name: "connect wakes up with another address of the first one",
        address: "10.3.1.8",
        begin: |rig| {
            rig.connect.signal("STOP");
            rig.net.client.run(
                "ip addr flush dev u1; ip addr add 10.3.1.8/24 dev u1; \
                 ip route replace default via 10.3.1.1 dev u1 metric 1",
            );
            std::thread::sleep(SLEEP);
            rig.connect.signal("CONT");
        },
        asleep: SLEEP,
    },
    State {
        name: "both are gone for a while, and one returns",
        address: "10.3.1.8",
        begin: |rig| {
            rig.net
                .client
                .run("ip link set u1 down; ip link set u2 down");
            std::thread::sleep(NONE);
            rig.net
                .client
                .run("ip link set u1 up; ip route replace default via 10.3.1.1 dev u1 metric 1");
        },
        asleep: NONE,
    },
    State {
        name: "another process takes over from the gateway",
        address: "10.3.1.8",
        begin: |rig| (rig.restart)(),
        asleep: Duration::ZERO,
    },
    State {
        name: "and another one, while one uplink has no carrier",
        address: "10.3.1.8",
        begin: |rig| {
            rig.net.client.run("ip link set u2 up");
            rig.net.router.run("ip link set r2 down");
            (rig.restart)();
        },
        asleep: Duration::ZERO,
    },
];

/// The longest time until a new connection has brought its first bytes, of several.
fn opens(count: u32, connect: &Running) -> Duration {
    let times = (0..count).map(|_| {
        let begin = Instant::now();
        assert!(works(), "{}", connect.log());
        begin.elapsed()
    });
    times.max().unwrap_or_default()
}

#[test]
fn a_download_goes_on_and_connections_open_in_every_state_of_the_uplinks() {
    let test = "outages::a_download_goes_on_and_connections_open_in_every_state_of_the_uplinks";
    if !["tc", "nft"].iter().all(|p| have(test, p)) {
        return;
    }
    let size = size();
    within(test, 300, |_| {
        let net = Net::new(size.rate);
        let (directory, to) = (tempfile::tempdir().expect("a directory"), downloads());
        let control = directory.path().join("gateway.sock");
        let start = |flags: &str| Running::start_at(gateway_command(to, flags), &control);
        let mut gateways = vec![start("")];
        net.up(1, 2);
        let connect = net.connect("--via 192.0.2.1:4430");
        assert_eq!(uplinks(&connect), ["u1 10.3.1.2 used"], "{}", connect.log());
        let (ask, asked) = channel();
        let (answer, answered) = channel();
        let answered = Mutex::new(answered);
        std::thread::scope(|scope| {
            let (net, connect, size) = (&net, &connect, &size);
            let states = scope.spawn(move || {
                // The gateway's host is this namespace, which the client's threads have left.
                let restart = || {
                    ask.send(()).expect("the main thread");
                    answered
                        .lock()
                        .expect("no panic")
                        .recv()
                        .expect("its answer");
                };
                let rig = Rig {
                    net,
                    connect,
                    restart: &restart,
                };
                net.client.at(|| pass_through_states(&rig, size))
            });
            while let Ok(()) = asked.recv() {
                gateways.push(start("--take-over"));
                answer.send(()).expect("the thread of the states");
            }
            let got = states.join().expect("all states");
            assert!(size.len.is_none_or(|len| got == len as u64), "{got} bytes");
        });
        let last = gateways.len() - 1;
        for former in &mut gateways[..last] {
            assert_eq!(former.wait(), Some(0), "{}", former.log());
        }
    });
}

/// Downloads while the states follow each other. Returns how many bytes arrived.
fn pass_through_states(rig: &Rig<'_>, size: &Size) -> u64 {
    let progress = Progress::default();
    let mut table = String::from("stall ms  opens within ms\n");
    let connect = rig.connect;
    std::thread::scope(|scope| {
        let running = scope.spawn(|| progress.run(size.len.unwrap_or(usize::MAX / 2)));
        // A failure below ends the download, too.
        let stopping = StopOnDrop(&progress.stop);
        for state in STATES {
            progress.longest();
            (state.begin)(rig);
            let open = opens(size.opens, connect);
            wait_for(state.name, || carries(connect, state.address));
            std::thread::sleep(size.state);
            let stall = progress.longest().saturating_sub(state.asleep);
            let name = state.name;
            assert!(
                !running.is_finished(),
                "{name}: the download ended too early"
            );
            let times = [stall, open].map(|t| t.as_micros() as f64 / 1000.0);
            writeln!(table, "{:8.1}  {:8.1}  {name}", times[0], times[1]).expect("a string");
            assert!(stall <= size.stall, "{table}{}", connect.log());
            assert!(open <= size.open, "{table}{}", connect.log());
        }
        match size.len {
            None => drop(stopping),
            Some(_) => std::mem::forget(stopping),
        }
        running.join().expect("the download");
    });
    eprint!("{table}");
    progress.got.load(Ordering::Relaxed)
}

#[test]
fn the_first_connection_opens_soon_although_the_default_path_is_dead() {
    let test = "outages::the_first_connection_opens_soon_although_the_default_path_is_dead";
    if !["tc", "nft"].iter().all(|p| have(test, p)) {
        return;
    }
    let size = size();
    within(test, 60, |_| {
        let net = Net::new(size.rate);
        let _gateway = gateway(downloads());
        net.up(1, 2);
        net.up(2, 2);
        net.hole();
        for flags in ["", "--local u1 --local u2", "--transport fuso"] {
            let begin = Instant::now();
            let connect = net.connect(&format!("--via 192.0.2.1:4430 {flags}"));
            let start = begin.elapsed();
            net.client.at(|| {
                let time = opens(1, &connect);
                eprintln!(
                    "connect {flags}: listens after {start:?}, first connection after {time:?}"
                );
                assert!(time <= size.first, "{time:?}: {}", connect.log());
            });
        }
    });
}
