//! Accepts the connections of observers of a service: scrapers of its metrics, readers of its status.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinSet;

/// The first pause after an accept call that failed; it doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Limits on observers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Observers served at a time; further ones wait in the listener's backlog.
    pub(crate) at_once: usize,
    /// How long one observer may take, from its connection to the end of the answer.
    pub(crate) patience: Duration,
}

/// Accepts and answers observers, each in its own task, for as long as it is polled. If an accept call fails
/// (no file descriptors, a connection that was given up), it is repeated after a pause, since all errors of
/// accept(2) on a listening socket are temporary. Dropping the future ends all tasks.
pub(crate) async fn serve<S, F>(
    what: &str,
    allowance: Allowance,
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>,
    answer: impl Fn(S) -> F,
) -> Infallible
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut pause = FIRST_PAUSE;
    loop {
        if tasks.len() >= allowance.at_once {
            tasks.join_next().await;
            continue;
        }
        let accepted = tokio::select! {
            Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
            accepted = poll_fn(&mut accept) => accepted,
        };
        match accepted {
            Ok(stream) => {
                pause = FIRST_PAUSE;
                // An observer that is slow or disconnects fails alone. Its error does not affect other
                // observers.
                let answered = tokio::time::timeout(allowance.patience, answer(stream));
                tasks.spawn(async move { drop(answered.await) });
            }
            Err(error) => {
                tracing::warn!(%what, %error, "cannot accept an observer; it is tried again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

    const ALLOWANCE: Allowance = Allowance {
        at_once: 2,
        patience: Duration::from_secs(60),
    };

    /// Yields these results of accept calls, then stays pending.
    fn script<S>(
        results: impl IntoIterator<Item = io::Result<S>>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>> {
        let mut results: VecDeque<_> = results.into_iter().collect();
        move |_| results.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    #[tokio::test]
    async fn accept_errors_are_survived_and_the_next_observer_is_answered() {
        let errors = [libc::EMFILE, libc::ECONNABORTED, libc::ENFILE];
        let results = errors.map(|e| Err(io::Error::from_raw_os_error(e)));
        let results = results.into_iter().chain([Ok("observer")]);
        let answered = Arc::new(Notify::new());
        let told = answered.clone();
        let serving = serve("a test", ALLOWANCE, script(results), |_| {
            let told = told.clone();
            async move {
                told.notify_one();
                Ok(())
            }
        });
        tokio::select! {
            never = serving => match never {},
            () = answered.notified() => {}
        }
    }

    #[tokio::test]
    async fn no_more_observers_are_served_at_a_time_than_allowed() {
        let (served, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (count, gate) = (served.clone(), release.clone());
        let serving = serve("a test", ALLOWANCE, script((0..5).map(Ok)), |_| {
            let (count, gate) = (count.clone(), gate.clone());
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                gate.notified().await;
                Ok(())
            }
        });
        let looking = async {
            for total in [2, 3, 4, 5] {
                while served.load(Ordering::SeqCst) < total {
                    tokio::task::yield_now().await;
                }
                // An observer that is not held back would be served within these turns.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                assert_eq!(served.load(Ordering::SeqCst), total);
                release.notify_one();
            }
        };
        tokio::select! {
            never = serving => match never {},
            () = looking => {}
        }
    }

    #[tokio::test]
    async fn an_observer_that_sends_nothing_is_dropped_after_its_time_limit() {
        let allowance = Allowance {
            at_once: 1,
            patience: Duration::from_millis(20),
        };
        let answered = Arc::new(Notify::new());
        let told = answered.clone();
        let serving = serve(
            "a test",
            allowance,
            script([Ok(true), Ok(false)]),
            |silent| {
                let told = told.clone();
                async move {
                    if silent {
                        std::future::pending::<()>().await;
                    }
                    told.notify_one();
                    Ok(())
                }
            },
        );
        tokio::select! {
            never = serving => match never {},
            () = answered.notified() => {}
        }
    }
}
