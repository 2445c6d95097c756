//! A port without a simulation, for the disciplines' own tests.

use spindle_units::{BitRate, Bytes, Duration};

use super::{Lookup, QueueDiscipline, QueuePort, QueuedPacket};
use crate::packet::Packet;
use crate::port::Port;
use crate::port::store::{Meta, Store};
use crate::{Buffer, Class, LinkSpec};

/// A packet of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestPacket {
    pub(crate) id: u64,
    pub(crate) flow: u64,
    pub(crate) len: u32,
    pub(crate) ect: bool,
    pub(crate) important: bool,
}

/// A packet of 1500 B of flow 0.
pub(crate) fn packet(id: u64) -> TestPacket {
    TestPacket {
        id,
        flow: 0,
        len: 1500,
        ect: false,
        important: false,
    }
}

/// Like [`packet`], but important.
pub(crate) fn important(id: u64) -> TestPacket {
    TestPacket {
        important: true,
        ..packet(id)
    }
}

impl Packet for TestPacket {
    fn wire_len(&self) -> u32 {
        self.len
    }
    fn flow_hash(&self) -> u64 {
        self.flow
    }
    fn flow_key(&self) -> u64 {
        self.flow
    }
    fn class(&self) -> Class {
        Class::Low
    }
    fn is_data(&self) -> bool {
        true
    }
    fn ecn_capable(&self) -> bool {
        self.ect
    }
    fn mark_ce(&mut self) {}
    fn is_important(&self) -> bool {
        self.important
    }
}

/// A discipline at a port that sends a packet whenever the test asks for one.
pub(crate) struct Bench<D> {
    pub(crate) discipline: D,
    port: Port,
    store: Store<TestPacket>,
    pub(crate) marked: u64,
    /// The ids of packets that were refused or discarded.
    pub(crate) dropped: Vec<u64>,
}

impl<D: QueueDiscipline> Bench<D> {
    /// A port with a buffer of this many bytes.
    pub(crate) fn new(discipline: D, buffer: u64) -> Self {
        let buffer = Buffer::Bytes(Bytes(buffer));
        let spec = LinkSpec::new(BitRate(1_000_000_000), Duration::ZERO, buffer);
        Self {
            discipline,
            port: Port::new(&spec, 0, 0),
            store: Store::new(),
            marked: 0,
            dropped: Vec::new(),
        }
    }

    /// Bytes that wait.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.port.unsent_bytes
    }

    fn with<T>(&mut self, micros: u64, call: impl FnOnce(&mut D, &mut QueuePort<'_>) -> T) -> T {
        let mut dropped = Vec::new();
        let mut port = QueuePort {
            now: micros * 1000,
            port: &mut self.port,
            marked: &mut self.marked,
            dropped: &mut dropped,
            packets: &self.store as &dyn Lookup,
        };
        let result = call(&mut self.discipline, &mut port);
        for meta in dropped {
            self.lose(&meta);
        }
        result
    }

    fn lose(&mut self, meta: &Meta) {
        let lost = self.store.remove(meta).expect("stored");
        self.dropped.push(lost.id);
    }

    /// Offers a packet at a time in microseconds. Returns whether it was accepted.
    pub(crate) fn offer(&mut self, micros: u64, packet: TestPacket) -> bool {
        let mut meta = self.store.insert(packet, 0, 0, None);
        meta.arrive = micros * 1000;
        let mut packet = QueuedPacket(meta);
        if !self.with(micros, |d, port| d.admit(&mut packet, port)) {
            self.lose(&packet.0);
            return false;
        }
        self.port.admit(meta.len);
        self.with(micros, |d, port| d.push(packet, port));
        true
    }

    /// Sends the next packet at a time in microseconds. Returns its id.
    pub(crate) fn send(&mut self, micros: u64) -> Option<u64> {
        let packet = self.with(micros, |d, port| d.next(port))?;
        self.port.sent(packet.0.len);
        self.store.remove(&packet.0).map(|p| p.id)
    }

    /// Sends all packets at a time in microseconds. Returns their ids.
    pub(crate) fn send_all(&mut self, micros: u64) -> Vec<u64> {
        std::iter::from_fn(|| self.send(micros)).collect()
    }
}
