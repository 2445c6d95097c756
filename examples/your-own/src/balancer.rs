//! A balancer: each packet takes the port that will be free first.

use spindle_fabric::{Balancer, Hop, SwitchInfo, mix};

/// The port with the shortest queue; of equal ones the first from where the flow's hash points, so
/// that a flow keeps its path as long as nothing queues.
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
