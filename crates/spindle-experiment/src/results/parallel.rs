//! Runs work on several threads until all of it is done or something fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Runs `one` for each of `todo` on at most `threads` threads, which take the items in order. Returns the
/// results in no particular order.
///
/// # Errors
/// The first error by the number of its thread. Items in progress are finished, and no further items are
/// started.
pub fn in_parallel<R: Send, E: Send>(
    threads: usize,
    todo: &[usize],
    one: impl Fn(usize) -> Result<R, E> + Sync,
) -> Result<Vec<(usize, R)>, E> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut done = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let Some(&index) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let result = one(index).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            done.push((index, result));
        }
        Ok(done)
    };
    let threads = threads.clamp(1, todo.len().max(1));
    let done: Vec<Result<Vec<_>, E>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        // All threads are joined before the first error is returned.
        let joined = handles.into_iter().map(|h| match h.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    let mut all = Vec::new();
    for part in done {
        all.extend(part?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_on_any_number_of_threads() {
        let todo = [7, 3, 5, 1];
        for threads in [0, 1, 2, 9] {
            let done = in_parallel(threads, &todo, |i| Ok::<_, ()>(i * 2));
            let mut done = done.unwrap();
            done.sort_unstable();
            assert_eq!(done, [(1, 2), (3, 6), (5, 10), (7, 14)], "{threads}");
        }
        assert_eq!(in_parallel(2, &[], |_| Err::<(), ()>(())), Ok(vec![]));
    }

    #[test]
    fn no_item_is_started_after_a_failure() {
        let begun = AtomicUsize::new(0);
        let one = |i: usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            if i < 2 { Ok(()) } else { Err(i) }
        };
        assert_eq!(in_parallel(1, &[0, 1, 2, 3, 4], one), Err(2));
        assert_eq!(begun.into_inner(), 3);
    }
}
