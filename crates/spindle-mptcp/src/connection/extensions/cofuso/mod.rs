//! Parities of blocks over MPTCP (CoFUSO section 5.1).

pub(super) mod decoder;
pub(in crate::connection) mod receiver;
pub(in crate::connection) mod sender;
