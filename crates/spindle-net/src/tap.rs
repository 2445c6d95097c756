//! A link whose packets an observer sees, for captures of what is inside UDP.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use polling::Poller;
use spindle_units::Instant;
use spindle_wire::{Endpoint, Packet};

use crate::link::{Arrival, Handover, Link, LinkCounters, LocalPath};
use crate::udp::UdpCounters;

/// Which way a packet passes a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the wire.
    Received,
    /// To the wire. Several segments may be sent as one.
    Sent,
}

/// Sees each packet of a link. It is called by the data path and must not block.
pub trait Tap: Send {
    /// A packet passes the link.
    fn packet(&mut self, way: Way, packet: &Packet);
}

/// A link and its observer. Packets that another process passes on during a [handover](Handover) are not seen.
pub struct TappedLink<T> {
    link: Box<dyn Link>,
    tap: T,
}

impl<T> fmt::Debug for TappedLink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TappedLink").finish_non_exhaustive()
    }
}

impl<T: Tap> TappedLink<T> {
    /// Shows the packets of `link` to `tap`.
    pub fn new(link: Box<dyn Link>, tap: T) -> Self {
        Self { link, tap }
    }
}

/// Shows packets to `tap` and passes all arrivals to `sink`.
fn shown<'a, T: Tap>(
    tap: &'a mut T,
    sink: &'a mut dyn FnMut(Arrival),
) -> impl FnMut(Arrival) + use<'a, T> {
    move |arrival| {
        if let Arrival::Packet(packet) = &arrival {
            tap.packet(Way::Received, packet);
        }
        sink(arrival);
    }
}

impl<T: Tap> Link for TappedLink<T> {
    fn register(&mut self, poller: &Arc<Poller>) -> io::Result<()> {
        self.link.register(poller)
    }

    fn unpolled(&self) -> bool {
        self.link.unpolled()
    }

    fn receive(
        &mut self,
        now: Instant,
        key: usize,
        sink: &mut dyn FnMut(Arrival),
    ) -> io::Result<bool> {
        let mut shown = shown(&mut self.tap, sink);
        self.link.receive(now, key, &mut shown)
    }

    fn send(&mut self, now: Instant, packet: Packet) {
        self.tap.packet(Way::Sent, &packet);
        self.link.send(now, packet);
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.link.flush(now)
    }

    fn reconcile(&mut self, now: Instant, known: &dyn Fn(Endpoint, Endpoint) -> bool) {
        self.link.reconcile(now, known);
    }

    fn set_local_paths(&mut self, now: Instant, paths: &[LocalPath]) {
        self.link.set_local_paths(now, paths);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.link.next_timeout()
    }

    fn timeout(&mut self, now: Instant, sink: &mut dyn FnMut(Arrival)) {
        let mut shown = shown(&mut self.tap, sink);
        self.link.timeout(now, &mut shown);
    }

    fn mss(&self) -> u32 {
        self.link.mss()
    }

    fn burst(&self) -> u32 {
        self.link.burst()
    }

    fn keeps_ports(&self) -> bool {
        self.link.keeps_ports()
    }

    fn outside(&self, remote: Endpoint) -> SocketAddr {
        self.link.outside(remote)
    }

    fn held(&self) -> u64 {
        self.link.held()
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        self.link.handover()
    }

    fn counters(&self) -> LinkCounters {
        self.link.counters()
    }

    fn udp(&self) -> Option<UdpCounters> {
        self.link.udp()
    }
}
