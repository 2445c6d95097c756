//! The server's sockets are handed over: what passes between the processes, and the state of each.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use spindle_mptcp::PathError;
use spindle_wire::{Ecn, Packet};

use super::common::Route;
use super::server::Origin;
use super::socket::{PathFailure, Socket};
use crate::error::NetError;
use crate::handover::Neighbours;

/// Most bytes of datagrams in one message: about a train of the system.
const MOST: usize = 60_000;
/// Messages taken from the successor in one call.
pub(super) const MESSAGES: usize = 64;
/// Bytes of a datagram's description, see [`Place::encode`].
const PLACE: usize = 62;
/// The first byte of a message with datagrams, and of one with an ICMP error.
const DATAGRAMS: u8 = 1;
const ERROR: u8 = 2;
/// The ICMP errors of a message: too big, refused, no route.
const TOO_BIG: u8 = 1;
const REFUSED: u8 = 2;
const NO_ROUTE: u8 = 3;

/// Where datagrams of one train came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) socket: usize,
    pub(super) way: Route,
    pub(super) ecn: Ecn,
}

impl From<&Origin> for Place {
    fn from(o: &Origin) -> Self {
        Self {
            socket: o.socket,
            way: o.way,
            ecn: o.ecn,
        }
    }
}

/// Appends an address as its family (4, 6, or 0 if there is none) and 16 bytes.
fn put_addr(out: &mut Vec<u8>, addr: Option<IpAddr>) {
    let (family, bytes) = match addr {
        None => (0, [0; 16]),
        Some(IpAddr::V4(a)) => (4, a.to_ipv6_mapped().octets()),
        Some(IpAddr::V6(a)) => (6, a.octets()),
    };
    out.push(family);
    out.extend_from_slice(&bytes);
}

/// Takes fields from the front of a message.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[b]| b)
    }

    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn addr(&mut self) -> Option<Option<IpAddr>> {
        let (family, bytes) = (self.byte()?, self.take::<16>()?);
        let v6 = std::net::Ipv6Addr::from(bytes);
        match family {
            0 => Some(None),
            4 => Some(Some(v6.to_ipv4_mapped()?.into())),
            6 => Some(Some(v6.into())),
            _ => None,
        }
    }
}

impl Place {
    /// The head of a message with datagrams of `size` bytes each, the last of which may be shorter.
    fn encode(&self, size: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(PLACE);
        out.extend_from_slice(&[DATAGRAMS, self.ecn.bits()]);
        let (from, local) = self.way;
        let (flow, scope) = match from {
            SocketAddr::V4(_) => (0, 0),
            SocketAddr::V6(a) => (a.flowinfo(), a.scope_id()),
        };
        for n in [
            self.socket as u32,
            size as u32,
            flow,
            scope,
            u32::from(from.port()),
        ] {
            out.extend_from_slice(&n.to_be_bytes());
        }
        put_addr(&mut out, Some(from.ip()));
        put_addr(&mut out, local);
        out
    }

    /// The place and the size of the datagrams that the fields describe.
    fn decode(fields: &mut Fields<'_>) -> Option<(Self, usize)> {
        let ecn = Ecn::from_bits(fields.byte()?);
        let socket = fields.number()? as usize;
        let size = fields.number()? as usize;
        let (flow, scope) = (fields.number()?, fields.number()?);
        let port = u16::try_from(fields.number()?).ok()?;
        let from = match fields.addr()?? {
            IpAddr::V4(a) => SocketAddr::from((a, port)),
            IpAddr::V6(a) => std::net::SocketAddrV6::new(a, port, flow, scope).into(),
        };
        let way = (from, fields.addr()?);
        Some((Self { socket, way, ecn }, size))
    }
}

