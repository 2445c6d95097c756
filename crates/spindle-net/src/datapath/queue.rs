//! The queue from the async side to the data-path thread: commands, and connections that request attention.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polling::Poller;
use spindle_mptcp::{Config, ConnectionInfo, ListenerId};
use tokio::sync::{mpsc, oneshot};

use super::gate::Admission;
use super::held::HeldMemory;
use super::pipe::{OwnedPipe, Pipe};
use super::status::{ConnectionStatus, ListenOptions, NetworkCounters};
use crate::error::NetError;
use crate::handover::{Outcome, Step};
use crate::link::LocalPath;

/// Where the data path puts accepted connections.
pub(crate) type AcceptQueue = mpsc::Sender<OwnedPipe>;

/// A request to the data path. The answer is sent through the channel in it.
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
    /// The listener admits only these peers from now on, or all. The answer is the number of connections that were
    /// reset.
    SetAdmission(
        ListenerId,
        Option<Arc<dyn Admission>>,
        oneshot::Sender<usize>,
    ),
    /// Open a connection for the pipe.
    Connect {
        local: IpAddr,
        remote: SocketAddr,
        config: Arc<Config>,
        pipe: Arc<Pipe>,
        answer: oneshot::Sender<Result<(), NetError>>,
    },
    /// The addresses from which subflows may start are now these.
    LocalPaths(Vec<LocalPath>),
    /// Send something on every subflow at once.
    ProbePaths,
    /// What is known about one connection.
    Info(u64, oneshot::Sender<Option<ConnectionInfo>>),
    /// All live connections.
    Connections(oneshot::Sender<Vec<ConnectionStatus>>),
    /// Totals.
    Counters(oneshot::Sender<NetworkCounters>),
    /// Only an answer, which shows that the data path still turns.
    Turn(oneshot::Sender<()>),
    /// A step of a handover.
    HandOver(Step, oneshot::Sender<io::Result<Outcome>>),
    /// End once all connections have ended.
    Release,
    /// Abort the remaining connections and end.
    Shutdown(oneshot::Sender<()>),
}

#[derive(Default)]
struct Waiting {
    commands: VecDeque<Command>,
    attention: Vec<Arc<Pipe>>,
    /// Set once the thread has ended, with the reason if there is one.
    stopped: Option<Option<String>>,
}

/// The queue itself.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// The thread sleeps, or is about to. Only then is a system call needed to wake it.
    sleeping: AtomicBool,
    poller: Arc<Poller>,
    held: Arc<HeldMemory>,
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

    /// The account of what pipes and relays hold for their connections.
    pub(crate) fn held(&self) -> &Arc<HeldMemory> {
        &self.held
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the thread a command.
    ///
    /// # Errors
    /// [`NetError::Stopped`] if the thread has ended.
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

    /// Requests that the thread serve a connection.
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
            // This fails only if the eventfd no longer exists. The thread then ends.
            let _ = self.poller.notify();
        }
    }

    /// Called when the thread is about to sleep. Returns whether it may.
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

    /// Called when the thread is awake.
    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// Takes the next command.
    pub(crate) fn next_command(&self) -> Option<Command> {
        self.lock().commands.pop_front()
    }

    /// Exchanges the list of connections that requested attention for an empty list.
    pub(crate) fn take_attention(&self, into: &mut Vec<Arc<Pipe>>) {
        std::mem::swap(&mut self.lock().attention, into);
    }

    /// Called when the thread ends. Later commands are refused. Waiting commands are dropped, together with
    /// their answer channels.
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

    /// The error that reports why the thread has ended.
    pub(crate) fn stopped(&self) -> NetError {
        NetError::Stopped(self.lock().stopped.clone().flatten())
    }
}
