//! TCP and Multipath TCP segments as values and as bytes.
//!
//! A [`Packet`] is the input and the output of Spindle's protocol core. It is a [`Segment`], which is a TCP header
//! (RFC 9293) with its addresses, its [`Options`] (including every option of RFC 8684) and a [`Payload`], or a
//! [`CodedPacket`] of CAPS's coding layer. This crate keeps no state. It turns these values into bytes, and bytes
//! into values or a typed error.
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
//!
//! # Modules
//!
//! The modules are private; the crate root exports their items. Read them in this order:
//!
//! - `segment`, `options`, `mptcp`, `payload`, `seq`, `endpoint`: the values ([`Segment`], [`Flags`],
//!   [`Options`], [`Dss`], [`Payload`], [`SeqNumber`], [`Endpoint`]).
//! - `segment_codec`, `option_codec`, `mptcp_codec`: the same values as bytes.
//! - `budget`: which options get the 40 bytes of option space ([`Options::fit`]).
//! - `ip`, `udp`, `checksum`: the headers around a segment ([`IpHeader`], [`UdpDatagram`], [`Checksum`]).
//! - `encapsulation`: segments in UDP between two Spindles ([`EncapsulationHeader`]).
//! - `coding`: packets of CAPS's coding layer ([`CodedPacket`]).
//! - `packet`: a segment or a packet of the coding layer ([`Packet`]).
//! - `flow`: the hash of a flow's 5-tuple ([`flow_hash`]).
//! - `error`: [`ParseError`] and [`EncodeError`].
//!
//! # Conventions
//!
//! - **Units.** Lengths and offsets are in bytes. Numbers are plain integers in a value and in network byte
//!   order in a packet. [`Segment::window`] is the header's field, not scaled.
//! - **Sequence numbers** have 32 bits and wrap; compare them with [`SeqNumber::before`].
//! - **Payloads** are real bytes or a plain length, which is written as that many zeros. A parsed payload is
//!   real bytes or empty, and [`Segment::from_ip`] shares the packet's memory instead of copying it.
//! - **Options.** The options of data and ACK segments are inline; all others are in [`RareOptions`]. Unknown
//!   options and options of a wrong length are skipped. Only an option length that breaks the list is an error.
//! - **Errors.** Parsers return a [`ParseError`] with the offset of the fault and never panic. Writers return
//!   an [`EncodeError`] and append nothing in that case. Only [`Payload::slice`] panics, if the range is out of
//!   bounds.

mod checksum;
mod coding;
mod encapsulation;
mod endpoint;
mod error;
mod experimental;
mod flow;
mod ip;
mod mptcp;
mod mptcp_codec;
mod option_codec;
mod option_space;
mod options;
mod packet;
mod payload;
mod segment;
mod segment_codec;
mod seq;
mod udp;

pub use checksum::{
    Checksum, dss_checksum, dss_checksum_of, dss_pseudo_header, same_checksum, update_checksum,
};
pub use coding::{
    CODING_CLOCK, CODING_HEADER_LEN, CODING_OVERHEAD, CodedKind, CodedPacket, CodingHeader,
};
pub use encapsulation::{
    ENCAPSULATION_HEADER_LEN, ENCAPSULATION_VERSION, EncapsulationError, EncapsulationHeader,
    EncapsulationKind,
};
pub use endpoint::{Ecn, Endpoint};
pub use error::{EncodeError, ParseError};
pub use experimental::{
    CodingOption, ExperimentId, ParityHeader, ParityOption, ParityOutcome, ScatterOption,
};
pub use flow::{flow_hash, flow_key, mix_label, mix64};
pub use ip::{Checksums, IpFields, IpHeader, mark_ce, protocol};
pub use mptcp::{
    AddAddr, DataNumber, Dss, Mapping, MpCapable, MpJoin, MpPrio, MpTcpRst, RemoveAddr, ResetReason,
};
pub use options::{Experimental, Options, RareOptions, SackBlocks, Timestamps};
pub use packet::Packet;
pub use payload::Payload;
pub use segment::{Flags, Segment};
pub use seq::SeqNumber;
pub use udp::UdpDatagram;
