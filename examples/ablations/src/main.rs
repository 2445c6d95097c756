//! Variants of the presets with one choice changed in each, to measure the effect of that choice:
//!
//! ```text
//! cargo run --release -- compare --transports tcp,tlp,tlp-floor,mptcp,mptcp-early,fuso,fuso-held
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use spindle::Registry;
use spindle_mptcp::congestion::Reno;
use spindle_mptcp::recovery::{Fuso, PathMetric};
use spindle_mptcp::scheduler::RoundRobin;
use spindle_mptcp::{Config, MultipathConfig, preset};
use spindle_units::Duration;

fn of(name: &str) -> Config {
    preset(name).map(|p| p.config).unwrap_or_default()
}

fn multipath(name: &str, change: impl Fn(&mut MultipathConfig)) -> Config {
    let mut config = of(name);
    if let Some(m) = &mut config.multipath {
        change(m);
    }
    config
}

/// The probe timer is at least 10 ms, as in the kernel of the FUSO testbed (Linux 3.18).
fn tlp_floor() -> Config {
    let mut config = of("tlp");
    if let Some(probe) = &mut config.loss.tail_loss_probe {
        probe.floor = Duration::from_millis(10);
    }
    config
}

/// Both terms of the path metric have weight 1, as in the authors' code.
fn fuso_weights() -> Config {
    let mut config = of("fuso");
    let metric = PathMetric {
        alpha: 1.0,
        beta: 1.0,
        ..PathMetric::default()
    };
    config.recovery = Some(Arc::new(Fuso {
        metric,
        ..Fuso::default()
    }));
    config
}

/// Each subflow has its own congestion control, like a separate TCP connection.
fn mptcp_uncoupled() -> Config {
    Config {
        congestion: Arc::new(Reno),
        ..of("mptcp")
    }
}

fn main() -> ExitCode {
    let says = |text: &str| vec![text.to_owned()];
    let registry = Registry::standard()
        .transport(
            "tlp-floor",
            says("`tlp`, probe timer at least 10 ms"),
            tlp_floor,
        )
        .transport(
            "mptcp-early",
            says("`mptcp` with FUSO's receiver (early_dsn_delivery)"),
            || multipath("mptcp", |m| m.early_dsn_delivery = true),
        )
        .transport(
            "mptcp-uncoupled",
            says("`mptcp` with Reno on each subflow"),
            mptcp_uncoupled,
        )
        .transport(
            "mptcp-rr",
            says("`mptcp` with the round-robin scheduler"),
            || multipath("mptcp", |m| m.scheduler = Arc::new(RoundRobin)),
        )
        .transport(
            "fuso-held",
            says("`fuso` with a receiver that holds what is out of order in its subflow"),
            || multipath("fuso", |m| m.early_dsn_delivery = false),
        )
        .transport(
            "fuso-rr",
            says("`fuso` with the round-robin scheduler"),
            || multipath("fuso", |m| m.scheduler = Arc::new(RoundRobin)),
        )
        .transport(
            "fuso-weights",
            says("`fuso` with both weights of the path metric 1, as in the authors' code"),
            fuso_weights,
        );
    spindle::cli(registry)
}
