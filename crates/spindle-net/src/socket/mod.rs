//! Async sockets on a data path: [`Network`], [`TcpListener`], [`TcpStream`].

mod handle;
mod listener;
mod split;
mod stream;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use polling::Poller;
use spindle_mptcp::{Config, ListenerId, Stack, StackConfig};
use tokio::sync::{mpsc, oneshot};

pub use handle::ConnectionHandle;
pub use listener::TcpListener;
pub use split::{OwnedReadHalf, OwnedWriteHalf};
pub use stream::TcpStream;

use crate::datapath::Driver;
pub use crate::datapath::gate::Admission;
#[cfg(feature = "services")]
use crate::datapath::held::Share;
pub use crate::datapath::message::Message;
use crate::datapath::pipe::{OwnedPipe, Pipe, Room};
use crate::datapath::queue::{Command, Queue};
pub use crate::datapath::status::{ConnectionStatus, ListenOptions, NetworkCounters};
pub use crate::datapath::turns::TurnTimes;
use crate::error::NetError;
use crate::handover::{Outcome, Step};
use crate::link::{Link, LocalPath};
use crate::randomness::random_bytes;

/// Configuration of a network.
#[derive(Clone, Debug, Default)]
pub struct NetworkConfig {
    /// The stack's limits and addresses. It contains no seed: [`Network::start`] draws a seed of 256 bits from
    /// the operating system.
    ///
    /// ```
    /// use spindle_mptcp::{Stack, StackConfig};
    /// let limits = StackConfig { max_connections: 10, ..StackConfig::default() };
    /// let config = spindle_net::NetworkConfig { stack: limits, ..Default::default() };
    /// ```
    ///
    /// Nor does it accept a stack with the deterministic numbers of simulations:
    ///
    /// ```compile_fail
    /// use spindle_mptcp::{Stack, StackConfig};
    /// let stack = Stack::deterministic(StackConfig::default(), 1);
    /// let config = spindle_net::NetworkConfig { stack, ..Default::default() };
    /// ```
    pub stack: StackConfig,
    /// Name of the data path's thread; "spindle" if empty.
    pub name: String,
}

struct Inner {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // If the thread has ended, there is nothing to release.
        let _ = self.queue.push(Command::Release);
    }
}

/// A handle of a running data path. When the last handle and listener no longer exist, the data path ends as
/// soon as its connections have ended.
#[derive(Clone)]
pub struct Network {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}

