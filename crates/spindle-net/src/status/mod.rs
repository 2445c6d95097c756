//! The control socket: how a running gateway or connect service reports its status.
//!
//! A client that connects gets one [`Status`] as a line of JSON. The socket belongs to the user who started the
//! program, and no other user may open it.

mod document;
mod name;
mod place;

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

pub use document::{
    Connection, Direct, EndedSubflow, Metered, ServiceStatus, Status, Subflow, Totals, Uplink,
};
pub use name::Name;
pub(crate) use name::{drained, private_listener};
pub use place::{default_path, directory, sockets};

use crate::fallback::Fallback;
use crate::gateway::ServiceHandle;
use crate::observers::{self, Allowance};
use crate::service::{Lifecycle, Stage};
use crate::uplinks::Uplinks;
use crate::{ConnectionStatus, NetError, Network};

/// Limits on readers. A document may be large, and each reader gets its own.
const ALLOWANCE: Allowance = Allowance {
    at_once: 4,
    patience: Duration::from_secs(5),
};
/// How long [`ask`] waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest document accepted from a socket: some hundred thousand connections.
const MAX_DOCUMENT: u64 = 256 << 20;
/// The version of [`Status`].
pub const VERSION: u32 = 1;

/// What a status is made from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The data path.
    pub network: Network,
    /// "gateway", "connect" or "exec".
    pub kind: &'static str,
    /// Name of the transport.
    pub transport: String,
    /// The addresses that it listens on.
    pub listen: Vec<String>,
    /// The destination of its connections, unless `services` have it.
    pub to: String,
    /// The services of a gateway.
    pub services: Vec<ServiceHandle>,
    /// The uplinks of a connect service that follows them.
    pub uplinks: Option<Uplinks>,
    /// What a connect service opens directly.
    pub fallback: Option<Fallback>,
    /// When the service started.
    pub since: Instant,
    /// Its switch.
    pub lifecycle: Lifecycle,
}

impl Source {
    /// The status now.
    ///
    /// # Errors
    /// [`NetError::Stopped`] if the data path has ended.
    pub async fn status(&self) -> Result<Status, NetError> {
        let mut connections = self.network.connections().await?;
        connections.sort_by_key(|c| c.id);
        let counters = self.network.counters().await?;
        let followed = self.uplinks.as_ref();
        let uplinks = followed.map(Uplinks::list).unwrap_or_default();
        let usage = followed.map(Uplinks::usage).unwrap_or_default();
        let several = self.services.len() > 1;
        let described = |c: &ConnectionStatus| {
            let accepts = |s: &&ServiceHandle| c.listener.is_some_and(|l| s.accepts_at(l));
            let service = self.services.iter().find(accepts).filter(|_| several);
            Connection {
                service: service.map(|s| s.name().to_owned()),
                ..Connection::from(c)
            }
        };
        Ok(Status {
            version: VERSION,
            kind: self.kind.to_owned(),
            transport: self.transport.clone(),
            pid: std::process::id(),
            stage: Some(
                match self.lifecycle.stage() {
                    Stage::Running => "running",
                    Stage::HandedOver => "handed-over",
                    Stage::Draining | Stage::Aborting => "draining",
                }
                .to_owned(),
            ),
            uptime_s: self.since.elapsed().as_secs_f64(),
            listen: self.listen.clone(),
            to: match self.services.is_empty() {
                true => self.to.clone(),
                false => {
                    let all: Vec<_> = self.services.iter().map(|s| s.to().to_string()).collect();
                    all.join(", ")
                }
            },
            services: match several {
                true => self.services.iter().map(ServiceStatus::from).collect(),
                false => Vec::new(),
            },
            totals: Totals::from(&counters),
            udp: counters.udp,
            uplinks: uplinks.iter().map(Uplink::from).collect(),
            metered: usage.into_iter().map(Metered::from).collect(),
            direct: self.fallback.as_ref().map(|f| f.direct().into()),
            connections: connections.iter().map(described).collect(),
        })
    }
}

/// A control socket. Its file is removed when it and all copies of its name are dropped.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    name: Arc<Name>,
}

impl Control {
    /// Creates the socket. It replaces a socket that a program left behind. Those that killed programs left which had handed
    /// over to another are removed.
    ///
    /// # Errors
    /// [`NetError::System`] if the file cannot be created, or a running program uses it;
    /// [`NetError::ControlPath`] if something else is at the path; [`NetError::ControlDirectory`] if its
    /// directory may be another user's.
    pub fn bind(path: &Path) -> Result<Self, NetError> {
        let what = |done: &str| format!("{}: cannot {done} the control socket", path.display());
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(NetError::System {
                what: what("make"),
                source: io::Error::new(
                    io::ErrorKind::AddrInUse,
                    "a running program answers there; choose another with --control",
                ),
            });
        }
        if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
            place::prepare(directory)?;
        }
        name::remove_left(path);
        let listener = private_listener(path)?;
        let listener = UnixListener::from_std(listener).map_err(NetError::system(what("make")))?;
        Ok(Self {
            listener,
            name: Arc::new(Name::new(path)),
        })
    }

    /// The name of the socket, which changes when another process takes over.
    pub fn name(&self) -> Arc<Name> {
        self.name.clone()
    }

    /// Answers readers for as long as it is polled.
    pub async fn serve(self, source: Source) -> Infallible {
        let source = Arc::new(source);
        let accept =
            |cx: &mut Context<'_>| self.listener.poll_accept(cx).map_ok(|(stream, _)| stream);
        observers::serve("the control socket", ALLOWANCE, accept, |stream| {
            answer(stream, source.clone())
        })
        .await
    }
}

