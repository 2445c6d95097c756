//! Ends of a network in memory.

use std::sync::Arc;

use spindle_mptcp::path_manager::PathManager;
use spindle_mptcp::{Config, preset};
use spindle_net::limits::Limits;
use spindle_net::{LinkKind, Network, NetworkConfig, memory, wire_config};

/// Connections of plain TCP.
pub(crate) fn config(paths: Arc<dyn PathManager>) -> Arc<Config> {
    let base = preset("tcp").expect("a preset");
    wire_config(base.config, LinkKind::Udp, &Limits::default(), paths).into()
}

pub(crate) fn network(link: memory::MemoryLink) -> Network {
    let config = NetworkConfig {
        stack: Limits::default().stack(Vec::new()),
        name: "test".to_owned(),
    };
    Network::start(config, Box::new(link)).expect("a data path")
}

/// Lets all tasks run that are able to.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
