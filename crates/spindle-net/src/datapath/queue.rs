//! The way from the async side to the data-path thread: commands, and connections that want to be
//! looked at.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polling::Poller;
use spindle_mptcp::{Config, ConnectionInfo, ListenerId};
use tokio::sync::{mpsc, oneshot};

use super::held::Held;
use super::pipe::Pipe;
use crate::error::NetError;
use crate::socket::{ConnectionStatus, ListenOptions, NetworkCounters, TcpStream};

/// Where the data path puts accepted connections.
pub(crate) type AcceptQueue = mpsc::Sender<(TcpStream, SocketAddr)>;

/// A request to the data path; the answer comes by the channel in it.
pub(crate) enum Command {
    /// Listen on an endpoint.
    Listen {
        local: SocketAddr,
        options: ListenOptions,
        accepted: AcceptQueue,
        answer: oneshot::Sender<Result<(ListenerId, SocketAddr), NetError>>,
    },
    /// Stop listening.
    StopListening(ListenerId),
    /// Open a connection for the pipe.
    Connect {
        local: IpAddr,
        remote: SocketAddr,
        config: Arc<Config>,
        pipe: Arc<Pipe>,
        answer: oneshot::Sender<Result<(), NetError>>,
    },
    /// What is known about one connection.
    Info(u64, oneshot::Sender<Option<ConnectionInfo>>),
    /// All live connections.
    Connections(oneshot::Sender<Vec<ConnectionStatus>>),
    /// Totals.
    Counters(oneshot::Sender<NetworkCounters>),
    /// Nothing but an answer, which shows that the data path turns.
    Turn(oneshot::Sender<()>),
    /// End once nothing is left to do.
    Release,
    /// Abort what is left and end.
    Shutdown(oneshot::Sender<()>),
}

#[derive(Default)]
struct Waiting {
    commands: VecDeque<Command>,
    attention: Vec<Arc<Pipe>>,
    /// Why the thread has ended, once it has.
    stopped: Option<Option<String>>,
}

/// The queue itself.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// The thread sleeps, or is about to: only then is it worth a system call to wake it.
    sleeping: AtomicBool,
    poller: Arc<Poller>,
    held: Arc<Held>,
}

impl Queue {
    pub(crate) fn new(poller: Arc<Poller>) -> Self {
        Self {
            waiting: Mutex::default(),
            sleeping: AtomicBool::new(false),
            poller,
            held: Arc::default(),
        }
    }

    /// What pipes and relays hold for their connections.
    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the thread a command.
    ///
    /// # Errors
    /// [`NetError::Stopped`] if it has ended.
    pub(crate) fn push(&self, command: Command) -> Result<(), NetError> {
        let mut waiting = self.lock();
        if let Some(why) = &waiting.stopped {
            return Err(NetError::Stopped(why.clone()));
        }
        waiting.commands.push_back(command);
        drop(waiting);
        self.wake();
        Ok(())
    }

    /// Has the thread look at a connection.
    pub(crate) fn attend(&self, pipe: Arc<Pipe>) {
        let mut waiting = self.lock();
        if waiting.stopped.is_some() {
            return;
        }
        waiting.attention.push(pipe);
        drop(waiting);
        self.wake();
    }

    fn wake(&self) {
        if self.sleeping.swap(false, Ordering::SeqCst) {
            // It fails only if the system has no eventfd for us any more; the thread then ends.
            let _ = self.poller.notify();
        }
    }

    /// The thread is about to sleep; returns whether it may.
    pub(crate) fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        let waiting = self.lock();
        let empty = waiting.commands.is_empty() && waiting.attention.is_empty();
        drop(waiting);
        if !empty {
            self.sleeping.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// The thread is awake.
    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// Takes the next command.
    pub(crate) fn next_command(&self) -> Option<Command> {
        self.lock().commands.pop_front()
    }

    /// Exchanges the list of connections to be looked at for an empty one.
    pub(crate) fn take_attention(&self, into: &mut Vec<Arc<Pipe>>) {
        std::mem::swap(&mut self.lock().attention, into);
    }

    /// The thread ends: later commands are refused, waiting ones dropped with their answers.
    pub(crate) fn stop(&self, why: Option<String>) {
        let mut waiting = self.lock();
        waiting.stopped = Some(why);
        let left = (
            std::mem::take(&mut waiting.commands),
            std::mem::take(&mut waiting.attention),
        );
        drop(waiting);
        drop(left);
    }

    /// Why the thread has ended.
    pub(crate) fn stopped(&self) -> NetError {
        NetError::Stopped(self.lock().stopped.clone().flatten())
    }
}
