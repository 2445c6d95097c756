//! Checks that the data path still turns.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use crate::socket::Network;

/// A turn takes milliseconds. A turn that takes this long is logged while it lasts.
const STALL: Duration = Duration::from_secs(5);

/// Calls `alive` each time that the data path has turned, at once and then at most once per `every`, and never while it
/// hangs.
/// The report of `alive` to a service manager is then a sign that connections are served.
pub async fn watch(network: &Network, every: Duration, alive: impl Fn()) -> Infallible {
    loop {
        let begin = Instant::now();
        let turn = network.turn();
        tokio::pin!(turn);
        let turned = match tokio::time::timeout(STALL, &mut turn).await {
            Ok(turned) => turned,
            Err(_) => {
                tracing::error!(
                    ?STALL,
                    "the data path does not turn: no connection is served"
                );
                let turned = turn.await;
                let stalled_ms = begin.elapsed().as_millis() as u64;
                tracing::warn!(stalled_ms, "the data path turns again");
                turned
            }
        };
        match turned {
            Ok(()) => alive(),
            // The data path has ended. The service reports that by other means.
            Err(_) => std::future::pending().await,
        }
        tokio::time::sleep(every).await;
    }
}
