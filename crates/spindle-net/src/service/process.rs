//! Other processes, and this process's session.

use std::io;
use std::os::fd::OwnedFd;

use nix::unistd::setsid;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A handle of a running process (pidfd_open(2)). It stays the same process's if that executes another program.
///
/// # Errors
/// The system's error, if there is no such process.
pub fn process_handle(id: u32) -> io::Result<OwnedFd> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    let id = id.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(id, PidfdFlags::empty())?)
}

/// Waits until the process of the handle has ended.
///
/// # Errors
/// The system's error, if the handle cannot be watched.
pub async fn wait_for_process(handle: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is owned by the value that is registered, which never replaces it, and which closes it only when
    // the registration has ended.
    let registered = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) };
    let handle = registered?;
    handle.readable().await?.retain_ready();
    Ok(())
}

/// Leaves the terminal's session (setsid(2)), so that its signals no longer reach this process.
///
/// # Errors
/// The system's error, if this process leads a group of processes.
pub fn detach() -> io::Result<()> {
    setsid()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn the_end_of_a_process_is_noticed() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let handle = process_handle(child.id()).unwrap();
        let waiting = tokio::spawn(wait_for_process(handle));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        child.kill().unwrap();
        waiting.await.unwrap().unwrap();
        child.wait().unwrap();
        assert!(process_handle(0).is_err());
    }
}
