//! SYN cookies (RFC 4987, section 3.6): the state that a listener must remember of a SYN, packed into the
//! initial sequence number and the timestamp of the answer.
//!
//! The sequence number holds one bit of the time slot, three bits of the peer's segment size and 28 bits of a
//! keyed hash over both, the four-tuple and the peer's own sequence number. Window scale, SACK and ECN go into
//! the low bits of the timestamp. A peer that offers no timestamps is granted none of them. Those bits are not
//! authenticated: a peer that forges them harms only itself.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Flags, Segment, SeqNumber, Timestamps};

use super::hashes::{KeyedHashes, tuple};

/// A time slot. Cookies of the current and the previous slot are valid (RFC 4987, section 3.6: "a slowly
/// increasing counter", there of 64 s).
pub(super) const SLOT: Duration = Duration::from_secs(64);

/// Segment sizes that a cookie can express. The largest size that does not exceed the peer's is used. They are
/// the defaults of RFC 9293 (section 3.7.1), sizes over tunnels and PPPoE, Ethernet with IPv6 and IPv4, and
/// jumbo frames.
const SIZES: [u16; 8] = [64, 536, 1220, 1360, 1400, 1440, 1460, 8940];

/// No window scale was offered; scales end at 14 (RFC 7323, section 2.3).
const NO_SCALE: u32 = 15;
const SCALE_BITS: u32 = 0x0f;
const SACK_BIT: u32 = 0x10;
const ECN_BIT: u32 = 0x20;
/// The timestamp bits that carry options.
const OPTION_BITS: u32 = 0x3f;

const HASH_BITS: u32 = 28;

fn slot(now: Instant) -> u64 {
    now.as_millis() / SLOT.as_millis()
}

impl KeyedHashes {
    /// The initial sequence number of an answer to a SYN of which nothing is stored.
    pub(super) fn cookie(&self, now: Instant, syn: &Segment) -> SeqNumber {
        let default = if syn.dst.addr.is_ipv4() { 536 } else { 1220 };
        let offered = syn.options.rare.as_ref().and_then(|r| r.mss);
        let offered = offered.unwrap_or(default);
        let class = SIZES.iter().rposition(|s| *s <= offered).unwrap_or(0) as u32;
        self.cookie_in(slot(now), class, syn.dst, syn.src, syn.seq)
    }

    fn cookie_in(
        &self,
        slot: u64,
        class: u32,
        local: Endpoint,
        remote: Endpoint,
        peer_isn: SeqNumber,
    ) -> SeqNumber {
        let mut hash = SipHasher24::new_with_key(self.cookie_hash());
        hash.write(&tuple(local, remote));
        hash.write_u64(slot);
        hash.write_u32(class);
        hash.write_u32(peer_isn.0);
        let low = hash.finish() as u32 & ((1 << HASH_BITS) - 1);
        SeqNumber((slot as u32 & 1) << 31 | class << HASH_BITS | low)
    }

    /// The segment size that a third ACK's cookie stands for, or `None` if the cookie was never sent or is too
    /// old.
    pub(super) fn check_cookie(&self, now: Instant, ack: &Segment) -> Option<u16> {
        let (cookie, peer_isn) = (ack.ack - 1, ack.seq - 1);
        let class = cookie.0 >> HASH_BITS & 7;
        let slot = slot(now);
        let good = [Some(slot), slot.checked_sub(1)]
            .into_iter()
            .flatten()
            .any(|s| self.cookie_in(s, class, ack.dst, ack.src, peer_isn) == cookie);
        good.then(|| SIZES[class as usize])
    }
}

/// The SYN as the cookie can restore it. Without timestamps, its options cannot be restored.
pub(super) fn grantable(syn: &Segment) -> Segment {
    let mut syn = syn.clone();
    // No bit is left for experimental options: the connection would not know what the answer agreed to.
    if let Some(rare) = &mut syn.options.rare {
        rare.experimental.clear();
    }
    if syn.options.timestamps.is_none() {
        syn.flags = Flags::SYN;
        if let Some(rare) = &mut syn.options.rare {
            rare.window_scale = None;
            rare.sack_permitted = false;
        }
    }
    syn
}

/// The answer's timestamp `value` with the SYN's options in its low bits. It is never later than the clock that
/// later segments will show (RFC 7323, section 5.3).
pub(super) fn mark(value: u32, syn: &Segment) -> u32 {
    let rare = syn.options.rare.as_ref();
    let mut bits = rare
        .and_then(|r| r.window_scale)
        .map_or(NO_SCALE, |s| u32::from(s.min(14)));
    if rare.is_some_and(|r| r.sack_permitted) {
        bits |= SACK_BIT;
    }
    if syn.flags.contains(Flags::ECE | Flags::CWR) {
        bits |= ECN_BIT;
    }
    let marked = value & !OPTION_BITS | bits;
    if bits > value & OPTION_BITS {
        marked.wrapping_sub(OPTION_BITS + 1)
    } else {
        marked
    }
}

