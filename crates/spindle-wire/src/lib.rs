//! TCP and Multipath TCP segments as values and as bytes.
//!
//! A [`Segment`] is what the protocol core of Spindle takes in and gives out: a TCP header
//! (RFC 9293) with its addresses, its [`Options`] - every option of RFC 8684 among them - and a
//! [`Payload`]. This crate keeps no state; it turns segments into bytes and bytes into segments or
//! a typed error.
//!
//! ```
//! use spindle_wire::{Checksums, Flags, IpFields, Segment};
//!
//! let src: std::net::SocketAddr = "10.0.0.1:4000".parse()?;
//! let dst: std::net::SocketAddr = "10.0.0.2:80".parse()?;
//! let mut syn = Segment::new(src.into(), dst.into());
//! syn.flags = Flags::SYN;
//! syn.options.rare_mut().mss = Some(1460);
//!
//! let packet = syn.to_packet(&IpFields::default())?;
//! assert_eq!(packet.len(), syn.wire_len());
//! assert_eq!(Segment::from_ip_slice(&packet, Checksums::Verify)?, syn);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod checksum;
mod coding;
mod encapsulation;
mod endpoint;
mod error;
mod flow;
mod ip;
mod mptcp;
mod mptcp_codec;
mod option_codec;
mod options;
mod payload;
mod segment;
mod segment_codec;
mod seq;
mod udp;

pub use checksum::{
    Checksum, dss_checksum, dss_checksum_of, dss_pseudo_header, same_checksum, update_checksum,
};
pub use coding::{CODING_CLOCK, CODING_HEADER_LEN, CODING_OVERHEAD, Coded, CodedKind};
pub use encapsulation::{
    ENCAPSULATION_HEADER_LEN, ENCAPSULATION_VERSION, EncapsulationError, EncapsulationHeader,
    EncapsulationKind,
};
pub use endpoint::{Ecn, Endpoint};
pub use error::{EncodeError, ParseError};
pub use flow::{flow_hash, flow_key, mix64};
pub use ip::{Checksums, IpFields, IpHeader, mark_ce, protocol};
pub use mptcp::{
    AddAddr, DataNumber, Dss, Mapping, MpCapable, MpJoin, MpPrio, MpTcpRst, RemoveAddr, ResetReason,
};
pub use options::{Experimental, Options, RareOptions, SackBlocks, Timestamps};
pub use payload::Payload;
pub use segment::{Flags, Segment};
pub use seq::SeqNumber;
pub use udp::UdpDatagram;
