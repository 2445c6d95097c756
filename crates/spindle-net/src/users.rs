//! Users of a proxy and their passwords, from a file.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

use crate::error::NetError;
use crate::randomness::random_bytes;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// Longest name and longest password in bytes (RFC 1929, section 2).
const MOST_BYTES: usize = 255;
/// Permissions of all users other than the file's owner and group: to read and to write.
const OTHERS: u32 = 0o006;

/// Why a file of users is refused.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Any user of this host may read or change the file.
    #[error("{}: has mode {mode:03o}, so that others may read or write it; run: chmod o-rw {}", path.display(), path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The file's permissions.
        mode: u32,
    },
    /// A line is not a user.
    #[error("{}:{line}: want USER:PASSWORD, each of 1 to {MOST_BYTES} bytes", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The file has no users.
    #[error("{}: has no users; want lines USER:PASSWORD", .0.display())]
    Empty(PathBuf),
    /// The system has no random numbers.
    #[error(transparent)]
    Random(#[from] NetError),
}

/// A key of the hash, as long as a block of SHA-256 (RFC 2104, section 3).
type Key = [u8; 64];
/// A keyed hash of a name and a password.
type Digest = [u8; 32];

/// The users that a file lists: one a line, `user:password`. The first colon separates the two. Empty lines, and lines
/// that begin with `#`, are skipped. Passwords are kept as keyed hashes only. All clones share one state.
#[derive(Clone)]
pub struct Users {
    path: PathBuf,
    key: Key,
    list: Arc<RwLock<Vec<Digest>>>,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Users").field(&self.path).finish()
    }
}

impl Users {
    /// Reads the file.
    ///
    /// # Errors
    /// [`UsersError`] with the file, and the line if one is wrong.
    pub fn load(path: &Path) -> Result<Self, UsersError> {
        let key: Key = random_bytes()?;
        let list = read(path, &key)?;
        Ok(Self {
            path: path.to_owned(),
            key,
            list: Arc::new(RwLock::new(list)),
        })
    }

    /// Reads the file again. The new list applies to later connections.
    ///
    /// # Errors
    /// [`UsersError`]. The list in use stays.
    pub fn reload(&self) -> Result<(), UsersError> {
        let list = read(&self.path, &self.key)?;
        *self.list.write().unwrap_or_else(PoisonError::into_inner) = list;
        Ok(())
    }

    /// Whether the list has this user with this password. The time that this takes does not depend on the listed
    /// names and passwords.
    pub fn accept(&self, user: &[u8], password: &[u8]) -> bool {
        let given = digest(&self.key, user, password);
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let found = (list.iter()).fold(Choice::from(0), |found, d| found | d.ct_eq(&given));
        found.into()
    }
}

fn digest(key: &Key, user: &[u8], password: &[u8]) -> Digest {
    let mut mac = Hmac::<Sha256>::new(key.into());
    // The length separates the name from the password.
    mac.update(&(user.len() as u64).to_le_bytes());
    mac.update(user);
    mac.update(password);
    mac.finalize().into_bytes().into()
}

fn read(path: &Path, key: &Key) -> Result<Vec<Digest>, UsersError> {
    let failed = |source| UsersError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.mode() & OTHERS != 0 {
        return Err(UsersError::Open {
            path: path.to_owned(),
            mode: about.permissions().mode() & 0o777,
        });
    }
    let mut text = Vec::new();
    file.take(LONGEST + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > LONGEST {
        let why = format!("it is longer than {LONGEST} bytes");
        return Err(failed(io::Error::other(why)));
    }
    let mut list = Vec::new();
    for (i, line) in text.split(|b| *b == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        let fits = |part: &[u8]| (1..=MOST_BYTES).contains(&part.len());
        let colon = line.iter().position(|b| *b == b':').unwrap_or(0);
        let (user, password) = (&line[..colon], &line[(colon + 1).min(line.len())..]);
        if !fits(user) || !fits(password) {
            return Err(UsersError::Line {
                path: path.to_owned(),
                line: i + 1,
            });
        }
        list.push(digest(key, user, password));
    }
    match list.is_empty() {
        true => Err(UsersError::Empty(path.to_owned())),
        false => Ok(list),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn users_are_accepted_with_their_own_passwords() {
        let (_dir, path) = file("# a comment\n\nann:one:two\r\nbob:x", 0o600);
        let users = Users::load(&path).unwrap();
        assert!(users.accept(b"ann", b"one:two") && users.accept(b"bob", b"x"));
        for (user, password) in [
            ("ann", "x"),
            ("bob", "one:two"),
            ("ann", "one:two\r"),
            ("ann", ""),
            ("", ""),
            ("annone:tw", "o"),
            ("# a comment", ""),
        ] {
            assert!(
                !users.accept(user.as_bytes(), password.as_bytes()),
                "{user}"
            );
        }
        assert!(!format!("{users:?}").contains("one"));
    }

    #[test]
    fn a_file_that_others_may_read_or_that_has_no_users_is_refused() {
        for mode in [0o644, 0o604, 0o602] {
            let (_dir, path) = file("ann:one", mode);
            let e = Users::load(&path).unwrap_err();
            assert!(matches!(e, UsersError::Open { .. }), "{e}");
            assert!(e.to_string().contains("chmod o-rw"), "{e}");
        }
        let (_dir, path) = file("ann:one", 0o640);
        assert!(Users::load(&path).is_ok());
        for (text, wrong) in [
            ("ann:one\nbob\n", "users:2: want USER:PASSWORD"),
            (":one\n", "users:1:"),
            ("ann:\n", "users:1:"),
            ("# none\n", "has no users"),
        ] {
            let (_dir, path) = file(text, 0o600);
            let e = Users::load(&path).unwrap_err().to_string();
            assert!(e.contains(wrong), "{e}");
        }
        let long = format!("ann:{}", "x".repeat(256));
        let (_dir, path) = file(&long, 0o600);
        assert!(matches!(Users::load(&path), Err(UsersError::Line { .. })));
    }

    #[test]
    fn a_reload_applies_to_all_clones_and_a_broken_file_changes_nothing() {
        let (_dir, path) = file("ann:one", 0o600);
        let users = Users::load(&path).unwrap();
        let clone = users.clone();
        std::fs::write(&path, "ann:two").unwrap();
        users.reload().unwrap();
        assert!(clone.accept(b"ann", b"two") && !clone.accept(b"ann", b"one"));
        std::fs::write(&path, "ann").unwrap();
        assert!(users.reload().is_err());
        assert!(clone.accept(b"ann", b"two"));
    }
}