/// A message from the successor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passed<'a> {
    /// Datagrams of this size; the last one may be shorter.
    Datagrams(Place, usize, &'a [u8]),
    /// An ICMP error about a datagram that was sent through this socket, which is quoted.
    Error(usize, PathFailure, &'a [u8]),
}

impl<'a> Passed<'a> {
    fn read(message: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(message);
        match fields.byte()? {
            DATAGRAMS => {
                let (place, size) = Place::decode(&mut fields)?;
                Some(Self::Datagrams(place, size.max(1), fields.0))
            }
            ERROR => {
                let kind = fields.byte()?;
                let (socket, mtu) = (fields.number()? as usize, fields.number()?);
                let kind = match kind {
                    TOO_BIG => PathFailure::TooBig(mtu),
                    REFUSED => PathFailure::Path(PathError::Refused),
                    NO_ROUTE => PathFailure::Path(PathError::NoRoute),
                    _ => return None,
                };
                Some(Self::Error(socket, kind, fields.0))
            }
            _ => None,
        }
    }
}

/// A datagram whose subflow this link does not know, with its packet.
pub(super) struct Stray {
    pub(super) id: u64,
    pub(super) inner: Ecn,
    pub(super) packet: Packet,
    pub(super) datagram: Vec<u8>,
    pub(super) origin: Origin,
}

/// Datagrams that wait to be passed on in one message.
#[derive(Default)]
struct Outgoing {
    place: Option<Place>,
    size: usize,
    bytes: Vec<u8>,
}

impl Outgoing {
    /// Whether a datagram of `len` bytes may follow in the same message.
    fn takes(&self, place: Place, len: usize) -> bool {
        self.place == Some(place)
            && len <= self.size
            && self.bytes.len().is_multiple_of(self.size.max(1))
            && self.bytes.len() + len <= MOST
    }
}

/// What a server needs for handovers of its sockets.
#[derive(Default)]
pub(super) struct Sharing {
    pub(super) neighbours: Neighbours,
    /// Ids whose SYN the predecessor has answered, and whose answer was not acknowledged at the handover.
    answered: HashSet<u64>,
    outgoing: Outgoing,
    pub(super) strays: Vec<Stray>,
    buffer: Vec<u8>,
}

impl Sharing {
    /// The state of a process that waits until it may read the sockets.
    pub(super) fn waiting() -> Self {
        Self {
            neighbours: Neighbours::waiting(),
            ..Self::default()
        }
    }

    /// Sets the ids whose SYN belongs to the predecessor.
    pub(super) fn set_answered(&mut self, ids: HashSet<u64>) {
        self.answered = ids;
    }

    /// Whether a SYN with this id belongs to the predecessor.
    pub(super) fn has_answered(&self, id: u64) -> bool {
        self.answered.contains(&id)
    }

    /// Takes the buffer for [`Self::next`]. It must be put back.
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(PLACE + MOST, 0);
        buffer
    }

    pub(super) fn put_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// The next message of the successor. A message that this version does not know ends the turn.
    pub(super) fn next<'a>(&mut self, buffer: &'a mut [u8]) -> Option<Passed<'a>> {
        let len = self.neighbours.receive(buffer)?;
        Passed::read(&buffer[..len])
    }

    /// Passes a datagram on to the predecessor. It may wait for further ones, until [`Self::flush`].
    pub(super) fn pass(&mut self, place: Place, datagram: &[u8]) {
        if !self.outgoing.takes(place, datagram.len()) {
            self.flush();
            self.outgoing.place = Some(place);
            self.outgoing.size = datagram.len();
        }
        self.outgoing.bytes.extend_from_slice(datagram);
    }

    /// Sends the datagrams that wait.
    pub(super) fn flush(&mut self) {
        if let Some(place) = self.outgoing.place.take() {
            let bytes = std::mem::take(&mut self.outgoing.bytes);
            self.neighbours
                .send(&[&place.encode(self.outgoing.size), &bytes]);
            self.outgoing.bytes = bytes;
            self.outgoing.bytes.clear();
        }
    }

    /// Passes an ICMP error on to the predecessor.
    pub(super) fn pass_error(&mut self, socket: usize, kind: PathFailure, quoted: &[u8]) {
        let (kind, mtu) = match kind {
            PathFailure::TooBig(mtu) => (TOO_BIG, mtu),
            PathFailure::Path(PathError::Refused) => (REFUSED, 0),
            PathFailure::Path(_) => (NO_ROUTE, 0),
        };
        let socket = (socket as u32).to_be_bytes();
        self.neighbours
            .send(&[&[ERROR, kind], &socket, &mtu.to_be_bytes(), quoted]);
    }
}

