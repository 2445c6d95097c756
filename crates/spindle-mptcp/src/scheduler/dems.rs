//! DEMS: a chunk is sent from both ends, so that both subflows complete it at the same time.

use super::{Assignment, Decision, Portion, Scheduler, SchedulerFactory, SubflowView, View};
use crate::types::{DataOffset, SubflowId};

/// DEcoupled Multipath Scheduler (Y. E. Guo, A. Nikravesh, Z. M. Mao, F. Qian, S. Sen, "Accelerating Multipath Transport
/// Through Balanced Subflow Completion", ACM MobiCom 2017): "dems".
///
/// A chunk is what the application has written and that was not sent yet. The subflow with the smaller RTT sends it from
/// its first byte on, all others from its last byte backwards, until they meet (the paper's first design decision). The
/// others stop earlier by what the first subflow sends in the difference of the one-way delays, so that the last bytes
/// arrive over all subflows at the same time (the second decision; mechanisms A7.3). After that, a subflow with room sends again what the
/// other side sent last, next to the point where they met (the third decision).
///
/// Our choices, where the description above leaves them open: one-way delays are half of the smoothed RTTs. A subflow
/// without room sends a window in each RTT. Up to [`Self::repeated`] segments are sent again on each subflow.
#[derive(Clone, Copy, Debug)]
pub struct Dems {
    /// The most segments of a chunk that each subflow sends again. 8 by default (our choice).
    pub repeated: u64,
}

impl Default for Dems {
    fn default() -> Self {
        Self { repeated: 8 }
    }
}

impl SchedulerFactory for Dems {
    fn name(&self) -> &str {
        "dems"
    }

    fn summary(&self) -> &str {
        "DEMS, sends a chunk from both ends, so that all subflows complete it at the same time (Guo et al., MobiCom 2017)"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(DemsScheduler {
            settings: *self,
            chunk: None,
        })
    }
}

#[derive(Debug)]
struct DemsScheduler {
    settings: Dems,
    chunk: Option<Chunk>,
}

/// The chunk that is sent, or was sent last.
#[derive(Debug)]
struct Chunk {
    /// The subflow that sends it from its first byte on.
    forward: SubflowId,
    /// Up to where that subflow has sent it.
    sent_to: DataOffset,
    /// Another subflow has sent from its end.
    is_shared: bool,
    /// All of it was sent.
    is_over: bool,
    /// Segments that each subflow has sent again.
    repeated: Vec<(SubflowId, u64)>,
}

impl Chunk {
    /// Segments that subflow `id` has sent again.
    fn count(&mut self, id: SubflowId) -> &mut u64 {
        let at = self.repeated.iter().position(|r| r.0 == id);
        let at = at.unwrap_or_else(|| {
            self.repeated.push((id, 0));
            self.repeated.len() - 1
        });
        &mut self.repeated[at].1
    }
}

/// Seconds until `bytes` have arrived over `s` if they are sent as soon as its window lets them out.
fn arrival(s: &SubflowView, bytes: u64) -> f64 {
    let rtt = s.srtt.map_or(0.0, |rtt| rtt.as_secs_f64());
    let waiting = bytes.saturating_sub(s.cwnd.saturating_sub(s.in_flight));
    rtt / 2.0 + rtt * waiting as f64 / s.cwnd.max(1) as f64
}

impl DemsScheduler {
    /// The chunk of the data that are not sent yet, which begins now if the last one is over.
    fn chunk(&mut self, view: &View<'_>) -> Option<&mut Chunk> {
        let fastest = view.fastest()?.id;
        let goes_on = |c: &Chunk| !c.is_over;
        if !self.chunk.as_ref().is_some_and(goes_on) {
            self.chunk = Some(Chunk {
                forward: fastest,
                sent_to: view.sent_to,
                is_shared: false,
                is_over: false,
                repeated: Vec::new(),
            });
        }
        let chunk = self.chunk.as_mut()?;
        if view.subflows.iter().all(|s| s.id != chunk.forward) {
            chunk.forward = fastest;
        }
        Some(chunk)
    }

    fn first_time(&mut self, view: &View<'_>) -> Option<Decision> {
        let chunk = self.chunk(view)?;
        chunk.sent_to = view.sent_to;
        let forward = view.subflows.iter().find(|s| s.id == chunk.forward)?;
        let with_room = view.subflows.iter().filter(|s| s.has_room);
        let backward = with_room
            .filter(|s| s.id != forward.id)
            .min_by_key(|s| s.rtt_order());
        let next = match backward {
            _ if forward.has_room => forward,
            // Only an event on a subflow with unacknowledged data ends a wait for its room.
            Some(other) if forward.queued == 0 => other,
            Some(other) if arrival(other, other.mss) < arrival(forward, view.unsent) => {
                chunk.is_shared = true;
                return Some(Decision::Assign(Assignment {
                    subflow: other.id,
                    portion: Portion::Last,
                }));
            }
            _ => return Some(Decision::Wait),
        };
        chunk.sent_to += next.mss.min(view.unsent);
        Some(Decision::new_data(next.id))
    }

