//! `dual-homed`: a client with several interfaces.

use std::sync::Arc;

use spindle_fabric::{Network, NetworkError, topology};
use spindle_units::{BitRate, Duration};

use super::{LinkSettings, MAX_INTERFACES, Topology, TopologyKind, count, rate};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, FromNode, Section};

const NAME: &str = "dual-homed";

/// Host "client" with cables P1.. to a router, and host "server" with one cable.
#[derive(Clone, Debug)]
struct DualHomed {
    /// The rate of each of the client's cables, and the round-trip time of the path over it, in the order of
    /// their names. `None` stands for the settings of links.
    paths: Vec<(Option<BitRate>, Option<Duration>)>,
    /// Rate of the server's cable. The settings of links have the rate of the client's cables.
    server_rate: BitRate,
}

impl Topology for DualHomed {
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError> {
        // A path has two links, four for the round trip. The server's link belongs to all paths, so the client's
        // link has the rest of the path's delay.
        let rtt = |path: &(Option<BitRate>, Option<Duration>)| path.1.unwrap_or(links.rtt);
        let shortest = self.paths.iter().map(rtt).min().unwrap_or(links.rtt);
        let server_delay = shortest / 4;
        let link = |path: &(Option<BitRate>, Option<Duration>)| {
            let delay = path.1.map_or(links.rtt / 4, |rtt| rtt / 2 - server_delay);
            (path.0.unwrap_or(links.rate), delay)
        };
        topology::DualHomed {
            client_links: self.paths.iter().map(link).collect(),
            server_rate: self.server_rate,
            server_delay,
            router_buffer: links.switch_port(),
            mark_above: links.mark_above(),
            host_buffer: links.host_port(),
        }
        .build()
    }
}

struct Kind;

impl TopologyKind for Kind {
    fn without(&self) -> &[&'static str] {
        &["host_ecn_threshold", "host_speedup", "priorities"]
    }

    fn read(
        &self,
        s: &Section<'_>,
        links: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        let paths = count(s, "paths", 2, MAX_INTERFACES)?;
        let rates = of_paths::<BitRate>(s, "path_rates", paths)?;
        if rates.iter().flatten().any(|r| r.0 == 0) {
            let problem = "found 0, want a rate above 0 such as \"8.6Mbps\"";
            return Err(s.error("path_rates", problem));
        }
        let rtts = of_paths::<Duration>(s, "path_rtts", paths)?;
        Ok(Arc::new(DualHomed {
            paths: rates.into_iter().zip(rtts).collect(),
            server_rate: rate(s, "server_rate", links.rate)?,
        }))
    }
}

/// The list `key`, which has an entry for each path. All are `None` if the file does not have the list.
fn of_paths<T: FromNode>(
    s: &Section<'_>,
    key: &'static str,
    paths: u32,
) -> Result<Vec<Option<T>>, ExperimentError> {
    let Some(list) = s.list::<T>(key)? else {
        return Ok((0..paths).map(|_| None).collect());
    };
    if list.len() != paths as usize {
        let found = list.len();
        let problem = format!("found {found} values, want one for each of the {paths} paths");
        return Err(s.error(key, problem));
    }
    Ok(list.into_iter().map(Some).collect())
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "a client with cables P1.. to a router, and a server with one cable";
    catalog.add(NAME, summary, Arc::new(Kind));
}
