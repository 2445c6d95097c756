//! The papers' transports as configurations.

use std::sync::Arc;

use spindle_units::Duration;

use crate::config::{
    Config, EcnMode, Flight, LossConfig, MultipathConfig, PathManager, TailLossProbe,
};
use crate::connection::scheduler::SchedulerKind;
use crate::recovery::{Fuso, Proactive};
use crate::subflow::congestion::CongestionKind;

/// Subflows where a preset names no number (FUSO section 5.1: 4 in the testbed).
const SUBFLOWS: usize = 4;

/// A preset: its configuration and what it is made of.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name on the command line.
    pub name: String,
    /// What it is made of, with sources, a line each.
    pub parts: Vec<&'static str>,
    /// The configuration, scenario values at their defaults.
    pub config: Config,
}

/// A probe after two smoothed round trips, no delayed acknowledgements expected.
const PROBE: TailLossProbe = TailLossProbe {
    max_ack_delay: Duration::ZERO,
    floor: Duration::ZERO,
};

const TCP_PARTS: &[&str] = &[
    "one TCP subflow: SACK (RFC 2018), recovery by RFC 6675, Limited Transmit (RFC 3042), Early Retransmit (RFC 5827) - FUSO section 5.1",
    "congestion control: Reno (RFC 5681); D-SACK undo (RFC 3708), F-RTO (RFC 5682)",
];

/// TCP as the papers configure it (catalogue A5.1).
fn tcp() -> Config {
    Config {
        loss: LossConfig {
            early_retransmit: true,
            ..LossConfig::default()
        },
        ..Config::default()
    }
}

fn mptcp(subflows: usize) -> Config {
    let base = tcp();
    Config {
        congestion: CongestionKind::Lia,
        multipath: Some(MultipathConfig {
            path_manager: PathManager::Ports(subflows),
            max_subflows: subflows.max(8),
            ..MultipathConfig::default()
        }),
        ..base
    }
}

fn fuso(subflows: usize) -> Config {
    let mut config = mptcp(subflows);
    if let Some(m) = &mut config.multipath {
        m.early_dsn_delivery = true;
    }
    config.recovery = Some(Arc::new(Fuso::default()));
    config
}

/// What the sender of such a connection does towards a peer whose receiver was not modified, as a
/// Linux kernel's: its proactive recovery also copies what was SACKed behind a hole, since such a
/// receiver hands up only what is in order in its subflow. The own receiver stays as it is, and so
/// does everything where the recovery knows no difference.
#[must_use]
pub fn for_unmodified_receivers(mut config: Config) -> Config {
    let changed = config
        .recovery
        .as_ref()
        .and_then(|r| r.for_unmodified_receivers());
    config.recovery = changed.or(config.recovery);
    config
}

/// The lab's twin of FUSO in front of such a peer: the receiver holds back what is out of order.
fn fuso_unmodified(subflows: usize) -> Config {
    let mut config = for_unmodified_receivers(fuso(subflows));
    if let Some(m) = &mut config.multipath {
        m.early_dsn_delivery = false;
    }
    config
}

const MPTCP_PARTS: &[&str] = &[
    "MPTCP (RFC 8684), subflows told apart by source port so that ECMP spreads them",
    "scheduler: minimum smoothed RTT (catalogue A0); each subflow repairs its own losses as `tcp` does",
    "congestion control: Linked Increases (RFC 6356)",
    "opportunistic retransmission with penalisation; reinjection after 3 timeouts in a row (FUSO section 3.1, catalogue A5.6)",
];

const FUSO_PARTS: &[&str] = &[
    "all of `mptcp`",
    "proactive recovery: with spare window and no new data, the oldest unprotected segment of the worst subflow is copied over the best, once (FUSO section 3.2, Algorithm 1)",
    "path metric: 0.5 retx/tx + 0.5 / since the last retransmission (FUSO sections 3.2.1 and 5.1)",
    "receiver: early_dsn_delivery, out-of-order subflow data go up at once (FUSO section 4.1)",
];

const FUSO_UNMODIFIED_PARTS: &[&str] = &[
    "all of `mptcp`",
    FUSO_PARTS[1],
    FUSO_PARTS[2],
    "eligible: whatever is not DATA_ACKed, the hole first and then what was SACKed behind it, each byte at most once; all else as `fuso`",
    "receiver: as a kernel's, data out of order in their subflow are held back",
];

/// The preset of this name, if there is one: tcp newreno dctcp tlp rack proactive mptcp mptcp-1..8
/// mptcp-linux fuso fuso-1..8 fuso-unmodified fuso-unmodified-1..8.
pub fn preset(name: &str) -> Option<Preset> {
    let (config, parts): (Config, Vec<&'static str>) = match name {
        "tcp" => (tcp(), TCP_PARTS.to_vec()),
        "newreno" => newreno(),
        "dctcp" => dctcp(),
        "tlp" => tlp(),
        "rack" => rack(),
        "proactive" => proactive(),
        "mptcp-linux" => mptcp_linux(),
        _ => numbered(name)?,
    };
    Some(Preset {
        name: name.to_owned(),
        parts,
        config,
    })
}

