//! Pairs of endpoints whose subflow was lost, and when a subflow between them is opened again.

use std::net::IpAddr;

use spindle_units::{Duration, Instant};
use spindle_wire::Endpoint;

/// Wait before a subflow that was lost to the network or to a transient error is opened again.
pub(super) const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Maximum of this wait, which doubles with each failure. The two values are the initial and the largest
/// retransmission timeout of RFC 6298: a path that stays down costs one SYN per minute.
pub(super) const RETRY_MOST: Duration = Duration::from_secs(60);

/// The wait before the next attempt, if there were `tries` attempts before.
pub(super) fn wait(tries: u32) -> Duration {
    (RETRY_FIRST * (1 << tries.min(16))).min(RETRY_MOST)
}

/// A pair of endpoints whose subflow was lost.
#[derive(Debug)]
struct Retry {
    local: IpAddr,
    remote: Endpoint,
    /// Number of attempts in a row after which the subflow was not up for [`RETRY_MOST`].
    tries: u32,
    lost_at: Instant,
    /// When it will be opened again. `None` once it was opened.
    at: Option<Instant>,
    /// Since when it is established again.
    up_since: Option<Instant>,
}

/// The pairs whose subflow was lost. A pair is listed once for each of its subflows that was lost.
#[derive(Debug, Default)]
pub(super) struct Retries(Vec<Retry>);

impl Retries {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.iter().filter_map(|r| r.at).min()
    }

    /// A subflow between these endpoints was lost, although neither end closed it.
    pub(super) fn lost(&mut self, now: Instant, local: IpAddr, remote: Endpoint) {
        let known = |r: &Retry| (r.local, r.remote) == (local, remote) && r.at.is_none();
        let i = self.0.iter().position(known).unwrap_or_else(|| {
            self.0.push(Retry {
                local,
                remote,
                tries: 0,
                lost_at: now,
                at: None,
                up_since: None,
            });
            self.0.len() - 1
        });
        let retry = &mut self.0[i];
        let lasted = retry
            .up_since
            .take()
            .is_some_and(|t| now.since(t) >= RETRY_MOST);
        if lasted {
            retry.tries = 0;
        }
        retry.lost_at = now;
        retry.at = Some(now + wait(retry.tries));
        retry.tries += 1;
    }

    /// A subflow between these endpoints is established.
    pub(super) fn up(&mut self, now: Instant, local: IpAddr, remote: Endpoint) {
        let waits = |r: &&mut Retry| {
            (r.local, r.remote) == (local, remote) && r.at.is_none() && r.up_since.is_none()
        };
        if let Some(r) = self.0.iter_mut().find(waits) {
            r.up_since = Some(now);
        }
    }

    /// The peer has announced `remote` again. Pairs with it are tried soon, at the earliest one second after
    /// their loss.
    pub(super) fn hasten(&mut self, remote: Endpoint) {
        for r in self.0.iter_mut().filter(|r| r.remote == remote) {
            r.at = r.at.map(|at| at.min(r.lost_at + RETRY_FIRST));
        }
    }

    /// All pairs that wait are tried at once.
    pub(super) fn hasten_all(&mut self, now: Instant) {
        for r in &mut self.0 {
            r.at = r.at.map(|_| now);
        }
    }

    /// Drops all attempts to `remote`.
    pub(super) fn forget_remote(&mut self, remote: Endpoint) {
        self.0.retain(|r| r.remote != remote);
    }

    /// Drops all attempts from `local`.
    pub(super) fn forget_local(&mut self, local: IpAddr) {
        self.0.retain(|r| r.local != local);
    }

    /// Takes the next pair that is due to be opened again.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(IpAddr, Endpoint)> {
        let due = |r: &&mut Retry| r.at.is_some_and(|t| t <= now);
        let r = self.0.iter_mut().find(due)?;
        r.at = None;
        Some((r.local, r.remote))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_doubles_until_the_subflow_has_lasted() {
        let (local, remote) = (
            IpAddr::from([10, 0, 0, 1]),
            Endpoint::new([10, 0, 0, 2].into(), 80),
        );
        let mut all = Retries::default();
        let mut now = Instant::ZERO;
        let mut lose = |all: &mut Retries, lasts: Duration| {
            all.lost(now, local, remote);
            let at = all.deadline().unwrap();
            let waited = at.since(now);
            assert_eq!(all.take_due(at), Some((local, remote)));
            all.up(at, local, remote);
            now = at + lasts;
            waited
        };
        let brief = Duration::from_millis(10);
        let waits: Vec<_> = (0..8).map(|_| lose(&mut all, brief)).collect();
        let seconds = [1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs);
        assert_eq!(waits, seconds);
        lose(&mut all, RETRY_MOST);
        assert_eq!(lose(&mut all, brief), RETRY_FIRST);
    }
}
