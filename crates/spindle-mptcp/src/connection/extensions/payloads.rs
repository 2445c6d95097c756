//! Payloads as erasure codes read and make them, and positions from their low 32 bits.

use bytes::Bytes;
use spindle_codes::{Body, Content};
use spindle_wire::Payload;

/// A payload as a code reads it.
pub(super) fn body_of(payload: &Payload) -> Body<'_> {
    match payload {
        Payload::Bytes(b) => Body::Bytes(b),
        Payload::Length(n) => Body::Length(*n),
    }
}

/// What a code has made, as a payload.
pub(super) fn payload_of(content: Content) -> Payload {
    match content {
        Content::Bytes(b) => Payload::Bytes(Bytes::from(b)),
        Content::Length(n) => Payload::Length(n),
    }
}

/// The position nearest to `near` that has these low 32 bits. `None` if it is before the first byte.
pub(super) fn nearest(low: u32, near: u64) -> Option<u64> {
    let ahead = i64::from(low.wrapping_sub(near as u32) as i32);
    near.checked_add_signed(ahead).filter(|p| *p >= 1)
}
