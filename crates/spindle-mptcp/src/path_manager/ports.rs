//! [`Ports`]: several subflows between the same two addresses.

use std::net::IpAddr;

use spindle_wire::Endpoint;

use super::{PathManager, PathView};

/// Opens subflows between the addresses of the first until there are this many in total: "ports". They differ
/// by source port, and the network's ECMP spreads them (Raiciu et al., SIGCOMM 2011).
#[derive(Clone, Copy, Debug)]
pub struct Ports(
    /// The number of subflows. Zero counts as one.
    pub usize,
);

impl PathManager for Ports {
    fn name(&self) -> &str {
        "ports"
    }

    fn summary(&self) -> &str {
        "a fixed number of subflows between the first pair of addresses, distinguished by source port"
    }

    fn planned_subflows(&self) -> usize {
        self.0.max(1)
    }

    fn next(&self, paths: &dyn PathView) -> Option<(IpAddr, Endpoint)> {
        let missing = paths.opened().len() < paths.subflows(self.0);
        (missing && paths.accepts_at_first()).then(|| paths.first())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Paths;
    use super::*;

    #[test]
    fn ports_opens_the_configured_number_in_total_from_the_first_address() {
        assert_eq!(Paths::new(&[1, 2]).open(&Ports(3)), [(1, 9), (1, 9)]);
        assert_eq!(Paths::new(&[1]).open(&Ports(0)), []);
        assert_eq!([0, 1, 4].map(|n| Ports(n).planned_subflows()), [1, 1, 4]);
    }
}
