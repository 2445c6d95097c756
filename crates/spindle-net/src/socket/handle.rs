//! [`ConnectionHandle`].

use std::future::poll_fn;
use std::sync::Arc;

use spindle_mptcp::{CloseReason, ConnectionInfo};

use super::stream;
use crate::datapath::held::Share;
use crate::datapath::pipe::{AckObserver, Phase, Pipe};
use crate::error::NetError;

/// Another way to a connection than its stream, for whoever watches it or has to end it while the
/// stream is in other hands (under TLS, split). It keeps nothing open.
#[derive(Clone)]
pub struct ConnectionHandle {
    pipe: Arc<Pipe>,
}

impl std::fmt::Debug for ConnectionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.pipe.identity.get().map(|i| i.id);
        f.debug_struct("ConnectionHandle").field("id", &id).finish()
    }
}

impl ConnectionHandle {
    pub(super) fn new(pipe: Arc<Pipe>) -> Self {
        Self { pipe }
    }

    /// As [`super::TcpStream::abort`].
    pub fn abort(&self) {
        self.pipe.abort();
    }

    /// Waits until the connection takes data from a writer; returns how many bytes.
    pub(crate) async fn writable(&self) -> usize {
        poll_fn(|cx| self.pipe.poll_writable(cx)).await
    }

    /// A place in the account of what is held for connections.
    pub(crate) fn share(&self) -> Share {
        Share::new(self.pipe.queue().held().clone())
    }

    /// So many bytes are held for the connection as long as it lives.
    pub(crate) fn hold(&self, bytes: u64) {
        self.pipe.hold(bytes);
    }

    /// As [`super::TcpStream::connection_info`].
    ///
    /// # Errors
    /// [`NetError::Closed`] if nothing is known any more, [`NetError::Stopped`].
    pub async fn connection_info(&self) -> Result<ConnectionInfo, NetError> {
        stream::connection_info(&self.pipe).await
    }

    /// Bytes written to it since its beginning.
    pub(crate) fn written(&self) -> u64 {
        self.pipe.lock().written
    }

    /// Has `observer` hear of acknowledgements from now on. A connection has one observer: the first.
    pub(crate) fn observe_acknowledgements(&self, observer: Arc<dyn AckObserver>) {
        if self.pipe.observer.set(observer).is_ok() {
            self.pipe.attend();
        }
    }

    /// Waits until the connection is over; returns how it ended, or none if the data path ended
    /// under it. What it received may still wait to be read.
    pub async fn closed(&self) -> Option<CloseReason> {
        loop {
            let changed = self.pipe.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let phase = self.pipe.lock().phase;
            match phase {
                Phase::Closed(reason) => return Some(reason),
                Phase::Stopped => return None,
                Phase::Open | Phase::Opening => changed.await,
            }
        }
    }
}
