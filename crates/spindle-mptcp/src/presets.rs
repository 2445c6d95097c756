//! The papers' transports as configurations.

mod coded;
mod labelled;
mod published;
mod scattered;
mod spindle;
mod variants;

use std::sync::Arc;

use spindle_units::Duration;

use crate::config::{Config, MultipathConfig};
use crate::congestion::{Cubic, Dctcp, Lia};
use crate::path_manager::Ports;
use crate::recovery::{CoFuso, CodingRate, DeadlineReinjection, Fuso, Oracle, Proactive, TcpIr};
use crate::scheduler::{Blest, Dems, Ecf, Linger, SchedulerFactory};
use crate::stage::important;
use crate::tcp_config::{EcnMode, LossConfig, ReductionBase, TailLossProbe};

pub use variants::{Variant, variant, variants};

/// Number of subflows if a preset's name has no number (FUSO section 5.1: 4 in the testbed).
const SUBFLOWS: usize = 4;

/// A preset: its configuration and a description of its parts.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name on the command line.
    pub name: String,
    /// Its parts with their sources, one line each.
    pub parts: Vec<&'static str>,
    /// The configuration, with scenario values at their defaults.
    pub config: Config,
}

/// A probe after two smoothed round trips, without an allowance for delayed acknowledgements.
const PROBE: TailLossProbe = TailLossProbe {
    max_ack_delay: Duration::ZERO,
    floor: Duration::ZERO,
    margin: None,
};

const TCP_PARTS: &[&str] = &[
    "one TCP subflow: SACK (RFC 2018), recovery by RFC 6675, Limited Transmit (RFC 3042), Early Retransmit (RFC 5827) - FUSO section 5.1",
    "congestion control: Reno (RFC 5681); D-SACK undo (RFC 3708), F-RTO (RFC 5682)",
];

