//! A gateway takes over from a running gateway, which drains, without refusing a connection meanwhile.
//!
//! The new process asks the old one through a socket next to the old one's control socket ([`socket_of`]). The messages are:
//!
//! | message | from | meaning |
//! |---|---|---|
//! | take over | new | the new process wants the descriptors |
//! | offer | old | duplicates of the descriptors; the old process reads on |
//! | ready | new | the new process has started, without reading |
//! | yours | old | the old process reads no more |
//! | begun | new | the new process reads, and has the name of the control socket |
//! | confirmed | old | the old process drains, and says nothing more |
//!
//! Whatever fails before the last message, the old process goes on as before. The new process then ends, since it does not
//! get this message. The connection between the two stays open
//! until one of them ends:
//!
//! - If the old process ends, since its last connection has, the new one handles everything.
//! - If the new process ends without a message that the service stops, it has crashed, and the old process reads the
//!   wire again.
//! - After a message that the service stops, the old process drains within its limit of time.
//!
//! Both processes must run as the same user: neither root nor another user takes over from, or hands over to, a process of
//! a different user. The control socket itself cannot be used, because a gateway answers
//! there with its status before it has read anything.

mod message;
mod old;

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Uid;
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::error::NetError;
use crate::handover::{Channel, Predecessor, Step};
use crate::setup::SetupState;
#[cfg(doc)]
use crate::setup::Share;
use crate::socket::Network;
use crate::status;
use crate::wire_config::LinkKind;
use message::{receive, send};
pub use old::{Listener, Old};

/// The version of the messages. Processes of different versions do not take over from each other.
pub const VERSION: u32 = 2;
/// How long one process waits for an answer of the other.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the new process says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    /// It wants the descriptors.
    TakeOver {
        /// [`VERSION`] of the new process.
        version: u32,
    },
    /// It is ready to read.
    Ready,
    /// It reads.
    Begun,
    /// The old process is to stop, too.
    Stop,
}

/// What the old process says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    /// With the descriptors: the channel, those of the wire, those of [`Share::reserved`], and the listener of the
    /// metrics if there is one.
    Offer {
        /// The number of descriptors of the wire.
        wire: usize,
        /// The set-up of the device.
        setup: Option<SetupState>,
        /// Whether the last descriptor is the listener of the metrics.
        metrics: bool,
        /// The old process.
        pid: u32,
    },
    /// The old process reads no more.
    Yours {
        /// [`crate::handover::Outcome::half_open`].
        half_open: Vec<(std::net::SocketAddr, std::net::SocketAddr)>,
    },
    /// The old process drains.
    Confirmed,
    /// The old process goes on.
    Refused {
        /// The reason.
        why: String,
    },
}

/// The path at which a gateway with this control socket can be asked.
pub fn socket_of(control: &Path) -> PathBuf {
    let mut name = control.as_os_str().to_owned();
    name.push(".handover");
    name.into()
}

fn failed(why: impl Into<String>) -> NetError {
    NetError::Handover(why.into())
}

/// The descriptors of a running gateway, which still reads them.
#[derive(Debug)]
pub struct Offered {
    stream: UnixStream,
    channel: Channel,
    pid: u32,
    /// The descriptors of the wire.
    pub wire: Vec<OwnedFd>,
    /// The set-up of its device, with the sockets that reserve addresses.
    pub setup: Option<(SetupState, Vec<OwnedFd>)>,
    /// The listener of its metrics.
    pub metrics: Option<OwnedFd>,
}

impl Offered {
    /// Asks the gateway with this control socket. If none answers there, those are asked that have handed over to one
    /// that has ended. Returns `None` if none runs.
    ///
    /// # Errors
    /// [`NetError::Handover`] if one runs and refuses.
    pub async fn ask(control: &Path) -> Result<Option<Self>, NetError> {
        for path in std::iter::once(control.to_owned()).chain(status::drained(control)) {
            let path = socket_of(&path);
            match UnixStream::connect(&path).await {
                Ok(stream) => return Self::ask_through(stream).await.map(Some),
                Err(e)
                    if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
                Err(e) => return Err(failed(format!("{}: {e}", path.display()))),
            }
        }
        Ok(None)
    }

    async fn ask_through(stream: UnixStream) -> Result<Self, NetError> {
        let peer = stream.peer_cred();
        let uid = Uid::from_raw(peer.map_err(NetError::system("the peer is unknown"))?.uid());
        let own = Uid::effective();
        // Another user's process could keep the sockets and read what clients send, and what it offers is trusted.
        if uid != own {
            return Err(failed(format!(
                "it runs as user {uid}; want user {own}, which this process runs as"
            )));
        }
        send(&stream, &Request::TakeOver { version: VERSION }, &[]).await?;
        match in_time(receive(&stream)).await? {
            (
                Answer::Offer {
                    wire,
                    setup,
                    metrics,
                    pid,
                },
                mut descriptors,
            ) if descriptors.len() > wire => {
                let channel = Channel::from(descriptors.remove(0));
                let metrics = metrics.then(|| descriptors.pop()).flatten();
                let reserved = descriptors.split_off(wire.min(descriptors.len()));
                Ok(Self {
                    stream,
                    channel,
                    pid,
                    wire: descriptors,
                    setup: setup.map(|state| (state, reserved)),
                    metrics,
                })
            }
            (Answer::Refused { why }, _) => Err(failed(why)),
            (Answer::Offer { .. } | Answer::Yours { .. } | Answer::Confirmed, _) => {
                Err(failed("no descriptors came"))
            }
        }
    }

