//! Requests that concern all connections: each turn looks at some of them, so that none takes long
//! however many there are.

use tokio::sync::oneshot::Sender;

use super::Driver;
use crate::socket::{ConnectionStatus, NetworkCounters};

/// Connections that are looked at in one turn: about 0.1 ms.
const SLICE: usize = 128;

/// Who waits for the outcome of a survey. Whoever asks while one is under way waits for the next, which
/// sees everything that happened before the request.
struct Asked<T> {
    now: Vec<Sender<T>>,
    next: Vec<Sender<T>>,
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Self {
            now: Vec::new(),
            next: Vec::new(),
        }
    }
}

impl<T: Clone> Asked<T> {
    /// Whether a survey is under way, or begins now.
    fn is_under_way(&mut self) -> bool {
        if self.now.is_empty() {
            std::mem::swap(&mut self.now, &mut self.next);
        }
        !self.now.is_empty()
    }

    /// The survey is done. Nobody minds if whoever asked has gone.
    fn answer(&mut self, outcome: T) {
        for answer in self.now.drain(..) {
            let _ = answer.send(outcome.clone());
        }
    }

    fn is_idle(&self) -> bool {
        self.now.is_empty() && self.next.is_empty()
    }
}

/// The surveys that were asked for.
#[derive(Default)]
pub(super) struct Surveys {
    counters: Asked<NetworkCounters>,
    statuses: Asked<Vec<ConnectionStatus>>,
    /// The statuses so far, and the place of the next connection.
    list: Vec<ConnectionStatus>,
    place: usize,
}

impl Surveys {
    pub(super) fn ask_counters(&mut self, answer: Sender<NetworkCounters>) {
        self.counters.next.push(answer);
    }

    pub(super) fn ask_statuses(&mut self, answer: Sender<Vec<ConnectionStatus>>) {
        self.statuses.next.push(answer);
    }
}

impl Driver {
    /// Looks at some connections, if anybody asked; returns whether more are to be looked at.
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
