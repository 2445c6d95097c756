//! Path managers: which subflows a client opens after the first.
//!
//! A [`PathManager`] is a value of the configuration. It has no state of its own: it sees the paths of a
//! connection as a [`PathView`] and names the next pair of addresses. [`built_in`] has those that need no
//! settings. Each has a file. Other crates implement the same trait.

mod endpoints;
mod full_mesh;
mod passive;
mod ports;

/// The path managers without settings that come with Spindle. A new one needs a line here and its `mod` line
/// above.
static BUILT_IN: LazyLock<Vec<Arc<dyn PathManager>>> =
    LazyLock::new(|| vec![Arc::new(passive::Passive), Arc::new(full_mesh::FullMesh)]);

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use spindle_wire::Endpoint;

pub use endpoints::Endpoints;
pub use full_mesh::FullMesh;
pub use passive::Passive;
pub use ports::Ports;

/// The path managers without settings that come with Spindle, always in the same order. [`Ports`] and
/// [`Endpoints`] are configured by presets and by hosts.
pub fn built_in() -> &'static [Arc<dyn PathManager>] {
    &BUILT_IN
}

/// The paths of a connection, as its path manager sees them.
pub trait PathView {
    /// The local address from which the connection was to start, and the remote endpoint of the first subflow. The first
    /// subflow starts elsewhere if another SYN was answered first
    /// ([`MultipathConfig::syn_race`](crate::config::MultipathConfig)).
    fn first(&self) -> (IpAddr, Endpoint);

    /// Whether the peer accepts further subflows at the remote endpoint of the first. It refuses them with flag
    /// C of MP_CAPABLE (RFC 8684, section 3.1).
    fn accepts_at_first(&self) -> bool;

    /// The pairs for which a subflow was requested, the first subflow's at the beginning. A pair is listed as
    /// often as it was requested. The pair of a lost subflow is removed when the subflow may be opened again.
    fn opened(&self) -> &[(IpAddr, Endpoint)];

    /// The addresses of this host from which subflows may be opened, the first subflow's at the beginning.
    fn local_addresses(&self) -> Box<dyn Iterator<Item = IpAddr> + '_>;

    /// The endpoints that the peer has announced (RFC 8684, section 3.4.1) and that may be joined.
    fn announced(&self) -> Box<dyn Iterator<Item = Endpoint> + '_>;

    /// The total number of subflows of a manager that plans `planned`. Packet scatter may need another number
    /// (MMPTCP section 2).
    fn subflows(&self, planned: usize) -> usize;
}

/// Decides which subflows a client opens. It is what a configuration contains, and holds its settings, if it has
/// any.
///
/// The path managers that come with Spindle and those of other crates implement it alike. The [`Debug`] text
/// must contain every setting, because results are identified by a hash of the configuration's text.
pub trait PathManager: Send + Sync + Debug {
    /// The path manager's name after a plus sign on the command line and in experiment files. It consists of
    /// lower-case letters, digits and hyphens.
    fn name(&self) -> &str;

    /// What the path manager does, in one line with its source.
    fn summary(&self) -> &str;

    /// How many subflows the connection plans, the first included, as far as that is known in advance. An
    /// initial window for the whole connection is divided by this number.
    fn planned_subflows(&self) -> usize {
        1
    }

    /// Whether it finds further addresses of this host by itself. If not, the lab replaces it on hosts with several
    /// interfaces, where the address determines the path, by [`Endpoints`] for the interface that a connection starts
    /// from. [`Endpoints`] does not: its list is configured, and is right for one such interface only.
    fn uses_local_addresses(&self) -> bool {
        false
    }

    /// The local address and the remote endpoint of the next subflow, or `None` if no further subflow is wanted
    /// now. The connection asks again after each subflow that it opened or lost, and after each announced
    /// address. It checks the limit of subflows itself. The remote endpoint must be that of the first subflow,
    /// if the peer accepts subflows there, or an announced one.
    fn next(&self, paths: &dyn PathView) -> Option<(IpAddr, Endpoint)>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    pub(super) fn addr(n: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))
    }

    /// Paths of a connection from `local[0]` to `remote`.
    pub(super) struct Paths {
        pub(super) local: Vec<IpAddr>,
        pub(super) remote: Endpoint,
        pub(super) announced: Vec<Endpoint>,
        pub(super) closed: bool,
        pub(super) opened: Vec<(IpAddr, Endpoint)>,
    }

    impl Paths {
        pub(super) fn new(local: &[u8]) -> Self {
            let local: Vec<_> = local.iter().copied().map(addr).collect();
            let remote = Endpoint::new(addr(9), 80);
            Self {
                opened: vec![(local[0], remote)],
                local,
                remote,
                announced: Vec::new(),
                closed: false,
            }
        }

        /// Opens all subflows that the manager wants. Returns the last bytes of their local and remote
        /// addresses.
        pub(super) fn open(&mut self, manager: &dyn PathManager) -> Vec<(u8, u8)> {
            let last = |a: IpAddr| match a {
                IpAddr::V4(v4) => v4.octets()[3],
                IpAddr::V6(v6) => v6.octets()[15],
            };
            let mut list = Vec::new();
            while let Some(pair) = manager.next(self) {
                self.opened.push(pair);
                list.push((last(pair.0), last(pair.1.addr)));
            }
            list
        }
    }

    impl PathView for Paths {
        fn first(&self) -> (IpAddr, Endpoint) {
            (self.local[0], self.remote)
        }

        fn accepts_at_first(&self) -> bool {
            !self.closed
        }

        fn opened(&self) -> &[(IpAddr, Endpoint)] {
            &self.opened
        }

        fn local_addresses(&self) -> Box<dyn Iterator<Item = IpAddr> + '_> {
            Box::new(self.local.iter().copied())
        }

        fn announced(&self) -> Box<dyn Iterator<Item = Endpoint> + '_> {
            Box::new(self.announced.iter().copied())
        }

        fn subflows(&self, planned: usize) -> usize {
            planned
        }
    }

    #[test]
    fn built_in_path_managers_have_distinct_names_and_a_summary() {
        let names: Vec<_> = built_in().iter().map(|p| p.name()).collect();
        assert_eq!(names, ["passive", "full-mesh"]);
        assert!(built_in().iter().all(|p| !p.summary().is_empty()));
    }

    #[test]
    fn no_path_manager_joins_the_first_endpoint_of_a_peer_that_refuses_it() {
        let managers: [Arc<dyn PathManager>; 4] = [
            Arc::new(Passive),
            Arc::new(Ports(4)),
            Arc::new(FullMesh),
            Arc::new(Endpoints(vec![addr(2)])),
        ];
        for manager in managers {
            let mut paths = Paths::new(&[1, 2]);
            paths.closed = true;
            assert_eq!(paths.open(manager.as_ref()), [], "{manager:?}");
        }
    }
}
