//! Evidence that a retransmission was spurious: D-SACK and F-RTO.

use super::frto::Frto;
use super::undo::{Undo, UndoCredit};

/// The state of both mechanisms, and the limit of what undoing may cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spurious {
    /// Retransmissions that D-SACKs may yet report as unnecessary.
    pub(crate) undo: Undo,
    /// What undoing may cost.
    pub(crate) credit: UndoCredit,
    /// Number of acknowledgements processed. They earn the credit.
    pub(crate) acknowledgements: u64,
    /// The state of F-RTO.
    pub(crate) frto: Frto,
    /// New data have been sent in F-RTO's step 2.
    pub(crate) frto_probed: bool,
}

impl Spurious {
    /// Whether the credit allows an undo now.
    pub(crate) fn may_undo(&mut self) -> bool {
        self.credit.grants(self.acknowledgements)
    }
}
