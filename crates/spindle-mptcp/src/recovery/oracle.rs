//! The oracle: how good recovery could be if losses were known the instant they happen.

use super::{Action, Capabilities, DropView, Prospect, Recovery, RecoveryFactory, View};

/// A bound, not a protocol. The network itself reports every drop at once, and the segment is sent again on its
/// own subflow without a reduction of any window. The simulation that reports drops also keeps repairs from
/// being lost. Acknowledgements and control segments that are dropped are sent again likewise.
///
/// It needs a configuration whose senders infer no loss from acknowledgements, because these go on reporting a
/// hole until the repair has arrived (see the preset `oracle`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle;

impl RecoveryFactory for Oracle {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(*self)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            drops: true,
            ..Capabilities::default()
        }
    }
}

impl Recovery for Oracle {
    fn is_interested(&self, _prospect: &Prospect) -> bool {
        false
    }

    fn on_opportunity(&mut self, _view: &View<'_>) -> Action {
        Action::Nothing
    }

    fn on_drop(&mut self, drop: &DropView) -> Action {
        Action::Repair {
            of: drop.subflow,
            position: drop.position,
        }
    }
}
