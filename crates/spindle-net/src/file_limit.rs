//! The limit of this process's open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The limit to assume if the system does not report one.
const USUAL: u64 = 1024;

/// Raises the soft limit of this process's open files to the hard one; returns the limit. Each
/// connection takes a file, and the soft limit is often 1024.
pub fn raise_file_limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return USUAL;
    };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}
