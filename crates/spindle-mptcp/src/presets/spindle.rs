//! `spindle`: one transport for all networks (docs/spindle.md).

use std::sync::Arc;

use spindle_units::Duration;

use crate::config::{Config, MultipathConfig};
use crate::congestion::DelayBounded;
use crate::entropy::Reps;
use crate::path_manager::Passive;
use crate::recovery::PricedCopies;
use crate::scheduler::Earliest;
use crate::tcp_config::{BackOff, LossConfig, SlowStart, TailLossProbe, TcpConfig};

/// The name that [`preset`] knows.
pub(super) const NAME: &str = "spindle";

/// `bounded-back-off`. Five doublings leave a connection whose segments are all lost 1/32 of a segment for each
/// timeout (our choice, docs/spindle.md).
pub(super) const BOUNDED: BackOff = BackOff::Bounded { doublings: 5 };

/// `early-probe`. The margin is that of RACK's reordering window (RFC 8985, section 6.2: a quarter of the minimum RTT).
pub(super) const EARLY_PROBE: TailLossProbe = TailLossProbe {
    margin: Some(0.25),
    ..super::PROBE
};

const PARTS: &[&str] = &[
    "MPTCP (RFC 8684), one subflow for each address of the host; each with SACK, RACK-TLP (RFC 8985), PRR (RFC 6937), F-RTO, D-SACK undo",
    "congestion control: `delay-bounded`, each subflow by itself: a window bounded by the delay of the queue; a loss without a queue is no congestion; CUBIC (RFC 9438) among flows that fill the queue",
    "path entropy: `reps`, a flow label for each packet, so that switches spread a subflow over all paths",
    "SYN: from every address of the host, `raced-syn`; the first answer decides where the connection begins; twice at once if there is one address",
    "further subflows: opened together with the third ACK if the peer agrees, `early-join`",
    "scheduler: `earliest`, which may wait for the subflow over which data arrive first, expected repairs included",
    "recovery: `tail-parities`, late segments over another path, others and a parity of the last flight if the expected gain exceeds the price; at most 8 copies, and 4 % of segments or 8 % on paths that lose 5 % and more",
    "each subflow: the initial window counts segments without their options, and the last data may fill the rest of a window, `full-windows`",
    "each subflow: without new data, the tail loss probe a quarter of an RTT after the acknowledgement of the last segment is expected, `early-probe`",
    "each subflow: the retransmission timeout doubles at most 5 times, up to 1 s, once the handshake is complete, `bounded-back-off`",
    "receiver: early_dsn_delivery, out-of-order subflow data go up at once (FUSO section 4.1)",
];

/// The preset, if `name` is its name.
pub(super) fn preset(name: &str) -> Option<(Config, Vec<&'static str>)> {
    (name == NAME).then(|| (config(), PARTS.to_vec()))
}

fn config() -> Config {
    let (base, _) = super::rack();
    Config {
        congestion: Arc::new(DelayBounded::default()),
        entropy: Some(Arc::new(Reps::default())),
        recovery: Some(Arc::new(PricedCopies::with_parities())),
        multipath: Some(MultipathConfig {
            path_manager: Arc::new(Passive),
            scheduler: Arc::new(Earliest::default()),
            early_dsn_delivery: true,
            opportunistic_retransmission: false,
            syn_race: Some(Duration::ZERO),
            early_joins: true,
            ..MultipathConfig::default()
        }),
        loss: LossConfig {
            tail_loss_probe: Some(EARLY_PROBE),
            ..base.loss
        },
        tcp: TcpConfig {
            back_off: BOUNDED,
            slow_start: SlowStart {
                full_windows: true,
                ..base.tcp.slow_start
            },
            ..base.tcp
        },
        ..base
    }
}
