//! [`TcpStream`].

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use spindle_mptcp::ConnectionInfo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::handle::ConnectionHandle;
use super::split::{self, OwnedReadHalf, OwnedWriteHalf};
use crate::datapath::message::Message;
use crate::datapath::pipe::{OwnedPipe, Phase, Pipe};
use crate::datapath::queue::Command;
use crate::error::NetError;

/// A connection: Multipath TCP with one or more subflows, or plain TCP.
///
/// Dropping it closes the connection in order: data that were written are still delivered. [`Self::abort`] does
/// not deliver them.
pub struct TcpStream {
    pipe: OwnedPipe,
}

/// Placeholder for an end that is not known yet.
const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

impl std::fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpStream")
            .field("id", &self.id())
            .field("local", &self.local_addr())
            .field("peer", &self.peer_addr())
            .finish()
    }
}

impl TcpStream {
    pub(super) fn new(pipe: OwnedPipe) -> Self {
        Self { pipe }
    }

    /// Waits until the connection is established or has failed.
    pub(super) async fn established(&self, peer: SocketAddr) -> Result<(), NetError> {
        loop {
            let changed = self.pipe.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let phase = self.pipe.lock().phase;
            match phase {
                Phase::Opening => changed.await,
                Phase::Open => return Ok(()),
                Phase::Closed(reason) => return Err(NetError::Connection { peer, reason }),
                Phase::Stopped => return Err(self.pipe.queue().stopped()),
            }
        }
    }

    /// Local end of the first subflow.
    pub fn local_addr(&self) -> SocketAddr {
        self.pipe.identity.get().map_or(NOWHERE, |i| i.local)
    }

    /// The peer's end of the first subflow.
    pub fn peer_addr(&self) -> SocketAddr {
        self.pipe.identity.get().map_or(NOWHERE, |i| i.peer)
    }

    /// The address by which the peer was known outside the link when the connection was opened. Over UDP this
    /// is the address of the peer's UDP socket or NAT, otherwise it equals [`Self::peer_addr`].
    pub fn outside_addr(&self) -> SocketAddr {
        self.pipe.identity.get().map_or(NOWHERE, |i| i.outside)
    }

    /// The connection's number, unique within the network.
    pub fn id(&self) -> u64 {
        self.pipe.identity.get().map_or(0, |i| i.id)
    }

    /// The state of the connection and its subflows. After the connection's end it is the last state.
    ///
    /// # Errors
    /// [`NetError::Closed`] if no information is left, [`NetError::Stopped`].
    pub async fn connection_info(&self) -> Result<ConnectionInfo, NetError> {
        connection_info(&self.pipe).await
    }

    /// Waits until `n` subflows are established, the first one included.
    ///
    /// # Errors
    /// [`NetError::Connection`] if the connection ends before, [`NetError::Stopped`].
    pub async fn subflows_up(&self, n: usize) -> Result<(), NetError> {
        loop {
            let changed = self.pipe.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (phase, up) = {
                let s = self.pipe.lock();
                (s.phase, s.up)
            };
            match phase {
                Phase::Closed(reason) => {
                    let peer = self.peer_addr();
                    return Err(NetError::Connection { peer, reason });
                }
                Phase::Stopped => return Err(self.pipe.queue().stopped()),
                Phase::Open if up >= n => return Ok(()),
                Phase::Open | Phase::Opening => changed.await,
            }
        }
    }

    /// Ends the connection at once: RST on every subflow, with MP_FASTCLOSE (RFC 8684, section 3.5).
    pub fn abort(&self) {
        self.pipe.abort();
    }

    /// A handle of the connection, which may outlive the stream.
    pub fn handle(&self) -> ConnectionHandle {
        ConnectionHandle::new(self.pipe.clone())
    }

    /// The next bytes as they were received, without a copy, at most `max`. `None` at the end of the stream.
    ///
    /// # Errors
    /// The errors of reading.
    pub async fn recv(&mut self, max: usize) -> io::Result<Option<Bytes>> {
        poll_fn(|cx| self.pipe.poll_recv(cx, max.max(1))).await
    }

    /// Gives a piece to the connection without a copy, once there is room.
    ///
    /// # Errors
    /// The errors of writing.
    pub async fn send(&mut self, mut data: Bytes) -> io::Result<()> {
        poll_fn(|cx| self.pipe.poll_send(cx, &mut data)).await
    }

    /// Describes the message that is written next, for transports whose recovery depends on deadlines or
    /// priorities. The hints hold until the next call; [`Message::default`] ends them.
    pub fn set_message(&self, message: Message) {
        self.pipe.set_message(message);
    }

    /// Announces that more data will follow although none wait to be sent, as in a proxy while its service
    /// answers. Proactive recovery then assumes that new data are coming and leaves the room to them (FUSO
    /// section 4.1). Shutting down, or `false`, ends it.
    pub fn expect_more(&self, more: bool) {
        self.pipe.expect_more(more);
    }

    /// Splits the stream into halves that may live in different tasks. Dropping the write half shuts the
    /// sending side down.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        split::split(Arc::new(self))
    }

    pub(super) fn pipe(&self) -> &Arc<Pipe> {
        &self.pipe
    }
}

pub(super) async fn connection_info(pipe: &Arc<Pipe>) -> Result<ConnectionInfo, NetError> {
    let (answer, answered) = oneshot::channel();
    let id = pipe.identity.get().map_or(0, |i| i.id);
    let asked = pipe.queue().push(Command::Info(id, answer));
    let info = match asked {
        Ok(()) => answered.await.unwrap_or_default(),
        Err(_) => None,
    };
    if let Some(info) = info {
        return Ok(info);
    }
    let last = pipe.lock().last.clone();
    match (last, asked) {
        (Some(last), _) => Ok(*last),
        (None, Err(e)) => Err(e),
        (None, Ok(())) => Err(NetError::Closed),
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pipe.poll_read(cx, buf)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pipe.poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe.shutdown();
        Poll::Ready(Ok(()))
    }
}
