//! A link over a TUN device: standard packets to and from the system's network stack.
//!
//! With offloads (the default), the device accepts and delivers packets of up to 64 KB without their checksums.
//! Without offloads, every segment is a separate packet. A testbed needs this if its losses must affect single
//! packets.

mod batch;
mod handover;
mod icmp;
mod pool;
mod vnet;

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use polling::Poller;
use spindle_units::Instant;
use spindle_wire::{
    Checksums, ExperimentId, Flags, IpFields, IpHeader, Packet, Payload, Segment, protocol,
};

use crate::error::NetError;
use crate::link::{Arrival, FIRST_KEY, Handover, Link, LinkCounters};
use batch::{Batch, Device};
use handover::Sharing;
use pool::Pool;

/// Most packets read in one call.
const READ_BATCH: usize = 64;
/// Payload of a burst: an IP packet of 64 KiB less the longest headers (RFC 8200: 40, RFC 9293: 60).
const BURST: u32 = 65_535 - 100;
/// Packets that the device queues for Spindle: 6 MB at 1500 bytes each, the window of a fast path.
const QUEUE: u32 = 4096;
/// Bytes of IP and TCP headers without options.
const V4_HEADERS: u32 = 40;
const V6_HEADERS: u32 = 60;
/// The smallest MSS that a TCP sender may be given (RFC 9293, section 3.7.1: IPv4's default).
const LEAST_MSS: u32 = 536;

/// Options for opening a device.
#[derive(Clone, Debug)]
pub struct TunOptions {
    /// The device's name, at most 15 bytes.
    pub name: String,
    /// The device's MTU in bytes, 576 to 65 535. IPv6 needs 1280.
    pub mtu: u16,
    /// Checksum and segmentation offload.
    pub offloads: bool,
}

impl TunOptions {
    /// A device with offloads and Ethernet's MTU.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            mtu: 1500,
            offloads: true,
        }
    }

    /// Returns the options without offloads.
    #[must_use]
    pub fn without_offloads(mut self) -> Self {
        self.offloads = false;
        self
    }
}

/// A link over a TUN device.
pub struct TunLink {
    device: File,
    mtu: u16,
    offloads: bool,
    pool: Pool,
    buffer: Vec<u8>,
    batch: Batch,
    /// The packet that is being encoded, without offloads.
    packet: Vec<u8>,
    counters: LinkCounters,
    broken: Option<io::Error>,
    sharing: Sharing,
}

impl TunLink {
    /// Opens or creates the device, sets its MTU and brings it up. The device is removed when the link is
    /// dropped, unless it was made persistent by other means.
    ///
    /// # Errors
    /// [`NetError::System`], whose text names what is needed.
    pub fn open(options: &TunOptions) -> Result<Self, NetError> {
        let opened = tun_rs::DeviceBuilder::new()
            .name(&options.name)
            .mtu(options.mtu)
            .offload(options.offloads)
            .packet_information(false)
            .build_sync();
        let name = &options.name;
        let device = opened.map_err(NetError::system(format!(
            "cannot open the TUN device {name} (it takes CAP_NET_ADMIN and /dev/net/tun, \
             and no other process may hold it)"
        )))?;
        device
            .set_nonblocking(true)
            .map_err(NetError::system(format!("cannot set {name} non-blocking")))?;
        // The kernel refuses this to root of a user namespace, where its default of 500 has to suffice.
        let _ = device.set_tx_queue_len(QUEUE);
        // Reads and writes need no more than the descriptor.
        let descriptor = device.as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(NetError::system(format!("cannot use {name}")))?;
        Ok(Self::on(options, descriptor, Sharing::default()))
    }

    /// Takes the device of another process, which [`Step::Offer`](crate::handover::Step::Offer) has returned there. It is
    /// read from [`Step::Begin`](crate::handover::Step::Begin) on. The options must be those with which it was opened.
    pub fn from_descriptor(options: &TunOptions, descriptor: OwnedFd) -> Self {
        Self::on(options, descriptor, Sharing::waiting())
    }

    fn on(options: &TunOptions, descriptor: OwnedFd, sharing: Sharing) -> Self {
        let pool = Pool::default();
        Self {
            buffer: pool.take(),
            device: descriptor.into(),
            mtu: options.mtu,
            offloads: options.offloads,
            pool,
            batch: Batch::default(),
            packet: Vec::new(),
            counters: LinkCounters::default(),
            broken: None,
            sharing,
        }
    }

    /// Processes the packet of `len` bytes that was read from the device.
    fn take_read(&mut self, len: usize, sink: &mut dyn FnMut(Arrival)) {
        let start = if self.offloads { vnet::LEN } else { 0 };
        let checksums = match self.buffer.first_chunk() {
            Some(h) if self.offloads && vnet::checksum_trusted(h) => Checksums::Trust,
            _ => Checksums::Verify,
        };
        self.take((start, len), checksums, sink);
    }

    /// Processes the packet at these positions in the buffer.
    fn take(
        &mut self,
        (start, end): (usize, usize),
        checksums: Checksums,
        sink: &mut dyn FnMut(Arrival),
    ) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += end.saturating_sub(start) as u64;
        match self.read((start, end), checksums) {
            Some(Arrival::Packet(packet)) if self.sharing.neighbours.predecessor().is_some() => {
                self.sharing.strays.push(packet);
            }
            Some(arrival) => sink(arrival),
            None => self.counters.dropped_in += 1,
        }
    }

    fn read(&mut self, (start, len): (usize, usize), checksums: Checksums) -> Option<Arrival> {
        let packet = self.buffer.get(start..len)?;
        let ip = IpHeader::parse(packet, checksums).ok()?;
        if ip.protocol != protocol::TCP {
            let report = icmp::read(packet, &ip)?;
            // Whose segment it quotes is not known here. Each process believes only a quote of what it has in flight.
            self.sharing.pass(packet);
            return Some(Arrival::Icmp(report));
        }
        let (mut segment, payload) = Segment::parse_headers(packet, checksums).ok()?;
        fit(&mut segment, self.mtu);
        if !payload.is_empty() {
            let (from, to) = (start + payload.start, start + payload.end);
            segment.payload = Payload::Bytes(self.pool.share(&mut self.buffer, from, to));
        }
        Some(Arrival::Packet(Packet::Tcp(segment)))
    }
}

