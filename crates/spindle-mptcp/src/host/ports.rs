//! The choice of local ports.

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;
use spindle_wire::Endpoint;

use super::hashes::tuple;
use super::{Stack, StackError};
use crate::random::{mix, reduce};
use crate::secrets::{Generator, Label, Secrets};

/// The ephemeral range (RFC 6335, section 6: 49152-65535; widened to what today's kernels use).
const FIRST: u16 = 32_768;
const LAST: u16 = 60_999;
const SPAN: u32 = (LAST - FIRST) as u32 + 1;

/// Counters of [`DoubleHash`]: enough that two destinations rarely share one (Linux
/// `INET_TABLE_PERTURB_SIZE`).
const COUNTERS: usize = 1 << 16;

/// The next port differs by at most this much (Linux `inet_hash_connect`: less than 8 steps).
const MOST_INCREMENT: u64 = 8;

/// How a stack chooses local ports.
#[derive(Debug)]
pub(super) enum Ports {
    DoubleHash(DoubleHash),
    /// Each subflow of each connection draws its own port, whatever other connections do. Simulations are then
    /// comparable connection by connection.
    OwnStream(u64),
}

/// The subflow for which a port is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wants {
    pub(super) local: IpAddr,
    pub(super) remote: Endpoint,
    /// The connection's number within the stack.
    pub(super) ordinal: u64,
    pub(super) subflow: u8,
}

/// The number of a rival of the first SYN, for [`Wants::subflow`]. Rivals count down from 255, and subflows up from 0, so
/// that the port of a rival is not that of the subflow which joins its path later.
pub(super) fn of_rival(subflow: u8) -> u8 {
    !subflow
}

impl Ports {
    pub(super) fn new(secrets: &Secrets) -> Self {
        match secrets {
            Secrets::System(_) => Self::DoubleHash(DoubleHash::new(secrets)),
            Secrets::Simulation(seed) => Self::OwnStream(*seed),
        }
    }

    /// A port for which `free` returns true, or `None` if every port is taken.
    pub(super) fn choose(&mut self, w: Wants, free: impl Fn(u16) -> bool) -> Option<u16> {
        match self {
            Self::DoubleHash(ports) => ports.choose(w.local, w.remote, free),
            Self::OwnStream(seed) => {
                let base = mix(mix(*seed, w.ordinal), u64::from(w.subflow) + 1);
                (0..4 * u64::from(SPAN))
                    .map(|k| FIRST + reduce(mix(base, k), u64::from(SPAN)) as u16)
                    .find(|port| free(*port))
            }
        }
    }
}

impl Stack {
    /// The local end of a subflow to `remote`: `local`, with a free port if its port is 0.
    ///
    /// # Errors
    /// [`StackError::AddressInUse`], [`StackError::NoPorts`].
    pub(super) fn choose_port(
        &mut self,
        local: Endpoint,
        remote: Endpoint,
        ordinal: u64,
        subflow: u8,
    ) -> Result<Endpoint, StackError> {
        if local.port != 0 {
            let taken = self.table.lookup(&(local, remote)).is_some();
            return if taken {
                Err(StackError::AddressInUse(local))
            } else {
                Ok(local)
            };
        }
        let wants = Wants {
            local: local.addr,
            remote,
            ordinal,
            subflow,
        };
        let on = |port| Endpoint { port, ..local };
        let table = &self.table;
        self.ports
            .choose(wants, |port| table.lookup(&(on(port), remote)).is_none())
            .map(on)
            .ok_or(StackError::NoPorts(local.addr))
    }
}

/// Double-hash port selection (RFC 6056, section 3.3.4). The ports towards one destination follow each other
/// from a start that depends on the destination and on a secret. No port is used again soon, and the ports
/// towards one destination reveal nothing about those towards another. The distance to the next port is random
/// each time (section 3.3.5).
#[derive(Debug)]
pub(super) struct DoubleHash {
    key: [u8; 16],
    /// Allocated when the first connection needs a port, because a server may need none.
    counters: Vec<u16>,
    increments: Generator,
}

