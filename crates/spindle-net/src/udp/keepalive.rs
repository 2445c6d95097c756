//! How often an idle subflow must send a datagram, so that a NAT keeps its mapping.
//!
//! Without a mapping nothing reaches the client until it sends again. NATs keep UDP mappings for 30 s to some minutes
//! (RFC 4787, section 4.3 requires two minutes; many have less), and those of the same uplink for equally long. The time is
//! therefore learnt for each local address: it grows while mappings survive, and shrinks once the server challenges the
//! address of a datagram that was sent after a pause, because it came from another mapping.

use std::collections::HashMap;
use std::net::IpAddr;

use spindle_units::{Duration, Instant};

/// The time to begin with: less than the shortest lives of mappings in common use (30 s).
const FIRST: Duration = Duration::from_secs(20);
/// The longest time: the life that RFC 4787 (section 4.3, REQ-5) requires, less a margin for a lost datagram.
const LONGEST: Duration = Duration::from_secs(110);
const SHORTEST: Duration = Duration::from_secs(5);
/// How long after a keepalive a challenge is an answer to it.
const ANSWER: Duration = Duration::from_secs(3);

/// When idle subflows send keepalives for a NAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatKeepalive {
    /// As often as is found to be necessary. Not to loopback addresses, to which no NAT leads.
    #[default]
    Learn,
    /// After each pause of this length.
    Every(Duration),
    /// Never.
    Off,
}

/// What is known about an uplink's mappings.
#[derive(Clone, Copy, Debug)]
struct Learnt {
    pause: Duration,
    /// No mapping has expired so far.
    grows: bool,
}

impl Default for Learnt {
    fn default() -> Self {
        Self {
            pause: FIRST,
            grows: true,
        }
    }
}

/// The mappings of all uplinks.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    mode: NatKeepalive,
    learnt: HashMap<IpAddr, Learnt>,
}

/// The keepalives of one subflow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keepalive {
    /// When the subflow must be looked at again; it may have sent datagrams since this was set.
    pub(super) at: Option<Instant>,
    /// When the last keepalive was sent, its number, and the pause before it.
    last: Option<(Instant, u64, Duration)>,
}

impl Mappings {
    pub(super) fn new(mode: NatKeepalive) -> Self {
        Self {
            mode,
            learnt: HashMap::new(),
        }
    }

    /// How long a subflow from `local` to the outer address `to` may pause.
    pub(super) fn pause(&self, local: IpAddr, to: IpAddr) -> Option<Duration> {
        match self.mode {
            NatKeepalive::Off => None,
            NatKeepalive::Every(pause) => Some(pause),
            NatKeepalive::Learn if to.is_loopback() => None,
            NatKeepalive::Learn => Some(self.of(local).pause),
        }
    }

    fn of(&self, local: IpAddr) -> Learnt {
        self.learnt.get(&local).copied().unwrap_or_default()
    }

    /// A mapping of this uplink lasted for a pause.
    fn survived(&mut self, local: IpAddr, pause: Duration) {
        let mut learnt = self.of(local);
        if learnt.grows && pause >= learnt.pause {
            let longer = Duration::from_nanos(learnt.pause.as_nanos() / 2 * 3);
            learnt.pause = longer.min(LONGEST);
            self.learnt.insert(local, learnt);
        }
    }

    /// A mapping of this uplink did not last for a pause.
    fn expired(&mut self, local: IpAddr, pause: Duration) {
        let half = Duration::from_nanos(pause.as_nanos() / 2);
        let learnt = Learnt {
            pause: self.of(local).pause.min(half).max(SHORTEST),
            grows: false,
        };
        tracing::debug!(%local, ?pause, next = ?learnt.pause, "a NAT has forgotten an idle subflow");
        self.learnt.insert(local, learnt);
    }

    /// Keeps what is known about these uplinks only: another address may be behind another NAT.
    pub(super) fn retain(&mut self, uplinks: impl Fn(IpAddr) -> bool) {
        self.learnt.retain(|local, _| uplinks(*local));
    }
}

impl Keepalive {
    /// Records a keepalive, which is sent now.
    pub(super) fn sent(&mut self, now: Instant, number: u64, pause: Duration) {
        self.last = Some((now, number, pause));
    }

    /// The server has answered a probe from the address that it knows.
    pub(super) fn answered(&mut self, number: u64, local: IpAddr, mappings: &mut Mappings) {
        if let Some((_, _, pause)) = self.last.take_if(|(_, n, _)| *n == number) {
            mappings.survived(local, pause);
        }
    }

    /// The server challenges the subflow's address.
    pub(super) fn challenged(&mut self, now: Instant, local: IpAddr, mappings: &mut Mappings) {
        if let Some((at, _, pause)) = self.last.take()
            && now.since(at) <= ANSWER
        {
            mappings.expired(local, pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));

    /// Sends keepalives through a NAT that forgets a mapping after `life` seconds. Returns the pauses in seconds, and
    /// how many of them were too long.
    fn pauses(life: u64, count: u64) -> (Vec<u64>, usize) {
        let mut mappings = Mappings::default();
        let (mut flow, mut now, mut lost) = (Keepalive::default(), Instant::ZERO, 0);
        let mut pauses = Vec::new();
        for number in 0..count {
            let pause = mappings.pause(HERE, THERE).expect("it learns");
            now += pause;
            flow.sent(now, number, pause);
            if pause >= Duration::from_secs(life) {
                lost += 1;
                flow.challenged(now, HERE, &mut mappings);
            } else {
                flow.answered(number, HERE, &mut mappings);
            }
            pauses.push(pause.as_nanos() / 1_000_000_000);
        }
        (pauses, lost)
    }

    #[test]
    fn pauses_grow_until_a_mapping_expires_once() {
        assert_eq!(pauses(120, 7), (vec![20, 30, 45, 67, 101, 110, 110], 0));
        assert_eq!(pauses(60, 7), (vec![20, 30, 45, 67, 33, 33, 33], 1));
        assert_eq!(pauses(30, 4), (vec![20, 30, 15, 15], 1));
        assert_eq!(pauses(8, 5), (vec![20, 10, 5, 5, 5], 2));
    }

    #[test]
    fn only_answers_to_a_keepalive_count_and_another_uplink_starts_again() {
        let mut mappings = Mappings::default();
        let mut flow = Keepalive::default();
        let now = Instant::ZERO + Duration::from_secs(100);
        flow.challenged(now, HERE, &mut mappings);
        flow.sent(now, 7, FIRST);
        flow.answered(8, HERE, &mut mappings);
        assert_eq!(mappings.pause(HERE, THERE), Some(FIRST));
        flow.challenged(now + Duration::from_secs(4), HERE, &mut mappings);
        assert_eq!(mappings.pause(HERE, THERE), Some(FIRST), "it came too late");
        flow.sent(now, 9, FIRST);
        flow.answered(9, HERE, &mut mappings);
        assert!(mappings.pause(HERE, THERE) > Some(FIRST));
        mappings.retain(|_| false);
        assert_eq!(mappings.pause(HERE, THERE), Some(FIRST));
    }

    #[test]
    fn there_are_none_to_loopback_or_if_they_are_off() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let pause = |mode, to| Mappings::new(mode).pause(HERE, to);
        assert_eq!(pause(NatKeepalive::Learn, loopback), None);
        assert_eq!(pause(NatKeepalive::Off, THERE), None);
        assert_eq!(pause(NatKeepalive::Every(FIRST), loopback), Some(FIRST));
    }
}
