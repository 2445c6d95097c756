//! A relay between clients and a server: a path with a NAT, whose outer ports and width change.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct State {
    server: SocketAddr,
    front: UdpSocket,
    /// The NAT's binding of each client.
    bindings: Mutex<HashMap<SocketAddr, Arc<UdpSocket>>>,
    /// Large datagrams from each client, and to each.
    carried: Mutex<HashMap<SocketAddr, [usize; 2]>>,
    limit: AtomicUsize,
    /// Every n-th datagram is lost, or arrives after the next one. 0 disables it.
    lossy: AtomicUsize,
    swaps: AtomicUsize,
    seen: AtomicUsize,
    /// Encoded packets that were too large to pass.
    too_large: AtomicUsize,
    largest: AtomicUsize,
    ended: AtomicBool,
}

/// The relay. It stops when it is dropped.
pub(crate) struct Relay(Arc<State>);

fn socket() -> UdpSocket {
    let s = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    s.set_read_timeout(Some(Duration::from_millis(20)))
        .expect("a time limit");
    s
}

/// Type of datagrams that carry packets of the coding layer (`docs/wire/encapsulation.md`).
const CODED: u8 = 5;
/// A datagram with more bytes than this carries data.
const LARGE: usize = 500;

impl State {
    fn count(&self, client: SocketAddr, direction: usize, bytes: usize) {
        if bytes > LARGE {
            let mut carried = self.carried.lock().expect("no panic");
            carried.entry(client).or_default()[direction] += 1;
        }
    }

    /// The datagrams to pass on now that this one has arrived. `held` is a datagram that waits for the next
    /// one.
    fn passes(&self, datagram: &[u8], held: &mut Option<Vec<u8>>) -> Vec<Vec<u8>> {
        let n = datagram.len();
        self.largest.fetch_max(n, Ordering::Relaxed);
        if n > self.limit.load(Ordering::Relaxed) {
            let coded = datagram[1] & 0x3f == CODED;
            self.too_large
                .fetch_add(usize::from(coded), Ordering::Relaxed);
            return Vec::new();
        }
        let number = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        let due = |every: &AtomicUsize| match every.load(Ordering::Relaxed) {
            0 => false,
            every => number.is_multiple_of(every),
        };
        if due(&self.lossy) {
            return Vec::new();
        }
        let this = datagram.to_vec();
        if due(&self.swaps) && held.is_none() {
            *held = Some(this);
            return Vec::new();
        }
        [Some(this), held.take()].into_iter().flatten().collect()
    }

    /// The binding of a client. If there is none, it is created, with a thread for the opposite direction.
    fn binding(self: &Arc<Self>, client: SocketAddr) -> Arc<UdpSocket> {
        let mut bindings = self.bindings.lock().expect("no panic");
        let new = || {
            let out = Arc::new(socket());
            let (state, back) = (self.clone(), out.clone());
            std::thread::spawn(move || {
                let (mut buffer, mut held) = ([0; 65_536], None);
                while !state.ended.load(Ordering::Relaxed) {
                    let due = match back.recv(&mut buffer) {
                        Ok(n) => state.passes(&buffer[..n], &mut held),
                        Err(_) => held.take().into_iter().collect(),
                    };
                    for datagram in due {
                        if state.is_current(client, &back) {
                            state.count(client, 1, datagram.len());
                            let _ = state.front.send_to(&datagram, client);
                        }
                    }
                }
            });
            out
        };
        bindings.entry(client).or_insert_with(new).clone()
    }

    /// Whether this is the client's current binding. Datagrams to an outer address that is no longer bound are
    /// lost.
    fn is_current(&self, client: SocketAddr, socket: &Arc<UdpSocket>) -> bool {
        let bindings = self.bindings.lock().expect("no panic");
        bindings
            .get(&client)
            .is_some_and(|s| Arc::ptr_eq(s, socket))
    }
}

impl Relay {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let state = Arc::new(State {
            server,
            front: socket(),
            bindings: Mutex::default(),
            carried: Mutex::default(),
            limit: AtomicUsize::new(usize::MAX),
            lossy: AtomicUsize::new(0),
            swaps: AtomicUsize::new(0),
            seen: AtomicUsize::new(0),
            too_large: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        });
        let run = state.clone();
        std::thread::spawn(move || {
            let (mut buffer, mut held, mut last) = ([0; 65_536], None, None);
            while !run.ended.load(Ordering::Relaxed) {
                let due = match run.front.recv_from(&mut buffer) {
                    Ok((n, client)) => {
                        last = Some(client);
                        run.passes(&buffer[..n], &mut held)
                    }
                    Err(_) => held.take().into_iter().collect(),
                };
                for datagram in due {
                    let Some(client) = last else { continue };
                    run.count(client, 0, datagram.len());
                    let _ = run.binding(client).send_to(&datagram, run.server);
                }
            }
        });
        Self(state)
    }

    /// The address that clients must send to.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.0.front.local_addr().expect("its address")
    }

    /// The client addresses that were seen.
    pub(crate) fn clients(&self) -> Vec<SocketAddr> {
        let bindings = self.0.bindings.lock().expect("no panic");
        bindings.keys().copied().collect()
    }

    /// Large datagrams from each client's address, and to each.
    pub(crate) fn carried(&self) -> Vec<[usize; 2]> {
        let carried = self.0.carried.lock().expect("no panic");
        carried.values().copied().collect()
    }

    /// Removes all bindings, so that the server sees new addresses.
    pub(crate) fn rebind(&self) {
        self.0.bindings.lock().expect("no panic").clear();
    }

    /// Drops datagrams that are larger than this.
    pub(crate) fn limit(&self, bytes: usize) {
        self.0.limit.store(bytes, Ordering::Relaxed);
    }

    /// From now on, every `lossy`-th datagram is lost, and every `swaps`-th arrives after the next one. Works
    /// with one client only.
    pub(crate) fn disturb(&self, lossy: usize, swaps: usize) {
        self.0.lossy.store(lossy, Ordering::Relaxed);
        self.0.swaps.store(swaps, Ordering::Relaxed);
    }

    /// Encoded packets that were too large to pass.
    pub(crate) fn too_large(&self) -> usize {
        self.0.too_large.load(Ordering::Relaxed)
    }

    /// The largest datagram that arrived.
    pub(crate) fn largest(&self) -> usize {
        self.0.largest.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}
