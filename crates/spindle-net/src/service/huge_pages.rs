//! The process's use of huge pages.

use nix::sys::prctl::set_thp_disable;

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