    /// The kind of the gateway's wire. Only a TUN device has a set-up.
    pub fn kind(&self) -> LinkKind {
        match self.setup {
            Some(_) => LinkKind::Tun,
            None => LinkKind::Udp,
        }
    }

    /// Takes over: the network reads the wire from now on. The link of `network` must have been made from
    /// [`Self::wire`].
    ///
    /// # Errors
    /// [`NetError::Handover`] if the old process does not hand over. It then goes on as before, as soon as `self` is
    /// dropped.
    pub async fn begin(self, network: &Network) -> Result<Begun, NetError> {
        send(&self.stream, &Request::Ready, &[]).await?;
        let half_open = match in_time(receive(&self.stream)).await? {
            (Answer::Yours { half_open }, _) => half_open,
            (Answer::Refused { why }, _) => return Err(failed(why)),
            (Answer::Offer { .. } | Answer::Confirmed, _) => {
                return Err(failed("an answer out of order"));
            }
        };
        let ends = half_open.into_iter().map(|(l, r)| (l.into(), r.into()));
        let predecessor = Predecessor::new(self.channel, ends.collect());
        network.hand_over(Step::Begin(predecessor)).await?;
        Ok(Begun {
            stream: self.stream,
            pid: self.pid,
        })
    }
}

/// A gateway that has begun to read, while the old process can still go on as before.
#[derive(Debug)]
pub struct Begun {
    stream: UnixStream,
    pid: u32,
}

impl Begun {
    /// Confirms that the old process is to drain.
    ///
    /// # Errors
    /// [`NetError::Handover`] if the old process does not agree in time, since it has ended or has gone on as before. This
    /// process must end then: both would read the wire.
    pub async fn confirm(&self) -> Result<(), NetError> {
        in_time(send(&self.stream, &Request::Begun, &[])).await?;
        match in_time(receive(&self.stream)).await?.0 {
            Answer::Confirmed => Ok(()),
            Answer::Refused { why } => Err(failed(why)),
            other => Err(failed(format!(
                "found {other:?}, want that it is confirmed"
            ))),
        }
    }

    /// Waits until the old process has ended, and logs it.
    ///
    /// # Errors
    /// [`NetError::Handover`] if it says anything, which it must not do.
    pub async fn ended(&self) -> Result<(), NetError> {
        let pid = self.pid;
        let mut byte = [0];
        let read = || self.stream.try_read(&mut byte);
        // An error of the connection means that it has ended, too.
        if let Ok(1..) = self.stream.async_io(Interest::READABLE, read).await {
            return Err(failed(format!(
                "process {pid}, which was taken over, has sent a message; want none"
            )));
        }
        tracing::info!(pid, "the process that was taken over has ended");
        Ok(())
    }

    /// Passes a signal to stop on to the old process.
    pub async fn stop(&self) {
        // An error means that it has ended.
        let _ = in_time(send(&self.stream, &Request::Stop, &[])).await;
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, NetError>>) -> Result<T, NetError> {
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    answer.unwrap_or_else(|_| Err(failed("it does not answer in time")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> (Begun, UnixStream) {
        let (stream, old) = UnixStream::pair().unwrap();
        (Begun { stream, pid: 7 }, old)
    }

    #[tokio::test]
    async fn a_handover_is_confirmed_only_if_the_old_process_agrees() {
        for (answer, agrees) in [
            (Some(Answer::Confirmed), true),
            (
                Some(Answer::Refused {
                    why: "too late".into(),
                }),
                false,
            ),
            (None, false),
        ] {
            let (begun, old) = begun();
            if let Some(answer) = &answer {
                send(&old, answer, &[]).await.unwrap();
            }
            let answering = async {
                let asked = receive::<Request>(&old).await.unwrap().0;
                assert!(matches!(asked, Request::Begun));
                drop(old);
            };
            let (confirmed, ()) = tokio::join!(begun.confirm(), answering);
            assert_eq!(confirmed.is_ok(), agrees, "{answer:?}: {confirmed:?}");
        }
    }

    #[tokio::test]
    async fn a_message_after_the_handover_is_no_end_of_the_old_process() {
        let (begun, old) = self::begun();
        drop(old);
        assert!(begun.ended().await.is_ok());
        let (begun, old) = self::begun();
        send(&old, &Answer::Confirmed, &[]).await.unwrap();
        let error = begun.ended().await.unwrap_err().to_string();
        assert!(error.contains("process 7"), "{error}");
    }
}
