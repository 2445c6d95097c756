//! [`Endpoints`]: a subflow from each configured address, like the endpoints of `ip mptcp` in Linux.

use std::net::IpAddr;

use spindle_wire::Endpoint;

use super::{PathManager, PathView};

/// Opens one subflow from each of these local addresses to the peer's first endpoint, in addition to the first
/// subflow: "endpoints". An address that is listed several times, or that the first subflow also uses, has
/// several subflows.
#[derive(Clone, Debug)]
pub struct Endpoints(
    /// The local addresses.
    pub Vec<IpAddr>,
);

impl PathManager for Endpoints {
    fn name(&self) -> &str {
        "endpoints"
    }

    fn summary(&self) -> &str {
        "one subflow from each configured local address to the peer's first address"
    }

    fn planned_subflows(&self) -> usize {
        self.0.len() + 1
    }

    /// The first address from which fewer subflows were opened than the list requires.
    fn next(&self, paths: &dyn PathView) -> Option<(IpAddr, Endpoint)> {
        if !paths.accepts_at_first() {
            return None;
        }
        let (first, remote) = paths.first();
        let missing = |(k, local): (usize, &IpAddr)| {
            let before = self.0[..=k].iter().filter(|a| *a == local).count();
            let wanted = before + usize::from(*local == first);
            let opened = paths.opened().iter();
            let have = opened.filter(|o| **o == (*local, remote)).count();
            let fits = local.is_ipv4() == remote.addr.is_ipv4();
            (fits && have < wanted).then_some((*local, remote))
        };
        self.0.iter().enumerate().find_map(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Paths, addr};
    use super::*;

    #[test]
    fn each_endpoint_is_opened_as_often_as_listed_in_addition_to_the_first_subflow() {
        let manager = Endpoints([2, 1, 2].map(addr).to_vec());
        let mut paths = Paths::new(&[1]);
        assert_eq!(paths.open(&manager), [(2, 9), (1, 9), (2, 9)]);
        // One of the subflows is lost, and later opened again.
        paths.opened.remove(0);
        assert_eq!(paths.open(&manager), [(1, 9)]);
        assert_eq!(manager.planned_subflows(), 4);
    }
}
