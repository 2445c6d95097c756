//! Bystanders: a share of the flows that uses another transport in the same network.
//!
//! With the same flows under every transport, their completion times show what a transport does to others (harm), and
//! what a deployment on a part of the hosts gains. Which flows are bystanders is drawn for each run and does not
//! depend on the transport under test.

use std::fmt;

use crate::document::{ExperimentError, Section, Share};
use crate::rng::{Purpose, Streams};
use crate::traffic::{Plan, PlanError, Role};
use crate::transport_name::KnownTransports;

/// The table's name, and what the metrics of bystanders need.
pub(crate) const BYSTANDERS: &str = "bystanders";

/// The table `[bystanders]` of an experiment file.
#[derive(Clone, Debug, PartialEq)]
pub struct Bystanders {
    /// The name of their transport.
    pub transport: String,
    /// The share of flows that are bystanders, 0 to 1.
    pub share: f64,
}

/// The place of a flow's draw in the stream of draws.
#[derive(Clone, Copy)]
enum Place {
    /// All flows of a persistent connection share it.
    Connection(u32),
    /// All flows that are measured as one share it.
    Group(u32),
}

impl Place {
    fn index(self) -> u64 {
        match self {
            Self::Connection(c) => 1 << 32 | u64::from(c),
            Self::Group(g) => u64::from(g),
        }
    }
}

impl fmt::Display for Bystanders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = crate::units::percent(self.share);
        write!(f, "{share} of the flows by {}", self.transport)
    }
}

impl Bystanders {
    /// Reads the table.
    ///
    /// # Errors
    /// If a key is missing, unknown or out of range, or if there is no such transport.
    pub fn read(s: Section<'_>, transports: KnownTransports<'_>) -> Result<Self, ExperimentError> {
        let transport: String = s.need("transport")?;
        if let Some(node) = s.node("transport").filter(|_| !transports.has(&transport)) {
            let names = transports.names.iter().map(String::as_str);
            return Err(s.unknown("transport", node, names));
        }
        let share = s.need::<Share>("share")?.0;
        s.finish()?;
        Ok(Self { transport, share })
    }

    /// Draws which flows of the plan are bystanders. Background traffic is never one. A flow on a persistent connection
    /// is one if its connection is.
    ///
    /// # Errors
    /// [`PlanError::PartOfGroup`] if only a part of the flows that are measured as one were bystanders.
    pub(crate) fn draw(&self, plan: &mut Plan, streams: &Streams) -> Result<(), PlanError> {
        let mut roles: Vec<Option<Role>> = Vec::new();
        for flow in plan.flows.iter_mut().filter(|f| !f.is_background()) {
            let place = match flow.connection {
                Some(c) => Place::Connection(c),
                None => Place::Group(flow.group),
            };
            let drawn = streams.stream(Purpose::Bystanders, place.index()).unit();
            if drawn < self.share {
                flow.role = Role::Bystander;
            }
            let group = flow.group as usize;
            if roles.len() <= group {
                roles.resize(group + 1, None);
            }
            if *roles[group].get_or_insert(flow.role) != flow.role {
                return Err(PlanError::PartOfGroup);
            }
        }
        plan.bystander_transport = Some(self.transport.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use spindle_units::Duration;

    use super::*;
    use crate::traffic::{PlannedFlow, flow};

    fn plan(of: impl Fn(u32) -> PlannedFlow) -> Plan {
        Plan {
            flows: (0..1000).map(of).collect(),
            ..Plan::default()
        }
    }

    fn drawn(share: f64, plan: Plan, seed: u64) -> Result<Plan, PlanError> {
        let bystanders = Bystanders {
            transport: "tcp".to_owned(),
            share,
        };
        let mut plan = plan;
        bystanders.draw(&mut plan, &Streams::new(seed, 0))?;
        Ok(plan)
    }

    fn single(n: u32) -> PlannedFlow {
        PlannedFlow {
            group: n,
            role: Role::background_if(n.is_multiple_of(4)),
            ..flow(Duration::ZERO, (0, 1), 1000)
        }
    }

    #[test]
    fn share_of_the_flows_that_are_not_background_are_bystanders() {
        let count = |share| {
            let plan = drawn(share, plan(single), 1).unwrap();
            assert_eq!(plan.flows.iter().filter(|f| f.is_background()).count(), 250);
            let bystanders = plan.flows.iter().filter(|f| f.role == Role::Bystander);
            bystanders.count()
        };
        assert_eq!(count(0.0), 0);
        assert_eq!(count(1.0), 750);
        assert!((330..=420).contains(&count(0.5)), "{}", count(0.5));
    }

    #[test]
    fn flow_that_is_a_bystander_stays_one_at_a_larger_share() {
        let [few, many] = [0.1, 0.9].map(|share| drawn(share, plan(single), 3).unwrap());
        let pairs = few.flows.iter().zip(&many.flows);
        assert!(
            pairs
                .filter(|(a, _)| a.role == Role::Bystander)
                .all(|(_, b)| b.role == Role::Bystander)
        );
        assert_eq!(few.bystander_transport.as_deref(), Some("tcp"));
    }

    #[test]
    fn flows_of_a_persistent_connection_are_all_bystanders_or_none() {
        let on = |n: u32| PlannedFlow {
            connection: Some(n % 10),
            ..single(2 * n + 1)
        };
        let plan = drawn(0.5, plan(on), 5).unwrap();
        for (i, flow) in plan.flows.iter().enumerate() {
            assert_eq!(flow.role, plan.flows[i % 10].role);
        }
    }

    #[test]
    fn flows_that_are_measured_as_one_cannot_be_split() {
        let round = |n: u32| PlannedFlow {
            connection: Some(n % 10),
            group: n / 10,
            ..single(1)
        };
        assert_eq!(drawn(0.5, plan(round), 5), Err(PlanError::PartOfGroup));
        assert!(drawn(1.0, plan(round), 5).is_ok());
    }
}
