//! What a service requests from the system for its own process: open files, and small pages.

use nix::sys::prctl::set_thp_disable;
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

/// Disables huge pages for this process and its children (`PR_SET_THP_DISABLE` of prctl(2)). An allocator that
/// requests huge pages makes a process with many buffers larger by some tens of megabytes, which the account of
/// `max_memory` does not include.
pub fn disable_huge_pages() {
    if let Err(error) = set_thp_disable(true) {
        tracing::debug!(%error, "huge pages stay enabled");
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::prctl::get_thp_disable;

    use super::*;

    #[test]
    fn huge_pages_are_disabled_for_the_process() {
        disable_huge_pages();
        assert_eq!(get_thp_disable(), Ok(true));
    }
}
