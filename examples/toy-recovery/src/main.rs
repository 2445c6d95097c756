//! A custom recovery policy, with Spindle's whole command line around it:
//!
//! ```text
//! cargo run --release -- compare --transports mptcp,fuso,toy
//! ```
//!
//! The policy is deliberately simple: if there are no new data to send, it copies the oldest segment of the
//! subflow with most data in flight on the subflow with most room. It does not use loss estimates.

use std::process::ExitCode;
use std::sync::Arc;

use spindle::Registry;
use spindle_mptcp::recovery::{Action, Capabilities, Recovery, RecoveryFactory, View, Window};
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
        if view.new_data {
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
        match emptiest {
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

/// Spindle's `mptcp` preset, with the toy recovery policy and FUSO's receiver.
fn toy() -> Config {
    let mut config = preset("mptcp").map(|p| p.config).unwrap_or_default();
    if let Some(m) = &mut config.multipath {
        m.early_dsn_delivery = true;
    }
    config.recovery = Some(Arc::new(Toy));
    config
}

fn main() -> ExitCode {
    let parts = vec![
        "all of `mptcp`".to_owned(),
        "the oldest segment of the fullest subflow is copied over the emptiest".to_owned(),
    ];
    spindle::cli(Registry::standard().transport("toy", parts, toy))
}
