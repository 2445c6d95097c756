//! A balancer that sends each packet to the port that will be free first.

use spindle_fabric::{Balancer, Hop, SwitchInfo, mix};

/// The balancer in one line.
pub const SUMMARY: &str = "each packet takes the port with the shortest queue";

/// Chooses the port with the shortest queue. Among equal ports it chooses the first one from the position of
/// the flow's hash, so a flow keeps its path as long as queues are empty.
#[derive(Debug)]
pub struct ShortestQueue {
    salt: u64,
}

impl ShortestQueue {
    pub fn new(switch: &SwitchInfo) -> Self {
        Self {
            salt: switch.salt(),
        }
    }
}

impl Balancer for ShortestQueue {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        let n = hop.ports.len();
        let first = (mix(hop.flow_hash ^ self.salt) % n as u64) as usize;
        (0..n)
            .map(|i| (first + i) % n)
            .min_by_key(|choice| hop.ports.backlog(*choice))
            .unwrap_or(first)
    }
}
