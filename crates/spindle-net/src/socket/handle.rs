//! [`ConnectionHandle`].

use std::future::poll_fn;
use std::sync::Arc;

use spindle_mptcp::{CloseReason, ConnectionInfo};

use super::stream;
#[cfg(feature = "services")]
use crate::datapath::held::Share;
#[cfg(feature = "services")]
use crate::datapath::pipe::AckObserver;
use crate::datapath::pipe::{Phase, Pipe};
use crate::error::NetError;

/// A handle of a connection besides its stream, for code that watches the connection or has to end it while
/// other code owns the stream (under TLS, split). It does not keep the connection open.
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

    /// Like [`super::TcpStream::abort`].
    pub fn abort(&self) {
        self.pipe.abort();
    }

    /// Waits until the connection accepts data from a writer. Returns how many bytes it accepts.
    pub async fn writable(&self) -> usize {
        poll_fn(|cx| self.pipe.poll_writable(cx)).await
    }

    /// Sets the number of bytes that the program holds for the connection as long as it lives, such as those of a
    /// TLS session. The stack's limit of memory includes them.
    pub fn hold(&self, bytes: u64) {
        self.pipe.hold(bytes);
    }

    /// Like [`super::TcpStream::connection_info`].
    ///
    /// # Errors
    /// [`NetError::Closed`] if no information is left, [`NetError::Stopped`].
    pub async fn connection_info(&self) -> Result<ConnectionInfo, NetError> {
        stream::connection_info(&self.pipe).await
    }

    /// Bytes written to the connection since its beginning.
    pub fn written(&self) -> u64 {
        self.pipe.lock().written
    }

    /// Waits until the connection has ended. Returns how it ended, or `None` if the data path ended before.
    /// Received data may still wait to be read.
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

/// What only a relay needs.
#[cfg(feature = "services")]
impl ConnectionHandle {
    /// A new share in the account of memory that is held for connections.
    pub(crate) fn share(&self) -> Share {
        Share::new(self.pipe.queue().held().clone())
    }

    /// Notifies `observer` of acknowledgements from now on. A connection has one observer: the first.
    pub(crate) fn observe_acknowledgements(&self, observer: Arc<dyn AckObserver>) {
        if self.pipe.observer.set(observer).is_ok() {
            self.pipe.attend();
        }
    }
}
