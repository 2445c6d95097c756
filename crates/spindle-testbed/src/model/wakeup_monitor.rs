//! A thread that only sleeps and records how late it wakes up. Like the hosts' threads it has no real-time
//! priority, so they wake up equally late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::model::lateness::Lateness;

/// How long the thread sleeps each time (our choice: ten times in a round trip of 50 ms).
const SLEEP: Duration = Duration::from_millis(5);

/// The running thread. Dropping this ends it.
pub(crate) struct WakeupMonitor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Lateness>>,
}

impl WakeupMonitor {
    /// Starts the thread. If the system cannot provide a thread, no lateness is recorded.
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::Builder::new().name("wakeup_monitor".to_owned());
        let thread = thread.spawn(move || {
            let mut lateness = Lateness::default();
            while !told.load(Ordering::Acquire) {
                let before = Instant::now();
                std::thread::sleep(SLEEP);
                let late = before.elapsed().saturating_sub(SLEEP);
                lateness.record(late.as_nanos() as u64);
            }
            lateness
        });
        Self {
            stop,
            thread: thread.ok(),
        }
    }

    /// Ends the thread. Returns how late it woke up.
    pub(crate) fn finish(mut self) -> Lateness {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take();
        thread.and_then(|t| t.join().ok()).unwrap_or_default()
    }
}

impl Drop for WakeupMonitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}
