//! The width of data sequence numbers and DATA_ACKs on the wire. They have 32 bits while 32 bits are
//! unambiguous, and otherwise 64 bits (RFC 8684, sections 3.3.1 and 3.3.2).

use spindle_units::{Duration, Instant};
use spindle_wire::{DataNumber, Dss};

use super::Connection;
use crate::types::DataOffset;

/// The maximum segment lifetime (RFC 9293, section 3.4.2). An old number may still arrive for this long.
const SEGMENT_LIFETIME: Duration = Duration::from_secs(120);

/// A receiver expands a 32-bit number to the one nearest to the number that it expects, so an arriving number
/// may be up to 2^31 bytes old. At most half of these bytes may be sent within a segment lifetime. They are
/// measured in this many steps.
const STEPS: usize = 4;
const STEP: u64 = (1 << 30) / STEPS as u64;

/// Additional bytes of a wide number.
const MORE: u64 = 4;

/// The width of the numbers of one direction of the data. Once they are wide, they stay wide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Width {
    wide: bool,
    /// When the data last reached multiples of [`STEP`], the oldest first.
    reached: [Instant; STEPS],
    /// The next multiple.
    next: DataOffset,
}

impl Width {
    /// Returns `number` in the width that is used in options.
    pub(super) fn number(&self, number: u64) -> DataNumber {
        match self.wide {
            true => DataNumber::Full(number),
            false => DataNumber::Low(number as u32),
        }
    }

    fn extra(&self) -> u64 {
        if self.wide { MORE } else { 0 }
    }

    /// Makes the numbers wide. Returns whether they were narrow.
    fn widen(&mut self) -> bool {
        !std::mem::replace(&mut self.wide, true)
    }

    /// The data have reached `offset`. Returns whether this has made the numbers wide.
    #[inline]
    fn advance(&mut self, now: Instant, offset: DataOffset) -> bool {
        offset >= self.next && !self.wide && self.step(now, offset)
    }

    #[cold] // each gigabyte
    fn step(&mut self, now: Instant, offset: DataOffset) -> bool {
        let enough = self.next.since_start() >= STEPS as u64 * STEP;
        let fast = enough && now.since(self.reached[0]) < SEGMENT_LIFETIME;
        self.reached.rotate_left(1);
        self.reached[STEPS - 1] = now;
        self.next = DataOffset::START + (offset.since_start() / STEP + 1) * STEP;
        fast && self.widen()
    }
}

/// Expands the number in an option to the 64-bit number that is nearest to `near` (RFC 8684, section 3.3.1).
fn expand(number: DataNumber, near: u64) -> u64 {
    match number {
        DataNumber::Full(n) => n,
        DataNumber::Low(low) => {
            near.wrapping_add(i64::from(low.wrapping_sub(near as u32) as i32) as u64)
        }
    }
}

/// The data offset of the number in an option: the one nearest to `near`, if the number has 32 bits. The first
/// byte of the stream has the data sequence number `first`.
pub(super) fn offset_of(number: DataNumber, first: u64, near: DataOffset) -> DataOffset {
    let number = expand(number, near.sequence_number(first));
    DataOffset::of_sequence_number(number, first)
}

/// The widths of both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    /// Width of our data sequence numbers.
    pub(super) sent: Width,
    /// Width of our DATA_ACKs, which acknowledge the peer's data sequence numbers.
    pub(super) acknowledged: Width,
}

impl Numbers {
    /// Bytes of a DSS with a mapping and a DATA_ACK.
    pub(super) fn dss_len(&self) -> u64 {
        Dss::MAPPED_LEN as u64 + self.sent.extra() + self.acknowledged.extra()
    }

    /// Whether a DSS may be longer than it was at first.
    pub(super) fn is_any_wide(&self) -> bool {
        self.dss_len() > Dss::MAPPED_LEN as u64
    }
}

impl Connection {
    /// Called before new data are sent. Makes their numbers wide if 32 bits could be ambiguous.
    #[inline]
    pub(super) fn note_sent(&mut self, now: Instant) {
        if self.mp.is_some() && self.numbers.sent.advance(now, self.send.nxt) {
            self.widen_options();
        }
    }

    /// Called when in-order data have arrived.
    #[inline]
    pub(super) fn note_received(&mut self, now: Instant) {
        if self.mp.is_some() && self.numbers.acknowledged.advance(now, self.recv.next()) {
            self.widen_options();
        }
    }

    /// The peer sent `number`: "If data is received with a 64-bit DSN, it MUST be acknowledged with a 64-bit
    /// Data ACK" (RFC 8684, section 3.3.2). Acknowledgements are cumulative, so all later ones are wide.
    pub(super) fn note_width(&mut self, number: DataNumber) {
        if matches!(number, DataNumber::Full(_)) && self.numbers.acknowledged.widen() {
            self.widen_options();
        }
    }

    /// Makes segments leave room for longer numbers from now on.
    #[cold] // once a connection
    fn widen_options(&mut self) {
        // The other subflows reserve the room once they are established.
        for s in self
            .subflows
            .iter_mut()
            .filter(|s| s.state.is_synchronized())
        {
            s.tx.shorten_segments(MORE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transfers `rate` bytes a second in steps of 0.1 s. Returns the number of bytes after which numbers are
    /// wide.
    fn wide_at(rate: u64, limit: DataOffset) -> Option<u64> {
        let mut width = Width::default();
        let (mut now, mut offset) = (Instant::ZERO, DataOffset::START);
        while offset < limit {
            if width.advance(now, offset) {
                return Some(offset.since_start());
            }
            now += Duration::from_millis(100);
            offset += rate / 10;
        }
        None
    }

    #[test]
    fn numbers_become_wide_before_32_bits_are_ambiguous_within_a_segment_lifetime() {
        assert_eq!(wide_at(8_000_000, DataOffset(1 << 40)), None);
        for rate in [10_000_000, 100_000_000, 10_000_000_000] {
            let at = wide_at(rate, DataOffset(1 << 40)).unwrap();
            assert!(((1 << 30)..(1 << 31)).contains(&at), "{rate}: {at}");
        }
    }

    #[test]
    fn transfer_that_becomes_fast_gets_wide_numbers_within_2_to_the_31_bytes() {
        let mut width = Width::default();
        let mut now = Instant::ZERO;
        // A gigabyte in an hour, then a gigabyte every second.
        for k in 0..3600 {
            assert!(!width.advance(now, DataOffset(k * 300_000)));
            now += Duration::from_secs(1);
        }
        let begin = 3600 * 300_000;
        let after = (0..).map(|k| k * 10_000_000).find(|more| {
            now += Duration::from_millis(10);
            width.advance(now, DataOffset(begin + more))
        });
        assert!(after.unwrap() < 1 << 31, "{after:?}");
        assert!(!width.widen() && width.extra() == MORE);
        assert_eq!(width.number(7), DataNumber::Full(7));
    }
}
