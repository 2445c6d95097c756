//! Open files that one process passes to another over a Unix socket (unix(7), SCM_RIGHTS).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};

/// Most descriptors of one message (SCM_MAX_FD, unix(7)).
pub(crate) const MOST: usize = 253;

/// Sends descriptors with one byte of data.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if there are more than 253; the system's error otherwise.
pub fn send(to: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(to.as_fd(), &[0], descriptors).map(drop)
}

/// Sends bytes, and the descriptors with the first of them. Returns how many bytes were sent.
pub(crate) fn send_with(
    to: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let data = [IoSlice::new(bytes)];
    Ok(sendmsg(to, &data, &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives the descriptors of one message. They are closed when a program is executed.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] if the other side has closed the socket; the system's error otherwise.
pub fn receive(from: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut found = Vec::new();
    match receive_with(from.as_fd(), &mut [0], &mut found)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(found),
    }
}

/// Receives bytes into `buffer`, and appends the descriptors that come with them. Returns the number of bytes.
/// [`io::ErrorKind::InvalidData`] if there are more than [`MOST`] descriptors in all.
pub(crate) fn receive_with(
    from: BorrowedFd<'_>,
    buffer: &mut [u8],
    found: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut data = [IoSliceMut::new(buffer)];
    let bytes = recvmsg(from, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            found.extend(descriptors);
        }
    }
    match found.len() > MOST {
        true => Err(io::ErrorKind::InvalidData.into()),
        false => Ok(bytes),
    }
}

/// The process that made a pair of sockets, or that connected to this one.
///
/// # Errors
/// The system's error.
pub fn peer(socket: &UnixStream) -> io::Result<u32> {
    let peer = sockopt::socket_peercred(socket)?;
    Ok(peer.pid.as_raw_nonzero().get().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_arrive_in_their_order() {
        let (a, b) = UnixStream::pair().unwrap();
        assert_eq!(peer(&b).unwrap(), std::process::id());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        send(&a, &[listener.as_fd(), socket.as_fd()]).unwrap();
        let found = receive(&b).unwrap();
        let [first, second] = <[OwnedFd; 2]>::try_from(found).unwrap();
        let first = std::net::TcpListener::from(first);
        let second = std::net::UdpSocket::from(second);
        assert_eq!(first.local_addr().unwrap(), listener.local_addr().unwrap());
        assert_eq!(second.local_addr().unwrap(), socket.local_addr().unwrap());
        drop(a);
        let ended = receive(&b).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn more_descriptors_than_allowed_are_refused() {
        let (a, _b) = UnixStream::pair().unwrap();
        let refused = send(&a, &[a.as_fd(); MOST + 1]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