    /// Sends again, next to the point where the subflows met, what the others sent.
    fn again(&mut self, view: &View<'_>) -> Option<Decision> {
        let most = self.settings.repeated;
        let chunk = self.chunk.as_mut()?;
        chunk.is_over = true;
        if !chunk.is_shared || view.acked_to >= view.sent_to {
            return None;
        }
        for s in view.subflows.iter().filter(|s| s.has_room) {
            let (met, is_forward) = (chunk.sent_to, s.id == chunk.forward);
            let count = chunk.count(s.id);
            let from = match is_forward {
                true => met + *count * s.mss,
                false => met.saturating_sub((*count + 1) * s.mss),
            };
            if *count < most && from >= view.acked_to && from < view.sent_to {
                *count += 1;
                return Some(Decision::Assign(Assignment {
                    subflow: s.id,
                    portion: Portion::Again(from),
                }));
            }
        }
        None
    }
}

impl Scheduler for DemsScheduler {
    fn repeats(&self) -> bool {
        self.settings.repeated > 0
    }

    fn sees_all(&self) -> bool {
        true
    }

    fn pick(&mut self, view: &View<'_>) -> Decision {
        let decision = match view.unsent > 0 {
            true => self.first_time(view),
            false => self.again(view),
        };
        decision.unwrap_or(Decision::Wait)
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::{subflow, view_of};
    use super::*;

    fn pick(s: &mut Box<dyn Scheduler>, all: &[SubflowView], unsent: u64) -> Option<(u8, Portion)> {
        match s.pick(&view_of(all, unsent)) {
            Decision::Assign(a) => Some((a.subflow.0, a.portion)),
            Decision::Wait | Decision::WaitUntil(_) => None,
        }
    }

    #[test]
    fn faster_subflow_sends_from_the_beginning_and_the_slower_one_from_the_end() {
        let mut s = Dems::default().build();
        let mut all = [subflow(0, 20, 10, true), subflow(1, 60, 10, true)];
        assert_eq!(pick(&mut s, &all, 100_000), Some((0, Portion::Next)));
        all[0] = subflow(0, 20, 10, false);
        assert_eq!(pick(&mut s, &all, 90_000), Some((1, Portion::Last)));
        // The roles stay if the order of the RTTs changes.
        all[1] = subflow(1, 10, 10, true);
        assert_eq!(pick(&mut s, &all, 80_000), Some((1, Portion::Last)));
    }

    #[test]
    fn slower_subflow_stops_when_the_rest_arrives_over_the_faster_one_before_its_segment() {
        let all = [subflow(0, 20, 10, false), subflow(1, 60, 10, true)];
        let mut s = Dems::default().build();
        // 10 ms, and 20 ms for each 10 000 bytes; against 30 ms.
        assert_eq!(pick(&mut s, &all, 10_001), Some((1, Portion::Last)));
        assert_eq!(pick(&mut s, &all, 10_000), None);
    }

    #[test]
    fn what_was_sent_last_is_sent_again_on_the_other_subflow() {
        let mut s = Dems { repeated: 1 }.build();
        let mut all = [subflow(0, 20, 10, false), subflow(1, 60, 10, true)];
        let mut v = view_of(&all, 20_000);
        v.sent_to = DataOffset(5000);
        s.pick(&v);
        all[0] = subflow(0, 20, 10, true);
        let mut v = view_of(&all, 0);
        v.sent_to = DataOffset(25_000);
        let again = |d: Decision| match d {
            Decision::Assign(a) => Some((a.subflow.0, a.portion)),
            _ => None,
        };
        assert_eq!(
            again(s.pick(&v)),
            Some((0, Portion::Again(DataOffset(5000))))
        );
        assert_eq!(
            again(s.pick(&v)),
            Some((1, Portion::Again(DataOffset(4000))))
        );
        assert_eq!(again(s.pick(&v)), None, "one segment on each");
        let mut alone = Dems::default().build();
        pick(&mut alone, &all, 1000);
        assert_eq!(again(alone.pick(&v)), None, "one subflow sent all");
    }

    #[test]
    fn data_do_not_wait_for_a_subflow_with_nothing_in_flight() {
        let mut all = [subflow(0, 20, 10, false), subflow(1, 200, 10, true)];
        all[0].queued = 0;
        let mut s = Dems::default().build();
        assert_eq!(pick(&mut s, &all, 1000), Some((1, Portion::Next)));
    }
}