/// TCP as the papers configure it (mechanisms A5.1).
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
        congestion: Arc::new(Lia),
        multipath: Some(MultipathConfig {
            path_manager: Arc::new(Ports(subflows)),
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

/// Subflows of CoFUSO's simulations (CoFUSO section 6.2).
const COFUSO_SUBFLOWS: usize = 5;
/// Subflows of CoFUSO's testbed (CoFUSO section 5.2).
const COFUSO_XOR_SUBFLOWS: usize = 3;

/// The fixed rates of CoFUSO section 6.2.4: parities for each packet, in percent.
const FIXED_RATES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// The rate of `cofuso-fixed` without a number: of [`FIXED_RATES`], the one nearest to the testbed's one parity
/// of 30 packets (CoFUSO section 5.2; our choice).
const FIXED_RATE: u32 = 4;

/// CoFUSO as in the simulations, but with a rate that never changes.
fn cofuso_fixed(percent: u32) -> Config {
    let settings = CoFuso {
        rate: CodingRate::Fixed(f64::from(percent) / 100.0),
        ..CoFuso::SIMULATION
    };
    cofuso(COFUSO_SUBFLOWS, settings)
}

fn cofuso(subflows: usize, settings: CoFuso) -> Config {
    Config {
        recovery: Some(Arc::new(settings)),
        ..fuso(subflows)
    }
}

/// Adapts the sender of a connection to a peer whose receiver was not modified, such as a Linux kernel.
///
/// Such a receiver delivers only data that are in order within their subflow. Proactive recovery therefore also
/// copies segments that were SACKed behind a hole. For the same reason, segments that were SACKed on a dead
/// subflow are reinjected too, and opportunistic retransmission sends more segments each time. No data are sent
/// on a joined subflow before the peer's first DATA_ACK, because such a receiver may drop them.
///
/// This end's own receiver does not change. A recovery policy that has no version for unmodified receivers does
/// not change either.
#[must_use]
pub fn for_unmodified_receivers(mut config: Config) -> Config {
    if let Some(m) = &mut config.multipath {
        m.joins_wait_for_data_ack = true;
        m.peer_holds_back = true;
    }
    let changed = config
        .recovery
        .as_ref()
        .and_then(|r| r.for_unmodified_receivers());
    config.recovery = changed.or(config.recovery);
    config
}

/// FUSO towards an unmodified peer, for the lab: the receiver holds back data that are out of order within
/// their subflow.
fn fuso_unmodified(subflows: usize) -> Config {
    let mut config = for_unmodified_receivers(fuso(subflows));
    if let Some(m) = &mut config.multipath {
        m.early_dsn_delivery = false;
    }
    config
}

const MPTCP_PARTS: &[&str] = &[
    "MPTCP (RFC 8684), subflows told apart by source port so that ECMP spreads them",
    "scheduler: minimum smoothed RTT (mechanisms A0); each subflow repairs its own losses as `tcp` does",
    "congestion control: Linked Increases (RFC 6356)",
    "opportunistic retransmission with penalisation; reinjection after 3 timeouts in a row (FUSO section 3.1, mechanisms A5.6)",
];

const ECF_PARTS: &[&str] = &[
    "all of `mptcp`, but for its scheduler",
    "scheduler: ECF, data wait for the subflow with the lowest smoothed RTT if waiting completes what is unsent earlier; beta 0.25 (mechanisms A7.1)",
];

const BLEST_PARTS: &[&str] = &[
    "all of `mptcp`, but for its scheduler",
    "scheduler: BLEST, a slower subflow gets no data that would block the peer's window for the subflow with the lowest smoothed RTT; lambda from 1.0 to 1.3 (mechanisms A7.2)",
];

const DEMS_PARTS: &[&str] = &[
    "all of `mptcp`, but for its scheduler",
    "scheduler: DEMS, the subflow with the lowest smoothed RTT sends what is unsent from its first byte on, others from its last byte backwards; at most 8 segments again on each (Guo et al., MobiCom 2017)",
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

const COFUSO_PARTS: &[&str] = &[
    "all of `mptcp`",
    "proactive recovery: with spare window and no new data, parities of the worst subflow's segments over the best; once all are covered, each is copied once, as `fuso` does (CoFUSO section 4.2, Algorithm 2)",
    "blocks: Reed-Solomon; K = min(3 / L, eligible, 254) consecutive segments, K L parities, 1 to 3 (CoFUSO sections 4.2 and 6.2: M_max 3, K_max unlimited)",
    "loss estimate L: 0.5 retx/tx + 0.5 / since the last retransmission; path metric: 0.5 L + 0.5 RTT, each over its maximum (CoFUSO sections 4.2.4 and 6.2)",
    COFUSO_RECEIVER,
    COFUSO_AGREEMENT,
];

const COFUSO_XOR_PARTS: &[&str] = &[
    COFUSO_PARTS[0],
    COFUSO_PARTS[1],
    "blocks: XOR; K = min(1 / L, eligible, 30) consecutive segments, one parity (CoFUSO section 5.2: M_max 1, K_max 30)",
    "loss estimate L: 0.05 retx/tx + 0.95 / since the last retransmission; path metric: 0.5 L + 0.5 RTT, each over its maximum (CoFUSO sections 4.2.4 and 5.2)",
    COFUSO_RECEIVER,
    COFUSO_AGREEMENT,
];

const COFUSO_FIXED_PARTS: &[&str] = &[
    "all of `cofuso`, 5 subflows, but for its blocks",
    "blocks: one parity for as many consecutive segments as the rate says, whatever is lost; a last block of fewer has one too (CoFUSO section 6.2.4, mechanisms A5.14)",
    "the number behind is the rate, parities for each packet in percent: 1, 2, 4, 8, 16 or 32, one parity of 100, 50, 25, 13, 6 or 3 segments; 4 if there is none, nearest to the testbed's one of 30 (our choice)",
];

const COFUSO_RECEIVER: &str = "receiver: early_dsn_delivery; keeps the last 255 segments of each subflow and hands decoded ones to the data level only (CoFUSO sections 4.3 and 5.3)";

const COFUSO_AGREEMENT: &str = "agreed on in the handshake by an experimental option (RFC 6994), not with DSS checksums, else copies only; data segments are 20 bytes shorter to leave a parity's header room (CoFUSO section 5.1)";

const DEADLINE_PARTS: &[&str] = &[
    "all of `mptcp`",
    "reinjection by age, as xquic's deadline controller: what is in flight for max(lower bound, min(2.0 x smallest smoothed RTT, hard deadline)) goes once more over the fastest other path with room, ahead of new data; no lower bound, no hard deadline (mechanisms D4)",
    "the data level settles both copies; xquic's trigger by path class has no counterpart",
    "receiver: early_dsn_delivery, as QUIC has no order within a path",
];

const ORACLE_PARTS: &[&str] = &[
    "a bound, not a protocol: the sender learns of each drop the instant it happens, from the network",
    "what was dropped leaves again at once on its own subflow, exempt from loss and full buffers; dropped acknowledgements likewise; no window is reduced for it",
    "all else as `fuso` without its recovery: MPTCP, Linked Increases (RFC 6356), minimum smoothed RTT, early_dsn_delivery; loss is inferred from nothing else but a timer of 200 ms, for paths that are gone; no penalisation",
];

/// The transport that `gateway` and `connect` use if none is named: [`preset`] knows it.
pub const DEFAULT_TRANSPORT: &str = "spindle";

/// The preset of this name, if it exists. The names are those of [`PRESETS`], and those with an appended number
/// that [`preset_names`] lists. Each name may be followed by [`variants`] that come with Spindle, each after a
/// plus sign, if the preset has what they change.
pub fn preset(name: &str) -> Option<Preset> {
    let mut names = name.split('+');
    let base = base_preset(names.next()?)?;
    names.try_fold(base, |base, added| {
        let variant = variant(added)?;
        let mut parts = base.parts;
        parts.push(variant.part());
        Some(Preset {
            name: format!("{}+{added}", base.name),
            parts,
            config: variant.apply(base.config)?,
        })
    })
}

fn base_preset(name: &str) -> Option<Preset> {
    let (config, parts): (Config, Vec<&'static str>) = match name {
        "tcp" => (tcp(), TCP_PARTS.to_vec()),
        "newreno" => newreno(),
        "dctcp" => dctcp(),
        "tlt" => tlt(),
        "tlp" | "reactive" => tlp(),
        "tcp-ir" => tcp_ir(TcpIr::FUSO),
        "corrective" => tcp_ir(TcpIr::COFUSO),
        "deadline-reinjection" => (deadline_reinjection(), DEADLINE_PARTS.to_vec()),
        "rack" => rack(),
        "proactive" => proactive(),
        "mptcp-linux" => mptcp_linux(),
        "cofuso-fixed" => (cofuso_fixed(FIXED_RATE), COFUSO_FIXED_PARTS.to_vec()),
        _ => match name.strip_prefix("cofuso-fixed-") {
            Some(rate) => {
                let percent = FIXED_RATES.into_iter().find(|p| p.to_string() == rate)?;
                (cofuso_fixed(percent), COFUSO_FIXED_PARTS.to_vec())
            }
            None => {
                let families = [
                    scattered::preset,
                    published::preset,
                    coded::preset,
                    labelled::preset,
                    spindle::preset,
                    numbered,
                ];
                families.into_iter().find_map(|family| family(name))?
            }
        },
    };
    Some(Preset {
        name: name.to_owned(),
        parts,
        config,
    })
}

/// Every name that [`preset`] knows: [`PRESETS`], then mptcp, mptcp-ecf, mptcp-blest, mptcp-dems, fuso,
/// fuso-unmodified, cofuso, cofuso-xor and oracle with an appended number of subflows from 1 to 8 (`fuso-8`), and cofuso-fixed
/// with a rate in percent.
pub fn preset_names() -> impl Iterator<Item = String> {
    let numbers = |family: &'static str| (1..=32).map(move |n| format!("{family}-{n}"));
    let numbered = PRESETS.iter().flat_map(move |p| numbers(p.name));
    let known = numbered.filter(|name| preset(name).is_some());
    PRESETS.iter().map(|p| p.name.to_owned()).chain(known)
}

/// A name that [`preset`] knows.
#[derive(Clone, Copy, Debug)]
pub struct PresetName {
    /// The name.
    pub name: &'static str,
    /// What distinguishes it from other presets, in one line.
    pub summary: &'static str,
    /// Like `summary`, but for the name with an appended number `N`. `None` if no number can follow the name.
    pub numbered: Option<&'static str>,
}

const fn plain(name: &'static str, summary: &'static str) -> PresetName {
    PresetName {
        name,
        summary,
        numbered: None,
    }
}

const fn family(name: &'static str, summary: &'static str, numbered: &'static str) -> PresetName {
    PresetName {
        name,
        summary,
        numbered: Some(numbered),
    }
}

/// The names [`preset`] knows, without those that only add a number.
pub const PRESETS: &[PresetName] = &[
    plain(
        spindle::NAME,
        "bounded delay, sprayed packets, copies at a price",
    ),
    plain("tcp", "TCP with SACK and Reno, as the papers configure it"),
    plain("newreno", "TCP with NewReno and without SACK"),
    plain("dctcp", "`tcp` with DCTCP in place of Reno"),
    plain("tlt", "`dctcp` that marks important packets"),
    plain("tlp", "`tcp` with a tail loss probe after 2 smoothed RTTs"),
    plain("rack", "TCP with RACK-TLP and PRR"),
    plain("reactive", "`tlp` under the name that CoFUSO's paper uses"),
    plain(
        "tcp-ir",
        "`tcp` with one XOR packet for each half RTT of data",
    ),
    plain(
        "corrective",
        "`tcp` with one XOR packet for each quarter RTT of data",
    ),
    plain("proactive", "`tcp` that sends every data segment twice"),
    family(
        "mptcp",
        "MPTCP with 4 subflows, LIA and the minimum-RTT scheduler",
        "`mptcp` with N subflows",
    ),
    plain(
        "mptcp-linux",
        "MPTCP as in the Linux kernel: its scheduler, reinjection and CUBIC",
    ),
    family(
        "mptcp-ecf",
        "`mptcp` with ECF, which may wait for the fastest subflow",
        "`mptcp-ecf` with N subflows",
    ),
    family(
        "mptcp-blest",
        "`mptcp` with BLEST, which keeps the window free for the fastest subflow",
        "`mptcp-blest` with N subflows",
    ),
    family(
        "mptcp-dems",
        "`mptcp` with DEMS, which sends from both ends of the data",
        "`mptcp-dems` with N subflows",
    ),
    plain(
        "deadline-reinjection",
        "`mptcp` that reinjects old data, as xquic does",
    ),
    family(
        "fuso",
        "`mptcp` that copies data of the worst subflow over the best subflow",
        "`fuso` with N subflows",
    ),
    family(
        "fuso-unmodified",
        "`fuso` to a receiver that does not support it",
        "`fuso-unmodified` with N subflows",
    ),
    family(
        "cofuso",
        "`fuso` that sends Reed-Solomon parities first, 5 subflows",
        "`cofuso` with N subflows",
    ),
    family(
        "cofuso-xor",
        "`cofuso` as in the paper's testbed: XOR parities, 3 subflows",
        "`cofuso-xor` with N subflows",
    ),
    family(
        "cofuso-fixed",
        "`cofuso` with a constant share of parities, 4 %",
        "`cofuso` with N % parities",
    ),
    plain(
        "ps",
        "packet scatter: one window, a random path for each segment",
    ),
    plain(
        "mmptcp",
        "`ps` for the first 100 KB, then MPTCP with 8 subflows",
    ),
    plain("mmptcp-lt", "`mmptcp` with modified Limited Transmit"),
    plain("mmptcp-as", "`mmptcp` with as many subflows as paths"),
    plain(
        "mmptcp-fc",
        "`mmptcp` with fully coupled congestion control",
    ),
    plain(
        "mmptcp-uc",
        "`mmptcp` with uncoupled congestion control (Reno)",
    ),
    plain(
        "caps",
        "`tcp` over coded packets for short flows, for the balancer `caps`",
    ),
    plain(
        "caps-dark",
        "`caps` that codes the first 100 KB of every flow",
    ),
    plain(
        "xlink",
        "MPTCP with XLINK's re-injection, switched by a message's deadline",
    ),
    plain(
        "autorec",
        "`rack` that repeats retransmissions while there are no new data",
    ),
    plain(
        "hairpin",
        "`rack` with more copies of a retransmission near a deadline",
    ),
    plain(
        "cloudburst",
        "`tcp` over coded packets for the first 100 KB, for the balancer `rps`",
    ),
    plain("prr", "`tcp` that changes its path after each timeout"),
    plain(
        "plb",
        "`dctcp` that changes its path after sustained congestion",
    ),
    plain(
        "flowbender",
        "`dctcp` that changes its path after a round trip with marks",
    ),
    plain(
        "reps",
        "`rack` with DCTCP that sprays packets over paths without marks",
    ),
    family(
        "oracle",
        "MPTCP that learns of each drop at once and repeats it without loss",
        "`oracle` with N subflows",
    ),
];

fn numbered(name: &str) -> Option<(Config, Vec<&'static str>)> {
    let numbered = name.rsplit_once('-').and_then(|(family, n)| {
        let count = (1..=8).find(|k| k.to_string() == n)?;
        Some((family, count))
    });
    let (family, count) = numbered.unwrap_or((
        name,
        match name {
            "cofuso" => COFUSO_SUBFLOWS,
            "cofuso-xor" => COFUSO_XOR_SUBFLOWS,
            _ => SUBFLOWS,
        },
    ));
    match family {
        "mptcp" => Some((mptcp(count), MPTCP_PARTS.to_vec())),
        "mptcp-ecf" => Some((scheduled(count, Ecf::default()), ECF_PARTS.to_vec())),
        "mptcp-blest" => Some((scheduled(count, Blest), BLEST_PARTS.to_vec())),
        "mptcp-dems" => Some((scheduled(count, Dems::default()), DEMS_PARTS.to_vec())),
        "fuso" => Some((fuso(count), FUSO_PARTS.to_vec())),
        "fuso-unmodified" => Some((fuso_unmodified(count), FUSO_UNMODIFIED_PARTS.to_vec())),
        "cofuso" => Some((cofuso(count, CoFuso::SIMULATION), COFUSO_PARTS.to_vec())),
        "cofuso-xor" => Some((cofuso(count, CoFuso::TESTBED), COFUSO_XOR_PARTS.to_vec())),
        "oracle" => Some((oracle(count), ORACLE_PARTS.to_vec())),
        _ => None,
    }
}

/// `mptcp` with another scheduler.
fn scheduled(subflows: usize, scheduler: impl SchedulerFactory + 'static) -> Config {
    let mut c = mptcp(subflows);
    if let Some(m) = &mut c.multipath {
        m.scheduler = Arc::new(scheduler);
    }
    c
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
    c.congestion = Arc::new(Dctcp);
    c.tcp.ecn = EcnMode::Dctcp;
    (
        c,
        vec![
            TCP_PARTS[0],
            "congestion control: DCTCP (RFC 8257) with its exact echo of marks",
        ],
    )
}

/// TLT over DCTCP, one of the transports that its paper augments (Lim et al., EuroSys 2021).
fn tlt() -> (Config, Vec<&'static str>) {
    let (mut c, mut parts) = dctcp();
    c.stage = Some(Arc::new(important::Settings::default()));
    parts.push(variants::TLT);
    parts.push("switches need the queue discipline `two-thresholds` (mechanisms A8.3)");
    (c, parts)
}

fn tlp() -> (Config, Vec<&'static str>) {
    let mut c = tcp();
    c.loss.tail_loss_probe = Some(PROBE);
    let mut parts = TCP_PARTS.to_vec();
    parts.push("tail loss probe after 2 smoothed RTTs without an acknowledgement (FUSO section 5.1; CoFUSO section 6.2.1 calls it Reactive; RFC 8985, section 7)");
    parts.push("the probe: new data if there are any, else the last segment again; one an episode (mechanisms A5.3)");
    (c, parts)
}

fn tcp_ir(settings: TcpIr) -> (Config, Vec<&'static str>) {
    let mut c = tcp();
    c.recovery = Some(Arc::new(settings));
    let mut parts = TCP_PARTS.to_vec();
    parts.push(match settings.bins_per_rtt {
        2 => "a coded packet, XOR, for the packets of each time bin of 1/2 RTT, 1/4 RTT after it; 16 packets a block at most (FUSO section 5.1)",
        _ => "a coded packet, XOR, for the packets of each time bin of 1/4 RTT, 1/4 RTT after it; 16 packets a block at most (CoFUSO section 6.2.1)",
    });
    parts.push("it is outside cwnd and repairs one loss of its block; the answer to it tells what was found: a repaired loss reduces the window once, losses beyond repair begin fast recovery at once (it is a probe; mechanisms A5.4)");
    parts.push("agreed on in the handshake by an experimental option (RFC 6994), else not sent; data segments are 16 bytes shorter to leave it room");
    (c, parts)
}

/// MPTCP with reinjection by age.
fn deadline_reinjection() -> Config {
    let mut config = mptcp(SUBFLOWS);
    if let Some(m) = &mut config.multipath {
        m.early_dsn_delivery = true;
    }
    config.recovery = Some(Arc::new(DeadlineReinjection::default()));
    config
}

/// The oracle's retransmission timer is only for paths that no longer exist. A queue that grows is not a loss,
/// and queues do grow, because repairs fill them and reduce no window (our choice: the least timeout of today's
/// kernels).
const ORACLE_TIMER: Duration = Duration::from_millis(200);

/// The bound: senders infer no loss from duplicate ACKs, because these report each hole until its repair, which
/// has long been in flight, arrives.
fn oracle(subflows: usize) -> Config {
    let mut config = fuso(subflows);
    config.loss = LossConfig {
        dupack_threshold: u32::MAX,
        early_retransmit: false,
        least_timer: Some(ORACLE_TIMER),
        ..config.loss
    };
    if let Some(m) = &mut config.multipath {
        m.opportunistic_retransmission = false;
    }
    config.recovery = Some(Arc::new(Oracle));
    config
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
    c.recovery = Some(Arc::new(Proactive::default()));
    let mut parts = TCP_PARTS.to_vec();
    parts
        .push("every data segment twice on the same path, the copy outside cwnd (mechanisms A5.5)");
    (c, parts)
}

/// MPTCP as in today's Linux kernel: reinjection on the connection timer over an idle subflow, and uncoupled
/// congestion control.
fn mptcp_linux() -> (Config, Vec<&'static str>) {
    let mut c = mptcp(SUBFLOWS);
    c.congestion = Arc::new(Cubic);
    c.loss = LossConfig {
        rack: true,
        prr: true,
        tail_loss_probe: Some(PROBE),
        flight: ReductionBase::CongestionWindow,
        ..LossConfig::default()
    };
    if let Some(m) = &mut c.multipath {
        m.scheduler = Arc::new(Linger);
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
        for name in PRESETS.iter().map(|p| p.name) {
            assert!(preset(name).is_some(), "{name}");
        }
        for n in 1..=8 {
            for family in [
                "mptcp-ecf",
                "mptcp-blest",
                "mptcp-dems",
                "fuso",
                "fuso-unmodified",
                "cofuso",
                "cofuso-xor",
                "oracle",
            ] {
                assert_eq!(
                    preset(&format!("{family}-{n}")).map(|p| p.config.planned_subflows()),
                    Some(n)
                );
            }
        }
        for bad in ["fuso-0", "fuso-9", "fuso-04", "tcp-2", "quic", ""] {
            assert!(preset(bad).is_none(), "{bad}");
        }
        let names: Vec<String> = preset_names().collect();
        for p in PRESETS {
            let prefix = format!("{}-", p.name);
            let number = |n: &String| {
                n.strip_prefix(&prefix)
                    .is_some_and(|n| n.parse::<u32>().is_ok())
            };
            assert_eq!(names.iter().any(number), p.numbered.is_some(), "{}", p.name);
        }
        assert_eq!(names.len(), PRESETS.len() + 9 * 8 + FIXED_RATES.len());
        assert!(
            scattered::NAMES
                .iter()
                .chain(&coded::NAMES)
                .chain(&published::NAMES)
                .chain(&labelled::NAMES)
                .chain(&[spindle::NAME])
                .all(|name| names.iter().any(|n| n == name))
        );
        assert!(names.iter().all(|name| preset(name).is_some()));
    }

    #[test]
    fn default_transport_is_a_preset_that_detects_loss_by_time() {
        let default = preset(DEFAULT_TRANSPORT).expect("there");
        assert_eq!(default.name, DEFAULT_TRANSPORT);
        assert!(default.config.loss.rack && default.config.recovery.is_some());
        for bad in ["fuso+", "+rack", "tcp+roundrobin", "fuso+what"] {
            assert!(preset(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn fixed_rates_are_those_of_the_paper() {
        for (name, same) in [
            ("cofuso-fixed-1", "fixed-1"),
            ("cofuso-fixed-2", "fixed-2"),
            ("cofuso-fixed-4", "fixed-4"),
            ("cofuso-fixed", "fixed-4"),
            ("cofuso-fixed-8", "fixed-8"),
            ("cofuso-fixed-16", "fixed-16"),
            ("cofuso-fixed-32", "fixed-32"),
        ] {
            let base = preset("cofuso").expect("there").config;
            let varied = variant(same).and_then(|v| v.apply(base)).expect("applies");
            let config = preset(name).expect(name).config;
            assert_eq!(format!("{config:?}"), format!("{varied:?}"), "{name}");
            assert_eq!(config.planned_subflows(), 5);
        }
        for bad in [
            "cofuso-fixed-3",
            "cofuso-fixed-04",
            "cofuso-fixed-",
            "cofuso-fixed-100",
        ] {
            assert!(preset(bad).is_none(), "{bad}");
        }
    }
}
