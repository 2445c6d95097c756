//! [`Channel`]: messages between two processes on one host.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::sys::socket::{setsockopt, sockopt};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
    SocketType, recvmsg, sendmsg, socketpair,
};

/// Requested size of the send buffer. Without privileges the system grants less (`net.core.wmem_max`).
const BUFFER: usize = 4 << 20;

/// One end of a pair of connected sockets that keep the boundaries of messages (`SOCK_SEQPACKET`, unix(7)).
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// What [`Channel::receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of this many bytes.
    Message(usize),
    /// Nothing is waiting.
    Nothing,
    /// The other end is closed, and all its messages have been received.
    Closed,
}

impl Channel {
    /// Two connected ends. Calls do not block.
    ///
    /// # Errors
    /// The system's error.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&a, &b] {
            if setsockopt(end, sockopt::SndBufForce, &BUFFER).is_err() {
                // A smaller buffer drops messages earlier, as a queue does.
                let _ = setsockopt(end, sockopt::SndBuf, &BUFFER);
            }
        }
        Ok((Self(a), Self(b)))
    }

    /// Sends the concatenation of `parts` as one message.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the buffer is full, [`io::ErrorKind::BrokenPipe`] or
    /// [`io::ErrorKind::ConnectionReset`] if the other end is closed.
    pub fn send(&self, parts: &[&[u8]]) -> io::Result<()> {
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|p| IoSlice::new(p)).collect();
        let mut control = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match sendmsg(&self.0, &slices, &mut control, flags) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent.map(drop)?),
            }
        }
    }

    /// Receives a message into `buffer`. The part that does not fit is lost.
    pub fn receive(&self, buffer: &mut [u8]) -> Received {
        let mut control = RecvAncillaryBuffer::default();
        loop {
            let mut slices = [IoSliceMut::new(buffer)];
            match recvmsg(&self.0, &mut slices, &mut control, RecvFlags::DONTWAIT) {
                Ok(message) if message.bytes == 0 => return Received::Closed,
                Ok(message) => return Received::Message(message.bytes),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Received::Nothing,
                Err(_) => return Received::Closed,
            }
        }
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Channel {
    /// The descriptor must be an end that [`Channel::pair`] has made.
    fn from(end: OwnedFd) -> Self {
        Self(end)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_boundaries_and_the_end_is_noticed() {
        let (a, b) = Channel::pair().unwrap();
        let mut buffer = [0; 16];
        assert_eq!(b.receive(&mut buffer), Received::Nothing);
        a.send(&[b"one", b"two"]).unwrap();
        a.send(&[b"three"]).unwrap();
        drop(a);
        assert_eq!(b.receive(&mut buffer), Received::Message(6));
        assert_eq!(&buffer[..6], b"onetwo");
        assert_eq!(b.receive(&mut buffer), Received::Message(5));
        assert_eq!(b.receive(&mut buffer), Received::Closed);
        let kind = b.send(&[b"x"]).unwrap_err().kind();
        assert!(matches!(
            kind,
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        ));
    }

    #[test]
    fn full_buffer_refuses_a_message_and_does_not_block() {
        let (a, _b) = Channel::pair().unwrap();
        let body = vec![0; 60_000];
        let error = (0..10_000).find_map(|_| a.send(&[&body]).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
