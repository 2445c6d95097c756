//! TCP and Multipath TCP segments as values and as bytes.
//!
//! A [`Segment`] is what the protocol core of Spindle takes in and gives out: a TCP header
//! (RFC 9293) with its addresses, its [`Options`] - every option of RFC 8684 among them - and a
//! [`Payload`]. This crate keeps no state; it turns segments into bytes and bytes into segments or
//! a typed error.

mod checksum;
mod endpoint;
mod mptcp;
mod options;
mod payload;
mod segment;
mod seq;

pub use checksum::{Checksum, dss_checksum, dss_checksum_of, dss_pseudo_header, same_checksum, update_checksum};
pub use endpoint::{Ecn, Endpoint};
pub use mptcp::{
    AddAddr, DataNumber, Dss, Mapping, MpCapable, MpJoin, MpPrio, MpTcpRst, RemoveAddr, ResetReason,
};
pub use options::{Experimental, Options, RareOptions, SackBlocks, Timestamps};
pub use payload::Payload;
pub use segment::{Flags, Segment};
pub use seq::SeqNumber;