/// Checks that the sockets of another process are bound to the addresses that are wanted, and to no other.
pub(super) fn same(wanted: &[SocketAddr], bound: &[SocketAddr]) -> Result<(), NetError> {
    let only = |list: &[SocketAddr], other: &[SocketAddr]| {
        list.iter().find(|a| !other.contains(a)).copied()
    };
    match (only(wanted, bound), only(bound, wanted)) {
        (None, None) => Ok(()),
        (Some(addr), _) => Err(NetError::Handover(format!(
            "it does not listen on {addr}; want the same addresses"
        ))),
        (None, Some(addr)) => Err(NetError::Handover(format!(
            "it listens on {addr} as well, where its open connections would receive nothing; want the same addresses"
        ))),
    }
}

/// The descriptors of the sockets.
pub(super) fn wire(sockets: &[Socket]) -> Vec<BorrowedFd<'_>> {
    sockets.iter().map(|s| s.source().as_fd()).collect()
}

/// Duplicates of the sockets.
pub(super) fn duplicates(sockets: &[Socket]) -> io::Result<Vec<OwnedFd>> {
    let copy = |s: &Socket| s.source().as_fd().try_clone_to_owned();
    sockets.iter().map(copy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::{Channel, Predecessor};

    #[test]
    fn place_of_a_datagram_survives_the_channel_in_both_families() {
        for (from, local) in [
            ("192.0.2.1:5", None),
            ("192.0.2.1:65535", Some("10.0.0.1")),
            ("[2001:db8::1]:443", Some("2001:db8::2")),
            ("[fe80::1%3]:1", None),
        ] {
            let place = Place {
                socket: 3,
                way: (from.parse().unwrap(), local.map(|a| a.parse().unwrap())),
                ecn: Ecn::Ce,
            };
            let mut message = place.encode(7);
            assert!(message.len() <= PLACE);
            message.extend_from_slice(b"0123456789");
            let read = Passed::read(&message);
            assert_eq!(read, Some(Passed::Datagrams(place, 7, b"0123456789")));
            for len in 0..message.len() - 10 {
                assert_eq!(Passed::read(&message[..len]), None, "{len}");
            }
        }
        assert_eq!(Passed::read(b"\x09rest"), None);
    }

    #[test]
    fn datagrams_of_one_train_are_passed_in_one_message_and_others_are_not() {
        let (ours, theirs) = Channel::pair().unwrap();
        let (mut first, mut second) = (Sharing::default(), Sharing::default());
        let poller = std::sync::Arc::new(polling::Poller::new().unwrap());
        for one in [&mut first, &mut second] {
            one.neighbours.register(&poller, 16, &[]).unwrap();
        }
        let before = Predecessor::new(ours, Vec::new());
        first.neighbours.begin(&[], before).unwrap();
        second.neighbours.leave(&[], theirs).unwrap();
        let place = |socket| Place {
            socket,
            way: ("192.0.2.1:5".parse().unwrap(), None),
            ecn: Ecn::NotEct,
        };
        for (socket, datagram) in [
            (0, "aaaa"),
            (0, "bbbb"),
            (0, "cc"),
            (0, "dddd"),
            (1, "eeee"),
        ] {
            first.pass(place(socket), datagram.as_bytes());
        }
        first.flush();
        first.pass_error(1, PathFailure::TooBig(1400), b"quoted");
        let mut buffer = [0; 256];
        let mut next = || match second.next(&mut buffer) {
            Some(Passed::Datagrams(p, size, bytes)) => {
                (p.socket, size, String::from_utf8_lossy(bytes).into_owned())
            }
            Some(Passed::Error(socket, kind, quoted)) => {
                assert_eq!((kind, quoted), (PathFailure::TooBig(1400), &b"quoted"[..]));
                (socket, 0, String::new())
            }
            None => panic!("no message"),
        };
        assert_eq!(next(), (0, 4, "aaaabbbbcc".into()));
        assert_eq!(next(), (0, 4, "dddd".into()));
        assert_eq!(next(), (1, 4, "eeee".into()));
        assert_eq!(next(), (1, 0, String::new()));
        assert!(second.next(&mut buffer).is_none());
        assert!(first.neighbours.has_predecessor());
        second.neighbours.close();
        assert!(!first.neighbours.has_predecessor());
    }
}
