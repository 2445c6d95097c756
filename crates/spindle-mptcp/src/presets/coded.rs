//! CAPS: TCP whose short flows are coded.

use std::sync::Arc;

use crate::config::Config;
use crate::stage::coding::formulas::Blocking;
use crate::stage::coding::{CodeKind, CodingConfig, LONG, Redundancy, Short, UnitSize};

/// The names that [`preset`] knows.
#[cfg(test)]
pub(super) const NAMES: [&str; 2] = ["caps", "caps-dark"];

const TCP_PART: &str =
    "one TCP subflow as `tcp` has it (mechanisms A5.1), which knows nothing of what is below";
const UNIT_PART: &str = "units of k segments leave as k + r encoded packets, any k of which bring the segments back; a unit is cut short when TCP has no more to send (CAPS sections IV and VI, mechanisms A4.5)";
const SIZE_PART: &str = "k makes the mean time of a window shortest (CAPS section VI-C, equation 4); r = ceil(k p / (1 - p)), p being the share of packets that take more than twice the usual time, of the last 200 us, at most a half (sections VI-B and IX-C, mechanisms A4.3 and A4.4)";
const SAMPLE_PART: &str = "the peer echoes the time of sending of each encoded packet, on TCP's acknowledgements or in 40 bytes; connections to one rack share what is learnt (mechanisms A4.3)";
const CODE_PART: &str = "code: any k packets (mechanisms A4.5); real bytes by Reed-Solomon";
const AGREEMENT_PART: &str = "agreed on in the handshake by an experimental option (RFC 6994), else TCP; segments are 14 bytes shorter";

/// The preset of this name, if this module defines it.
pub(super) fn preset(name: &str) -> Option<(Config, Vec<&'static str>)> {
    let (short, part) = match name {
        "caps" => (
            Short::Tagged,
            "short flows are known: those tagged with a priority by their DSCP are coded (CAPS section IV, mechanisms A4.1); for switches that do as `caps` balances",
        ),
        "caps-dark" => (
            Short::UpTo(LONG),
            "every flow is coded until it has sent 100 KB (CAPS section VII); for switches that do as `caps-dark` balances",
        ),
        _ => return None,
    };
    let mut config = super::tcp();
    config.coding = Some(Arc::new(CodingConfig {
        code: CodeKind::Ideal,
        short,
        ..CodingConfig::default()
    }));
    let parts = vec![
        TCP_PART,
        part,
        UNIT_PART,
        SIZE_PART,
        SAMPLE_PART,
        CODE_PART,
        AGREEMENT_PART,
    ];
    Some((config, parts))
}

/// Changes how short flows are coded. Returns whether the configuration codes any.
pub(super) fn coding(config: &mut Config, change: impl Fn(&mut CodingConfig)) -> bool {
    let settings = config.coding.as_mut();
    settings.map(|s| change(Arc::make_mut(s))).is_some()
}

/// Sets the size of units to `k` segments.
pub(super) fn fixed_unit(config: &mut Config, k: u8) -> bool {
    coding(config, |s| s.unit = UnitSize::Fixed(k))
}

/// Sets the redundancy to `r` packets per unit, whatever share of packets is blocked.
pub(super) fn fixed_packets(config: &mut Config, r: u8) -> bool {
    coding(config, |s| s.redundancy = Redundancy::Packets(r))
}

/// Sets the redundancy that `blocked` of 12 paths require (CAPS section IX-E).
pub(super) fn blocked_of_12(config: &mut Config, blocked: u32) -> bool {
    let Ok(share) = Blocking::new(blocked, 12) else {
        return false;
    };
    coding(config, |s| s.redundancy = Redundancy::Blocking(share))
}
