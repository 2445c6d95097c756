//! TCP whose flow labels choose its paths.

use std::sync::Arc;

use crate::config::Config;
use crate::congestion::Dctcp;
use crate::entropy::{EntropyFactory, FlowBender, Plb, ProtectiveReroute, Reps};
use crate::tcp_config::EcnMode;

/// The names that [`preset`] knows.
#[cfg(test)]
pub(super) const NAMES: [&str; 4] = ["prr", "plb", "flowbender", "reps"];

const PRR_PART: &str = "path entropy: Protective ReRoute, another flow label after each retransmission timeout, SYN timeout and repeated SYN, and for acknowledgements from the second duplicate reception on (Wetherall et al., SIGCOMM 2023)";
const PLB_PART: &str = "path entropy: PLB, another flow label after 3 rounds with at least 50 % of marks if nothing is in flight, after 12 in any case, and after a timeout, which suspends PLB for 60 to 120 s (Qureshi et al., SIGCOMM 2022; Linux tcp_plb_*)";
const FLOWBENDER_PART: &str = "path entropy: FlowBender, another flow label after a round trip with more than 5 % of marks, and after a timeout (Kabbani et al., CoNEXT 2014)";
const REPS_PART: &str = "path entropy: REPS, a flow label for each packet: random in the first window, then those of acknowledgements without a mark, 8 remembered; frozen after a timeout (Bonato et al., arXiv 2407.21625)";
const DCTCP_PART: &str = "congestion control: DCTCP (RFC 8257) with its exact echo of marks";

/// The preset of this name, if this module defines it.
pub(super) fn preset(name: &str) -> Option<(Config, Vec<&'static str>)> {
    let (base, entropy, part): (_, Arc<dyn EntropyFactory>, _) = match name {
        "prr" => (
            (super::tcp(), super::TCP_PARTS.to_vec()),
            Arc::new(ProtectiveReroute),
            PRR_PART,
        ),
        "plb" => (super::dctcp(), Arc::new(Plb::default()), PLB_PART),
        "flowbender" => (
            super::dctcp(),
            Arc::new(FlowBender::default()),
            FLOWBENDER_PART,
        ),
        "reps" => (rack_with_dctcp(), Arc::new(Reps::default()), REPS_PART),
        _ => return None,
    };
    let (mut config, mut parts) = base;
    config.entropy = Some(entropy);
    parts.push(part);
    Some((config, parts))
}

/// Loss detection that tolerates the reordering of sprayed packets, with marks for the choice of paths.
fn rack_with_dctcp() -> (Config, Vec<&'static str>) {
    let (mut config, parts) = super::rack();
    config.congestion = Arc::new(Dctcp);
    config.tcp.ecn = EcnMode::Dctcp;
    (config, vec![parts[0], DCTCP_PART])
}
