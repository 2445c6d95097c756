//! The side of the process that hands over.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::Uid;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

use super::{Answer, PATIENCE, Request, VERSION, failed, in_time, receive, send, socket_of};
use crate::error::NetError;
use crate::handover::{Channel, Step};
use crate::service::{Lifecycle, Stage, Stopper};
use crate::setup::Share;
use crate::socket::Network;
use crate::status::{Name, private_listener};

/// How long the new process may take to start.
const STARTING: Duration = Duration::from_secs(120);
/// Pause after an accept call that failed (no file descriptors).
const REST: Duration = Duration::from_millis(200);

/// The socket at which a gateway is asked to hand over. Its file is removed with that of the control socket.
#[derive(Debug)]
pub struct Listener(UnixListener);

impl Listener {
    /// Creates the socket for a gateway with this control socket, which exists already. It replaces what another
    /// process has left behind.
    ///
    /// # Errors
    /// [`NetError::System`] if the file cannot be created; [`NetError::ControlPath`] if something else is there.
    pub fn bind(control: &Path) -> Result<Self, NetError> {
        let path = socket_of(control);
        let what = format!("{}: cannot make the socket", path.display());
        let listener = private_listener(&path)?;
        let listener = UnixListener::from_std(listener).map_err(NetError::system(what))?;
        Ok(Self(listener))
    }
}

/// A gateway that may be asked to hand over.
#[derive(Debug)]
pub struct Old {
    /// Its data path.
    pub network: Network,
    /// Its switch.
    pub lifecycle: Lifecycle,
    /// Its control socket, which is renamed.
    pub control: Arc<Name>,
    /// The listener of its metrics.
    pub metrics: Option<std::net::TcpListener>,
    /// Stops it.
    pub stopper: Stopper,
    /// The set-up of its device.
    pub setup: Option<Share>,
}

