//! Ports that are served packet by packet: ports with a queue discipline, and links whose rate and delay follow
//! a trace.

use super::{Kind, Simulation};
use crate::event::EventQueue;
use crate::port::TRACED;
use crate::port::store::{Meta, Store};
use crate::queue::{Discipline, Lookup, QueueInfo, QueuePort, QueuedPacket};
use crate::trace::{TraceInfo, TraceState};
use crate::{DropCause, LinkId, LinkSpec, Packet, Pending};

/// The state of a port that is served packet by packet.
#[derive(Debug)]
pub(super) struct Served {
    /// The waiting packets.
    pub(super) discipline: Discipline,
    /// Whether an idle port sends an admitted packet without its discipline.
    bypass: bool,
    /// Length of the packet being sent.
    pub(super) sending: Option<u32>,
    /// Whether an event will start the next packet.
    pub(super) armed: bool,
    /// Packets that the discipline has dropped. Empty between events.
    pub(super) dropped: Vec<Meta>,
    /// The link's changing rate and delay, if they change.
    pub(super) trace: Option<TraceState>,
}

impl<P: Packet> Lookup for Store<P> {
    fn flow(&self, meta: &Meta) -> u64 {
        self.flow_key(meta)
    }

    fn is_important(&self, meta: &Meta) -> bool {
        self.packet(meta.index).is_some_and(Packet::is_important)
    }
}

/// The state of a port that is served packet by packet. `None` for a FIFO port.
pub(super) fn state(spec: &LinkSpec, link: LinkId, seed: u64) -> Option<Box<Served>> {
    spec.is_served().then(|| {
        let trace = spec.trace.as_ref().map(|trace| {
            let info = TraceInfo {
                link,
                seed,
                rate: spec.rate,
                delay: spec.delay,
            };
            TraceState::new(trace, &info)
        });
        let discipline = spec.discipline(&QueueInfo { link, seed });
        Box::new(Served {
            bypass: discipline.may_be_bypassed(),
            discipline,
            sending: None,
            armed: false,
            dropped: Vec::new(),
            trace,
        })
    })
}

impl<P: Packet, Q: EventQueue<Pending>> Simulation<P, Q> {
    /// Offers a packet to a port that is up.
    pub(super) fn offer_served(&mut self, link: u32, mut meta: Meta) {
        self.settle_served(link);
        meta.arrive = self.now;
        let side = &mut self.sides[link as usize];
        let Some(served) = side.served.as_deref_mut() else {
            return;
        };
        let port = &mut self.ports[link as usize];
        let mut packet = QueuedPacket(meta);
        let mut view = QueuePort {
            now: self.now,
            port,
            marked: &mut side.marked,
            dropped: &mut served.dropped,
            packets: &self.store,
        };
        let admitted = served.discipline.admit(&mut packet, &mut view);
        let idle = served.sending.is_none() && served.discipline.is_empty();
        let paused = served.trace.as_ref().is_some_and(TraceState::is_paused);
        let bypass = admitted && idle && served.bypass && !paused;
        if admitted {
            view.port.admit(meta.len);
        }
        if admitted && !bypass {
            served.discipline.push(packet, &mut view);
        } else {
            meta = packet.0;
        }
        if !served.dropped.is_empty() {
            self.discard_dropped(link);
        }
        if !admitted {
            return self.discard(link, &meta, DropCause::Queue);
        }
        let time = self.time_to_send(link, meta.len);
        if bypass {
            return self.start(link, meta, time);
        }
        self.ports[link as usize].waiting += time;
        match idle {
            true => self.serve(link),
            false => self.arm(link),
        }
    }

    /// Drops the packets that a port's discipline has discarded.
    #[cold] // a discipline drops packets
    fn discard_dropped(&mut self, link: u32) {
        let side = &mut self.sides[link as usize];
        let Some(served) = side.served.as_deref_mut() else {
            return;
        };
        let mut dropped = std::mem::take(&mut served.dropped);
        for meta in dropped.drain(..) {
            let time = self.time_to_send(link, meta.len);
            self.leaves_queue(link, time);
            self.discard(link, &meta, DropCause::Queue);
        }
        // The list keeps its memory for the next call.
        if let Some(served) = &mut self.sides[link as usize].served {
            served.dropped = dropped;
        }
    }

    /// Counts that a packet, which takes `time` nanoseconds to send, no longer waits.
    #[inline]
    fn leaves_queue(&mut self, link: u32, time: u64) {
        let port = &mut self.ports[link as usize];
        // After a change of the rate, the sum is not exactly that of the packets.
        port.waiting = port.waiting.saturating_sub(time);
    }

