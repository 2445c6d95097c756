//! The `spindle` command.

use std::process::ExitCode;

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// A network's packets and connections are far more than the processor's tables of small pages reach;
/// this allocator asks for huge ones (`docs/performance.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc 3's `mimalloc.h`: after how many milliseconds the system gets back
/// what is not in use.
const PURGE_DELAY: mi_option_t = 15;

fn main() -> ExitCode {
    // By default it is a second, within which a network leaves behind all that it has outgrown.
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        // SAFETY: sets a number, of any value, before there are other threads.
        unsafe { mi_option_set(PURGE_DELAY, 10) };
    }
    spindle::cli(spindle::Registry::standard())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: reads a number.
        let delay = unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay, 1000, "the default, which no other option has");
    }
}
