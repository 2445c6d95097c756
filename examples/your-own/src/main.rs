//! Spindle's command line with a custom recovery policy, balancer and topology. The page
//! `docs/tutorials/your-own-scheme.md` explains it.

mod balancer;
mod recovery;
mod topology;

use std::process::ExitCode;
use std::sync::Arc;

use spindle::Registry;
use spindle_fabric::Balancing;
use spindle_mptcp::{Config, preset};

use balancer::ShortestQueue;
use recovery::Late;

/// Spindle's `mptcp` preset, with `Late` as its recovery. Like FUSO's receiver, its receiver delivers data that
/// are in order at the data level only.
fn late() -> Config {
    let mut config = preset("mptcp").map(|p| p.config).unwrap_or_default();
    if let Some(multipath) = &mut config.multipath {
        multipath.early_dsn_delivery = true;
    }
    config.recovery = Some(Arc::new(Late::default()));
    config
}

fn main() -> ExitCode {
    let parts = vec![
        "all of `mptcp`, with FUSO's receiver".to_owned(),
        "what is not acknowledged after 5/4 of its subflow's round-trip time is copied over the fastest other".to_owned(),
    ];
    let registry = Registry::standard()
        .transport("late", parts, late)
        .balancer("shortest-queue", balancer::SUMMARY, || {
            Balancing::custom("shortest-queue", |switch| {
                Box::new(ShortestQueue::new(switch))
            })
        })
        .topology("planes", topology::planes);
    spindle::cli(registry)
}
