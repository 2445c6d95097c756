//! Loss detection and recovery. Each mechanism has a separate, small state.
//!
//! The sender (`subflow::sender`) owns the scoreboard and the controller. It asks these mechanisms how to react
//! to an acknowledgement or a timer. Duplicate-ACK counting, NewReno (RFC 6582), SACK recovery (RFC 6675),
//! Limited Transmit (RFC 3042) and Early Retransmit (RFC 5827) are rules over the scoreboard and are in
//! [`detect`].

pub(crate) mod detect;
pub(crate) mod frto;
pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod reordering;
pub(crate) mod spurious;
pub(crate) mod tlp;
pub(crate) mod undo;
