//! Recovery schemes of publications other than the four papers.

use std::sync::Arc;

use crate::config::Config;
use crate::congestion::Cubic;
use crate::recovery::{AutoRec, Hairpin, RecoveryBudget, RecoveryFactory, Xlink};
use crate::stage::coding::formulas::Blocking;
use crate::stage::coding::{CodeKind, CodingConfig, LONG, Redundancy, Short, UnitSize};

/// The names that [`preset`] knows.
#[cfg(test)]
pub(super) const NAMES: [&str; 4] = ["xlink", "autorec", "hairpin", "cloudburst"];

/// Paths of XLINK's clients: a wireless LAN and a cellular network.
const XLINK_PATHS: usize = 2;

/// The budget of the presets that have one, in percent of new data (our choice; XLINK reports a cost of 2.1 %).
const BUDGET: u32 = 5;

/// The share of paths that CloudBurst's packets may find congested, one of this many (our choice: a unit of ten
/// segments has three redundant packets).
const CONGESTED_ONE_OF: u32 = 5;

const XLINK_PARTS: &[&str] = &[
    "all of `mptcp`, with 2 subflows; each: RACK-TLP (RFC 8985) for QUIC's loss detection, and CUBIC (RFC 9438), uncoupled (Zheng et al., SIGCOMM 2021; mechanisms R2)",
    "recovery: what is not acknowledged is sent once more over the fastest other path with room, the oldest data first; after new data, or ahead of them for the first 128 KiB of a message with priority (first-video-frame acceleration)",
    "double thresholding control: off with more than 1 s left to the message's deadline, on with less than 100 ms, in between on if data may take longer to arrive; always on without a deadline (thresholds: our choice)",
    "cost budget: 5 % of the bytes of new data, and 9000 bytes (our choice)",
    "receiver: early_dsn_delivery, as QUIC has no order within a path",
];

const AUTOREC_PARTS: &[&str] = &[
    "all of `rack`, which stands for QUIC's loss detection, on one path",
    "recovery: while the application has no new data, each retransmitted segment is repeated, inside the window (Li et al., AutoRec, arXiv 2511.22046; Yan et al., TOO, SIGCOMM 2023; mechanisms R3)",
    "replicas: as few as make the loss of all rarer than 1 in 1000 at the subflow's rate of retransmissions, 3 at most, and no more than fit the mean OFF period (our choice; the paper learns the number online)",
    "cost budget: 5 % of the bytes of new data, and 9000 bytes (our choice)",
];

const HAIRPIN_PARTS: &[&str] = &[
    "all of `rack`, on one path",
    "recovery: a retransmission has as many copies as minimise packets plus 10 000 times the probability of a deadline miss, over the round trips left before the message's deadline, 6 at most; one without a deadline (Meng et al., NSDI 2024; mechanisms R4)",
    "first transmissions have no parities, unlike the paper's; copies are inside the window (our choice)",
];

const CLOUDBURST_PARTS: &[&str] = &[
    "one TCP subflow as `tcp` has it (mechanisms A5.1), which knows nothing of what is below",
    "the first 100 KB of each flow are coded: each window of segments leaves as encoded packets, and is decoded from the first of them that arrive (Zeng et al., arXiv 2110.15157; mechanisms R5)",
    "redundancy: r = ceil(k p / (1 - p)) for k segments, as if p = 1/5 of the paths were congested (our choice)",
    "code: Reed-Solomon, the segments themselves first",
    "switches do nothing special; with the balancer `rps` each packet takes a random path, as the paper spreads them",
    "agreed on in the handshake by an experimental option (RFC 6994), else TCP; segments are 14 bytes shorter",
];

/// The preset of this name, if this module defines it.
pub(super) fn preset(name: &str) -> Option<(Config, Vec<&'static str>)> {
    let (config, parts) = match name {
        "xlink" => (xlink(), XLINK_PARTS),
        "autorec" => (autorec(), AUTOREC_PARTS),
        "hairpin" => (with(super::rack().0, Hairpin::default()), HAIRPIN_PARTS),
        "cloudburst" => (cloudburst()?, CLOUDBURST_PARTS),
        _ => return None,
    };
    Some((config, parts.to_vec()))
}

fn with(mut config: Config, recovery: impl RecoveryFactory) -> Config {
    config.recovery = Some(Arc::new(recovery));
    config
}

fn xlink() -> Config {
    let mut config = with(super::mptcp(XLINK_PATHS), Xlink::default());
    config.loss = super::rack().0.loss;
    config.congestion = Arc::new(Cubic);
    config.recovery_budget = Some(RecoveryBudget::percent(BUDGET));
    if let Some(m) = &mut config.multipath {
        m.early_dsn_delivery = true;
    }
    config
}

fn autorec() -> Config {
    let mut config = with(super::rack().0, AutoRec::default());
    config.recovery_budget = Some(RecoveryBudget::percent(BUDGET));
    config
}

fn cloudburst() -> Option<Config> {
    let mut config = super::tcp();
    config.coding = Some(Arc::new(CodingConfig {
        code: CodeKind::ReedSolomonSystematic,
        unit: UnitSize::Window,
        redundancy: Redundancy::Blocking(Blocking::new(1, CONGESTED_ONE_OF).ok()?),
        short: Short::UpTo(LONG),
        ..CodingConfig::default()
    }));
    Some(config)
}
