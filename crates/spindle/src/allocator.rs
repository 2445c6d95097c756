//! Settings of the program's allocator for a service.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// Milliseconds after which freed pages are returned to the system: `mi_option_purge_delay` of mimalloc.h. The
/// bindings have no name for this option.
const PURGE_DELAY: mi_option_t = 15;
/// A tenth of the allocator's default. With a hundredth, buffers of a transfer at full speed are returned and
/// needed again at once, which costs a fifth of its throughput.
const SOON: c_long = 100;

/// Makes the allocator return freed memory to the system soon. Threads free memory that others have allocated.
/// With the default of a second, the process therefore becomes larger by some tens of megabytes that its
/// account of `--max-memory` does not include. Simulations are faster with the default (`docs/performance.md`).
pub(crate) fn give_back_soon() {
    // SAFETY: the function accepts any number and stores a value for an existing option. The service's threads
    // start later.
    unsafe { mi_option_set(PURGE_DELAY, SOON) }
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    #[test]
    fn the_option_is_the_purge_delay_with_its_default_of_a_second() {
        // SAFETY: the function accepts any number and reads the value of an option.
        let value = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(value(), 1000);
        give_back_soon();
        assert_eq!(value(), SOON);
    }
}
