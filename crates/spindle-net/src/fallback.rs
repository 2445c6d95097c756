//! [`Fallback`]: programs' connections are opened directly while a gateway cannot be reached.
//!
//! After a failure, programs do not wait for the gateway again. As long as they ask, attempts in the background find out
//! when it answers, and from then on connections go through it.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// A failure is remembered for this long after the last program asked, and until the attempt in progress has ended. Our
/// choice: the connections of one command or one page begin within this time of each other, and an idle host soon stops
/// sending SYNs.
const REMEMBERED: Duration = Duration::from_secs(5);
/// The pause between two attempts, like the first pause between two SYNs (RFC 6298, section 2.1).
const PAUSE: Duration = Duration::from_secs(1);

/// Whether a gateway answers, and the connections that were opened directly because it did not. All clones share one
/// state.
#[derive(Clone, Debug, Default)]
pub struct Fallback(Arc<State>);

#[derive(Debug)]
struct State {
    /// Whether the last attempt to reach the gateway had no answer.
    silent: watch::Sender<bool>,
    /// When the last program asked.
    asked: Mutex<Instant>,
    opened: AtomicU64,
    open: AtomicU64,
    /// Local ports of direct connections that rules of the host might redirect, and whether they are those of IPv4.
    ports: Mutex<HashSet<(bool, u16)>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            silent: watch::Sender::new(false),
            asked: Mutex::new(Instant::now()),
            opened: AtomicU64::new(0),
            open: AtomicU64::new(0),
            ports: Mutex::default(),
        }
    }
}

