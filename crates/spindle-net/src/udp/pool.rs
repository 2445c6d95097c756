//! Further sockets of a client's subflow whose packets are scattered. With the subflow's own socket, they use
//! as many outer ports as ECMP commonly spreads over.

use std::sync::Arc;

use polling::Poller;
use spindle_units::{Duration, Instant};

use super::socket::Socket;

/// Sockets in addition to the subflow's own: sixteen ports are the fan-out that MMPTCP section 2.4 assumes.
pub(super) const SOCKETS: usize = 15;
/// Keys of these sockets in the poller begin here, far above those of the subflows' own sockets.
const FIRST_KEY: usize = usize::MAX / 2;
/// The sockets are closed when nothing was scattered for this long, since the first phase is over.
const IDLE: Duration = Duration::from_secs(30);

/// One of the further sockets.
pub(super) struct Extra {
    /// The subflow's slot.
    pub(super) slot: usize,
    pub(super) socket: Socket,
}

/// All further sockets of a link.
#[derive(Default)]
pub(super) struct Pools {
    extras: Vec<Option<Extra>>,
    free: Vec<usize>,
}

/// The further sockets of one subflow.
#[derive(Default)]
pub(super) struct Pool {
    pub(super) members: Vec<usize>,
    /// When a packet was last scattered. `None` if this never happened.
    pub(super) used: Option<Instant>,
}

impl Pool {
    /// Whether its sockets are no longer needed.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        !self.members.is_empty() && self.used.is_none_or(|at| now.since(at) >= IDLE)
    }
}

impl Pools {
    /// Number of open sockets.
    pub(super) fn len(&self) -> usize {
        self.extras.len() - self.free.len()
    }

    /// The key in the poller of the socket that [`Self::add`] will add next.
    pub(super) fn next_key(&self) -> usize {
        FIRST_KEY + self.free.last().copied().unwrap_or(self.extras.len())
    }

    /// The number of the socket with this key, or `None` if the key is not one of these.
    pub(super) fn of_key(key: usize) -> Option<usize> {
        key.checked_sub(FIRST_KEY)
    }

    /// The socket with this number.
    pub(super) fn get(&self, number: usize) -> Option<&Extra> {
        self.extras.get(number)?.as_ref()
    }

    /// Adds a socket. Returns its number.
    pub(super) fn add(&mut self, extra: Extra) -> usize {
        let number = self.free.pop().unwrap_or(self.extras.len());
        if number == self.extras.len() {
            self.extras.push(Some(extra));
        } else {
            self.extras[number] = Some(extra);
        }
        number
    }

    /// Closes the further sockets of a subflow.
    pub(super) fn close(&mut self, pool: &mut Pool, poller: Option<&Arc<Poller>>) {
        for number in pool.members.drain(..) {
            let Some(extra) = self.extras.get_mut(number).and_then(Option::take) else {
                continue;
            };
            if let Some(poller) = poller {
                // Closing the socket removes it from the poller as well.
                let _ = poller.delete(extra.socket.source());
            }
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_and_keys_follow_them() {
        let socket = || Socket::open("127.0.0.1:0".parse().unwrap(), None, None).unwrap();
        let mut pools = Pools::default();
        let mut pool = Pool::default();
        for k in 0..3 {
            let key = pools.next_key();
            let extra = Extra {
                slot: 7,
                socket: socket(),
            };
            let number = pools.add(extra);
            assert_eq!((Pools::of_key(key), number), (Some(k), k));
            pool.members.push(number);
        }
        assert_eq!((pools.len(), pools.get(2).unwrap().slot), (3, 7));
        assert!(Pools::of_key(100).is_none() && pools.get(3).is_none());
        pools.close(&mut pool, None);
        assert_eq!(pools.len(), 0);
        let extra = Extra {
            slot: 8,
            socket: socket(),
        };
        assert_eq!(Pools::of_key(pools.next_key()), Some(pools.add(extra)));
    }
}
