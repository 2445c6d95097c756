//! Subflows of one connection in the same queue.

use spindle_units::{Duration, Instant};

use super::super::Coupling;

/// Two delays are those of one queue if they differ by at most a quarter of the longer one (our choice).
const DIFFERENCE: u64 = 4;
/// The weight of a round in the mean number of subflows (our choice).
const WEIGHT: f64 = 0.5;

/// The subflows of the connection that are in the queue of this one.
///
/// RFC 8382 groups flows that share a bottleneck by summaries of their delays. Subflows of one connection measure at the
/// same time, so that equal delays of a long queue show it within a few rounds. Subflows in one queue take one flow's share
/// together: each grows by its part of what one flow would, and a loss of any of them reduces all their windows, as it would
/// reduce that of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Together {
    /// The mean number of subflows in the queue, this one included.
    mean: f64,
    /// When the window was last reduced, because of a loss of this subflow or of another one.
    reduced: Option<Instant>,
}

impl Default for Together {
    fn default() -> Self {
        Self {
            mean: 1.0,
            reduced: None,
        }
    }
}

impl Together {
    /// A round of subflow `me` has ended. `queue` is the delay of its queue if that is long. A short one shows nothing.
    pub(super) fn end_round(
        &mut self,
        now: Instant,
        queue: Option<Duration>,
        me: usize,
        c: &mut Coupling,
    ) {
        self.reduced.get_or_insert(now);
        c.set_queue(me, queue);
        if queue.is_some() {
            let number = 1.0 + peers(me, c).count() as f64;
            self.mean += (number - self.mean) * WEIGHT;
        }
    }

    /// The number of subflows in the queue, this one included.
    pub(super) fn number(&self) -> f64 {
        self.mean.round()
    }

    /// Subflow `me` lost a segment, and its window is reduced.
    pub(super) fn on_loss(&mut self, now: Instant, me: usize, c: &mut Coupling) {
        self.reduced = Some(now);
        c.note_loss(me, now);
    }

    /// Whether a loss of another subflow in the queue reduces the window of subflow `me` now, as at most one loss in a
    /// round trip does.
    pub(super) fn is_reduced(
        &mut self,
        now: Instant,
        srtt: Duration,
        me: usize,
        c: &Coupling,
    ) -> bool {
        let Some(reduced) = self.reduced else {
            return false;
        };
        let is_new = |at: Instant| at > reduced + srtt;
        let found = self.number() > 1.0 && peers(me, c).any(|lost| lost.is_some_and(is_new));
        if found {
            self.reduced = Some(now);
        }
        found
    }
}

/// The other subflows in the queue of subflow `me`: when each of them last lost a segment.
fn peers(me: usize, c: &Coupling) -> impl Iterator<Item = Option<Instant>> {
    let mine = c.rows().get(me).and_then(|row| row.queue);
    let others = c
        .rows()
        .iter()
        .enumerate()
        .filter(move |(i, row)| *i != me && row.active);
    others.filter_map(move |(_, row)| {
        let (a, b) = (mine?, row.queue?);
        (a.abs_diff(b) * DIFFERENCE <= a.max(b)).then_some(row.lost_at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Instant {
        Instant::ZERO + ms(n)
    }

    /// Two subflows after rounds with these delays of their queues.
    fn after(rounds: &[[Option<u64>; 2]]) -> ([Together; 2], Coupling) {
        let mut c = Coupling::new();
        let mut both = [Together::default(); 2];
        for i in 0..2 {
            c.activate(i, 10_000);
        }
        for queues in rounds {
            for (i, queue) in queues.iter().enumerate() {
                both[i].end_round(at(1), queue.map(ms), i, &mut c);
            }
        }
        (both, c)
    }

    #[test]
    fn subflows_with_equal_long_queues_are_together_until_their_queues_differ() {
        let equal = [Some(20), Some(18)];
        let numbers = |rounds: &[_]| after(rounds).0.map(|t| t.number());
        assert_eq!(numbers(&[equal; 3]), [2.0, 2.0]);
        assert_eq!(numbers(&[[Some(20), Some(14)]; 3]), [1.0, 1.0]);
        assert_eq!(numbers(&[[Some(20), None]; 3]), [1.0, 1.0]);
        let short = [None, None];
        assert_eq!(
            numbers(&[equal, equal, equal, short]),
            [2.0, 2.0],
            "a short queue shows nothing"
        );
        let differ = [Some(20), Some(40)];
        assert_eq!(numbers(&[equal, equal, equal, differ, differ]), [1.0, 1.0]);
    }

    #[test]
    fn loss_reduces_all_windows_once_in_a_round_trip() {
        let (mut both, mut c) = after(&[[Some(20), Some(20)]; 3]);
        both[0].on_loss(at(30), 0, &mut c);
        assert!(
            !both[0].is_reduced(at(31), ms(20), 0, &c),
            "by its own loss already"
        );
        assert!(both[1].is_reduced(at(31), ms(20), 1, &c));
        assert!(!both[1].is_reduced(at(32), ms(20), 1, &c));
        both[0].on_loss(at(50), 0, &mut c);
        assert!(
            !both[1].is_reduced(at(50), ms(20), 1, &c),
            "within a round trip"
        );
        both[0].on_loss(at(52), 0, &mut c);
        assert!(both[1].is_reduced(at(52), ms(20), 1, &c));
    }

    #[test]
    fn loss_in_another_queue_reduces_nothing() {
        let (mut both, mut c) = after(&[[Some(20), Some(40)]; 3]);
        both[0].on_loss(at(30), 0, &mut c);
        assert!(!both[1].is_reduced(at(31), ms(20), 1, &c));
    }
}
