//! MMPTCP and pure packet scatter, as configured in MMPTCP's simulations.

use std::sync::Arc;

use spindle_units::Duration;

use super::mptcp;
use crate::config::Config;
use crate::congestion::{FullyCoupled, Reno};
use crate::path_manager::{Passive, PathManager, Ports};
use crate::stage::scatter::{PhaseSwitch, ScatterConfig};
use crate::tcp_config::LossConfig;

/// Subflows of the second phase, and of the MPTCP that MMPTCP is compared with (MMPTCP section 3).
const SUBFLOWS: usize = 8;
/// Most time between the openings of two subflows (MMPTCP section 2.3).
const SPACING: Duration = Duration::from_micros(50);

/// Loss recovery of MMPTCP's simulations: NewReno, with Limited Transmit only in presets that name it (MMPTCP
/// section 3).
pub(super) fn newreno_loss() -> LossConfig {
    LossConfig {
        limited_transmit: false,
        frto: false,
        dsack_undo: false,
        ..LossConfig::default()
    }
}

fn scattering(settings: ScatterConfig, manager: Arc<dyn PathManager>) -> Config {
    let mut config = mptcp(SUBFLOWS);
    config.tcp.sack = false;
    config.loss = newreno_loss();
    if let Some(m) = &mut config.multipath {
        m.path_manager = manager;
        m.max_subflows = SUBFLOWS + 1;
        m.join_spacing = SPACING;
        m.scatter = Some(Arc::new(settings));
    }
    config
}

fn settings() -> ScatterConfig {
    ScatterConfig {
        loss: newreno_loss(),
        ..ScatterConfig::default()
    }
}

/// The preset of this name, if this module defines it.
pub(super) fn preset(name: &str) -> Option<(Config, Vec<&'static str>)> {
    let mmptcp = |s: ScatterConfig| scattering(s, Arc::new(Ports(SUBFLOWS)));
    let with = |parts: &[&'static str], more: &'static str| {
        let mut all = parts.to_vec();
        all.push(more);
        all
    };
    Some(match name {
        "ps" => {
            let forever = ScatterConfig {
                switch: PhaseSwitch::Never,
                ..settings()
            };
            (scattering(forever, Arc::new(Passive)), PS_PARTS.to_vec())
        }
        "mmptcp" => (mmptcp(settings()), MMPTCP_PARTS.to_vec()),
        "mmptcp-lt" => {
            let mut limited = settings();
            limited.loss.limited_transmit = true;
            (mmptcp(limited), with(MMPTCP_PARTS, LT_PART))
        }
        "mmptcp-as" => {
            let located = ScatterConfig {
                auto_subflows: true,
                ..settings()
            };
            (mmptcp(located), with(MMPTCP_PARTS, AS_PART))
        }
        "mmptcp-fc" => {
            let mut config = mmptcp(settings());
            config.congestion = Arc::new(FullyCoupled);
            (config, with(&MMPTCP_PARTS[..3], FC_PART))
        }
        "mmptcp-uc" => {
            let mut config = mmptcp(settings());
            config.congestion = Arc::new(Reno);
            (config, with(&MMPTCP_PARTS[..3], UC_PART))
        }
        _ => return None,
    })
}

/// The names that [`preset`] knows.
#[cfg(test)]
pub(super) const NAMES: [&str; 6] = [
    "ps",
    "mmptcp",
    "mmptcp-lt",
    "mmptcp-as",
    "mmptcp-fc",
    "mmptcp-uc",
];

const SCATTER_PART: &str = "packet scatter: one subflow, one window (Reno), each data segment from a random source port; the peer finds the connection by its token (MMPTCP sections 2.1 and 2.3)";
const THRESHOLD_PART: &str = "duplicate-ACK threshold: 3 within a rack, else 3 and one for each path of equal cost, 16 at most (MMPTCP section 2.4); 3 where the topology is not known";
const LOSS_PART: &str =
    "losses: NewReno (RFC 6582), no SACK, no Limited Transmit (MMPTCP section 3)";

const PS_PARTS: &[&str] = &[
    SCATTER_PART,
    THRESHOLD_PART,
    LOSS_PART,
    "to the end of the connection (MMPTCP section 2.1, PS)",
];

const MMPTCP_PARTS: &[&str] = &[
    SCATTER_PART,
    THRESHOLD_PART,
    "after 100 KB: MPTCP over 8 subflows of fixed ports, opened 0 to 50 us apart, threshold 3; the first subflow repeats what it has outstanding and rests (MMPTCP section 2.3); NewReno throughout (RFC 6582), no SACK, no Limited Transmit (section 3)",
    "congestion control of the second phase: Linked Increases (RFC 6356)",
];

const LT_PART: &str = "while scattering, a new segment for each duplicate acknowledgement below the threshold, not for two only (MMPTCP section 2.4, modified Limited Transmit)";
const AS_PART: &str = "as many subflows as there are paths, 8 at most, one within a rack (MMPTCP section 2.5, Auto Subflow)";
const FC_PART: &str =
    "congestion control of the second phase: fully coupled (MMPTCP section 3.9, mechanisms A5.8)";
const UC_PART: &str =
    "congestion control of the second phase: Reno on each subflow, uncoupled (MMPTCP section 3.9)";
