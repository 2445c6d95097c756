//! The fabric's model of the network in real time. One thread takes packets from the hosts' interfaces, gives
//! them to the model, and delivers each packet at its time of arrival in the model.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use polling::{Event, Events, PollMode, Poller};
use spindle_fabric::{Address, Event as NetEvent, HostId, LinkId, Network, Simulation};
use spindle_net::memory::MemoryPort;
use spindle_units::Instant;
use spindle_wire::Packet;
use tun_rs::SyncDevice;

use crate::error::TestbedError;
use crate::model::clock::Clock;
use crate::model::lateness::Lateness;
use crate::model::sim_packet::SimPacket;

/// How many packets are read from one interface before others have their turn.
const BATCH: usize = 64;
/// Events that are due sooner than this are waited for without sleeping, since waking up takes about as long.
const SPIN: u64 = 20_000;
/// Largest packet of an interface.
const PACKET: usize = 65_536;

/// A host's attachment to the fabric in this process.
pub enum Attachment {
    /// The TUN devices of a host in a namespace, one per interface.
    Devices(Vec<SyncDevice>),
    /// The link of a Spindle host in this process.
    Spindle(MemoryPort),
}

/// What one link of the network did.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct LinkReport {
    /// The link's name. ".up" is the direction away from the host.
    pub link: String,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped at the full queue.
    pub dropped: u64,
    /// Packets lost to the loss process or on a link that was down.
    pub lost: u64,
    /// Largest queue in bytes.
    pub max_queue: u64,
}

/// What the fabric did.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct FabricReport {
    /// How late packets were delivered.
    pub lateness: Lateness,
    /// Events of the model.
    pub events: u64,
    /// Packets that finished a link.
    pub packet_hops: u64,
    /// Processor time of the thread, seconds.
    pub cpu_s: f64,
    /// Real time, seconds.
    pub wall_s: f64,
    /// Packets that an interface did not accept.
    pub refused: u64,
    /// The links.
    pub links: Vec<LinkReport>,
}

/// A running fabric. Dropping it ends its thread.
pub struct Fabric {
    stop: Arc<AtomicBool>,
    poller: Arc<Poller>,
    thread: Option<JoinHandle<FabricReport>>,
}

impl Fabric {
    /// Starts the model. There is one attachment per host, ordered by host number.
    ///
    /// # Errors
    /// If the system cannot provide a poller or a thread.
    pub fn start(
        simulation: Simulation<SimPacket>,
        attachments: Vec<Attachment>,
    ) -> Result<Self, TestbedError> {
        let poller = Poller::new().map_err(TestbedError::system("make a poller"))?;
        let poller = Arc::new(poller);
        let stop = Arc::new(AtomicBool::new(false));
        let mut driver = Driver::new(simulation, attachments, poller.clone(), stop.clone())?;
        let thread = std::thread::Builder::new()
            .name("fabric".to_owned())
            .spawn(move || {
                precise();
                driver.run()
            })
            .map_err(TestbedError::system("start the fabric's thread"))?;
        Ok(Self {
            stop,
            poller,
            thread: Some(thread),
        })
    }

