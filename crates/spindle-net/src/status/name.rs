//! The name of a control socket, which changes when another process takes over.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::place;
use crate::NetError;
use crate::takeover::socket_of;

/// What the names of the control sockets of processes that drain contain, before the number of the process.
const DRAINING: &str = ".draining-";

/// The name of a control socket. Its file, and that of the socket for handovers, are removed when it is dropped.
#[derive(Debug)]
pub struct Name {
    /// The name for the time when no other process has taken over.
    own: PathBuf,
    current: Mutex<PathBuf>,
}

impl Name {
    pub(super) fn new(own: &Path) -> Self {
        Self {
            own: own.to_owned(),
            current: Mutex::new(own.to_owned()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PathBuf> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present path.
    pub fn path(&self) -> PathBuf {
        self.lock().clone()
    }

    /// Renames the sockets, so that another process can have the name: `NAME.sock` becomes `NAME.draining-PID.sock`.
    pub fn retire(&self) {
        self.rename(&draining(&self.own, std::process::id()));
    }

    /// Renames the sockets back, unless another process answers there.
    pub fn reclaim(&self) {
        if !self.is_taken() {
            self.rename(&self.own);
        }
    }

    /// Whether another process answers at the former name.
    pub fn is_taken(&self) -> bool {
        *self.lock() != self.own && UnixStream::connect(&self.own).is_ok()
    }

    fn rename(&self, to: &Path) {
        let mut current = self.lock();
        if *current == to {
            return;
        }
        // Renaming replaces a socket that an ended process has left there.
        for (from, to) in [
            (current.clone(), to.to_owned()),
            (socket_of(&current), socket_of(to)),
        ] {
            if let Err(error) = std::fs::rename(&from, &to) {
                tracing::warn!(from = %from.display(), to = %to.display(), %error, "cannot rename the control socket");
            }
        }
        to.clone_into(&mut current);
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let path = self.path();
        // An error means that a file no longer exists or may not be removed. Nothing can be done about it.
        let _ = std::fs::remove_file(socket_of(&path));
        let _ = std::fs::remove_file(path);
    }
}

/// The name of the control socket of a process that drains.
fn draining(own: &Path, pid: u32) -> PathBuf {
    let stem = own.with_extension("");
    let mut name = OsString::from(stem);
    name.push(format!("{DRAINING}{pid}"));
    if let Some(extension) = own.extension() {
        name.push(".");
        name.push(extension);
    }
    name.into()
}

/// The control sockets of processes that have handed over the gateway with this control socket.
pub(crate) fn drained(own: &Path) -> Vec<PathBuf> {
    let directory = own.parent().filter(|d| !d.as_os_str().is_empty());
    let entries = std::fs::read_dir(directory.unwrap_or(Path::new(".")));
    let paths = entries
        .into_iter()
        .flatten()
        .filter_map(|e| Some(e.ok()?.path()));
    let is_one = |path: &PathBuf| {
        let text = path.to_string_lossy();
        let pid = text.rsplit(DRAINING).next().unwrap_or_default();
        let pid = pid.split('.').next().and_then(|p| p.parse().ok());
        pid.is_some_and(|pid| path.file_name() == draining(own, pid).file_name())
    };
    paths.filter(is_one).collect()
}

/// Removes the control sockets that killed processes left behind which had handed over the gateway with this control socket.
pub(super) fn remove_left(own: &Path) {
    for path in drained(own) {
        let refused = |e: io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
        if UnixStream::connect(&path).is_err_and(refused) {
            for path in [socket_of(&path), path] {
                if let Err(error) = place::vacate(&path) {
                    tracing::debug!(path = %path.display(), %error, "the socket stays");
                }
            }
        }
    }
}

/// A listening socket that only its user may open. It replaces a socket that a program of this user left behind.
pub(crate) fn private_listener(path: &Path) -> Result<UnixListener, NetError> {
    let what = format!("{}: cannot make the control socket", path.display());
    place::vacate(path)?;
    place::listener(path).map_err(NetError::system(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_killed_processes_are_removed_and_those_of_running_ones_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("gateway-7000.sock");
        let (left, runs) = (draining(&own, 1), draining(&own, 2));
        drop(private_listener(&left).unwrap());
        drop(private_listener(&socket_of(&left)).unwrap());
        let _running = private_listener(&runs).unwrap();
        let other = draining(&dir.path().join("gateway-7001.sock"), 1);
        drop(private_listener(&other).unwrap());
        remove_left(&own);
        assert_eq!(drained(&own), [runs]);
        assert!(!left.exists() && !socket_of(&left).exists() && other.exists());
    }

    #[test]
    fn sockets_of_a_process_that_drains_are_found_under_their_other_name_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        for own in ["gateway-7000.sock", "control"] {
            let own = dir.path().join(own);
            let _control = private_listener(&own).unwrap();
            let _handover = private_listener(&socket_of(&own)).unwrap();
            let name = Name::new(&own);
            assert!(drained(&own).is_empty());
            name.retire();
            let other = drained(&own);
            assert_eq!(other, [name.path()]);
            let is_sock = |p: &Path| p.extension().is_some_and(|e| e == "sock");
            assert_eq!(is_sock(&other[0]), is_sock(&own));
            assert!(!own.exists() && socket_of(&other[0]).exists());
            UnixStream::connect(&other[0]).unwrap();
            assert!(drained(&dir.path().join("gateway-700.sock")).is_empty());
            // Another process has the name, and then has left it behind.
            let taken = private_listener(&own).unwrap();
            name.reclaim();
            assert_eq!(name.path(), other[0]);
            drop(taken);
            name.reclaim();
            assert_eq!(name.path(), own);
            UnixStream::connect(&own).unwrap();
            drop(name);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
}
