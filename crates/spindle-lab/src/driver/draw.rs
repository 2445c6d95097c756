//! Draws what differs from run to run: lossy links and hotspots.

use spindle_experiment::loss_models::bernoulli;
use spindle_experiment::metrics::LossyCable;
use spindle_experiment::network::{candidates, links, switches_among};
use spindle_experiment::rng::{Purpose, Streams};
use spindle_experiment::scenario::{Hotspots, Loss};
use spindle_fabric::{LinkId, Loss as LinkLoss, Network, NetworkError};

use super::RunError;

/// Links that lose packets from the start of the measurement on, and the cables that were drawn.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    pub(crate) links: Vec<(LinkId, LinkLoss)>,
    pub(crate) cables: Vec<LossyCable>,
}

/// Draws the run's lossy links.
///
/// # Errors
/// If a loss matches no link.
pub(crate) fn draw_lossy_links(
    network: &Network,
    losses: &[Loss],
    streams: &Streams,
) -> Result<Drawn, NetworkError> {
    let mut drawn = Drawn::default();
    for (index, loss) in losses.iter().enumerate() {
        let Some(lossy) = loss.model.lossy_links() else {
            continue;
        };
        let cables = candidates(network, &loss.on)?;
        let groups: Vec<&str> = cables
            .iter()
            .map(|c| network.cable(*c).group.as_str())
            .collect();
        let mut rng = streams.stream(Purpose::LossyLinks, index as u64);
        for link in lossy.draw(&groups, &mut rng) {
            let cable = network.cable(cables[link.cable]);
            let process = bernoulli(link.rate);
            let process = match loss.data_only {
                true => process.data_only(),
                false => process,
            };
            for id in links(network, &cable.name, loss.direction)? {
                drawn.links.push((id, process.clone()));
            }
            drawn.cables.push(LossyCable {
                cable: cable.name.clone(),
                group: cable.group.clone(),
                rate: link.rate,
            });
        }
    }
    Ok(drawn)
}

/// Draws switches for the run and shortens the queues of their own ports and of the ports that lead to them.
///
/// # Errors
/// If no such switches exist.
pub(crate) fn draw_hotspots(
    network: &mut Network,
    hotspots: &Hotspots,
    streams: &Streams,
) -> Result<(), RunError> {
    let mut among = switches_among(network, &hotspots.among)
        .map_err(|problem| RunError::Scenario(format!("hotspots.among: {problem}")))?;
    let mut rng = streams.stream(Purpose::Hotspots, 0);
    let count = (hotspots.share * among.len() as f64).round() as usize;
    for k in 0..count.min(among.len()) {
        let drawn = k + rng.below((among.len() - k) as u64) as usize;
        among.swap(k, drawn);
    }
    let hot = &among[..count.min(among.len())];
    let links: Vec<LinkId> = (0..network.links().len() as u32)
        .map(LinkId)
        .filter(|l| {
            let link = network.link(*l);
            hot.contains(&link.from) || hot.contains(&link.to)
        })
        .collect();
    let room = hotspots.buffer.port();
    network.configure(&links, |spec| spec.buffer = room)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use spindle_experiment::loss_models::DrawnLinks;
    use spindle_experiment::scenario::{Buffer, Direction};
    use spindle_experiment::workload::{LossRates, LossyLinks};
    use spindle_fabric::topology::{Dumbbell, FatTree};
    use spindle_units::Probability;

    /// CoFUSO section 6.2: 4 random links between the routers lose data on the path to H1-H10.
    #[test]
    fn lossy_links_of_the_mesh_lose_data_in_one_direction() {
        let network = spindle_fabric::topology::Mesh::default().build().unwrap();
        let loss = Loss {
            model: Arc::new(DrawnLinks(LossyLinks {
                links: 4,
                rates: LossRates::Same(0.15),
                locations: Vec::new(),
            })),
            on: vec!["mesh".to_owned()],
            direction: Direction::Backward,
            data_only: true,
        };
        let draw = |seed| {
            let streams = Streams::new(seed, 0);
            draw_lossy_links(&network, std::slice::from_ref(&loss), &streams).unwrap()
        };
        let drawn = draw(1);
        assert_eq!((drawn.cables.len(), drawn.links.len()), (4, 4));
        assert!(drawn.cables.iter().all(|c| c.group == "mesh"));
        // From R6-R9, the second end of each cable, to R2-R5.
        let names = drawn.links.iter().map(|(l, _)| network.link_name(*l));
        assert!(names.clone().all(|n| n.ends_with(".down")));
        assert!(
            drawn.links.iter().all(
                |(_, p)| *p == LinkLoss::bernoulli(Probability::new(0.15).unwrap()).data_only()
            )
        );
        let other = draw(2);
        let others = other.links.iter().map(|(l, _)| network.link_name(*l));
        assert!(!names.eq(others), "the same links for both seeds");
    }

    #[test]
    fn error_for_hotspots_without_switches_lists_name_prefixes() {
        let told = |network: &Network, among: &str| {
            let hotspots = Hotspots {
                share: 0.5,
                among: among.to_owned(),
                buffer: Buffer::Packets(5),
            };
            let drawn = draw_hotspots(&mut network.clone(), &hotspots, &Streams::new(1, 0));
            drawn.map_err(|e| e.to_string())
        };
        let tree = FatTree::reference(4).build().unwrap();
        assert_eq!(told(&tree, "core"), Ok(()));
        assert_eq!(told(&tree, "pod1.agg"), Ok(()));
        assert_eq!(
            told(&tree, "spine").unwrap_err(),
            "hotspots.among: no switch's name begins with \"spine\": they begin with core, pod"
        );
        let dumbbell = Dumbbell::default().build().unwrap();
        assert_eq!(
            told(&dumbbell, "core").unwrap_err(),
            "hotspots.among: no switch's name begins with \"core\": they begin with left, right"
        );
    }
}
