//! An emulated link between two namespaces: a TUN device at each end, and a thread that passes the packets of
//! both through the fabric's model of a link (queue, rate, delay, loss) in real time.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Instant as Clock;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use spindle_fabric::{Address, Buffer, Builder, Class, Event, LinkSpec, Loss, Packet, Simulation};
use spindle_testbed::fabric::precise;
use spindle_units::{BitRate, Bytes, Duration, Instant, Probability};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::service::{connect, serve, transfer};
use crate::two_hosts::{Hosts, on_path, run, within};

/// Packets read from one device before the other has its turn.
const BATCH: usize = 64;
/// The thread sleeps at least this long. Packets that become due meanwhile are delivered together. It is a
/// tenth of a round trip of 1 ms, and four packets of 1500 bytes at 500 Mbit/s.
const LEAST_SLEEP: Duration = Duration::from_micros(100);
/// Packets that a device queues for the thread, so that only the model loses packets.
const DEVICE_QUEUE: u32 = 10_000;
/// Largest packet of a device.
const PACKET: usize = 65_536;

/// A link with these properties in each direction.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Bits per second of whole IP packets, both headers included.
    pub(crate) rate: BitRate,
    /// Time from one end to the other, without sending and queueing; half the round trip.
    pub(crate) delay: Duration,
    /// Bytes that wait or are being sent before packets are dropped.
    pub(crate) queue: Bytes,
    /// Which packets are lost.
    pub(crate) loss: Loss,
    /// Bytes of the largest IP packet that passes. Larger packets are dropped silently (RFC 2923, section 2.1).
    pub(crate) largest: usize,
}

impl Link {
    /// A link of `mbit` Mbit/s and `delay_ms` milliseconds in each direction, without losses, with a queue of
    /// one round trip's bytes (at least 64 KiB).
    pub(crate) fn new(mbit: u64, delay_ms: u64) -> Self {
        let rate = BitRate(mbit * 1_000_000);
        let delay = Duration::from_millis(delay_ms);
        let Bytes(one_way) = rate.bytes_in(delay);
        Self {
            rate,
            delay,
            queue: Bytes((2 * one_way).max(64 << 10)),
            loss: Loss::none(),
            largest: PACKET,
        }
    }

    /// Returns the link with a queue of `bytes`.
    pub(crate) fn queue(mut self, bytes: u64) -> Self {
        self.queue = Bytes(bytes);
        self
    }

    /// Returns the link with losses in bursts: a packet enters the state that loses all packets with
    /// probability `enter` and leaves it with probability `leave` (Gilbert 1960).
    pub(crate) fn bursts(mut self, enter: f64, leave: f64) -> Self {
        let rate = Probability::new(enter / (enter + leave)).expect("a rate");
        self.loss = Loss::gilbert_elliott(rate, 1.0 / leave).expect("a chain of two states");
        self
    }

    /// Returns the link with each packet lost with probability `rate`, independently of others.
    pub(crate) fn losses(mut self, rate: f64) -> Self {
        self.loss = Loss::bernoulli(Probability::new(rate).expect("a rate"));
        self
    }

    /// Returns the link with packets above `bytes` lost.
    pub(crate) fn largest(mut self, bytes: usize) -> Self {
        self.largest = bytes;
        self
    }

    /// Starts the link between two devices. It runs until the process ends.
    fn start(&self, ends: [SyncDevice; 2], seed: u64) {
        let spec = LinkSpec {
            loss: self.loss.clone(),
            ..LinkSpec::new(self.rate, self.delay, Buffer::Bytes(self.queue))
        };
        let mut builder = Builder::new("path");
        let nodes = (builder.host("server"), builder.host("client"));
        builder.cable("path", "path", nodes, spec.clone(), spec);
        let network = builder.build().expect("two hosts and a cable");
        let mut running = Running {
            simulation: Simulation::new(network, seed),
            ends,
            largest: self.largest,
            start: Clock::now(),
            buffer: vec![0; PACKET],
        };
        std::thread::Builder::new()
            .name("link".to_owned())
            .spawn(move || running.run())
            .expect("a thread");
    }
}

impl Hosts {
    /// Makes path `n` an emulated link instead of the initial veth pair. Both devices keep their names and
    /// addresses.
    pub(crate) fn shape(&self, n: u32, link: &Link) {
        run(&format!("ip link del s{n}"));
        let ends = [
            device(&format!("s{n}")),
            self.at_client(|| device(&format!("c{n}"))),
        ];
        // The client's rules remain when their device is removed.
        let table = 100 + n;
        self.client(&format!(
            "ip rule del lookup {table}; ip -6 rule del lookup {table}"
        ));
        self.address(n);
        link.start(ends, u64::from(n));
    }
}

/// Opens an end of a link in the namespace of this thread.
pub(crate) fn device(name: &str) -> SyncDevice {
    let device = DeviceBuilder::new()
        .name(name)
        .mtu(1500)
        .offload(false)
        .packet_information(false)
        .build_sync()
        .expect("a TUN device");
    device.set_nonblocking(true).expect("a flag");
    device.set_tx_queue_len(DEVICE_QUEUE).expect("root's right");
    device
}