/// The names [`preset`] knows, without those that only add a number.
pub const PRESETS: &[&str] = &[
    "tcp",
    "newreno",
    "dctcp",
    "tlp",
    "rack",
    "proactive",
    "mptcp",
    "mptcp-linux",
    "fuso",
    "fuso-unmodified",
];

fn numbered(name: &str) -> Option<(Config, Vec<&'static str>)> {
    let numbered = name.rsplit_once('-').and_then(|(family, n)| {
        let count = (1..=8).find(|k| k.to_string() == n)?;
        Some((family, count))
    });
    let (family, count) = numbered.unwrap_or((name, SUBFLOWS));
    match family {
        "mptcp" => Some((mptcp(count), MPTCP_PARTS.to_vec())),
        "fuso" => Some((fuso(count), FUSO_PARTS.to_vec())),
        "fuso-unmodified" => Some((fuso_unmodified(count), FUSO_UNMODIFIED_PARTS.to_vec())),
        _ => None,
    }
}

fn newreno() -> (Config, Vec<&'static str>) {
    let mut c = tcp();
    c.tcp.sack = false;
    c.loss.early_retransmit = false;
    c.loss.frto = false;
    (
        c,
        vec![
            "one TCP subflow: NewReno (RFC 6582), no SACK, Limited Transmit (RFC 3042)",
            "congestion control: Reno (RFC 5681)",
        ],
    )
}

fn dctcp() -> (Config, Vec<&'static str>) {
    let mut c = tcp();
    c.congestion = CongestionKind::Dctcp;
    c.tcp.ecn = EcnMode::Dctcp;
    (
        c,
        vec![
            TCP_PARTS[0],
            "congestion control: DCTCP (RFC 8257) with its exact echo of marks",
        ],
    )
}

fn tlp() -> (Config, Vec<&'static str>) {
    let mut c = tcp();
    c.loss.tail_loss_probe = Some(PROBE);
    let mut parts = TCP_PARTS.to_vec();
    parts.push("tail loss probe after 2 smoothed RTTs without an acknowledgement (FUSO section 5.1; RFC 8985, section 7)");
    (c, parts)
}

fn rack() -> (Config, Vec<&'static str>) {
    let mut c = tcp();
    c.loss = LossConfig {
        rack: true,
        prr: true,
        tail_loss_probe: Some(PROBE),
        ..LossConfig::default()
    };
    (
        c,
        vec![
            "one TCP subflow: SACK, RACK-TLP (RFC 8985), PRR (RFC 6937), F-RTO, D-SACK undo",
            "congestion control: Reno (RFC 5681)",
        ],
    )
}

fn proactive() -> (Config, Vec<&'static str>) {
    let mut c = tcp();
    c.recovery = Some(Arc::new(Proactive));
    let mut parts = TCP_PARTS.to_vec();
    parts.push("every data segment twice on the same path, the copy outside cwnd (catalogue A5.5)");
    (c, parts)
}

/// Today's kernel: reinjection on the connection timer over an idle subflow, uncoupled control.
fn mptcp_linux() -> (Config, Vec<&'static str>) {
    let mut c = mptcp(SUBFLOWS);
    c.congestion = CongestionKind::Cubic;
    c.loss = LossConfig {
        rack: true,
        prr: true,
        tail_loss_probe: Some(PROBE),
        flight: Flight::CongestionWindow,
        ..LossConfig::default()
    };
    if let Some(m) = &mut c.multipath {
        m.scheduler = SchedulerKind::Linger;
        m.opportunistic_retransmission = false;
        m.connection_timer = true;
    }
    let parts = vec![
        "MPTCP (RFC 8684) as the Linux kernel has it: reinjection of the oldest data on the connection's timer, on an idle subflow only",
        "scheduler: bursts of 64 KB to the subflow with the lowest linger time (queued bytes over pacing rate), ahead of its window, while its send buffer has room",
        "each subflow: SACK, RACK-TLP (RFC 8985), PRR, F-RTO; CUBIC (RFC 9438), uncoupled; ssthresh from cwnd, not from FlightSize",
        "no opportunistic retransmission, no subflow judged dead; receiver: out-of-order subflow data are held back",
    ];
    (c, parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_a_preset_and_numbers_count_subflows() {
        for name in PRESETS {
            assert!(preset(name).is_some(), "{name}");
        }
        for n in 1..=8 {
            for family in ["fuso", "fuso-unmodified"] {
                assert_eq!(
                    preset(&format!("{family}-{n}")).map(|p| p.config.planned_subflows()),
                    Some(n)
                );
            }
        }
        for bad in ["fuso-0", "fuso-9", "fuso-04", "tcp-2", "quic", ""] {
            assert!(preset(bad).is_none(), "{bad}");
        }
    }
}
