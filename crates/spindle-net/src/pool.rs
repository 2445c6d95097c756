//! Connections to a gateway that are opened before a program needs them, with all their paths and TLS, so that the
//! program waits for no handshake.
//!
//! The number follows the demand: as many as programs took in the last seconds. Without programs for a minute
//! nothing is kept ready, so that an idle host sends nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// How long a connection stays ready. A gateway waits 10 s for the request of a client, and NATs keep the mapping of an
/// idle UDP port for 30 s or longer.
const LIFETIME: Duration = Duration::from_secs(8);
/// As many connections are kept ready as programs took within this time.
const WINDOW: Duration = Duration::from_secs(10);
/// Nothing is kept ready if no program took a connection for this long.
const QUIET: Duration = Duration::from_secs(60);
/// The first pause after an attempt that failed. It doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Ready connections, or whatever else takes a while to make.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    state: Mutex<State<T>>,
    taken: Notify,
    most: usize,
}

#[derive(Debug)]
struct State<T> {
    /// The oldest first.
    ready: VecDeque<(T, Instant)>,
    /// When the last ones were taken, or not there to be taken: `most` at most.
    demand: VecDeque<Instant>,
    stopped: bool,
}

impl<T: Send + 'static> Pool<T> {
    /// A pool of at most this many. It expects one program at first.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                demand: [Instant::now()].into(),
                stopped: false,
            }),
            taken: Notify::new(),
            most,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the oldest one that is ready. Each call counts as demand.
    pub(crate) fn take(&self) -> Option<T> {
        let now = Instant::now();
        let mut state = self.lock();
        state.demand.push_back(now);
        let surplus = state.demand.len().saturating_sub(self.most);
        state.demand.drain(..surplus);
        state.expire(now);
        let taken = state.ready.pop_front().map(|(ready, _)| ready);
        drop(state);
        self.taken.notify_one();
        taken
    }

    /// Drops what is ready, since it no longer works.
    pub(crate) fn clear(&self) {
        let dropped = std::mem::take(&mut self.lock().ready);
        drop(dropped);
        self.taken.notify_one();
    }

    /// Drops what is ready. From now on nothing is.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        let dropped = std::mem::take(&mut state.ready);
        drop(state);
        drop(dropped);
    }

    /// Keeps as many ready as are in demand. `open` makes one, or says that this failed.
    pub(crate) async fn maintain<F>(&self, open: impl Fn() -> F) -> Infallible
    where
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let mut opening = JoinSet::new();
        let (mut pause, mut not_before) = (FIRST_PAUSE, Instant::now());
        loop {
            let now = Instant::now();
            let (missing, next) = {
                let mut state = self.lock();
                state.expire(now);
                let wanted = state.wanted(now).min(self.most);
                (
                    wanted.saturating_sub(state.ready.len() + opening.len()),
                    state.next(now),
                )
            };
            if now >= not_before {
                (0..missing).for_each(|_| drop(opening.spawn(open())));
            }
            let wake = if missing > 0 && now < not_before {
                not_before
            } else {
                next
            };
            tokio::select! {
                Some(opened) = opening.join_next(), if !opening.is_empty() => {
                    // An error is a runtime that ends.
                    if let Ok(Some(opened)) = opened {
                        pause = FIRST_PAUSE;
                        self.add(opened);
                    } else {
                        not_before = Instant::now() + pause;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
                () = self.taken.notified() => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Adds one that is ready, unless the pool was stopped.
    pub(crate) fn add(&self, opened: T) {
        let mut state = self.lock();
        if !state.stopped {
            state.ready.push_back((opened, Instant::now()));
        }
    }
}

impl<T> State<T> {
    fn expire(&mut self, now: Instant) {
        while self
            .ready
            .front()
            .is_some_and(|(_, since)| now >= *since + LIFETIME)
        {
            self.ready.pop_front();
        }
    }

    /// How many should be ready.
    fn wanted(&self, now: Instant) -> usize {
        let within = |time: Duration| self.demand.iter().filter(|t| **t + time > now).count();
        match self.stopped || within(QUIET) == 0 {
            true => 0,
            false => within(WINDOW).max(1),
        }
    }

    /// When to look again, unless something happens before.
    fn next(&self, now: Instant) -> Instant {
        let oldest = self.ready.front().map(|(_, since)| *since + LIFETIME);
        oldest.unwrap_or(now + LIFETIME)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    /// A pool that is maintained: each of its connections is a number, and takes 50 ms to open.
    struct Kept {
        pool: Arc<Pool<usize>>,
        opened: Arc<AtomicUsize>,
        works: Arc<AtomicBool>,
    }

    impl Kept {
        fn of(most: usize) -> Self {
            let kept = Self {
                pool: Arc::new(Pool::new(most)),
                opened: Arc::default(),
                works: Arc::new(AtomicBool::new(true)),
            };
            let (pool, opened, works) =
                (kept.pool.clone(), kept.opened.clone(), kept.works.clone());
            tokio::spawn(async move {
                let open = || {
                    let number = opened.fetch_add(1, Ordering::Relaxed);
                    let works = works.clone();
                    async move {
                        sleep(Duration::from_millis(50)).await;
                        works.load(Ordering::Relaxed).then_some(number)
                    }
                };
                pool.maintain(open).await
            });
            kept
        }

        fn ready(&self) -> usize {
            self.pool.lock().ready.len()
        }

        fn opened(&self) -> usize {
            self.opened.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_ready_at_first_and_as_many_as_were_taken_later() {
        let kept = Kept::of(4);
        sleep(Duration::from_millis(60)).await;
        assert_eq!(kept.ready(), 1);
        assert_eq!(kept.pool.take(), Some(0));
        assert_eq!(kept.pool.take(), None);
        for _ in 0..20 {
            let _ = kept.pool.take();
        }
        sleep(Duration::from_millis(60)).await;
        assert_eq!(kept.ready(), 4, "the most");
        sleep(WINDOW + LIFETIME).await;
        assert_eq!(kept.ready(), 1, "no program came for a while");
    }

    #[tokio::test(start_paused = true)]
    async fn old_ones_are_replaced_and_without_programs_nothing_is_kept() {
        let kept = Kept::of(4);
        sleep(LIFETIME + Duration::from_millis(200)).await;
        assert_eq!(kept.pool.take(), Some(1), "the first one has been replaced");
        sleep(QUIET + LIFETIME).await;
        assert_eq!(kept.ready(), 0);
        let opened = kept.opened();
        sleep(QUIET * 10).await;
        assert_eq!(kept.opened(), opened);
        assert_eq!(kept.pool.take(), None);
        sleep(Duration::from_millis(60)).await;
        assert_eq!(kept.ready(), 1, "a program came");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_repeated_at_growing_intervals() {
        let kept = Kept::of(4);
        kept.works.store(false, Ordering::Relaxed);
        for _ in 0..60 {
            let _ = kept.pool.take();
            sleep(Duration::from_secs(1)).await;
        }
        assert!(
            (5..=24).contains(&kept.opened()),
            "{} attempts in a minute",
            kept.opened()
        );
        kept.works.store(true, Ordering::Relaxed);
        let mut waited = Duration::ZERO;
        while kept.pool.take().is_none() {
            sleep(Duration::from_secs(1)).await;
            waited += Duration::from_secs(1);
            assert!(waited < LONGEST_PAUSE * 2, "the attempts go on");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_that_was_stopped_has_nothing_ready() {
        let kept = Kept::of(4);
        sleep(Duration::from_millis(60)).await;
        kept.pool.stop();
        assert_eq!(kept.pool.take(), None);
        sleep(Duration::from_secs(5)).await;
        assert_eq!((kept.ready(), kept.opened()), (0, 1));
    }
}