    /// The time to send a packet that is started now, in nanoseconds.
    #[inline(always)] // twice for each packet and hop
    fn time_to_send(&self, link: u32, len: u32) -> u64 {
        let port = &self.ports[link as usize];
        match port.flags & TRACED {
            0 => self.times.time(port.rate, len),
            _ => self.time_by_trace(link, len),
        }
    }

    #[cold] // links that follow a trace
    fn time_by_trace(&self, link: u32, len: u32) -> u64 {
        let served = self.sides[link as usize].served.as_ref();
        let trace = served.and_then(|s| s.trace.as_ref());
        trace.map_or(0, |trace| trace.time_to_send(len))
    }

    /// Updates a port: counts the packet that it has finished sending by now, and applies the steps of the
    /// trace.
    #[inline]
    fn settle_served(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        let Some(served) = self.sides[link as usize].served.as_mut() else {
            return;
        };
        if let Some(len) = served.sending
            && port.free_at <= self.now
        {
            port.sent(len);
            served.sending = None;
        }
        if let Some(trace) = &mut served.trace
            && trace.advance(self.now)
        {
            let sending = u64::from(served.sending.unwrap_or(0));
            port.delay = trace.delay();
            port.waiting = trace.time_for(port.unsent_bytes - sending);
        }
    }

    /// Handles the event that a port may have become free.
    pub(super) fn free(&mut self, link: u32) {
        self.settle_served(link);
        if let Some(served) = &mut self.sides[link as usize].served {
            served.armed = false;
        }
        self.serve(link);
    }

    /// Sends the next packet if the port is free, and adds the event for the packet after it.
    #[inline]
    fn serve(&mut self, link: u32) {
        let side = &mut self.sides[link as usize];
        let Some(served) = side.served.as_deref_mut() else {
            return;
        };
        // If the port is still sending, the event was for a packet that was lost when the link went down.
        let paused = served.trace.as_ref().is_some_and(TraceState::is_paused);
        if served.sending.is_none() && !paused {
            let mut view = QueuePort {
                now: self.now,
                port: &mut self.ports[link as usize],
                marked: &mut side.marked,
                dropped: &mut served.dropped,
                packets: &self.store,
            };
            let next = served.discipline.next(&mut view);
            if !served.dropped.is_empty() {
                self.discard_dropped(link);
            }
            if let Some(QueuedPacket(meta)) = next {
                let time = self.time_to_send(link, meta.len);
                self.leaves_queue(link, time);
                self.start(link, meta, time);
            }
        }
        self.arm(link);
    }

    /// Adds the event that starts the next packet, if a packet waits and there is no such event. A link that
    /// pauses is asked again at the next step of its trace.
    #[inline]
    fn arm(&mut self, link: u32) {
        let port = &self.ports[link as usize];
        let Some(served) = self.sides[link as usize].served.as_mut() else {
            return;
        };
        if served.armed || served.discipline.is_empty() {
            return;
        }
        let free_at = port.free_at.max(self.now);
        let at = match &served.trace {
            Some(trace) if trace.is_paused() => trace.next_at().map(|at| at.max(free_at)),
            _ => Some(free_at),
        };
        // Without a further step, the packets wait indefinitely.
        let Some(at) = at else {
            return;
        };
        served.armed = true;
        self.wait(at, Kind::Free(link));
    }

    /// Starts to send a packet at a free port, which takes `time` nanoseconds.
    #[inline]
    fn start(&mut self, link: u32, meta: Meta, time: u64) {
        let Some(served) = self.sides[link as usize].served.as_mut() else {
            return;
        };
        served.sending = Some(meta.len);
        let port = &mut self.ports[link as usize];
        let only = match &served.trace {
            None => port.send(self.now, meta, time),
            Some(_) => {
                let only = port.send_in_order(self.now, meta, time);
                if let Some(watch) = &mut self.watch {
                    let last = port.ring.get(port.ring.len() - 1);
                    watch.sending(&meta, last.map_or(0, |m| m.arrive - self.now));
                }
                only
            }
        };
        if let Some(arrive) = only {
            self.wait(arrive, Kind::Arrival(link));
        }
    }

    /// Drops all waiting packets, because the link went down.
    pub(super) fn clear_served(&mut self, link: u32) {
        let Some(served) = self.sides[link as usize].served.as_mut() else {
            return;
        };
        served.sending = None;
        for QueuedPacket(meta) in served.discipline.clear() {
            self.discard(link, &meta, DropCause::Down);
        }
    }
}
