//! What a service asks of the program's allocator.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// Milliseconds after which freed pages go back to the system: `mi_option_purge_delay` of mimalloc.h, whose number
/// the bindings do not name.
const PURGE_DELAY: mi_option_t = 15;
/// A tenth of what the allocator has by default. After a hundredth, buffers of a transfer at full speed go back and are
/// wanted again at once, which takes a fifth of its throughput.
const SOON: c_long = 100;

/// Has freed memory go back to the system soon. Threads free what others have allocated, so that in the default
/// second the process becomes larger by some tens of megabytes that its account of `--max-memory` does not know.
/// Simulations are faster with the default (`docs/performance.md`).
pub(crate) fn give_back_soon() {
    // SAFETY: it takes any number, and stores a value for an option there is; the service's threads begin later.
    unsafe { mi_option_set(PURGE_DELAY, SOON) }
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    #[test]
    fn the_option_is_the_purge_delay_with_its_default_of_a_second() {
        // SAFETY: it takes any number, and reads the value of an option.
        let value = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(value(), 1000);
        give_back_soon();
        assert_eq!(value(), SOON);
    }
}
