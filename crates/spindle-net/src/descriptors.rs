//! Open files that one process passes to another over a Unix socket (unix(7), SCM_RIGHTS).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};

/// Most descriptors of one message (our choice; Linux allows 253).
const MOST: usize = 8;

/// Sends descriptors with one byte of data.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if there are more than eight; the system's error otherwise.
pub fn send(to: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if descriptors.len() > MOST || !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(to, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Receives the descriptors of one message. They are closed when a program is executed.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] if the other side has closed the socket; the system's error otherwise.
pub fn receive(from: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(from, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut found = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            found.extend(descriptors);
        }
    }
    Ok(found)
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
    use std::os::fd::AsFd;

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