/// The MSS that a device's MTU allows.
fn mss_for(mtu: u16, v4: bool) -> u32 {
    let headers = if v4 { V4_HEADERS } else { V6_HEADERS };
    u32::from(mtu).saturating_sub(headers).max(LEAST_MSS)
}

/// Lowers the MSS option of a SYN to what the device carries in the SYN's address family, since one
/// configuration serves both families. Removes any offer of coding from it, whether this host's or the peer's:
/// packets on this link are TCP only, and those of the coding layer are of an experimental protocol, which
/// hardly any network forwards.
fn fit(segment: &mut Segment, mtu: u16) {
    let most = mss_for(mtu, segment.src.addr.is_ipv4()) as u16;
    let syn = segment.flags.contains(Flags::SYN);
    let Some(rare) = &mut segment.options.rare else {
        return;
    };
    if let Some(mss) = &mut rare.mss {
        *mss = most.min(*mss);
    }
    if syn {
        rare.experimental
            .retain(|e| e.id() != Some(ExperimentId::Coding));
    }
}

/// The device as the destination of packets.
struct Writer<'a> {
    device: &'a File,
    counters: &'a mut LinkCounters,
    broken: &'a mut Option<io::Error>,
    extra: usize,
}

impl Device for Writer<'_> {
    fn write(&mut self, slices: &[IoSlice<'_>], segments: u64) {
        let written = self.device.write_vectored(slices);
        match written {
            Ok(n) => {
                self.counters.packets_out += segments;
                self.counters.bytes_out += n.saturating_sub(self.extra) as u64;
            }
            Err(e) => {
                self.counters.dropped_out += segments;
                if !passing(&e) {
                    self.broken.get_or_insert(e);
                }
            }
        }
    }
}

/// Whether the device may work again after this error: its queue is full, it is down for now, or it refused one
/// packet.
fn passing(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(
            libc::EAGAIN
                | libc::EINTR
                | libc::ENOBUFS
                | libc::ENOMEM
                | libc::EIO
                | libc::EINVAL
                | libc::ENETDOWN
        )
    )
}

impl Link for TunLink {
    fn register(&mut self, poller: &Arc<Poller>) -> io::Result<()> {
        let wire = [self.device.as_fd()];
        self.sharing.neighbours.register(poller, FIRST_KEY, &wire)
    }

    fn receive(
        &mut self,
        _now: Instant,
        key: usize,
        sink: &mut dyn FnMut(Arrival),
    ) -> io::Result<bool> {
        match key - FIRST_KEY {
            0 => {}
            1 => {
                self.passed_on(sink);
                return Ok(false);
            }
            _ => {
                self.sharing.neighbours.has_predecessor();
                return Ok(false);
            }
        }
        for _ in 0..READ_BATCH {
            match self.device.read(&mut self.buffer) {
                Ok(len) => self.take_read(len, sink),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if passing(&e) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn send(&mut self, _now: Instant, packet: Packet) {
        let Packet::Tcp(mut segment) = packet else {
            // `fit` removes every offer of coding, so no stack sends coded packets over a device.
            self.counters.dropped_out += 1;
            return;
        };
        fit(&mut segment, self.mtu);
        let mut writer = Writer {
            device: &self.device,
            counters: &mut self.counters,
            broken: &mut self.broken,
            extra: if self.offloads { vnet::LEN } else { 0 },
        };
        let result = if self.offloads {
            self.batch.push(segment, &mut writer)
        } else {
            segment.pieces().try_for_each(|piece| {
                self.packet.clear();
                piece.encode_ip(&IpFields::default(), &mut self.packet)?;
                writer.write(&[IoSlice::new(&self.packet)], 1);
                Ok(())
            })
        };
        if result.is_err() {
            self.counters.dropped_out += 1;
        }
    }

    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        let mut writer = Writer {
            device: &self.device,
            counters: &mut self.counters,
            broken: &mut self.broken,
            extra: vnet::LEN,
        };
        if self.batch.flush(&mut writer).is_err() {
            self.counters.dropped_out += 1;
        }
        self.broken.take().map_or(Ok(()), Err)
    }

    fn mss(&self) -> u32 {
        mss_for(self.mtu, true)
    }

    fn burst(&self) -> u32 {
        if self.offloads { BURST } else { 0 }
    }

    fn held(&self) -> u64 {
        self.pool.held()
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    use spindle_wire::{Endpoint, Experimental};

    #[test]
    fn syns_through_a_device_do_not_offer_coding() {
        let at = |port| Endpoint::new(IpAddr::from([10, 0, 0, 1]), port);
        let mut syn = Segment::new(at(1), at(2));
        syn.flags = Flags::SYN;
        let option = |exid| Experimental {
            kind: Experimental::KIND,
            exid,
            data: vec![4],
        };
        let rare = syn.options.rare_mut();
        rare.mss = Some(9000);
        rare.experimental = vec![option(ExperimentId::Coding.number()), option(0x1234)];
        fit(&mut syn, 1500);
        let rare = syn.options.rare_mut();
        assert_eq!(rare.mss, Some(1460));
        assert_eq!(rare.experimental, [option(0x1234)]);
    }
}
