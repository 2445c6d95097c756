//! A hint that loads memory into the caches before it is needed.

/// Bytes in a cache line.
const LINE: usize = 64;

/// Hints the processor to load a value's memory into its caches, without waiting for it. Simulations use it
/// because they know which values they will need next. On processors other than x86-64 it does nothing.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<i8>();
    for at in (0..size_of_val(value)).step_by(LINE) {
        bring(start.wrapping_add(at));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn bring(at: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch has no effect that the program can observe and is allowed at any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn bring(_at: *const i8) {}

#[cfg(test)]
mod tests {
    use super::prefetch;

    #[test]
    fn prefetch_leaves_the_value_unchanged() {
        let bytes: Vec<u8> = (0..200).collect();
        prefetch(&bytes[..]);
        prefetch(&bytes[..0]);
        prefetch(&());
        let boxed: Box<dyn std::fmt::Debug> = Box::new([7u64; 30]);
        prefetch(&*boxed);
        assert!(bytes.iter().copied().eq(0..200));
        assert_eq!(format!("{boxed:?}"), format!("{:?}", [7u64; 30]));
    }
}