/// Restores the SYN for which a third ACK with a valid cookie stands. MP_CAPABLE is left to the caller.
pub(super) fn recall(ack: &Segment, mss: u16) -> Segment {
    let mut syn = Segment::new(ack.src, ack.dst);
    syn.flags = Flags::SYN;
    syn.seq = ack.seq - 1;
    syn.window = ack.window;
    syn.options.rare_mut().mss = Some(mss);
    let Some(times) = ack.options.timestamps else {
        return syn;
    };
    syn.options.timestamps = Some(Timestamps {
        value: times.value,
        echo: 0,
    });
    let scale = times.echo & SCALE_BITS;
    let rare = syn.options.rare_mut();
    rare.window_scale = (scale != NO_SCALE).then_some(scale as u8);
    rare.sack_permitted = times.echo & SACK_BIT != 0;
    if times.echo & ECN_BIT != 0 {
        syn.flags |= Flags::ECE | Flags::CWR;
    }
    syn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::Secrets;
    use proptest::prelude::*;

    fn end(s: &str) -> Endpoint {
        s.parse::<std::net::SocketAddr>().unwrap().into()
    }

    fn hashes() -> KeyedHashes {
        KeyedHashes::new(&Secrets::System([3; 32]))
    }

    fn syn(seq: u32, mss: Option<u16>) -> Segment {
        let mut s = Segment::new(end("10.0.0.2:999"), end("10.0.0.1:80"));
        s.flags = Flags::SYN;
        s.seq = SeqNumber(seq);
        s.options.rare_mut().mss = mss;
        s
    }

    fn third(syn: &Segment, cookie: SeqNumber) -> Segment {
        let mut s = Segment::new(syn.src, syn.dst);
        (s.seq, s.ack, s.flags) = (syn.seq + 1, cookie + 1, Flags::ACK);
        s
    }

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn cookie_is_valid_in_its_slot_and_the_next() {
        let s = syn(77, Some(1450));
        let c = hashes().cookie(at(70), &s);
        for now in [70, 127, 128, 191] {
            assert_eq!(hashes().check_cookie(at(now), &third(&s, c)), Some(1440));
        }
        for now in [0, 192, 256, 70 + 64 * 1000] {
            assert_eq!(hashes().check_cookie(at(now), &third(&s, c)), None, "{now}");
        }
    }

    #[test]
    fn cookie_is_valid_for_one_peer_and_one_sequence_number() {
        let s = syn(77, Some(1460));
        let c = hashes().cookie(at(1), &s);
        let good = third(&s, c);
        assert!(hashes().check_cookie(at(1), &good).is_some());
        let mut other = good.clone();
        other.src.port += 1;
        assert!(hashes().check_cookie(at(1), &other).is_none());
        let mut other = good.clone();
        other.seq = other.seq + 1;
        assert!(hashes().check_cookie(at(1), &other).is_none());
        let mut other = good;
        other.ack = other.ack + 1;
        assert!(hashes().check_cookie(at(1), &other).is_none());
    }

    proptest! {
        #[test]
        fn options_in_the_timestamp_are_restored(
            value: u32,
            scale in prop::option::of(0u8..15),
            sack: bool,
            ecn: bool,
        ) {
            let mut s = syn(5, Some(1460));
            s.options.timestamps = Some(Timestamps { value: 9, echo: 0 });
            let rare = s.options.rare_mut();
            (rare.window_scale, rare.sack_permitted) = (scale, sack);
            if ecn {
                s.flags |= Flags::ECE | Flags::CWR;
            }
            let marked = mark(value, &grantable(&s));
            prop_assert!((value.wrapping_sub(marked) as i32) >= 0 && value.wrapping_sub(marked) < 64);
            let mut ack = third(&s, SeqNumber(1));
            ack.options.timestamps = Some(Timestamps { value: 9, echo: marked });
            let back = recall(&ack, 1460);
            prop_assert_eq!(back.seq, s.seq);
            prop_assert_eq!(back.flags, s.flags);
            let rare = back.options.rare.unwrap();
            prop_assert_eq!((rare.window_scale, rare.sack_permitted), (scale, sack));
        }

        #[test]
        fn restored_segment_size_never_exceeds_the_peers(mss in 64u16.., seq: u32) {
            let s = syn(seq, Some(mss));
            let c = hashes().cookie(at(1), &s);
            let size = hashes().check_cookie(at(1), &third(&s, c)).unwrap();
            prop_assert!(size <= mss);
        }
    }
}
