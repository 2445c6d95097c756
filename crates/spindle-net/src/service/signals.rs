//! The process's signals.

use std::io;

use tokio::signal::unix::{self, SignalKind};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: stop.
    Stop,
    /// SIGHUP: read the certificates again.
    Reload,
    /// SIGUSR2: start the program again, to take over.
    Replace,
}

/// The signals that a service handles, in place of their default actions.
#[derive(Debug)]
pub struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
    user: unix::Signal,
    stop: (UnboundedSender<()>, UnboundedReceiver<()>),
}

/// Stops a service as SIGTERM does, from within the process.
#[derive(Clone, Debug)]
pub struct Stopper(UnboundedSender<()>);

impl Stopper {
    /// Does the same as a SIGTERM.
    pub fn stop(&self) {
        // An error means that nothing waits for signals any more.
        let _ = self.0.send(());
    }
}

impl Signals {
    /// Begins to catch the signals. Needs tokio's runtime.
    ///
    /// # Errors
    /// The system's error.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            hangup: unix::signal(SignalKind::hangup())?,
            user: unix::signal(SignalKind::user_defined2())?,
            stop: unbounded_channel(),
        })
    }

    /// What stops the service in place of a signal.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.0.clone())
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.stop.1.recv() => Signal::Stop,
            _ = self.hangup.recv() => Signal::Reload,
            _ = self.user.recv() => Signal::Replace,
        }
    }
}
