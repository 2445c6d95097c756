//! What is observed of each flow.

/// What is observed of each flow in addition to its time. Each item costs memory or processing of each segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// What proactive recovery sent, what it achieved, and how much room windows left.
    pub recovery: bool,
    /// The flow's size.
    pub sizes: bool,
    /// How many retransmission timers fired for the flow, and how often it entered fast recovery.
    pub timers: bool,
    /// How busy the network's links were, and what their queues dropped.
    pub links: bool,
    /// How many data packets hosts sent and how many were dropped, separately for packets marked as short
    /// flows'.
    pub packets: bool,
    /// How long data packets waited, which ones were overtaken, and which paths short flows left unused.
    pub paths: bool,
    /// How much data applications received over the network's links.
    pub goodput: bool,
    /// What coding sent, and what it estimated about the paths.
    pub coding: bool,
    /// Congestion windows of the senders.
    pub windows: bool,
}

impl Observe {
    /// Names in experiment files of what can be observed.
    pub const NAMES: [&'static str; 9] = [
        "recovery", "sizes", "timers", "links", "packets", "paths", "goodput", "coding", "windows",
    ];

    /// Whether the item with this name is observed.
    pub fn has(self, name: &str) -> bool {
        match name {
            "recovery" => self.recovery,
            "sizes" => self.sizes,
            "timers" => self.timers,
            "links" => self.links,
            "packets" => self.packets,
            "paths" => self.paths,
            "goodput" => self.goodput,
            "coding" => self.coding,
            "windows" => self.windows,
            _ => false,
        }
    }
}
