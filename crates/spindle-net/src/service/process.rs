//! What a service asks of the system for its own process: open files, and small pages.

use nix::sys::prctl::set_thp_disable;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// What the system grants where it does not say.
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

/// Has the system give this process and its children pages of the usual size only (`PR_SET_THP_DISABLE` of
/// prctl(2)). An allocator that asks for huge pages makes a process with many buffers larger by some tens of
/// megabytes, which the account of `max_memory` does not know.
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
    fn a_process_without_huge_pages_says_so() {
        disable_huge_pages();
        assert_eq!(get_thp_disable(), Ok(true));
    }
}
