//! Totals of subflows by their local address.

use std::net::IpAddr;

use super::info::add_counters;
use crate::subflow::Subflow;
use crate::subflow::sender::SendCounters;

/// Maximum number of addresses with totals of their own. A host has fewer, unless it gets a new address for years
/// (our choice).
const MOST: usize = 64;

/// What the subflows of one local address have carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Their send counters.
    pub send: SendCounters,
    /// Payload bytes received in subflow order, including data that also arrived on another subflow.
    pub bytes_received: u64,
}

impl PathCounters {
    fn add(&mut self, other: &Self) {
        add_counters(&mut self.send, &other.send);
        self.bytes_received += other.bytes_received;
    }

    fn of(s: &Subflow) -> Self {
        Self {
            send: s.tx.counters,
            bytes_received: s.bytes_received(),
        }
    }
}

/// Totals of subflows by their local address, including ended subflows. At most 64 addresses have totals of their
/// own; those of further addresses are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathTotals {
    /// Sorted by address.
    addresses: Vec<(IpAddr, PathCounters)>,
    others: PathCounters,
}

impl PathTotals {
    /// The totals of each address, in the order of the addresses. The total of further addresses comes last, without an
    /// address, if there are any.
    pub fn iter(&self) -> impl Iterator<Item = (Option<IpAddr>, &PathCounters)> {
        let others = (self.others != PathCounters::default()).then_some((None, &self.others));
        let addresses = self.addresses.iter().map(|(a, c)| (Some(*a), c));
        addresses.chain(others)
    }

    /// Send counters of all addresses together.
    pub(crate) fn sent(&self) -> SendCounters {
        let mut total = SendCounters::default();
        self.iter()
            .for_each(|(_, c)| add_counters(&mut total, &c.send));
        total
    }

    pub(crate) fn add_subflow(&mut self, s: &Subflow) {
        self.add(s.local.addr, &PathCounters::of(s));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (addr, counters) in &other.addresses {
            self.add(*addr, counters);
        }
        self.others.add(&other.others);
    }

    fn add(&mut self, addr: IpAddr, counters: &PathCounters) {
        let known = self.addresses.binary_search_by_key(&addr, |(a, _)| *a);
        let at = match known {
            Ok(at) => at,
            Err(_) if self.addresses.len() == MOST => return self.others.add(counters),
            Err(at) => {
                // Each finished connection has totals, and most have one or two addresses.
                self.addresses.reserve_exact(1);
                self.addresses.insert(at, (addr, PathCounters::default()));
                at
            }
        };
        self.addresses[at].1.add(counters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn addresses_beyond_the_limit_share_a_total() {
        let one = PathCounters {
            bytes_received: 1,
            ..PathCounters::default()
        };
        let mut totals = PathTotals::default();
        for n in (0..MOST as u32 + 2).chain(0..MOST as u32 + 2) {
            totals.add(Ipv4Addr::from_bits(n).into(), &one);
        }
        let mut twice = totals.clone();
        twice.merge(&totals);
        let list: Vec<_> = twice.iter().map(|(a, c)| (a, c.bytes_received)).collect();
        assert_eq!(list.len(), MOST + 1);
        assert!(list.is_sorted_by_key(|(a, _)| (a.is_none(), *a)));
        assert!(list[..MOST].iter().all(|(a, n)| a.is_some() && *n == 4));
        assert_eq!(list[MOST], (None, 8));
    }
}
