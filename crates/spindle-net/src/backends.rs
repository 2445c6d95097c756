//! The back ends of a gateway's service: which one gets a connection, and which ones are down.
//!
//! Connections are spread by smooth weighted round robin: of weights 2 and 1 the first back end gets every other
//! connection and one more, never two rows of its own. A back end to which a connection fails is down: the client's
//! connection goes to another one, and no further ones come until a probe has succeeded. If all are down, they are tried
//! nonetheless. A lack of files or ports on this host does not count as the back end's failure.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::handshake::expired;
pub use crate::metrics::BackendStatus;
use crate::sources::Sources;

/// How long all attempts together may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an attempt may take if another back end is left. A SYN is repeated after a second (RFC 6298, section 2).
const ATTEMPT: Duration = Duration::from_secs(3);
/// How often back ends that are down are probed.
const PROBE: Duration = Duration::from_secs(1);
/// Most back ends of a service.
pub const MOST_BACKENDS: usize = 256;

/// A back end: an address, and its share of the connections in relation to the others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendAddr {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Its weight, 1 by default.
    pub weight: NonZeroU32,
}

impl From<SocketAddr> for BackendAddr {
    fn from(addr: SocketAddr) -> Self {
        Self {
            addr,
            weight: NonZeroU32::MIN,
        }
    }
}

#[derive(Debug)]
struct Entry {
    backend: BackendAddr,
    /// The credit of smooth weighted round robin.
    credit: i64,
    /// Since when it is down.
    down: Option<Instant>,
    connections: u64,
    failures: u64,
}

impl From<BackendAddr> for Entry {
    fn from(backend: BackendAddr) -> Self {
        Self {
            backend,
            credit: 0,
            down: None,
            connections: 0,
            failures: 0,
        }
    }
}

/// Back ends of one service. All clones share one state.
#[derive(Clone, Debug)]
pub struct Backends {
    entries: Arc<Mutex<Vec<Entry>>>,
    /// Notified when a back end goes down.
    failed: Arc<Notify>,
    sources: Sources,
}

impl fmt::Display for Backends {
    /// The addresses, separated by spaces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = (self.entries().iter())
            .map(|e| e.backend.addr.to_string())
            .collect();
        f.write_str(&texts.join(" "))
    }
}

impl From<SocketAddr> for Backends {
    fn from(addr: SocketAddr) -> Self {
        Self::new([addr.into()])
    }
}

impl Backends {
    /// These back ends, all of which count as up. An address counts once, and at most the first [`MOST_BACKENDS`] are
    /// used.
    pub fn new(list: impl IntoIterator<Item = BackendAddr>) -> Self {
        let backends = Self {
            entries: Arc::default(),
            failed: Arc::default(),
            sources: Sources::default(),
        };
        backends.replace(list);
        backends
    }

    /// The same, connected to from these addresses.
    #[must_use]
    pub fn with_sources(self, sources: Sources) -> Self {
        Self { sources, ..self }
    }

    /// The addresses from which they are connected to.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Uses these back ends from now on. Those that were used before keep their state. Open connections stay.
    pub fn replace(&self, list: impl IntoIterator<Item = BackendAddr>) {
        let mut entries = self.entries();
        let mut known: Vec<Entry> = std::mem::take(&mut *entries);
        let mut seen = HashSet::new();
        for backend in list
            .into_iter()
            .filter(|b| seen.insert(b.addr))
            .take(MOST_BACKENDS)
        {
            let same = |e: &Entry| e.backend.addr == backend.addr;
            let at = known.iter().position(same);
            let mut entry = at.map_or_else(|| backend.into(), |at| known.swap_remove(at));
            (entry.backend, entry.credit) = (backend, 0);
            entries.push(entry);
        }
    }

    /// Connects to one of the back ends. Dropping the stream before a shutdown sends a reset.
    ///
    /// # Errors
    /// That of the last back end that was tried, or [`io::ErrorKind::NotFound`] if there is none.
    pub async fn connect(&self) -> io::Result<TcpStream> {
        let begin = Instant::now();
        let mut tried = HashSet::new();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the service has no back end");
        while let Some(addr) = self.choose(&tried) {
            tried.insert(addr);
            let left = PATIENCE.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            let others = self.entries().len() > tried.len();
            let limit = if others { left.min(ATTEMPT) } else { left };
            match self.attempt(addr, limit).await {
                Ok(stream) => {
                    self.succeeded(addr, true);
                    return Ok(stream);
                }
                Err(e) => {
                    last = io::Error::new(e.kind(), format!("service {addr}: {e}"));
                    if !is_of_this_host(&e) {
                        self.failed(addr, &last);
                    }
                }
            }
        }
        Err(last)
    }

