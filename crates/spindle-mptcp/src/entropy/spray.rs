//! Oblivious packet spraying.

use super::{Entropy, EntropyFactory, EntropyParameters, EntropyView, Feedback, LabelStream};

/// A random label for each packet, whatever happens to it: "spray". It needs loss detection that tolerates
/// reordering, such as RACK's.
///
/// Source: Dixit et al., "On the Impact of Packet Spraying in Data Center Networks", INFOCOM 2013, with the random
/// choice at the host and not at each switch.
#[derive(Clone, Copy, Debug)]
pub struct Spray;

impl EntropyFactory for Spray {
    fn name(&self) -> &str {
        "spray"
    }

    fn summary(&self) -> &str {
        "a random flow label for each packet (Dixit et al. 2013, at the host)"
    }

    fn build(&self, p: &EntropyParameters) -> Box<dyn Entropy> {
        Box::new(SprayPolicy(LabelStream::new(p.seed)))
    }
}

#[derive(Debug)]
struct SprayPolicy(LabelStream);

impl Entropy for SprayPolicy {
    fn next(&mut self, _: &EntropyView) -> u32 {
        self.0.draw()
    }

    fn feedback(&mut self, _: &EntropyView, _: u32, _: Feedback) {}
}

#[cfg(test)]
mod tests {
    use super::super::tests::{policy, view};
    use super::*;

    #[test]
    fn spray_draws_a_label_for_each_packet() {
        let mut p = policy(&Spray);
        let mut labels: Vec<_> = (0..100).map(|_| p.next(&view(0, 1, 1))).collect();
        labels.sort_unstable();
        labels.dedup();
        assert!(labels.len() > 98, "{}", labels.len());
    }
}