impl DoubleHash {
    fn new(secrets: &Secrets) -> Self {
        Self {
            key: secrets.sip_key(Label::Ports),
            counters: Vec::new(),
            increments: secrets.generators(Label::PortIncrements).generator(0),
        }
    }

    fn choose(
        &mut self,
        local: IpAddr,
        remote: Endpoint,
        free: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        if self.counters.is_empty() {
            self.counters = vec![0; COUNTERS];
        }
        let mut hash = SipHasher24::new_with_key(&self.key);
        hash.write(&tuple(Endpoint::new(local, 0), remote));
        let hash = hash.finish();
        // The two halves of one keyed hash serve as two hash functions.
        let (offset, index) = (hash as u32 % SPAN, (hash >> 32) as usize % COUNTERS);
        let counter = &mut self.counters[index];
        let start = offset + u32::from(*counter);
        let step = (0..SPAN).find(|k| free(port(start + k)))?;
        let increment = 1 + reduce(self.increments.next_u64(), MOST_INCREMENT) as u32;
        *counter = ((u32::from(*counter) + step + increment) % SPAN) as u16;
        Some(port(start + step))
    }
}

fn port(n: u32) -> u16 {
    FIRST + (n % SPAN) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn wants(remote: &str, ordinal: u64, subflow: u8) -> Wants {
        Wants {
            local: "10.0.0.1".parse().unwrap(),
            remote: remote.parse::<std::net::SocketAddr>().unwrap().into(),
            ordinal,
            subflow,
        }
    }

    fn ports(secrets: &Secrets, remote: &str, count: u64) -> Vec<u16> {
        let mut ports = Ports::new(secrets);
        let one = |k| ports.choose(wants(remote, k, 0), |_| true).unwrap();
        (0..count).map(one).collect()
    }

    #[test]
    fn simulated_ports_differ_by_subflow_and_are_repeatable() {
        let one = |o, s| {
            let mut ports = Ports::new(&Secrets::Simulation(7));
            ports.choose(wants("10.0.0.2:80", o, s), |_| true).unwrap()
        };
        assert_eq!(one(1, 0), one(1, 0));
        assert_ne!(one(1, 0), one(1, 1));
        assert_ne!(one(1, 0), one(2, 0));
    }

    #[test]
    fn ports_towards_a_destination_are_not_used_again_soon() {
        let drawn = ports(&Secrets::System([7; 32]), "10.0.0.2:80", 3000);
        assert!(drawn.iter().all(|p| (FIRST..=LAST).contains(p)));
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), drawn.len());
    }

    #[test]
    fn ports_start_elsewhere_for_other_destinations_and_seeds() {
        let seed = |last| {
            let mut seed = [7; 32];
            seed[31] = last;
            Secrets::System(seed)
        };
        let a = ports(&seed(0), "10.0.0.2:80", 50);
        let steps = |p: &[u16]| {
            p.windows(2)
                .map(|w| w[1].wrapping_sub(w[0]))
                .collect::<Vec<_>>()
        };
        for b in [
            ports(&seed(0), "10.0.0.2:81", 50),
            ports(&seed(0), "10.0.0.3:80", 50),
        ] {
            assert!(a.iter().all(|p| !b.contains(p)));
        }
        let b = ports(&seed(1), "10.0.0.2:80", 50);
        assert!(a.iter().all(|p| !b.contains(p)));
        assert_ne!(steps(&a), steps(&b));
    }

    #[test]
    fn the_last_free_port_is_found_and_none_when_all_are_taken() {
        for secrets in [Secrets::System([1; 32]), Secrets::Simulation(1)] {
            let mut ports = Ports::new(&secrets);
            let w = wants("10.0.0.2:80", 1, 0);
            assert_eq!(ports.choose(w, |p| p == 40_000), Some(40_000));
            assert_eq!(ports.choose(w, |_| false), None);
        }
    }
}