    /// Probes the back ends that are down, all at a time, for as long as it is polled.
    pub async fn watch(&self) -> Infallible {
        loop {
            let down = self.down();
            if down.is_empty() {
                self.failed.notified().await;
                continue;
            }
            tokio::time::sleep(PROBE).await;
            let probe = |addr| {
                let backends = self.clone();
                async move { (addr, backends.attempt(addr, PROBE).await.is_ok()) }
            };
            let mut probes: JoinSet<_> = down.into_iter().map(probe).collect();
            while let Some(done) = probes.join_next().await {
                if let Ok((addr, true)) = done {
                    self.succeeded(addr, false);
                }
            }
        }
    }

    /// The state of each back end, in their order.
    pub fn statuses(&self) -> Vec<BackendStatus> {
        let of = |e: &Entry| BackendStatus {
            addr: e.backend.addr,
            weight: e.backend.weight.get(),
            up: e.down.is_none(),
            connections: e.connections,
            failures: e.failures,
        };
        self.entries().iter().map(of).collect()
    }

    async fn attempt(&self, addr: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
        let stream = timeout(limit, self.sources.connect(addr)).await;
        stream.map_err(|_| expired("service"))?
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next back end that has not been tried: one that is up, otherwise one that is down.
    fn choose(&self, tried: &HashSet<SocketAddr>) -> Option<SocketAddr> {
        let mut entries = self.entries();
        let left = |e: &Entry| !tried.contains(&e.backend.addr);
        let up = entries.iter().any(|e| left(e) && e.down.is_none());
        let candidates = entries
            .iter_mut()
            .filter(|e| left(e) && (!up || e.down.is_none()));
        let mut candidates: Vec<&mut Entry> = candidates.collect();
        let total: i64 = candidates
            .iter()
            .map(|e| i64::from(e.backend.weight.get()))
            .sum();
        for entry in &mut candidates {
            entry.credit += i64::from(entry.backend.weight.get());
        }
        // The first of those with the most credit.
        let best = candidates.into_iter().rev().max_by_key(|e| e.credit)?;
        best.credit -= total;
        Some(best.backend.addr)
    }

    fn down(&self) -> Vec<SocketAddr> {
        let entries = self.entries();
        let down = entries.iter().filter(|e| e.down.is_some());
        down.map(|e| e.backend.addr).collect()
    }

    /// A connection succeeded: one for a client, or a probe.
    fn succeeded(&self, addr: SocketAddr, for_client: bool) {
        let mut entries = self.entries();
        let Some(entry) = entries.iter_mut().find(|e| e.backend.addr == addr) else {
            return;
        };
        entry.connections += u64::from(for_client);
        if let Some(since) = entry.down.take() {
            // It begins like the others.
            entry.credit = 0;
            let down_ms = since.elapsed().as_millis() as u64;
            tracing::info!(backend = %addr, down_ms, "a back end is up again");
        }
    }

    fn failed(&self, addr: SocketAddr, error: &io::Error) {
        let mut entries = self.entries();
        let alone = entries.len() == 1;
        let Some(entry) = entries.iter_mut().find(|e| e.backend.addr == addr) else {
            return;
        };
        entry.failures += 1;
        if entry.down.is_none() {
            entry.down = Some(Instant::now());
            // The refusal of the client's connection tells of the only back end.
            if !alone {
                tracing::warn!(backend = %addr, %error, "a back end is down");
            }
            self.failed.notify_one();
        }
    }
}

/// Whether the attempt failed for lack of files, ports or memory of this host, which says nothing of the back end
/// (socket(2), connect(2)).
fn is_of_this_host(error: &io::Error) -> bool {
    use libc::{EMFILE, ENFILE, ENOBUFS, ENOMEM};
    let of_code = |c| [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(&c);
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error().is_some_and(of_code)
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// A port at which nothing listens, and one at which something does.
    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        (listener, addr)
    }

    fn weighted(addr: SocketAddr, weight: u32) -> BackendAddr {
        let weight = NonZeroU32::new(weight).unwrap();
        BackendAddr { addr, weight }
    }

    #[test]
    fn connections_follow_the_weights_and_are_spread_smoothly() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let backends = Backends::new([weighted(at(1), 3), weighted(at(2), 1), weighted(at(3), 1)]);
        let tried = HashSet::new();
        let order: Vec<u16> = (0..10)
            .map(|_| backends.choose(&tried).unwrap().port())
            .collect();
        assert_eq!(order, [1, 2, 1, 3, 1, 1, 2, 1, 3, 1]);
    }

