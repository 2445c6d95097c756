//! The time slice of threads that wait for packets. A thread with a short slice runs soon after it wakes, even if
//! other threads keep the processor busy.

use std::io;

/// The time slice that threads ask for, in nanoseconds: the shortest that the scheduler gives (Linux
/// `__setparam_fair`: 0.1 to 100 ms).
const SHORTEST: u64 = 100_000;

/// Asks the system to give the calling thread the shortest time slice of its scheduler. Linux 6.12 and later
/// choose among waiting threads the one whose slice ends first (EEVDF), so that a thread which handles a packet
/// and sleeps again need not wait for a thread that computes. The thread's share of the processor does not
/// change. No privilege is needed. Older kernels and real-time policies ignore the request.
///
/// # Errors
/// The system's error, for instance where a filter of system calls forbids this one. The caller can go on.
pub fn wake_soon() -> io::Result<()> {
    let mut attributes = attributes()?;
    let fair = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    if !fair.iter().any(|p| *p as u32 == attributes.sched_policy) {
        return Ok(());
    }
    attributes.sched_runtime = SHORTEST;
    // SAFETY: no crate in use covers this call. The pointer is to a local, whose size is its first field, and 0
    // is the calling thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The calling thread's scheduling policy and its parameters.
fn attributes() -> io::Result<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>() as u32;
    let mut attributes = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: no crate in use covers this call. The pointer is to a local of the size that is passed, and 0 is
    // the calling thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    match done {
        0 => Ok(attributes),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_that_asks_for_the_shortest_slice_keeps_policy_and_nice_value() {
        let before = attributes().expect("the thread's attributes");
        wake_soon().expect("no privilege is needed");
        let after = attributes().expect("the thread's attributes");
        assert_eq!(
            (after.sched_policy, after.sched_nice),
            (before.sched_policy, before.sched_nice)
        );
        // Before Linux 6.12 the kernel reports no slice.
        assert!(
            [0, SHORTEST].contains(&after.sched_runtime),
            "{}",
            after.sched_runtime
        );
    }
}