async fn answer(mut stream: UnixStream, source: Arc<Source>) -> io::Result<()> {
    let status = source.status().await.map_err(io::Error::other)?;
    let mut line = serde_json::to_vec(&status).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.shutdown().await
}

/// Asks the program behind a control socket for its status.
///
/// # Errors
/// [`NetError::System`] if no program answers, or if the answer is not a status of this version.
pub async fn ask(path: &Path) -> Result<Status, NetError> {
    let asking = async {
        let mut stream = UnixStream::connect(path).await?;
        let mut text = Vec::new();
        (&mut stream)
            .take(MAX_DOCUMENT)
            .read_to_end(&mut text)
            .await?;
        serde_json::from_slice(&text).map_err(io::Error::other)
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(NetError::system(format!("{}: no status", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::{BackendAddr, Backends};
    use crate::gateway::{Backend, Gateway, GatewayOptions, Service};
    use crate::{NetworkConfig, memory};
    use std::net::SocketAddr;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_a_socket_that_was_left_behind_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |path: &Path, why: &str| match Control::bind(path) {
            Err(e @ NetError::ControlPath { .. }) => {
                let text = e.to_string();
                assert!(text.contains(why) && text.contains("--control"), "{text}");
            }
            other => panic!("{other:?}"),
        };
        let file = dir.path().join("notes.txt");
        std::fs::write(&file, "notes").unwrap();
        refused(&file, "is no socket");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "notes");
        refused(dir.path(), "is no socket");
        let left = dir.path().join("left.sock");
        drop(place::listener(&left).unwrap());
        let link = dir.path().join("link.sock");
        std::os::unix::fs::symlink(&left, &link).unwrap();
        refused(&link, "is no socket");
        assert!(left.symlink_metadata().is_ok() && link.symlink_metadata().is_ok());
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&left, Some(12_345), None).unwrap();
            refused(&left, "belongs to another user");
            std::os::unix::fs::chown(&left, Some(0), None).unwrap();
        }
        place::vacate(&left).unwrap();
        assert!(left.symlink_metadata().is_err());
        place::vacate(&left).unwrap();
    }

    #[tokio::test]
    async fn a_status_is_returned_and_the_socket_is_removed_when_its_program_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/gw.sock");
        let (link, _other) = memory::pair(64);
        let network = Network::start(NetworkConfig::default(), Box::new(link)).unwrap();
        let control = Control::bind(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let taken = Control::bind(&path).unwrap_err().to_string();
        assert!(taken.contains("--control"), "{taken}");
        let at = |text: &str| BackendAddr::from(text.parse::<SocketAddr>().unwrap());
        let backends = Backends::new([at("127.0.0.1:80")]);
        let config = Arc::new(spindle_mptcp::Config::default());
        let listen = vec!["10.0.0.1:80".parse().unwrap()];
        let options = GatewayOptions::new(listen, Backend::Service(backends.clone()), config);
        let gateway = Gateway::bind(&network, options).await.unwrap();
        let source = source(&network, &gateway);
        let serving = tokio::spawn(control.serve(source));
        let status = ask(&path).await.unwrap();
        assert_eq!(
            (status.version, status.transport.as_str()),
            (VERSION, "fuso")
        );
        assert!(status.connections.is_empty());
        assert_eq!(status.to, "127.0.0.1:80");
        backends.replace([at("127.0.0.1:81"), at("127.0.0.1:82")]);
        assert_eq!(ask(&path).await.unwrap().to, "127.0.0.1:81 127.0.0.1:82");
        serving.abort();
        let _ = serving.await;
        assert!(!path.exists());
        let error = ask(&path).await.unwrap_err().to_string();
        assert!(error.contains("gw.sock"), "{error}");
        network.shutdown().await;
    }

    fn source(network: &Network, gateway: &Gateway) -> Source {
        Source {
            network: network.clone(),
            kind: "gateway",
            transport: "fuso".into(),
            listen: Vec::new(),
            to: String::new(),
            services: gateway.services(),
            uplinks: None,
            fallback: None,
            since: Instant::now(),
            lifecycle: Lifecycle::default(),
        }
    }

    #[tokio::test]
    async fn several_services_have_an_entry_each() {
        let (link, _other) = memory::pair(64);
        let network = Network::start(NetworkConfig::default(), Box::new(link)).unwrap();
        let service = |name: &str, listen: &str, to: &str| Service {
            name: name.into(),
            ..Service::new(
                vec![listen.parse().unwrap()],
                to.parse::<SocketAddr>().unwrap(),
            )
        };
        let services = vec![
            service("web", "10.0.0.1:80", "127.0.0.1:8080"),
            service("mail", "10.0.0.1:25", "127.0.0.1:2525"),
        ];
        let config = Arc::new(spindle_mptcp::Config::default());
        let options = GatewayOptions::of_services(services, config);
        let gateway = Gateway::bind(&network, options).await.unwrap();
        let source = source(&network, &gateway);
        let status = source.status().await.unwrap();
        assert_eq!(status.to, "127.0.0.1:8080, 127.0.0.1:2525");
        let names: Vec<_> = status.services.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["web", "mail"]);
        assert_eq!(status.services[1].listen, ["10.0.0.1:25"]);
        network.shutdown().await;
    }
}
