//! Reports to a service manager: sd_notify(3), the protocol of systemd's `Type=notify`.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Variable with the name of the manager's socket.
const VARIABLE: &str = "NOTIFY_SOCKET";
/// Variables with the manager's time limit for a sign of life, in microseconds, and the process that it applies
/// to: see sd_watchdog_enabled(3).
const WATCHDOG: [&str; 2] = ["WATCHDOG_USEC", "WATCHDOG_PID"];

/// The variable that restricts the manager's time limit to one process. A process that this one starts to take over does not
/// get it.
pub const WATCHDOG_PROCESS: &str = WATCHDOG[1];

/// Reports the state of this process to the service manager, if there is one that requested it.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Notifies the manager that started this process. Sends nothing if there is no manager, or if it cannot be
    /// reached.
    pub fn from_environment() -> Self {
        let name = std::env::var_os(VARIABLE).filter(|n| !n.is_empty());
        let Some(name) = name else {
            return Self::default();
        };
        let [usec, pid] = WATCHDOG.map(|v| std::env::var(v).ok());
        match Self::to(&name) {
            Ok(notifier) => Self {
                watchdog: watchdog(usec.as_deref(), pid.as_deref()),
                ..notifier
            },
            Err(error) => {
                tracing::warn!(socket = %name.to_string_lossy(), %error, "the service manager is not told");
                Self::default()
            }
        }
    }

    /// Notifies the socket of this name: a path, or `@` and the name of an abstract socket.
    ///
    /// # Errors
    /// If no process has the socket open.
    pub fn to(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect_addr(&address)?;
        Ok(Self {
            socket: Some(socket),
            watchdog: None,
        })
    }

    /// How long the manager waits for [`Self::alive`] before it considers the process hung. `None` if it does
    /// not request it.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Reports that the process does its work.
    pub fn alive(&self) {
        self.tell(format_args!("WATCHDOG=1"));
    }

    /// Reports that the service is ready.
    pub fn ready(&self) {
        self.tell(format_args!("READY=1"));
    }

    /// Reports that another process, which this one has started or which runs in the same control group, is the main
    /// process of the service from now on. The manager's time limit for a sign of life begins again with it.
    pub fn replaced_by(&self, pid: u32) {
        self.tell(format_args!("MAINPID={pid}\nWATCHDOG=1"));
    }

    /// Reports that the process stops, and may take this long.
    pub fn stopping(&self, patience: Duration) {
        let micros = patience.as_micros();
        self.tell(format_args!("STOPPING=1\nEXTEND_TIMEOUT_USEC={micros}"));
    }

    /// Sends a message. A failure has no consequences.
    fn tell(&self, what: fmt::Arguments<'_>) {
        let sent = self
            .socket
            .as_ref()
            .map(|s| s.send(what.to_string().as_bytes()));
        if let Some(Err(error)) = sent {
            tracing::debug!(%error, "the service manager does not listen");
        }
    }
}

/// The manager's time limit, from the environment variables.
fn watchdog(usec: Option<&str>, pid: Option<&str>) -> Option<Duration> {
    let meant = pid.is_none_or(|p| p.parse() == Ok(std::process::id()));
    let usec = usec?.parse().ok().filter(|n| *n > 0 && meant)?;
    Some(Duration::from_micros(usec))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(manager: &UnixDatagram) -> String {
        let mut text = [0; 256];
        let n = manager.recv(&mut text).expect("a message");
        String::from_utf8_lossy(&text[..n]).into_owned()
    }

    #[test]
    fn ready_alive_and_stopping_reach_a_manager_by_path_and_by_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let abstract_name = format!("spindle-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (name, manager) in [
            (path.clone().into_os_string(), UnixDatagram::bind(&path)),
            (
                format!("@{abstract_name}").into(),
                UnixDatagram::bind_addr(&address),
            ),
        ] {
            let manager = manager.unwrap();
            let notifier = Notifier::to(&name).unwrap();
            notifier.ready();
            assert_eq!(heard(&manager), "READY=1");
            notifier.alive();
            assert_eq!(heard(&manager), "WATCHDOG=1");
            notifier.replaced_by(7);
            assert_eq!(heard(&manager), "MAINPID=7\nWATCHDOG=1");
            notifier.stopping(Duration::from_secs(30));
            assert_eq!(heard(&manager), "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000");
        }
    }

    #[test]
    fn a_watchdog_applies_only_to_the_process_that_it_names() {
        let own = std::process::id().to_string();
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog(Some("1000000"), None), second);
        assert_eq!(watchdog(Some("1000000"), Some(&own)), second);
        assert_eq!(watchdog(Some("1000000"), Some("1")), None);
        assert_eq!(watchdog(Some("0"), None), None);
        assert_eq!(watchdog(Some("soon"), None), None);
        assert_eq!(watchdog(None, Some(&own)), None);
    }

    #[test]
    fn without_a_manager_nothing_is_sent_and_a_missing_socket_is_an_error() {
        Notifier::default().ready();
        let dir = tempfile::tempdir().unwrap();
        assert!(Notifier::to(dir.path().join("none").as_os_str()).is_err());
    }
}
