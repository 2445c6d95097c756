//! What a stack offers to a program that decides which peers may open connections, by addresses that the stack
//! does not know: those of a tunnel's outer packets, for example.

use spindle_units::Instant;
use spindle_wire::{Flags, MpJoin, Packet, ResetReason, Segment};

use super::accept::is_one_host;
use super::{ListenerId, Stack};

/// Whether the segment asks for a connection or a subflow.
fn is_opening(segment: &Segment) -> bool {
    segment.flags.contains(Flags::SYN) && !segment.flags.intersects(Flags::ACK | Flags::RST)
}

fn token_of_join(segment: &Segment) -> Option<u32> {
    match segment.options.rare.as_ref()?.mp_join {
        Some(MpJoin::Syn { token, .. }) => Some(token),
        _ => None,
    }
}

impl Stack {
    /// The listener that would accept the connection which this packet opens, or which has accepted the connection
    /// that the packet joins (RFC 8684, section 3.2). `None` if the packet opens nothing, or if there is no such
    /// listener.
    pub fn listener_of(&self, packet: &Packet) -> Option<ListenerId> {
        let segment = packet.tcp().filter(|s| is_opening(s))?;
        if !is_one_host(segment.src.addr) || !is_one_host(segment.dst.addr) {
            return None;
        }
        match token_of_join(segment) {
            Some(token) => self.table.listener(self.table.by_token(token)?),
            None => {
                let at = self.listener_for(segment.dst)?;
                Some(ListenerId(at as u32))
            }
        }
    }

    /// Refuses the connection or the subflow that this packet opens with a reset, in place of
    /// [`Self::receive`]. Nothing is stored for it. Returns whether the packet opened a connection and not a subflow.
    pub fn turn_away(&mut self, now: Instant, packet: &Packet) -> bool {
        let Some(segment) = packet.tcp().filter(|s| is_opening(s)) else {
            return false;
        };
        let joins = token_of_join(segment).is_some();
        match joins {
            true => {
                self.counters.joins.prohibited += 1;
                self.refuse_join(now, segment, ResetReason::Prohibited);
            }
            false => self.refuse(now, segment),
        }
        !joins
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spindle_units::Duration;
    use spindle_wire::Endpoint;

    use super::*;
    use crate::{Event, StackConfig, preset};

    fn end(text: &str) -> Endpoint {
        text.parse::<std::net::SocketAddr>().unwrap().into()
    }

    fn is_join(packet: &Packet) -> bool {
        packet.tcp().is_some_and(|s| token_of_join(s).is_some())
    }

    #[test]
    fn a_connection_that_is_turned_away_gets_a_reset_and_leaves_nothing() {
        let (now, config) = (Instant::ZERO, Arc::new(crate::Config::default()));
        let mut server = Stack::deterministic(StackConfig::default(), 1);
        let listener = server.listen(end("10.0.0.2:80"), config).unwrap();
        let mut syn = Segment::new(end("10.0.0.1:4000"), end("10.0.0.2:80"));
        syn.flags = Flags::SYN;
        assert_eq!(
            server.listener_of(&Packet::Tcp(syn.clone())),
            Some(listener)
        );
        assert!(server.turn_away(now, &Packet::Tcp(syn.clone())));
        let answer = server.transmit(now).and_then(Packet::into_tcp).unwrap();
        assert!(answer.flags.contains(Flags::RST));
        assert_eq!((server.half_open(), server.transmit(now)), (0, None));
        for (dst, flags) in [
            ("10.0.0.2:81", Flags::SYN),
            ("224.0.0.1:80", Flags::SYN),
            ("10.0.0.2:80", Flags::ACK),
        ] {
            (syn.dst, syn.flags) = (end(dst), flags);
            assert_eq!(server.listener_of(&Packet::Tcp(syn.clone())), None, "{dst}");
        }
    }

    #[test]
    fn a_join_belongs_to_the_listener_of_its_connection_and_is_refused_as_prohibited() {
        let config = Arc::new(preset("fuso").unwrap().config);
        let further = StackConfig {
            addresses: vec!["10.0.1.1".parse().unwrap()],
            ..StackConfig::default()
        };
        let mut client = Stack::deterministic(further, 1);
        let mut server = Stack::deterministic(StackConfig::default(), 2);
        let listener = server.listen(end("10.0.0.2:80"), config.clone()).unwrap();
        let mut now = Instant::ZERO + Duration::from_secs(1);
        let opened = client.connect(now, end("10.0.0.1:0"), end("10.0.0.2:80"), config);
        opened.unwrap();
        let mut joins = 0;
        for _ in 0..10 {
            now += Duration::from_millis(10);
            while let Some(packet) = client.transmit(now) {
                if is_join(&packet) {
                    joins += 1;
                    assert_eq!(server.listener_of(&packet), Some(listener));
                    assert!(!server.turn_away(now, &packet));
                } else {
                    server.receive(now, packet);
                }
            }
            while let Some(event) = server.poll_event() {
                if let Event::Accepted { handle, .. } = event {
                    server.acknowledge(now, handle);
                }
            }
            while let Some(packet) = server.transmit(now) {
                client.receive(now, packet);
            }
        }
        assert!(joins > 0);
        let mut counters = server.counters();
        assert_eq!(counters.joins.prohibited, joins);
        counters = client.counters();
        assert_eq!(counters.subflows_opened, 0);
    }
}
