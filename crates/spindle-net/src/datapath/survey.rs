//! Requests that concern all connections. Each turn handles only some of the connections, so that no turn takes
//! long, however many connections there are.

use tokio::sync::oneshot::Sender;

use super::Driver;
use super::status::{ConnectionStatus, NetworkCounters};

/// Connections handled in one turn: about 0.1 ms.
const SLICE: usize = 128;

/// The callers that wait for the outcome of a survey. A caller that asks while a survey is under way waits for
/// the next survey, which sees everything that happened before the request.
struct PendingAnswers<T> {
    now: Vec<Sender<T>>,
    next: Vec<Sender<T>>,
}

impl<T> Default for PendingAnswers<T> {
    fn default() -> Self {
        Self {
            now: Vec::new(),
            next: Vec::new(),
        }
    }
}

impl<T: Clone> PendingAnswers<T> {
    /// Whether a survey is under way, or begins now.
    fn is_under_way(&mut self) -> bool {
        if self.now.is_empty() {
            std::mem::swap(&mut self.now, &mut self.next);
        }
        !self.now.is_empty()
    }

    /// Sends the outcome to the callers. A caller may have stopped waiting.
    fn answer(&mut self, outcome: T) {
        for answer in self.now.drain(..) {
            let _ = answer.send(outcome.clone());
        }
    }

    fn is_idle(&self) -> bool {
        self.now.is_empty() && self.next.is_empty()
    }
}

/// The surveys that were requested.
#[derive(Default)]
pub(super) struct Surveys {
    counters: PendingAnswers<NetworkCounters>,
    statuses: PendingAnswers<Vec<ConnectionStatus>>,
    /// The statuses collected so far, and the slot of the next connection.
    list: Vec<ConnectionStatus>,
    place: usize,
}

impl Surveys {
    pub(super) fn request_counters(&mut self, answer: Sender<NetworkCounters>) {
        self.counters.next.push(answer);
    }

    pub(super) fn request_statuses(&mut self, answer: Sender<Vec<ConnectionStatus>>) {
        self.statuses.next.push(answer);
    }
}

impl Driver {
    /// Handles some connections if a survey was requested. Returns whether more work is left.
    pub(super) fn survey(&mut self) -> bool {
        if self.surveys.counters.is_under_way()
            && let Some(stack) = self.stack.survey_counters(SLICE as u32)
        {
            let counters = self.counters(stack);
            self.surveys.counters.answer(counters);
        }
        if self.surveys.statuses.is_under_way() {
            let from = self.surveys.place;
            let to = self.connections.places().min(from + SLICE);
            let some = self.statuses(from..to);
            let s = &mut self.surveys;
            s.list.extend(some);
            s.place = to;
            if to == self.connections.places() {
                s.place = 0;
                let list = std::mem::take(&mut s.list);
                s.statuses.answer(list);
            }
        }
        !(self.surveys.counters.is_idle() && self.surveys.statuses.is_idle())
    }
}
