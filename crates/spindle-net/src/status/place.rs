//! Paths of control sockets: their directory, and sockets that only their user may open.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::NetError;

/// Most readers that wait to be accepted.
const BACKLOG: i32 = 16;

/// The directory in which control sockets are created and searched: `$RUNTIME_DIRECTORY`, which systemd sets
/// for a service that has `RuntimeDirectory=`, else `$XDG_RUNTIME_DIR/spindle`, else `/run/spindle` for root,
/// else a directory of the user's in the temporary directory.
pub fn directory() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|d| !d.is_empty());
    if let Some(own) = named("RUNTIME_DIRECTORY") {
        // Several directories are separated by colons. The first one is used.
        return std::env::split_paths(&own).next().unwrap_or_default();
    }
    match named("XDG_RUNTIME_DIR") {
        Some(base) => PathBuf::from(base).join("spindle"),
        None if nix::unistd::geteuid().is_root() => PathBuf::from("/run/spindle"),
        None => temporary(),
    }
}

/// This user's directory in the temporary directory, where any user may have created it.
fn temporary() -> PathBuf {
    std::env::temp_dir().join(format!("spindle-{}", nix::unistd::geteuid()))
}

/// The default control socket of a program of this name (a device, or a port).
pub fn default_path(name: &str) -> PathBuf {
    directory().join(format!("{name}.sock"))
}

/// The control sockets in [`directory`], sorted.
///
/// # Errors
/// [`NetError::ControlDirectory`] if another user may have put them there.
pub fn sockets() -> Result<Vec<PathBuf>, NetError> {
    let directory = directory();
    if directory == temporary() && directory.symlink_metadata().is_ok() {
        check(&directory)?;
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut list: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "sock"))
        .collect();
    list.sort();
    Ok(list)
}

/// Creates the directory for a control socket, with access for its user alone, if it does not exist.
///
/// # Errors
/// [`NetError::ControlDirectory`] if it is the one in the temporary directory and another user may use it;
/// [`NetError::System`] if it cannot be created.
pub(super) fn prepare(directory: &Path) -> Result<(), NetError> {
    if directory.symlink_metadata().is_err() {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        let what = format!("{}: cannot make the directory", directory.display());
        made.map_err(NetError::system(what))?;
    }
    match directory == temporary() {
        true => check(directory),
        false => Ok(()),
    }
}

/// Checks that a directory belongs to this user alone and is not a link to another place.
fn check(directory: &Path) -> Result<(), NetError> {
    let wrong = |problem: &'static str| NetError::ControlDirectory {
        path: directory.to_owned(),
        problem,
    };
    let what = format!("{}: cannot be looked at", directory.display());
    let found = directory
        .symlink_metadata()
        .map_err(NetError::system(what))?;
    if !found.is_dir() {
        return Err(wrong("is a link or a file"));
    }
    if found.uid() != Uid::effective().as_raw() {
        return Err(wrong("belongs to another user"));
    }
    if found.permissions().mode() & 0o077 != 0 {
        return Err(wrong("may be used by other users"));
    }
    Ok(())
}

/// Removes the socket that a program of this user left at this path, if there is one.
///
/// # Errors
/// [`NetError::ControlPath`] if something else is at the path; [`NetError::System`] if it cannot be removed.
pub(super) fn vacate(path: &Path) -> Result<(), NetError> {
    let what = || format!("{}: cannot replace the control socket", path.display());
    let found = match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(NetError::system(what()))?,
    };
    let wrong = |problem| NetError::ControlPath {
        path: path.to_owned(),
        problem,
    };
    if !found.file_type().is_socket() {
        return Err(wrong("is no socket"));
    }
    if found.uid() != Uid::effective().as_raw() {
        return Err(wrong("belongs to another user"));
    }
    std::fs::remove_file(path).map_err(NetError::system(what()))
}

/// A listening socket that only its user may open, from the moment when its file appears.
///
/// # Errors
/// The system's error.
pub(super) fn listener(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // On Linux bind(2) gives the file the socket's own mode, less the umask (unix_bind_bsd).
    let file = File::from(OwnedFd::from(socket));
    file.set_permissions(Permissions::from_mode(0o600))?;
    let socket = Socket::from(OwnedFd::from(file));
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_others_or_a_link_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let problem = |path: &Path| match check(path) {
            Err(e @ NetError::ControlDirectory { .. }) => e.to_string(),
            other => panic!("{}: {other:?}", path.display()),
        };
        let own = base.path().join("own");
        DirBuilder::new().mode(0o700).create(&own).unwrap();
        check(&own).unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(problem(&link).contains("is a link or a file"));
        for mode in [0o750, 0o701, 0o777] {
            std::fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
            assert!(problem(&own).contains("other users"), "{mode:o}");
        }
        // A directory of another user: root's, or, if this is root, one whose owner is changed.
        let foreign = match Uid::effective().is_root() {
            false => PathBuf::from("/"),
            true => {
                std::os::unix::fs::chown(&own, Some(12_345), None).unwrap();
                own
            }
        };
        let text = problem(&foreign);
        assert!(
            text.contains("another user") && text.contains("--control"),
            "{text}"
        );
    }

    #[test]
    fn a_socket_file_has_its_mode_from_the_beginning() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("control");
        let _listener = listener(&path).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(listener(&path).is_err(), "the path is in use");
    }
}
