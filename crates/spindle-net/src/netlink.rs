//! Requests of rtnetlink(7) and their answers.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use socket2::SockRef;

/// Bytes of a datagram. The kernel's dumps use at most 32 KiB (`NLMSG_GOODSIZE` and `netlink_dump`).
pub(crate) const BUFFER: usize = 1 << 16;
/// How long the kernel may take for a part of a dump.
const PATIENCE: Duration = Duration::from_secs(2);

/// A socket for requests. Reading from it blocks.
///
/// # Errors
/// The system's error.
pub(crate) fn open() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    SockRef::from(&socket).set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Calls `f` with each message of a datagram. The rest of a datagram after a message that cannot be read is skipped.
pub(crate) fn each(datagram: &[u8], mut f: impl FnMut(NetlinkMessage<RouteNetlinkMessage>)) {
    let mut at = 0;
    while let Some(header) = datagram.get(at..at + 4) {
        let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(bytes) = datagram
            .get(at..at.saturating_add(len))
            .filter(|_| len >= 16)
        else {
            return;
        };
        match NetlinkMessage::deserialize(bytes) {
            Ok(message) => f(message),
            Err(error) => tracing::debug!(%error, "a netlink message cannot be read"),
        }
        // NLMSG_ALIGN: messages begin at multiples of four bytes.
        at += len.next_multiple_of(4);
    }
}

/// Calls `f` with each message of the answer to one request. Returns false if the state changed in the meantime.
///
/// # Errors
/// The system's error.
pub(crate) fn dump(
    socket: &Socket,
    request: RouteNetlinkMessage,
    mut f: impl FnMut(NetlinkMessage<RouteNetlinkMessage>),
) -> io::Result<bool> {
    send(socket, request, NLM_F_DUMP)?;
    let mut whole = true;
    answers(socket, |message| {
        whole &= message.header.flags & NLM_F_DUMP_INTR == 0;
        f(message);
    })?;
    Ok(whole)
}

/// Asks the kernel for a change, and waits until it is made. `flags` are further ones of the header.
///
/// # Errors
/// The kernel's reason to refuse it.
#[cfg(feature = "services")]
pub(crate) fn change(request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let socket = open()?;
    send(&socket, request, NLM_F_ACK | flags)?;
    answers(&socket, |_| {})
}

fn send(socket: &Socket, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
    Ok(())
}

/// Calls `f` with each message until the end of the answer: the end of a dump, an acknowledgement or an error.
fn answers(
    socket: &Socket,
    mut f: impl FnMut(NetlinkMessage<RouteNetlinkMessage>),
) -> io::Result<()> {
    let mut end = None;
    let mut buffer = BytesMut::with_capacity(BUFFER);
    loop {
        buffer.clear();
        buffer.reserve(BUFFER);
        let (_, from) = socket.recv_from(&mut buffer, 0)?;
        // Only the kernel is believed.
        if from.port_number() != 0 {
            continue;
        }
        each(&buffer, |message| match &message.payload {
            NetlinkPayload::Done(_) => end = Some(Ok(())),
            NetlinkPayload::Error(e) if e.code.is_none() => end = Some(Ok(())),
            NetlinkPayload::Error(e) => end = Some(Err(e.to_io())),
            _ => f(message),
        });
        if let Some(end) = end {
            return end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_with_wrong_lengths_end_without_a_panic() {
        for datagram in [
            &[][..],
            &[16, 0, 0],
            &[0; 16],
            &[255; 32],
            &[15, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            &[17, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        ] {
            let mut routes = 0;
            each(datagram, |m| {
                routes += u32::from(matches!(m.payload, NetlinkPayload::InnerMessage(_)));
            });
            assert_eq!(routes, 0, "{datagram:?}");
        }
    }
}