    #[tokio::test]
    async fn a_back_end_that_refuses_is_left_out_until_a_probe_succeeds() {
        let (_first, a) = listener().await;
        let (second, b) = listener().await;
        drop(second);
        let backends = Backends::new([a.into(), b.into()]);
        for _ in 0..4 {
            let stream = backends.connect().await.expect("the other one");
            assert_eq!(stream.peer_addr().unwrap(), a);
        }
        let states = backends.statuses();
        assert_eq!((states[0].up, states[0].connections), (true, 4));
        assert_eq!(
            (states[1].up, states[1].failures),
            (false, 1),
            "one client found out"
        );
        let _second = TcpListener::bind(b).await.unwrap();
        let up = async {
            while !backends.statuses()[1].up {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            never = backends.watch() => match never {},
            up = timeout(PATIENCE, up) => up.expect("it is probed"),
        }
        let of_b = async || backends.connect().await.unwrap().peer_addr().unwrap() == b;
        assert!(of_b().await ^ of_b().await, "each gets one of two");
    }

    #[tokio::test]
    async fn a_back_end_that_answers_again_does_not_wait_for_those_that_do_not() {
        // Nothing answers a SYN at these addresses, since the backlog is full.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let full = socket.listen(1).unwrap();
        let port = full.local_addr().unwrap().port();
        let silent = |last| SocketAddr::from(([127, 0, 0, last], port));
        let mut filling = Vec::new();
        let one = Backends::from(silent(1));
        while let Ok(stream) = one.attempt(silent(1), Duration::from_millis(200)).await {
            filling.push(stream);
        }
        let (_answers, addr) = listener().await;
        // One after the other, their probes would take longer than this test waits.
        let all: Vec<_> = (1..=60).map(silent).chain([addr]).collect();
        let backends = Backends::new(all.iter().map(|a| (*a).into()));
        for addr in &all {
            backends.failed(*addr, &io::ErrorKind::TimedOut.into());
        }
        let up = async {
            while !backends.statuses()[60].up {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            never = backends.watch() => match never {},
            up = timeout(PATIENCE, up) => up.expect("it is probed in time"),
        }
        assert!(backends.statuses()[..60].iter().all(|s| !s.up));
    }

    #[test]
    fn a_lack_of_files_or_ports_on_this_host_is_no_failure_of_a_back_end() {
        let of_this_host = |code| is_of_this_host(&io::Error::from_raw_os_error(code));
        for code in [libc::EADDRNOTAVAIL, libc::EMFILE, libc::ENOBUFS] {
            assert!(of_this_host(code), "{code}");
        }
        for code in [libc::ECONNREFUSED, libc::ENETUNREACH, libc::ETIMEDOUT] {
            assert!(!of_this_host(code), "{code}");
        }
        assert!(!is_of_this_host(&expired("service")));
    }

    #[tokio::test]
    async fn all_back_ends_are_tried_if_all_are_down_and_the_error_names_one() {
        let (first, a) = listener().await;
        let (second, b) = listener().await;
        drop((first, second));
        let backends = Backends::new([a.into(), b.into()]);
        for _ in 0..2 {
            let e = backends.connect().await.unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::ConnectionRefused);
            assert!(e.to_string().starts_with("service 127.0.0.1:"), "{e}");
        }
        assert!(backends.statuses().iter().all(|s| s.failures == 2));
        let _first = TcpListener::bind(a).await.unwrap();
        assert!(backends.connect().await.is_ok());
    }

    #[tokio::test]
    async fn replaced_back_ends_keep_their_state_if_they_stay() {
        let (_first, a) = listener().await;
        let (second, b) = listener().await;
        drop(second);
        let backends = Backends::new([a.into(), b.into(), a.into()]);
        for _ in 0..2 {
            backends.connect().await.expect("the first");
        }
        backends.replace([weighted(b, 2), weighted(a, 5)]);
        let states = backends.statuses();
        assert_eq!(
            (states[0].addr, states[0].up, states[0].weight),
            (b, false, 2)
        );
        assert_eq!((states[1].addr, states[1].connections), (a, 2));
        backends.replace([]);
        let e = backends.connect().await.unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::NotFound);
    }
}
