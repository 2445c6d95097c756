//! [`FullMesh`]: a subflow for each pair of addresses.

use std::net::IpAddr;

use spindle_wire::Endpoint;

use super::{PathManager, PathView};

/// Opens one subflow for each pair of a local address and an address of the peer of the same family:
/// "full-mesh". The peer's addresses are its first and those that it announced.
#[derive(Clone, Copy, Debug)]
pub struct FullMesh;

impl PathManager for FullMesh {
    fn name(&self) -> &str {
        "full-mesh"
    }

    fn summary(&self) -> &str {
        "one subflow for each pair of local and remote address, announced ones included"
    }

    fn uses_local_addresses(&self) -> bool {
        true
    }

    fn next(&self, paths: &dyn PathView) -> Option<(IpAddr, Endpoint)> {
        let first = paths.accepts_at_first().then(|| paths.first().1);
        let remotes: Vec<_> = first.into_iter().chain(paths.announced()).collect();
        let pairs = paths
            .local_addresses()
            .flat_map(|local| remotes.iter().map(move |remote| (local, *remote)));
        let (opened, mut pairs) = (paths.opened(), pairs);
        pairs.find(|pair| pair.0.is_ipv4() == pair.1.addr.is_ipv4() && !opened.contains(pair))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Paths, addr};
    use super::*;

    #[test]
    fn full_mesh_opens_each_pair_of_one_family_once() {
        let mut paths = Paths::new(&[1, 2]);
        paths.announced = vec![
            Endpoint::new(addr(8), 80),
            Endpoint::new("fd00::8".parse().unwrap(), 80),
        ];
        assert_eq!(paths.open(&FullMesh), [(1, 8), (2, 9), (2, 8)]);
    }

    #[test]
    fn full_mesh_joins_announced_endpoints_of_a_peer_that_refuses_its_first() {
        let mut paths = Paths::new(&[1, 2]);
        paths.closed = true;
        paths.announced = vec![Endpoint::new(addr(8), 80)];
        assert_eq!(paths.open(&FullMesh), [(1, 8), (2, 8)]);
    }
}
