//! The control socket: what a running gateway or connect says of itself.
//!
//! Whoever connects gets one [`Status`] as a line of JSON. The socket belongs to the user who
//! started the program, and nobody else may open it.

mod document;

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

pub use document::{Connection, Status, Subflow, Totals};

use crate::{NetError, Network};

/// How long a reader may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest document taken from a socket: some hundred thousand connections.
const MAX_DOCUMENT: u64 = 256 << 20;
/// The version of [`Status`].
pub const VERSION: u32 = 1;

/// What a status is made from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The data path.
    pub network: Network,
    /// "gateway" or "connect".
    pub kind: &'static str,
    /// Name of the transport.
    pub transport: String,
    /// Where it listens.
    pub listen: Vec<String>,
    /// Where connections go on to.
    pub to: String,
    /// When it started.
    pub since: Instant,
}

impl Source {
    /// The status now.
    ///
    /// # Errors
    /// [`NetError::Stopped`] if the data path has ended.
    pub async fn status(&self) -> Result<Status, NetError> {
        let mut connections = self.network.connections().await?;
        connections.sort_by_key(|c| c.id);
        Ok(Status {
            version: VERSION,
            kind: self.kind.to_owned(),
            transport: self.transport.clone(),
            pid: std::process::id(),
            uptime_s: self.since.elapsed().as_secs_f64(),
            listen: self.listen.clone(),
            to: self.to.clone(),
            totals: Totals::from(&self.network.counters().await?),
            connections: connections.iter().map(Connection::from).collect(),
        })
    }
}

/// A control socket; its file goes with it.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Control {
    fn drop(&mut self) {
        // Gone already, or not ours to remove any more: nothing to be done about it.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Control {
    /// Makes the socket, in place of one that a program left behind.
    ///
    /// # Errors
    /// [`NetError::System`] if the file cannot be made, or a running program has it.
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
        if let Some(directory) = path.parent().filter(|d| !d.exists()) {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(NetError::system(what("make a directory for")))?;
        }
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(NetError::system(what("replace"))(e));
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(NetError::system(what("make")))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .map_err(NetError::system(what("protect")))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Answers readers, one after the other, until accepting fails.
    ///
    /// # Errors
    /// What accepting gives.
    pub async fn serve(self, source: Source) -> io::Result<()> {
        let source = Arc::new(source);
        loop {
            let (stream, _) = self.listener.accept().await?;
            // A reader that is slow or goes away is its own affair.
            let _ = tokio::time::timeout(PATIENCE, answer(stream, &source)).await;
        }
    }
}

async fn answer(mut stream: UnixStream, source: &Source) -> io::Result<()> {
    let status = source.status().await.map_err(io::Error::other)?;
    let mut line = serde_json::to_vec(&status).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.shutdown().await
}

/// Asks the program behind a control socket for its status.
///
/// # Errors
/// [`NetError::System`] if nobody answers there, or not with a status of this version.
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

/// The directory where control sockets are put and looked for: `$RUNTIME_DIRECTORY`, which systemd gives a
/// service that has `RuntimeDirectory=`, `$XDG_RUNTIME_DIR/spindle`, `/run/spindle` for root, else a
/// directory of the user's in the temporary directory.
pub fn directory() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|d| !d.is_empty());
    let user = nix::unistd::geteuid();
    if let Some(own) = named("RUNTIME_DIRECTORY") {
        // Several are separated by colons; the first is as good as any.
        return std::env::split_paths(&own).next().unwrap_or_default();
    }
    match named("XDG_RUNTIME_DIR") {
        Some(base) => PathBuf::from(base).join("spindle"),
        None if user.is_root() => PathBuf::from("/run/spindle"),
        None => std::env::temp_dir().join(format!("spindle-{user}")),
    }
}

/// The control socket of a program of this name (a device, or a port), if none is chosen.
pub fn default_path(name: &str) -> PathBuf {
    directory().join(format!("{name}.sock"))
}

/// The control sockets in [`directory`], sorted.
pub fn sockets() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory()).into_iter().flatten();
    let mut list: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "sock"))
        .collect();
    list.sort();
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkConfig, memory};

    #[tokio::test]
    async fn a_status_is_asked_for_and_the_socket_goes_with_its_program() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/gw.sock");
        let (link, _other) = memory::pair(64);
        let network = Network::start(NetworkConfig::default(), Box::new(link)).unwrap();
        let control = Control::bind(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let taken = Control::bind(&path).unwrap_err().to_string();
        assert!(taken.contains("--control"), "{taken}");
        let source = Source {
            network: network.clone(),
            kind: "gateway",
            transport: "fuso".into(),
            listen: vec!["10.0.0.1:80".into()],
            to: "127.0.0.1:80".into(),
            since: Instant::now(),
        };
        let serving = tokio::spawn(control.serve(source));
        let status = ask(&path).await.unwrap();
        assert_eq!(
            (status.version, status.transport.as_str()),
            (VERSION, "fuso")
        );
        assert!(status.connections.is_empty());
        serving.abort();
        let _ = serving.await;
        assert!(!path.exists());
        let nobody = ask(&path).await.unwrap_err().to_string();
        assert!(nobody.contains("gw.sock"), "{nobody}");
        network.shutdown().await;
    }
}