/// The direct connections of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectConnections {
    /// Those opened since the start.
    pub total: u64,
    /// Those open now.
    pub open: u64,
    /// Whether the gateway is known not to answer, so that the next connection is opened directly at once.
    pub gateway_silent: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks with the content half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fallback {
    /// The direct connections so far.
    pub fn direct(&self) -> DirectConnections {
        DirectConnections {
            total: self.0.opened.load(Ordering::Relaxed),
            open: self.0.open.load(Ordering::Relaxed),
            gateway_silent: *self.0.silent.borrow(),
        }
    }

    /// Whether the gateway is known not to answer. Each call counts as a program that asks.
    pub(crate) fn is_silent(&self) -> bool {
        *lock(&self.0.asked) = Instant::now();
        *self.0.silent.borrow()
    }

    /// Waits until the gateway is known not to answer.
    pub(crate) async fn silence(&self) {
        let mut silent = self.0.silent.subscribe();
        // The sender is in `self`, so the wait cannot fail.
        let _ = silent.wait_for(|silent| *silent).await;
    }

    /// Notes that the gateway has not answered. Returns whether this was not known before.
    pub(crate) fn failed(&self) -> bool {
        !self.0.silent.send_replace(true)
    }

    /// Notes that the gateway has answered, whatever the answer was. Returns whether it was known not to answer.
    pub(crate) fn answered(&self) -> bool {
        self.0.silent.send_replace(false)
    }

    /// Tries the gateway while it is known not to answer, one attempt at a time. `attempt` returns whether the gateway
    /// answered. If no program has asked for a while, the failure is forgotten and the attempts end.
    pub(crate) async fn watch<F>(&self, attempt: impl Fn() -> F) -> Infallible
    where
        F: Future<Output = bool>,
    {
        loop {
            self.silence().await;
            if attempt().await {
                if self.answered() {
                    tracing::info!("the gateway answers again: new connections go through it");
                }
            } else if lock(&self.0.asked).elapsed() >= REMEMBERED {
                // The next program tries the gateway.
                self.answered();
            } else {
                sleep(PAUSE).await;
            }
        }
    }

    /// Counts a direct connection, which is open until the result is dropped.
    pub(crate) fn opened(&self) -> Open {
        self.0.opened.fetch_add(1, Ordering::Relaxed);
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    /// Notes that a direct connection begins at this local address, until the result is dropped.
    pub(crate) fn begins_at(&self, local: SocketAddr) -> OwnPort {
        let port = (local.is_ipv4(), local.port());
        lock(&self.0.ports).insert(port);
        OwnPort(self.clone(), port)
    }

    /// Whether a direct connection begins at this port, so that a connection from it on this host is that one.
    pub(crate) fn is_own_port(&self, local: SocketAddr) -> bool {
        let v4 = local.ip().to_canonical().is_ipv4();
        lock(&self.0.ports).contains(&(v4, local.port()))
    }
}

/// A direct connection that is open.
#[derive(Debug)]
pub(crate) struct Open(Fallback);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The local port of a direct connection.
#[derive(Debug)]
pub(crate) struct OwnPort(Fallback, (bool, u16));

impl Drop for OwnPort {
    fn drop(&mut self) {
        lock(&self.0.0.ports).remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use tokio::task::JoinHandle;

    use super::*;

    /// How long an attempt takes to fail.
    const ATTEMPT: Duration = Duration::from_secs(2);

    /// A gateway that may answer, and the attempts to reach it.
    struct Gateway {
        fallback: Fallback,
        answers: Arc<AtomicBool>,
        attempts: Arc<AtomicUsize>,
        watching: JoinHandle<()>,
    }

    impl Gateway {
        fn silent() -> Self {
            let fallback = Fallback::default();
            let (answers, attempts) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
            let (watched, answering, counted) =
                (fallback.clone(), answers.clone(), attempts.clone());
            let watching = tokio::spawn(async move {
                let attempt = || async {
                    counted.fetch_add(1, Ordering::Relaxed);
                    if !answering.load(Ordering::Relaxed) {
                        sleep(ATTEMPT).await;
                    }
                    answering.load(Ordering::Relaxed)
                };
                match watched.watch(attempt).await {}
            });
            Self {
                fallback,
                answers,
                attempts,
                watching,
            }
        }

        fn attempts(&self) -> usize {
            self.attempts.load(Ordering::Relaxed)
        }
    }

    impl Drop for Gateway {
        fn drop(&mut self) {
            self.watching.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_tried_before_a_program_has_found_the_gateway_silent() {
        let gateway = Gateway::silent();
        sleep(REMEMBERED * 10).await;
        assert!(!gateway.fallback.is_silent());
        assert_eq!(gateway.attempts(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_remembered_while_programs_ask_and_until_the_gateway_answers() {
        let gateway = Gateway::silent();
        assert!(gateway.fallback.failed());
        assert!(!gateway.fallback.failed(), "it is known");
        for _ in 0..60 {
            sleep(Duration::from_secs(1)).await;
            assert!(gateway.fallback.is_silent());
        }
        let most = 60 / (ATTEMPT + PAUSE).as_secs() as usize + 1;
        let attempts = gateway.attempts();
        assert!((most - 1..=most).contains(&attempts), "{attempts}");
        gateway.answers.store(true, Ordering::Relaxed);
        sleep(ATTEMPT + PAUSE).await;
        assert!(!gateway.fallback.is_silent());
        let attempts = gateway.attempts();
        sleep(REMEMBERED * 10).await;
        assert_eq!(gateway.attempts(), attempts, "nothing more is tried");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_forgotten_and_nothing_is_sent_when_no_program_asks() {
        let gateway = Gateway::silent();
        assert!(!gateway.fallback.is_silent());
        gateway.fallback.failed();
        sleep(REMEMBERED + ATTEMPT + PAUSE).await;
        assert!(!gateway.fallback.direct().gateway_silent);
        let attempts = gateway.attempts();
        sleep(REMEMBERED * 10).await;
        assert_eq!(gateway.attempts(), attempts);
    }

    #[tokio::test(start_paused = true)]
    async fn programs_that_wait_learn_of_the_failure_of_another() {
        let fallback = Fallback::default();
        let waiting = tokio::spawn({
            let fallback = fallback.clone();
            async move { fallback.silence().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        fallback.failed();
        waiting.await.unwrap();
        assert!(fallback.answered() && !fallback.answered());
    }

    #[test]
    fn open_connections_and_their_ports_are_known_until_they_end() {
        let fallback = Fallback::default();
        let local: SocketAddr = "10.0.0.1:4000".parse().unwrap();
        let (first, second) = (fallback.opened(), fallback.opened());
        let port = fallback.begins_at(local);
        drop(first);
        let direct = fallback.direct();
        assert_eq!((direct.total, direct.open), (2, 1));
        assert!(fallback.is_own_port(local));
        assert!(fallback.is_own_port("[::ffff:10.0.0.2]:4000".parse().unwrap()));
        assert!(!fallback.is_own_port("[fd00::1]:4000".parse().unwrap()));
        drop((second, port));
        assert!(!fallback.is_own_port(local));
        assert_eq!(fallback.direct().open, 0);
    }
}
