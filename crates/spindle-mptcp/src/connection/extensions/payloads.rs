//! Payloads as erasure codes read and make them.

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
