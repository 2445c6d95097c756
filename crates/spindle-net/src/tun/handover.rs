//! A TUN device is handed over. What passes between the processes are IP packets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use spindle_units::Instant;
use spindle_wire::{Checksums, Endpoint, IpFields, Packet};

use super::TunLink;
use crate::handover::{Channel, Neighbours, Predecessor, opens_connection};
use crate::link::{Arrival, Handover, PacketSink};

/// Messages taken from the successor in one call.
const MESSAGES: usize = 64;
/// The first byte of a message with an IP packet, whose checksums are right.
const PACKET: u8 = 3;

/// What a device needs for handovers.
#[derive(Default)]
pub(super) struct Sharing {
    pub(super) neighbours: Neighbours,
    /// Segments that arrived while there is a predecessor.
    pub(super) strays: Vec<Packet>,
    /// The packet that is passed on.
    packet: Vec<u8>,
}

impl Sharing {
    /// The state of a process that waits until it may read the device.
    pub(super) fn waiting() -> Self {
        Self {
            neighbours: Neighbours::waiting(),
            ..Self::default()
        }
    }

    /// Passes an IP packet on to the predecessor.
    pub(super) fn pass(&mut self, packet: &[u8]) {
        self.neighbours.send(&[&[PACKET], packet]);
    }
}

impl TunLink {
    /// Handles what the successor has passed on.
    pub(super) fn passed_on(&mut self, sink: &mut dyn FnMut(Arrival)) {
        for _ in 0..MESSAGES {
            match self.sharing.neighbours.receive(&mut self.buffer) {
                Some(len) if len > 1 && self.buffer[0] == PACKET => {
                    self.take((1, len), Checksums::Verify, sink);
                }
                Some(_) => self.counters.dropped_in += 1,
                None => return,
            }
        }
    }
}

impl Handover for TunLink {
    fn offer(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(vec![self.device.as_fd().try_clone_to_owned()?])
    }

    fn leave(&mut self, successor: Channel) -> io::Result<()> {
        let wire = [self.device.as_fd()];
        self.sharing.neighbours.leave(&wire, successor)
    }

    fn resume(&mut self) -> io::Result<()> {
        self.sharing.neighbours.resume(&[self.device.as_fd()])
    }

    fn begin(&mut self, predecessor: Predecessor) -> io::Result<()> {
        let wire = [self.device.as_fd()];
        self.sharing.neighbours.begin(&wire, predecessor)
    }

    fn close(&mut self) {
        self.sharing.neighbours.close();
    }

    fn has_predecessor(&mut self) -> bool {
        self.sharing.neighbours.has_predecessor()
    }

    fn half_open(&mut self) -> Vec<(Endpoint, Endpoint)> {
        self.sharing.neighbours.half_open()
    }

    fn settle(&mut self, _now: Instant, stack: &mut dyn PacketSink) {
        for packet in std::mem::take(&mut self.sharing.strays) {
            let predecessor = self.sharing.neighbours.predecessor();
            let ends = (packet.dst(), packet.src());
            let own = predecessor.is_none_or(|p| {
                stack.expects(&packet)
                    || opens_connection(&packet) && !p.half_open().contains(&ends)
            });
            if own {
                stack.take(Arrival::Packet(packet));
                continue;
            }
            let mut bytes = std::mem::take(&mut self.sharing.packet);
            bytes.clear();
            match packet.encode_ip(&IpFields::default(), &mut bytes) {
                Ok(()) => self.sharing.pass(&bytes),
                Err(_) => self.counters.dropped_in += 1,
            }
            self.sharing.packet = bytes;
        }
        self.counters.dropped_out += self.sharing.neighbours.take_dropped();
    }
}
