//! [`TcpListener`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use spindle_mptcp::ListenerId;
use tokio::sync::mpsc;

use super::{Network, TcpStream};
use crate::datapath::gate::Admission;
use crate::datapath::pipe::OwnedPipe;
use crate::datapath::queue::Command;
use crate::error::NetError;

/// Accepts connections. Dropping it stops listening as soon as the data path handles the request. Accepted
/// connections go on, and connections that still wait are closed.
#[derive(Debug)]
pub struct TcpListener {
    network: Network,
    id: ListenerId,
    local: SocketAddr,
    waiting: mpsc::Receiver<OwnedPipe>,
}

impl TcpListener {
    pub(super) fn new(
        network: Network,
        id: ListenerId,
        local: SocketAddr,
        waiting: mpsc::Receiver<OwnedPipe>,
    ) -> Self {
        Self {
            network,
            id,
            local,
            waiting,
        }
    }

    /// The listener, whose address is known as `outside` to its clients.
    pub(crate) fn known_as(mut self, outside: SocketAddr) -> Self {
        self.local = outside;
        self
    }

    /// The next established connection and the address by which its peer is known outside the link
    /// ([`TcpStream::outside_addr`]). No connection is lost if the future is dropped.
    ///
    /// # Errors
    /// [`NetError::Stopped`].
    pub async fn accept(&mut self) -> Result<(TcpStream, SocketAddr), NetError> {
        match self.waiting.recv().await {
            Some(pipe) => Ok(accepted(pipe)),
            None => Err(self.network.queue().stopped()),
        }
    }

    /// Like [`Self::accept`], for hand-written futures.
    ///
    /// # Errors
    /// [`NetError::Stopped`].
    pub fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(TcpStream, SocketAddr), NetError>> {
        self.waiting.poll_recv(cx).map(|pipe| {
            pipe.map(accepted)
                .ok_or_else(|| self.network.queue().stopped())
        })
    }

    /// Changes which peers are admitted ([`ListenOptions::admission`](super::ListenOptions::admission)) and resets the
    /// connections that were accepted from peers that are no longer admitted. A connection is judged by the address from
    /// which it was opened. Returns how many were reset.
    ///
    /// # Errors
    /// [`NetError::Stopped`].
    pub async fn set_admission(
        &self,
        admission: Option<Arc<dyn Admission>>,
    ) -> Result<usize, NetError> {
        self.network.set_admission(self.id, admission).await
    }

    /// The stack's identifier of the listener.
    #[cfg(feature = "services")]
    pub(crate) fn id(&self) -> ListenerId {
        self.id
    }

    /// The address that the listener listens on, with the port that was chosen.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

/// The stream of an accepted connection, and its peer.
fn accepted(pipe: OwnedPipe) -> (TcpStream, SocketAddr) {
    let stream = TcpStream::new(pipe);
    let peer = stream.outside_addr();
    (stream, peer)
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        // An error means that the data path has ended.
        let _ = self.network.queue().push(Command::StopListening(self.id));
    }
}