/// A whole IP packet.
struct SimPacket(Vec<u8>);

impl Packet for SimPacket {
    fn wire_len(&self) -> u32 {
        self.0.len() as u32
    }
    fn flow_hash(&self) -> u64 {
        0
    }
    fn flow_key(&self) -> u64 {
        0
    }
    fn class(&self) -> Class {
        Class::Low
    }
    fn is_data(&self) -> bool {
        true
    }
    fn ecn_capable(&self) -> bool {
        false
    }
    fn mark_ce(&mut self) {}
}

struct Running {
    simulation: Simulation<SimPacket>,
    ends: [SyncDevice; 2],
    largest: usize,
    start: Clock,
    buffer: Vec<u8>,
}

impl Running {
    fn run(&mut self) {
        precise();
        loop {
            self.deliver();
            // Packets that arrived meanwhile enter the link at the present time, which `deliver` has reached.
            if !(self.take(0) | self.take(1)) {
                self.sleep();
            }
        }
    }

    /// Delivers the packets that have arrived by now.
    fn deliver(&mut self) {
        let now = Instant::from_nanos(self.start.elapsed().as_nanos() as u64);
        while let Some((_, event)) = self.simulation.next_event_until(now) {
            if let Event::Arrive { host, packet, .. } = event {
                // A device that is down accepts no packets, like a cable that is not plugged in.
                let _ = self.ends[host.0 as usize].send(&packet.0);
            }
        }
    }

    /// Takes a batch from an end. Returns whether more may wait.
    fn take(&mut self, end: u32) -> bool {
        for _ in 0..BATCH {
            let Ok(len) = self.ends[end as usize].recv(&mut self.buffer) else {
                return false;
            };
            if len <= self.largest {
                let packet = SimPacket(self.buffer[..len].to_vec());
                self.simulation
                    .inject(Address(end), Address(1 - end), packet);
            }
        }
        true
    }

    /// Waits for a packet, or until the next one is due.
    fn sleep(&self) {
        let mut ends = self
            .ends
            .each_ref()
            .map(|d| PollFd::new(d.as_fd(), PollFlags::POLLIN));
        let now = Instant::from_nanos(self.start.elapsed().as_nanos() as u64);
        let left = self.simulation.next_due().map(|due| {
            let left = Duration::from_nanos(due.as_nanos().saturating_sub(now.as_nanos()));
            TimeSpec::from_duration(std::time::Duration::from_nanos(
                left.max(LEAST_SLEEP).as_nanos(),
            ))
        });
        // An error is an interruption. The loop checks again.
        let _ = ppoll(&mut ends, left, None);
    }
}

#[test]
fn an_emulated_path_has_the_rate_delay_and_losses_it_was_given() {
    let test = "link::an_emulated_path_has_the_rate_delay_and_losses_it_was_given";
    within(test, 60, |hosts| {
        let (rate, size) = (100, 5_000_000);
        hosts.shape(1, &Link::new(rate, 10));
        let lossy = Link::new(rate, 0).queue(1_000_000).bursts(0.1, 0.3);
        hosts.shape(2, &lossy.largest(1300));
        let server = (on_path(false, 1, 1), 9000).into();
        serve(server, false);
        let started = Clock::now();
        let whole =
            hosts.at_client(|| transfer(&connect(on_path(false, 1, 2), server, false), true, size));
        assert!(whole, "the transfer failed");
        // A round trip for the handshake and one for the request, then the bytes.
        let bytes = BitRate(rate * 1_000_000).time_to_send(size);
        let least = 0.040 + bytes.as_secs_f64();
        let took = started.elapsed().as_secs_f64();
        assert!(took >= least, "{took} s for what takes {least} s");
        let arrived = datagrams(hosts);
        let large = arrived.iter().filter(|len| **len > 1000).count();
        assert_eq!(large, 0, "a packet above 1300 bytes passed");
        // A quarter is lost in the long run.
        assert!((100..190).contains(&arrived.len()), "{}", arrived.len());
    });
}

/// The lengths of the datagrams that arrive on path 2, of 200 short ones and 20 of 1400 bytes.
fn datagrams(hosts: &Hosts) -> Vec<usize> {
    let server = UdpSocket::bind((on_path(false, 2, 1), 9000)).expect("a socket");
    hosts.at_client(|| {
        let client = UdpSocket::bind((on_path(false, 2, 2), 0)).expect("a socket");
        let server = server.local_addr().expect("an address");
        for i in 0..220 {
            let len = if i % 11 == 0 { 1400 } else { 100 };
            client.send_to(&[0; 1400][..len], server).expect("sent");
        }
    });
    let wait = std::time::Duration::from_secs(2);
    server.set_read_timeout(Some(wait)).expect("an option");
    let mut buffer = [0; 2000];
    std::iter::from_fn(|| server.recv(&mut buffer).ok()).collect()
}