impl Network {
    /// Starts a data path over `link` on its own thread.
    ///
    /// # Errors
    /// [`NetError::System`] if the system refuses a poller, randomness, the thread, or the link's
    /// registration.
    pub fn start(config: NetworkConfig, link: Box<dyn Link>) -> Result<Self, NetError> {
        let poller = Poller::new().map_err(NetError::system("cannot make a poller"))?;
        let poller = Arc::new(poller);
        let queue = Arc::new(Queue::new(poller.clone()));
        let stack = Stack::new(config.stack, random_bytes()?);
        let driver = Driver::new(stack, link, poller, queue.clone())
            .map_err(NetError::system("cannot register the link"))?;
        let name = if config.name.is_empty() {
            "spindle".to_owned()
        } else {
            config.name
        };
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || driver.run())
            .map_err(NetError::system("cannot start the data path's thread"))?;
        let inner = Inner {
            queue,
            thread: Mutex::new(Some(thread)),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// A new share in the account of memory that is held for connections.
    #[cfg(feature = "services")]
    pub(crate) fn share(&self) -> Share {
        Share::new(self.inner.queue.held().clone())
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, NetError> {
        let (answer, answered) = oneshot::channel();
        self.inner.queue.push(command(answer))?;
        answered.await.map_err(|_| self.inner.queue.stopped())
    }

    /// Listens on `local`. An unspecified address means any address, and port 0 means that a port is chosen.
    ///
    /// # Errors
    /// [`NetError::Stack`] if there is a listener already, [`NetError::NoListeningPort`],
    /// [`NetError::Stopped`].
    pub async fn listen(
        &self,
        local: SocketAddr,
        options: ListenOptions,
    ) -> Result<TcpListener, NetError> {
        let (accepted, waiting) = mpsc::channel(options.backlog.max(1));
        let (id, local) = self
            .ask(|answer| Command::Listen {
                local,
                options,
                accepted,
                answer,
            })
            .await??;
        Ok(TcpListener::new(self.clone(), id, local, waiting))
    }

    /// [`TcpListener::set_admission`] for this listener.
    pub(crate) async fn set_admission(
        &self,
        listener: ListenerId,
        admission: Option<Arc<dyn Admission>>,
    ) -> Result<usize, NetError> {
        self.ask(|answer| Command::SetAdmission(listener, admission, answer))
            .await
    }

    /// Opens a connection from `local` to `remote` and waits until it is established. Dropping the future gives
    /// the connection up. An MSS or burst that is larger than the link carries is lowered.
    ///
    /// # Errors
    /// [`NetError::Connection`] if the connection is refused or times out, [`NetError::Stack`] at the stack's
    /// limits, [`NetError::Families`], [`NetError::Stopped`].
    pub async fn connect(
        &self,
        local: IpAddr,
        remote: SocketAddr,
        config: Arc<Config>,
    ) -> Result<TcpStream, NetError> {
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(NetError::Families { local, remote });
        }
        let pipe = Pipe::new(self.inner.queue.clone(), Room::of(&config));
        // From here on, dropping the stream closes the connection.
        let stream = TcpStream::new(OwnedPipe::new(pipe.clone()));
        self.ask(|answer| Command::Connect {
            local,
            remote,
            config,
            pipe,
            answer,
        })
        .await??;
        stream.established(remote).await?;
        Ok(stream)
    }

    /// Replaces the addresses from which subflows may start. Open connections join from new addresses, and leave lost
    /// ones, at once ([`Stack::set_local_addresses`]). If the data path has ended, it does nothing.
    pub fn set_local_addresses(&self, paths: Vec<LocalPath>) {
        let _ = self.inner.queue.push(Command::LocalPaths(paths));
    }

    /// Sends something on every subflow at once, as after the host was suspended ([`Stack::probe_paths`]). If the data
    /// path has ended, it does nothing.
    pub fn probe_paths(&self) {
        let _ = self.inner.queue.push(Command::ProbePaths);
    }

    /// The live connections.
    ///
    /// # Errors
    /// [`NetError::Stopped`].
    pub async fn connections(&self) -> Result<Vec<ConnectionStatus>, NetError> {
        self.ask(Command::Connections).await
    }

    /// Totals since the start.
    ///
    /// # Errors
    /// [`NetError::Stopped`].
    pub async fn counters(&self) -> Result<NetworkCounters, NetError> {
        self.ask(Command::Counters).await
    }

    /// Does a step of a handover of the link's wire to another process, or from it.
    ///
    /// # Errors
    /// [`NetError::System`] if the link does not support it, or with the system's error; [`NetError::Stopped`].
    pub async fn hand_over(&self, step: Step) -> Result<Outcome, NetError> {
        let done = self.ask(|answer| Command::HandOver(step, answer)).await?;
        done.map_err(NetError::system("cannot hand over the wire"))
    }

    /// Returns once the data path has handled this request in its loop, which shows that it does not hang.
    ///
    /// # Errors
    /// [`NetError::Stopped`].
    pub async fn turn(&self) -> Result<(), NetError> {
        self.ask(Command::Turn).await
    }

    /// Aborts the remaining connections and ends the data path. Returns once its thread has ended and the link
    /// is closed.
    pub async fn shutdown(&self) {
        // An error means that the data path has already ended.
        let _ = self.ask(Command::Shutdown).await;
        let thread = self
            .inner
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // The thread ends within a turn. A panic there has been reported by the panic handler.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.inner.queue
    }
}