    /// Ends the fabric and returns its report.
    pub fn finish(mut self) -> FabricReport {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<FabricReport> {
        self.stop.store(true, Ordering::Release);
        // If this fails, the thread sees `stop` at its next packet or after its longest sleep.
        let _ = self.poller.notify();
        self.thread.take()?.join().ok()
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lets this thread run before others and wake up on time, as far as the system allows it. Emulating a network
/// in real time needs both.
pub fn precise() {
    // The kernel's `struct sched_param` is this number. musl's has further members, and musl's function
    // `sched_setscheduler` does not make the system call.
    let priority: libc::c_int = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: both calls only take values and a pointer to a live number, and change this thread alone. A
    // refusal (no privilege) leaves the settings unchanged. Lateness then shows it.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
    }
}

struct Driver {
    simulation: Simulation<SimPacket>,
    /// The attachment of each host.
    attachments: Vec<Attachment>,
    /// First address of each host.
    first: Vec<u32>,
    addresses: Vec<u32>,
    /// The host and interface of each device's key.
    devices: Vec<(usize, usize)>,
    poller: Arc<Poller>,
    stop: Arc<AtomicBool>,
    clock: Clock,
    buffer: Vec<u8>,
    out: Vec<u8>,
    report: FabricReport,
}

impl Driver {
    fn new(
        simulation: Simulation<SimPacket>,
        attachments: Vec<Attachment>,
        poller: Arc<Poller>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, TestbedError> {
        let (mut first, mut addresses, mut devices) = (Vec::new(), Vec::new(), Vec::new());
        for (host, attachment) in attachments.iter().enumerate() {
            let of_host: Vec<Address> = simulation
                .network()
                .addresses_of(HostId(host as u32))
                .collect();
            first.push(of_host.first().map_or(0, |a| a.0));
            addresses.push(of_host.len() as u32);
            match attachment {
                Attachment::Spindle(port) => {
                    let poller = poller.clone();
                    port.on_packets(move || {
                        // This fails only if the system has no eventfd left.
                        let _ = poller.notify();
                    });
                }
                Attachment::Devices(list) => {
                    for (interface, device) in list.iter().enumerate() {
                        let event = Event::readable(devices.len());
                        // SAFETY: the device outlives the poller's use of it: both are fields of
                        // this driver, and nothing is polled once it is being dropped.
                        unsafe { poller.add_with_mode(&device.as_fd(), event, PollMode::Level) }
                            .map_err(TestbedError::system("poll a TUN device"))?;
                        devices.push((host, interface));
                    }
                }
            }
        }
        Ok(Self {
            simulation,
            attachments,
            first,
            addresses,
            devices,
            poller,
            stop,
            clock: Clock::start(),
            buffer: vec![0; PACKET],
            out: Vec::with_capacity(PACKET),
            report: FabricReport::default(),
        })
    }

    fn run(&mut self) -> FabricReport {
        let mut events = Events::new();
        while !self.stop.load(Ordering::Acquire) {
            self.advance();
            let mut more = self.take_packets();
            let keys: Vec<usize> = events.iter().map(|e| e.key).collect();
            for key in keys {
                more |= self.read(key);
            }
            self.advance();
            events.clear();
            let sleep = if more {
                Some(StdDuration::ZERO)
            } else {
                self.pause()
            };
            // An error here is an interruption. The loop checks again.
            let _ = self.poller.wait(&mut events, sleep);
        }
        self.finish()
    }

    /// How long to sleep. `None` means until a packet arrives.
    fn pause(&self) -> Option<StdDuration> {
        let due = self.simulation.next_due()?;
        let left = due.as_nanos().saturating_sub(self.clock.now().as_nanos());
        Some(match left {
            0..SPIN => StdDuration::ZERO,
            left => StdDuration::from_nanos(left - SPIN / 2),
        })
    }

    /// Delivers the packets that are due.
    fn advance(&mut self) {
        loop {
            let now = self.clock.now();
            match self.simulation.next_event_until(now) {
                Some((
                    at,
                    NetEvent::Arrive {
                        host,
                        address,
                        packet,
                    },
                )) => {
                    self.deliver(host, address, packet);
                    let late = self.clock.now().as_nanos().saturating_sub(at.as_nanos());
                    self.report.lateness.record(late);
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    fn deliver(&mut self, host: HostId, address: Address, packet: SimPacket) {
        let host = host.0 as usize;
        let taken = match &self.attachments[host] {
            Attachment::Spindle(port) => packet.into_packet().is_some_and(|p| port.send(p)),
            Attachment::Devices(devices) => {
                let interface = (address.0 - self.first[host]) as usize;
                packet.write(&mut self.out)
                    && devices
                        .get(interface)
                        .is_some_and(|d| d.send(&self.out).is_ok())
            }
        };
        self.report.refused += u64::from(!taken);
    }

    fn inject(&mut self, from: (u32, u32), packet: SimPacket, to: (u32, u32)) {
        let place = |(host, interface): (u32, u32)| {
            let count = *self.addresses.get(host as usize)?;
            (interface < count).then(|| Address(self.first[host as usize] + interface))
        };
        if let (Some(from), Some(to)) = (place(from), place(to))
            && from != to
        {
            self.simulation.inject(from, to, packet);
        }
    }

    /// Reads a batch from a device. Returns whether more packets may be waiting.
    fn read(&mut self, key: usize) -> bool {
        let Some(&(host, interface)) = self.devices.get(key) else {
            return false;
        };
        for _ in 0..BATCH {
            let Attachment::Devices(devices) = &self.attachments[host] else {
                return false;
            };
            let Ok(len) = devices[interface].recv(&mut self.buffer) else {
                return false;
            };
            if let Some((packet, to)) = SimPacket::from_bytes(&self.buffer[..len]) {
                self.inject((host as u32, interface as u32), packet, to);
            }
        }
        true
    }

    /// Takes the packets that Spindle hosts have sent. Returns whether more may be waiting.
    fn take_packets(&mut self) -> bool {
        let mut more = false;
        for host in 0..self.attachments.len() {
            for taken in 0.. {
                if taken == BATCH {
                    more = true;
                    break;
                }
                let Attachment::Spindle(port) = &self.attachments[host] else {
                    break;
                };
                let Some(packet) = port.recv() else { break };
                self.take(packet);
            }
        }
        more
    }

    fn take(&mut self, packet: Packet) {
        let Some(from) = spindle_experiment::hosts::place_of(packet.src().addr) else {
            return;
        };
        packet.for_each_piece(|piece| {
            if let Some((packet, to)) = SimPacket::from_packet(piece) {
                self.inject(from, packet, to);
            }
        });
    }

    fn finish(&mut self) -> FabricReport {
        let mut report = std::mem::take(&mut self.report);
        report.events = self.simulation.events();
        report.packet_hops = self.simulation.packet_hops();
        report.wall_s = self.clock.now().since(Instant::ZERO).as_secs_f64();
        let cpu = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
        report.cpu_s = cpu.map_or(0.0, |t| t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9);
        report.links = links(self.simulation.network(), &self.simulation);
        report
    }
}

fn links(network: &Network, simulation: &Simulation<SimPacket>) -> Vec<LinkReport> {
    (0..network.links().len() as u32)
        .map(|l| {
            let stats = simulation.stats(LinkId(l));
            let dropped = stats.drops.queue;
            LinkReport {
                link: network.link_name(LinkId(l)),
                packets: stats.packets,
                bytes: stats.bytes,
                dropped,
                lost: stats.drops.total() - dropped,
                max_queue: stats.max_queue.0,
            }
        })
        .collect()
}
