//! Opens a connection to whichever address of some targets answers first (RFC 8305).

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use spindle_mptcp::Config;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::NetError;
use crate::socket::{Network, TcpStream};
#[cfg(feature = "uplinks")]
use crate::target::Target;
use crate::target::Targets;
use crate::udp;

/// If an attempt has no result, the next one starts after this time (RFC 8305, section 5: Connection Attempt
/// Delay).
const NEXT_ATTEMPT_AFTER: Duration = Duration::from_millis(250);
/// Attempts that may be in progress at a time. If there are more pairs of addresses, each further attempt waits for
/// an earlier one to fail.
const MOST_AT_ONCE: usize = 8;
/// Pairs of addresses that one connection tries, so that no name makes a connection try addresses for minutes.
const MOST_PAIRS: usize = 32;
/// How often a connection looks for local addresses that it has not tried.
const MOST_ROUNDS: usize = 4;
/// What failed if there is no way to a target at present.
const NO_PATH: &str = "no path to the target";

/// The local addresses from which connections start.
#[derive(Clone, Debug)]
pub enum Sources {
    /// The system chooses an address for each connection, which is meant for links over UDP
    /// ([`UdpClientOptions::follow_system`](crate::udp::UdpClientOptions::follow_system)).
    System,
    /// These addresses.
    Listed(Vec<IpAddr>),
    /// The uplinks that exist at the time, which is meant for links over UDP.
    #[cfg(feature = "uplinks")]
    Uplinks(crate::uplinks::Uplinks),
}

impl Sources {
    /// Fails if no connection can be opened at present, before a name is looked up, which may take long.
    #[cfg(feature = "uplinks")]
    async fn ready(&self, targets: &Targets) -> io::Result<()> {
        let remote = |t: &Target| matches!(t, Target::Name(name, _) if name != "localhost");
        match self {
            Self::Uplinks(uplinks) if targets.iter().all(remote) => {
                uplinks.any(&targets.to_string()).await
            }
            _ => Ok(()),
        }
    }

    /// Pairs of a local address and one of the targets, for each target those that are tried first.
    async fn pairs(&self, targets: &[SocketAddr]) -> io::Result<Vec<(IpAddr, SocketAddr)>> {
        match self {
            Self::System => {
                let chosen = |to: &SocketAddr| Some((udp::source_for(*to).ok()?, *to));
                Ok(targets.iter().filter_map(chosen).collect())
            }
            Self::Listed(local) => {
                let fitting = |to: &SocketAddr| {
                    let to = *to;
                    let of_family = move |from: &&IpAddr| from.is_ipv4() == to.is_ipv4();
                    local.iter().filter(of_family).map(move |from| (*from, to))
                };
                Ok(targets.iter().flat_map(fitting).collect())
            }
            #[cfg(feature = "uplinks")]
            Self::Uplinks(uplinks) => uplinks.pairs(targets).await,
        }
    }

    /// Reads local addresses again that are kept in a list which may be out of date. Returns false if there is no such
    /// list.
    async fn renew(&self) -> bool {
        match self {
            #[cfg(feature = "uplinks")]
            Self::Uplinks(uplinks) => uplinks.renew().await,
            _ => false,
        }
    }
}

/// The addresses with both families in turn, beginning with that of the first address (RFC 8305, section 4). Each
/// address is listed once.
pub(crate) fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().map(SocketAddr::is_ipv4) else {
        return addresses;
    };
    let mut families = [VecDeque::new(), VecDeque::new()];
    for addr in addresses {
        let family = &mut families[usize::from(addr.is_ipv4() != first)];
        if !family.contains(&addr) {
            family.push_back(addr);
        }
    }
    let mut order = Vec::new();
    while families.iter().any(|f| !f.is_empty()) {
        order.extend(families.iter_mut().filter_map(VecDeque::pop_front));
    }
    order
}

