//! The keys of a gateway: a directory with an authority, the gateway's certificate, and the register of clients.
//!
//! `mod.rs` has the directory and its files, `authority.rs` what the authority signs, `register.rs` the list of clients
//! that it has signed certificates for.

pub(crate) mod authority;
pub(crate) mod register;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Mode of all files: only the owner reads and writes.
const FILE_MODE: u32 = 0o600;
/// Mode of the directory.
const DIRECTORY_MODE: u32 = 0o700;

/// Why keys cannot be made or read. No text contains a part of a key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeysError {
    /// A file cannot be read or written.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        source: io::Error,
    },
    /// The directory already has keys.
    #[error(
        "{}: there already; nothing is overwritten: name another directory, or renew the gateway's certificate \
         with --renew", .0.display()
    )]
    Exists(PathBuf),
    /// A file is damaged, or does not fit another file.
    #[error("{}: {problem}", path.display())]
    Unfit { path: PathBuf, problem: String },
    /// A value of the command line.
    #[error("--{flag}: {problem}")]
    Flag { flag: &'static str, problem: String },
    /// rcgen refused to sign.
    #[error("cannot sign: {0}")]
    Sign(#[from] rcgen::Error),
    /// The system has no random numbers.
    #[error(transparent)]
    Random(#[from] spindle_net::NetError),
}

impl From<KeysError> for Failure {
    fn from(e: KeysError) -> Self {
        match e {
            KeysError::Io {
                path,
                action,
                source,
            } => Self::file(&path, action, &source),
            KeysError::Sign(_) | KeysError::Random(_) => Self::Other(e.to_string()),
            e => Self::Usage(e.to_string()),
        }
    }
}

fn io_error(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> KeysError {
    let path = path.to_owned();
    move |source| KeysError::Io {
        path,
        action,
        source,
    }
}

/// A directory of keys. The methods without an error return paths in it.
#[derive(Clone, Debug)]
pub(crate) struct KeyDirectory {
    path: PathBuf,
}

/// A directory that no other process changes as long as this lives.
#[derive(Debug)]
pub(crate) struct Locked {
    _directory: File,
}

impl KeyDirectory {
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Makes the directory and its parents. It may exist, but must not have keys.
    pub(crate) fn make(path: &Path) -> Result<(Self, Locked), KeysError> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(DIRECTORY_MODE).create(path);
        made.map_err(io_error(path, "make"))?;
        let (directory, lock) = Self::lock(path)?;
        let files = [
            directory.authority_certificate(),
            directory.authority_key(),
            directory.gateway_certificate(),
            directory.gateway_key(),
            directory.revoked(),
            directory.register(),
        ];
        match files.into_iter().find(|f| f.symlink_metadata().is_ok()) {
            Some(file) => Err(KeysError::Exists(file)),
            None => Ok((directory, lock)),
        }
    }

    /// Waits until no other process changes the directory.
    pub(crate) fn lock(path: &Path) -> Result<(Self, Locked), KeysError> {
        let directory = File::open(path).map_err(io_error(path, "open"))?;
        directory.lock().map_err(io_error(path, "lock"))?;
        let locked = Locked {
            _directory: directory,
        };
        Ok((Self::at(path), locked))
    }

    pub(crate) fn authority_certificate(&self) -> PathBuf {
        self.path.join("ca.pem")
    }

    pub(crate) fn authority_key(&self) -> PathBuf {
        self.path.join("ca.key")
    }

    pub(crate) fn gateway_certificate(&self) -> PathBuf {
        self.path.join("gateway.pem")
    }

    pub(crate) fn gateway_key(&self) -> PathBuf {
        self.path.join("gateway.key")
    }

    /// The revocation list.
    pub(crate) fn revoked(&self) -> PathBuf {
        self.path.join("revoked.pem")
    }

    /// The register of clients.
    pub(crate) fn register(&self) -> PathBuf {
        self.path.join("clients.toml")
    }
}

/// Opens a new file that only its owner may read.
pub(crate) fn new_file(path: &Path) -> Result<File, KeysError> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(FILE_MODE);
    match options.open(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            Err(KeysError::Exists(path.to_owned()))
        }
        opened => opened.map_err(io_error(path, "make")),
    }
}

/// Writes a text into a file that was made by [`new_file`], down to the disk.
pub(crate) fn fill(file: &mut File, path: &Path, text: &str) -> Result<(), KeysError> {
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    written.map_err(io_error(path, "write"))
}

/// Replaces a file as a whole: a reader sees the old text or the new one. Owner and mode of a file that
/// exists stay, so that a service that may read it still may.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), KeysError> {
    let temporary = path.with_extension("new");
    // A former run that was killed may have left it. The directory is locked.
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(io_error(&temporary, "remove")(e));
        }
        _ => {}
    }
    let mut file = new_file(&temporary)?;
    if let Ok(old) = fs::metadata(path) {
        let new = file.metadata().map_err(io_error(&temporary, "read"))?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            let kept = fchown(&file, Some(old.uid()), Some(old.gid()));
            kept.map_err(io_error(&temporary, "set the owner"))?;
        }
        let kept = file.set_permissions(old.permissions());
        kept.map_err(io_error(&temporary, "set the mode"))?;
    }
    fill(&mut file, &temporary, text)?;
    fs::rename(&temporary, path).map_err(io_error(path, "replace"))?;
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|d| d.sync_all());
    synced.map_err(io_error(directory, "write"))
}

pub(crate) fn read(path: &Path) -> Result<String, KeysError> {
    fs::read_to_string(path).map_err(io_error(path, "read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn replaced_files_keep_their_mode_and_new_ones_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clients.toml");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        replace(&path, "first").unwrap();
        assert_eq!(mode(), FILE_MODE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        fs::write(dir.path().join("clients.new"), "left by a killed run").unwrap();
        replace(&path, "second").unwrap();
        assert_eq!((read(&path).unwrap().as_str(), mode()), ("second", 0o640));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_with_any_of_the_files_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/keys");
        let (keys, lock) = KeyDirectory::make(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, DIRECTORY_MODE);
        drop(lock);
        assert!(KeyDirectory::make(&path).is_ok());
        fs::write(keys.gateway_key(), "x").unwrap();
        assert!(matches!(
            KeyDirectory::make(&path),
            Err(KeysError::Exists(_))
        ));
    }
}
