//! Captures: the segments of a run as a pcapng file with nanosecond times and real headers.
//!
//! The format is that of draft-ietf-opsawg-pcapng: a section header, one interface description per point of
//! capture (link type [`LINKTYPE_RAW`], times in units of 10^-9 s) and an enhanced packet block per segment. A
//! payload that is only a length is written as zeros. Checksums are computed over the bytes written. Only one
//! packet and a write buffer are kept in memory.

mod block;
#[cfg(test)]
mod tests;
mod writer;

pub use block::{LINKTYPE_RAW, MAX_PACKET};
pub use writer::{InterfaceId, PcapError, PcapWriter, file_name};