/// The pairs in the order in which they will be tried: each target from its first local address, then each from its
/// second, and so on.
fn in_order(pairs: Vec<(IpAddr, SocketAddr)>) -> VecDeque<(IpAddr, SocketAddr)> {
    let mut tried: HashMap<SocketAddr, usize> = HashMap::new();
    let ranked = pairs.into_iter().map(|pair| {
        let rank = tried.entry(pair.1).or_default();
        *rank += 1;
        (*rank, pair)
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let pairs = ranked.into_iter().map(|(_, pair)| pair);
    pairs.take(MOST_PAIRS).collect()
}

/// Opens a connection to one of the targets. The pairs of their addresses with local addresses of their family are tried in order. An
/// attempt starts as soon as the one before has failed, or after 250 ms, and the first connection that is established wins.
/// The others are given up. Returns the connection with the address that answered.
///
/// # Errors
/// The error of the last attempt that failed; [`NetError::TimedOut`] after `patience`; [`NetError::System`] if no name is
/// known; [`NetError::NoLocalAddress`].
pub(crate) async fn dial(
    network: &Network,
    local: &Sources,
    targets: &Targets,
    config: &Arc<Config>,
    patience: Option<Duration>,
) -> Result<(TcpStream, SocketAddr), NetError> {
    let race = async {
        #[cfg(feature = "uplinks")]
        local
            .ready(targets)
            .await
            .map_err(NetError::system(NO_PATH))?;
        let found = targets.addresses().await;
        let found = found.map_err(NetError::system("cannot look up the name"))?;
        let found = interleaved(found);
        let opened = rounds(network, || local.pairs(&found), || local.renew(), config).await?;
        opened.ok_or_else(|| NetError::NoLocalAddress(targets.clone()))
    };
    match patience {
        None => race.await,
        Some(patience) => {
            let late = |_| Err(NetError::TimedOut(targets.clone()));
            timeout(patience, race).await.unwrap_or_else(late)
        }
    }
}

/// Tries the pairs of the moment, which `pairs` returns. If all fail, and others have appeared in the meantime, as they do
/// when an uplink changes its address, those are tried, too. Before it gives up, `renew` reads the local addresses again, once.
/// Returns nothing if there is no pair.
async fn rounds<P, R>(
    network: &Network,
    pairs: impl Fn() -> P,
    renew: impl Fn() -> R,
    config: &Arc<Config>,
) -> Result<Option<(TcpStream, SocketAddr)>, NetError>
where
    P: Future<Output = io::Result<Vec<(IpAddr, SocketAddr)>>>,
    R: Future<Output = bool>,
{
    let (mut tried, mut failed, mut renewed) = (HashSet::new(), None, false);
    for _ in 0..MOST_ROUNDS {
        let found = match pairs().await {
            Ok(found) => found,
            Err(e) => return Err(failed.unwrap_or_else(|| NetError::system(NO_PATH)(e))),
        };
        let mut fresh = in_order(found);
        fresh.retain(|pair| tried.insert(*pair));
        if fresh.is_empty() {
            if renewed || !renew().await {
                break;
            }
            renewed = true;
            continue;
        }
        match race(network, fresh, config).await {
            Ok(opened) => return Ok(Some(opened)),
            Err(error) => failed = error,
        }
    }
    failed.map_or(Ok(None), Err)
}

/// Tries the pairs. Returns no error if there are none.
async fn race(
    network: &Network,
    pairs: VecDeque<(IpAddr, SocketAddr)>,
    config: &Arc<Config>,
) -> Result<(TcpStream, SocketAddr), Option<NetError>> {
    race_all(pairs, |(from, to)| {
        let (network, config) = (network.clone(), config.clone());
        async move {
            let opened = network.connect(from, to, config).await;
            let failed = |error: &_| tracing::debug!(%from, %to, %error, "an attempt failed");
            opened.inspect_err(failed).map(|stream| (stream, to))
        }
    })
    .await
}

/// Tries all that wait in order. An attempt starts as soon as the one before has failed, or after 250 ms. Returns the first
/// success, or the last error, if there was any attempt.
pub(crate) async fn race_all<A, T, E, F>(
    mut waiting: VecDeque<A>,
    attempt: impl Fn(A) -> F,
) -> Result<T, Option<E>>
where
    T: Send + 'static,
    E: Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    // Dropping the set ends the tasks, which gives their connections up.
    let mut attempts = JoinSet::new();
    let mut failed = None;
    loop {
        if attempts.len() < MOST_AT_ONCE
            && let Some(next) = waiting.pop_front()
        {
            attempts.spawn(attempt(next));
        }
        let may_start = !waiting.is_empty() && attempts.len() < MOST_AT_ONCE;
        let next = attempts.join_next();
        let ended = match may_start {
            false => next.await,
            true => match timeout(NEXT_ATTEMPT_AFTER, next).await {
                Ok(ended) => ended,
                Err(_) => continue,
            },
        };
        match ended {
            None => return Err(failed),
            Some(Ok(Ok(opened))) => return Ok(opened),
            Some(Ok(Err(error))) => failed = Some(error),
            // The runtime ends the tasks when it shuts down.
            Some(Err(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{NetworkConfig, TcpListener};
    use crate::udp::{UdpClient, UdpClientOptions};

    fn addrs(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|a| a.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns_beginning_with_the_first() {
        let found = addrs(&[
            "[::1]:1",
            "[::2]:1",
            "[::1]:1",
            "[::3]:1",
            "1.0.0.1:1",
            "1.0.0.2:1",
        ]);
        let order = addrs(&["[::1]:1", "1.0.0.1:1", "[::2]:1", "1.0.0.2:1", "[::3]:1"]);
        assert_eq!(interleaved(found), order);
        assert_eq!(interleaved(Vec::new()), []);
    }

    #[tokio::test]
    async fn every_address_is_tried_before_a_second_local_address() {
        let local: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2", "fd00::1"]
            .map(|a| a.parse().unwrap())
            .into();
        let targets = addrs(&["1.0.0.1:1", "[2001:db8::1]:1"]);
        let listed = Sources::Listed(local.clone());
        let tried = in_order(listed.pairs(&targets).await.unwrap());
        let of = |from: usize, to: &str| (local[from], to.parse().unwrap());
        let want = [
            of(0, "1.0.0.1:1"),
            of(2, "[2001:db8::1]:1"),
            of(1, "1.0.0.1:1"),
        ];
        assert_eq!(tried, want);
    }

    /// A network over UDP, an address that never answers, and the socket that keeps its port.
    fn silence() -> (Network, SocketAddr, std::net::UdpSocket) {
        let link = UdpClient::new(UdpClientOptions::default()).unwrap();
        let network = Network::start(NetworkConfig::default(), Box::new(link)).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        (network, socket.local_addr().unwrap(), socket)
    }

    fn config() -> Arc<Config> {
        let preset = spindle_mptcp::preset(spindle_mptcp::DEFAULT_TRANSPORT).unwrap();
        Arc::new(preset.config)
    }

    #[tokio::test]
    async fn an_address_that_answers_wins_over_an_earlier_one_that_is_silent() {
        let (network, silent, _socket) = silence();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let from = silent.ip();
        let waiting = [(from, silent), (from, listener.local_addr())].into();
        let (stream, to) = race(&network, waiting, &config()).await.unwrap();
        assert_eq!(to, listener.local_addr());
        assert_eq!(stream.peer_addr(), to);
    }

    #[tokio::test]
    async fn a_local_address_that_appears_while_the_first_one_fails_is_tried() {
        let (network, ..) = silence();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr();
        // An address of TEST-NET-1, which no host has.
        let gone: IpAddr = "192.0.2.9".parse().unwrap();
        let looks = std::cell::Cell::new(0);
        let pairs = async |later: IpAddr| {
            looks.set(looks.get() + 1);
            Ok(vec![(if looks.get() == 1 { gone } else { later }, to)])
        };
        let no_list = async || false;
        let opened = rounds(&network, || pairs(to.ip()), no_list, &config()).await;
        let (stream, reached) = opened.unwrap().expect("there are pairs");
        assert_eq!((reached, looks.get()), (to, 2));
        drop(stream);
        looks.set(0);
        let failed = rounds(&network, || pairs(gone), no_list, &config()).await;
        assert!(failed.is_err());
        assert_eq!(looks.get(), 2, "there is nothing else to try");
    }

    #[tokio::test]
    async fn a_list_that_is_out_of_date_is_read_again_once() {
        let (network, ..) = silence();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr();
        let gone: IpAddr = "192.0.2.9".parse().unwrap();
        let list = std::cell::Cell::new(gone);
        let pairs = async || Ok(vec![(list.get(), to)]);
        let renew = async || {
            list.set(to.ip());
            true
        };
        let opened = rounds(&network, pairs, renew, &config()).await;
        let (stream, reached) = opened.unwrap().expect("there are pairs");
        assert_eq!(reached, to);
        drop(stream);
        list.set(gone);
        let times = std::cell::Cell::new(0);
        let in_vain = async || {
            times.set(times.get() + 1);
            true
        };
        assert!(rounds(&network, pairs, in_vain, &config()).await.is_err());
        assert_eq!(times.get(), 1);
    }

    #[tokio::test]
    async fn silence_ends_with_the_patience_and_other_attempts_are_given_up() {
        let (network, silent, _socket) = silence();
        let target = Targets::from(Target::Address(silent));
        let patience = Some(Duration::from_millis(400));
        let error = dial(&network, &Sources::System, &target, &config(), patience)
            .await
            .unwrap_err();
        assert!(matches!(error, NetError::TimedOut(_)), "{error}");
        assert!(error.to_string().contains(&silent.to_string()), "{error}");
        while !network.connections().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
