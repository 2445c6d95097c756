//! A custom recovery policy, with Spindle's whole command line around it:
//!
//! ```text
//! cargo run --release -- compare --transports mptcp,fuso,toy,toy+no-budget
//! ```
//!
//! The policy is deliberately simple: if there are no new data to send, it copies the oldest segment of the
//! subflow with most data in flight on the subflow with most room. It does not use loss estimates. Copies are at
//! most 5 % of the bytes of new data. A message whose deadline is more than half a second away is copied only while more than half of
//! that budget is left.

use std::process::ExitCode;
use std::sync::Arc;

use spindle::Registry;
use spindle_mptcp::recovery::{
    Action, Capabilities, Recovery, RecoveryBudget, RecoveryFactory, View, Window,
};
use spindle_mptcp::{Config, preset};

#[derive(Clone, Copy, Debug)]
struct Toy;

impl RecoveryFactory for Toy {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(*self)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

impl Recovery for Toy {
    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        if view.new_data || !is_urgent(view) {
            return Action::Nothing;
        }
        let fullest = view
            .subflows
            .iter()
            .filter(|s| s.oldest_unprotected.is_some())
            .max_by_key(|s| s.in_flight);
        let Some((from, segment)) = fullest.and_then(|s| Some((s, s.oldest_unprotected?))) else {
            return Action::Nothing;
        };
        let emptiest = view
            .subflows
            .iter()
            .filter(|s| s.id != from.id && s.has_room(u64::from(segment.len)))
            .max_by_key(|s| s.cwnd - s.in_flight);
        // The core refuses what the budget does not cover, so the check only saves the request.
        let covered = view
            .budget_left
            .is_none_or(|left| u64::from(segment.len) <= left);
        match emptiest.filter(|_| covered) {
            Some(on) => Action::Copy {
                of: from.id,
                position: segment.position,
                on: on.id,
                window: Window::Inside,
            },
            None => Action::Nothing,
        }
    }
}

/// Copies cost at most 5 % of the bytes of new data, and a short flow may have six of them.
const BUDGET: RecoveryBudget = RecoveryBudget {
    per_mille: 50,
    depth: 9_000,
};

/// Whether the message that is being sent may be copied. It may not if its deadline is more than half a second away
/// and half of the budget has been spent.
fn is_urgent(view: &View<'_>) -> bool {
    let left = view.message.and_then(|m| m.time_left(view.now));
    let is_near = left.is_none_or(|left| left.as_millis() < 500);
    is_near || view.budget_left.is_none_or(|left| left > BUDGET.depth / 2)
}

/// Spindle's `mptcp` preset, with the toy recovery policy and FUSO's receiver.
fn toy() -> Config {
    let mut config = preset("mptcp").map(|p| p.config).unwrap_or_default();
    if let Some(m) = &mut config.multipath {
        m.early_dsn_delivery = true;
    }
    config.recovery = Some(Arc::new(Toy));
    config.recovery_budget = Some(BUDGET);
    config
}

fn main() -> ExitCode {
    let parts = vec![
        "all of `mptcp`".to_owned(),
        "the oldest segment of the fullest subflow is copied over the emptiest".to_owned(),
        "copies are at most 5 % of the bytes of new data, and 9000 bytes".to_owned(),
    ];
    spindle::cli(Registry::standard().transport("toy", parts, toy))
}
