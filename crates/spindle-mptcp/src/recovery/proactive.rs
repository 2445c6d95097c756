//! Proactive: every data segment is sent twice on the same path (mechanisms A5.5).

use std::collections::VecDeque;

use super::{Action, Capabilities, Prospect, Recovery, RecoveryFactory, SentView, View, Window};
use crate::types::{SubflowId, SubflowPosition};

/// The policy. The copy follows at once, outside the congestion window, and the receiver drops it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proactive;

#[derive(Debug, Default)]
struct ProactivePolicy {
    due: VecDeque<(SubflowId, SubflowPosition)>,
}

impl RecoveryFactory for Proactive {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(ProactivePolicy::default())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

impl Recovery for ProactivePolicy {
    fn on_sent(&mut self, sent: &SentView) {
        if sent.new {
            self.due.push_back((sent.subflow, sent.segment.position));
        }
    }

    fn is_interested(&self, _prospect: &Prospect) -> bool {
        !self.due.is_empty()
    }

    fn on_opportunity(&mut self, _view: &View<'_>) -> Action {
        match self.due.pop_front() {
            Some((of, position)) => Action::Repeat {
                of,
                position,
                window: Window::Outside,
            },
            None => Action::Nothing,
        }
    }

    fn is_immediate(&self) -> bool {
        true
    }
}
