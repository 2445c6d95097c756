//! Work without Python's lock that Ctrl-C can end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

/// Maximum delay of a signal.
const POLL: Duration = Duration::from_millis(50);

/// Ends runs early, in any thread.
#[pyclass(frozen, module = "spindle._native")]
#[derive(Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends all runs that hold this flag.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was set.
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Stop {
    /// The flag that runs check.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

/// Does the work in a separate thread without Python's lock, while this thread checks for signals. A signal
/// that raises an exception stops the work first.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let (working, finished) = channel::<()>();
    let finished = Mutex::new(finished);
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let result = work();
            drop(working);
            result
        });
        let mut raised = None;
        loop {
            let waited = py.detach(|| {
                let finished = finished.lock().unwrap_or_else(PoisonError::into_inner);
                finished.recv_timeout(POLL)
            });
            if waited != Err(RecvTimeoutError::Timeout) {
                break;
            }
            if let Err(e) = py.check_signals() {
                stop.store(true, Ordering::Relaxed);
                raised = Some(e);
                break;
            }
        }
        match (py.detach(|| worker.join()), raised) {
            (_, Some(e)) => Err(e),
            (Ok(result), None) => Ok(result),
            (Err(panic), None) => std::panic::resume_unwind(panic),
        }
    })
}
