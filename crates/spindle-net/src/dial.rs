//! Opens a connection to the first address of a target that answers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use spindle_mptcp::Config;
use tokio::time::timeout;

use crate::error::NetError;
use crate::socket::{Network, TcpStream};
use crate::target::Target;
use crate::udp;

/// How long an attempt to connect from one local address to one target address may take, while other pairs are
/// left to try.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Local addresses for a connection to `target`, in the order in which they will be tried. If `local` is empty,
/// the system chooses the address.
fn sources(local: &[IpAddr], target: SocketAddr) -> Vec<IpAddr> {
    if local.is_empty() {
        return udp::source_for(target).into_iter().collect();
    }
    let of_family = |l: &&IpAddr| l.is_ipv4() == target.is_ipv4();
    local.iter().filter(of_family).copied().collect()
}

/// Tries the addresses of the target in order, each from every local address of its family, until a connection
/// is established. Returns it with the address that answered.
///
/// # Errors
/// The error of the last attempt; [`NetError::System`] if the name is unknown; [`NetError::NoLocalAddress`].
pub(crate) async fn dial(
    network: &Network,
    local: &[IpAddr],
    target: &Target,
    config: &Arc<Config>,
) -> Result<(TcpStream, SocketAddr), NetError> {
    let found = target.addresses().await;
    let found = found.map_err(NetError::system("cannot look up the target's name"))?;
    let pairs = found.into_iter().flat_map(|to| {
        let from = sources(local, to).into_iter();
        from.map(move |from| (from, to))
    });
    let mut pairs = pairs.peekable();
    let mut failed = NetError::NoLocalAddress(target.clone());
    while let Some((from, to)) = pairs.next() {
        let opening = network.connect(from, to, config.clone());
        let opened = match pairs.peek() {
            None => opening.await,
            Some(_) => {
                let opened = timeout(ATTEMPT, opening).await;
                opened.unwrap_or(Err(NetError::TimedOut(to)))
            }
        };
        match opened {
            Ok(stream) => return Ok((stream, to)),
            Err(e) => {
                tracing::debug!(%from, %to, error = %e, "an attempt failed");
                failed = e;
            }
        }
    }
    Err(failed)
}
