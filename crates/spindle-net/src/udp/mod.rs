//! A link of UDP datagrams that carry whole TCP segments. It needs no privileges.
//!
//! `docs/wire/encapsulation.md` describes the format and the behaviour of each end. A client opens a UDP socket
//! for each subflow. A server distinguishes subflows by the id in each datagram.

mod bindings;
mod client;
mod common;
mod handover;
mod ids;
mod keepalive;
mod merge;
mod path;
mod pmtu;
mod pool;
mod server;
mod socket;

use spindle_wire::{ENCAPSULATION_HEADER_LEN, EncapsulationHeader, Flags, Packet};

pub use bindings::source_for;
pub use client::{UdpClient, UdpClientOptions};
pub use keepalive::NatKeepalive;
pub(crate) use server::is_virtual;
pub use server::{PREFIX, UdpServer, UdpServerOptions};

/// Counters that only links over UDP have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "services", derive(serde::Serialize, serde::Deserialize))]
pub struct UdpCounters {
    /// Encapsulation ids known at present, one for each subflow.
    pub ids: u64,
    /// Of these, the ids whose peer has not proven its address by the handshake or a challenge (server).
    pub half_open: u64,
    /// Ids without a proven address that were removed to make room for others (server).
    pub evicted: u64,
    /// Datagrams for whose new id there was no room (server), or segments for which there was no socket
    /// (client).
    pub refused: u64,
    /// Challenges sent (server).
    pub challenges: u64,
    /// Outer addresses adopted after a challenge was answered (server).
    pub rebindings: u64,
}

/// Bytes of UDP payload in an outer IP packet of `mtu` bytes.
fn payload_for(mtu: u32, v4: bool) -> u32 {
    mtu.saturating_sub(if v4 { 28 } else { 48 })
        .min(path::MAX_TRAIN as u32)
}

/// Payload bytes of a segment with a bare TCP header in an outer IP packet of `mtu` bytes.
fn mss_for(mtu: u16, v4: bool) -> u32 {
    payload_for(u32::from(mtu), v4).saturating_sub(ENCAPSULATION_HEADER_LEN as u32 + 20)
}

/// Lowers a SYN's MSS option to what the outer packets can hold.
fn clamp_mss(packet: &mut Packet, mtu: u16, v4: bool) {
    if let Packet::Tcp(segment) = packet
        && segment.flags.contains(Flags::SYN)
        && let Some(mss) = segment.options.rare.as_ref().and_then(|r| r.mss)
    {
        let least = mss.min(mss_for(mtu, v4) as u16);
        if least < mss {
            segment.options.rare_mut().mss = Some(least);
        }
    }
}

/// Whether the packet must be scattered, or was scattered: whether it has a connection's token.
fn is_scattered(packet: &Packet) -> bool {
    packet.tcp().is_some_and(|s| s.options.token.is_some())
}

/// Whether the bytes that a router quoted begin with the header of a datagram with this id.
fn quotes(quoted: &[u8], id: u64) -> bool {
    quoted_id(quoted) == Some(id)
}

/// The id in the bytes that a router quoted, whatever the type of the datagram.
fn quoted_id(quoted: &[u8]) -> Option<u64> {
    let mut head = *quoted.first_chunk::<ENCAPSULATION_HEADER_LEN>()?;
    head[1] = 0;
    EncapsulationHeader::parse(&head).ok().map(|h| h.id)
}