impl Old {
    /// Hands over to each process that asks and may, for as long as it is polled. `replaced` is called with the new
    /// process's number when the handover is complete.
    pub async fn serve(self, listener: Listener, replaced: impl Fn(u32)) -> Infallible {
        loop {
            match listener.0.accept().await {
                Ok((stream, _)) => self.serve_one(&stream, &listener, &replaced).await,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a request to hand over; it is tried again");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    async fn serve_one(&self, stream: &UnixStream, listener: &Listener, replaced: &impl Fn(u32)) {
        let pid = match self.try_hand_over(stream).await {
            Ok(pid) => pid,
            Err(error) => {
                tracing::warn!(%error, "not handed over: this process goes on");
                let why = match error {
                    NetError::Handover(why) => why,
                    e => e.to_string(),
                };
                // The other process may have ended.
                let _ = send(stream, &Answer::Refused { why }, &[]).await;
                return;
            }
        };
        replaced(pid);
        self.lifecycle.hand_over();
        tracing::info!(
            pid,
            "handed over: this process ends with its last connection"
        );
        self.accompany(stream, listener, pid).await;
    }

    /// Hands over. Returns the new process's number.
    async fn try_hand_over(&self, stream: &UnixStream) -> Result<u32, NetError> {
        let peer = stream
            .peer_cred()
            .map_err(NetError::system("the peer is unknown"))?;
        let (uid, own) = (Uid::from_raw(peer.uid()), Uid::effective());
        if uid != own {
            // The answer could not be read otherwise.
            let read = || stream.try_read(&mut [0; 512]);
            let request = stream.async_io(Interest::READABLE, read);
            let _ = tokio::time::timeout(PATIENCE, request).await;
            return Err(failed(format!(
                "user {uid} may not ask; want user {own}, which it runs as"
            )));
        }
        let pid = peer.pid().and_then(|p| u32::try_from(p).ok()).unwrap_or(0);
        match in_time(receive(stream)).await?.0 {
            Request::TakeOver { version: VERSION } => {}
            Request::TakeOver { version } => {
                return Err(failed(format!(
                    "it speaks version {VERSION} of the handover, the new process {version}; restart it"
                )));
            }
            other => return Err(failed(format!("found {other:?}, want a request"))),
        }
        if self.lifecycle.stage() >= Stage::Draining {
            return Err(failed("it is being stopped; start again when it has ended"));
        }
        let theirs = self.offer(stream).await?;
        let ready = tokio::time::timeout(STARTING, receive(stream)).await;
        match ready
            .unwrap_or_else(|_| Err(failed("the new process is not ready in time")))?
            .0
        {
            Request::Ready => {}
            other => return Err(failed(format!("found {other:?}, want that it is ready"))),
        }
        if self.lifecycle.stage() >= Stage::Draining {
            return Err(failed("it is being stopped"));
        }
        if let Err(e) = self.leave(stream, theirs).await {
            self.resume().await;
            return Err(e);
        }
        Ok(pid)
    }

    /// Sends the descriptors. Returns this end of the channel.
    async fn offer(&self, stream: &UnixStream) -> Result<Channel, NetError> {
        let wire = self.network.hand_over(Step::Offer).await?.descriptors;
        let pair = Channel::pair().map_err(NetError::system("cannot make a channel"))?;
        let (ours, theirs) = (pair.0, OwnedFd::from(pair.1));
        let reserved = self.setup.iter().flat_map(|s| &s.reserved);
        let mut all = vec![theirs.as_fd()];
        all.extend(wire.iter().chain(reserved).map(AsFd::as_fd));
        all.extend(self.metrics.iter().map(AsFd::as_fd));
        let offer = Answer::Offer {
            wire: wire.len(),
            setup: self.setup.as_ref().map(|s| s.state.clone()),
            metrics: self.metrics.is_some(),
            pid: std::process::id(),
        };
        send(stream, &offer, &all).await?;
        Ok(ours)
    }

    /// Stops reading, and waits until the new process reads.
    async fn leave(&self, stream: &UnixStream, channel: Channel) -> Result<(), NetError> {
        let left = self.network.hand_over(Step::Leave(channel)).await?;
        self.control.retire();
        let half_open = left
            .half_open
            .into_iter()
            .map(|(l, r)| (l.into(), r.into()));
        let yours = Answer::Yours {
            half_open: half_open.collect(),
        };
        in_time(send(stream, &yours, &[])).await?;
        match tokio::time::timeout(PATIENCE, receive(stream)).await {
            Ok(Ok((Request::Begun, _))) => {
                self.has_successor(true);
                in_time(send(stream, &Answer::Confirmed, &[])).await
            }
            Ok(Ok((other, _))) => Err(failed(format!("found {other:?}, want that it has begun"))),
            Ok(Err(e)) => Err(e),
            Err(_) => Err(failed("the new process does not begin in time")),
        }
    }

    /// Whether another process undoes the set-up.
    fn has_successor(&self, exists: bool) {
        if let Some(setup) = &self.setup {
            setup.ownership.set_successor(exists);
        }
    }

    /// Reads the wire again.
    async fn resume(&self) {
        self.has_successor(false);
        self.control.reclaim();
        if let Err(error) = self.network.hand_over(Step::Return).await {
            tracing::error!(%error, "cannot read the wire again");
        }
    }

    /// Waits until the new process stops or ends. Others that ask meanwhile are refused.
    async fn accompany(&self, stream: &UnixStream, listener: &Listener, pid: u32) {
        loop {
            tokio::select! {
                said = receive(stream) => match said {
                    Ok((Request::Stop, _)) => {
                        tracing::info!(pid, "the service stops");
                        self.stopper.stop();
                    }
                    Ok(_) => {}
                    Err(_) => break,
                },
                asked = listener.0.accept() => self.refuse(asked, pid).await,
            }
        }
        if self.control.is_taken() {
            // That process has handed over in turn, and then was killed.
            tracing::error!(
                pid,
                "cut off: nothing passes packets on to this process any more"
            );
            self.lifecycle.abort();
            return;
        }
        tracing::warn!(
            pid,
            "the process that took over has ended: this process reads the wire again"
        );
        self.resume().await;
        self.lifecycle.take_back();
    }

    async fn refuse(
        &self,
        asked: io::Result<(UnixStream, tokio::net::unix::SocketAddr)>,
        pid: u32,
    ) {
        match asked {
            Ok((stream, _)) => {
                let _ = in_time(receive::<Request>(&stream)).await;
                let why = format!("process {pid} has taken over already");
                let _ = send(&stream, &Answer::Refused { why }, &[]).await;
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}
