//! `incast`: all servers respond to one client at once, round after round.

use std::sync::Arc;

use spindle_units::Duration;

use super::plan::{Role, numbers};
use super::read::{count, host_known, hosts};
use super::{
    Plan, PlanError, PlanRequest, PlannedFlow, Result, Start, Traffic, TrafficKind, TrafficPlace,
};
use crate::catalog::Catalog;
use crate::document::{Section, Size};

/// Synchronised responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Incast {
    /// The host that sends the requests.
    pub client: String,
    /// Hosts that respond. They are used in turn until `fanout` responses are requested.
    pub servers: Vec<String>,
    /// Responses per round.
    pub fanout: u32,
    /// Bytes of a response.
    pub response: u64,
    /// Bytes of a request.
    pub request: u64,
    /// Connection warm-up as in [`Connections::Persistent`](super::Connections::Persistent).
    pub warm_up: u64,
    /// Idle time before each round.
    pub idle: Duration,
    /// Rounds per transport and seed.
    pub rounds: u64,
}

impl Traffic for Incast {
    fn flows(&self) -> u64 {
        self.rounds
    }

    fn size(&self) -> String {
        format!("{} rounds", self.rounds)
    }

    fn plan(&self, request: &PlanRequest<'_>) -> std::result::Result<Plan, PlanError> {
        incast(self, request.hosts, request.share(self.rounds))
    }
}

fn incast(i: &Incast, hosts: &[String], rounds: u64) -> std::result::Result<Plan, PlanError> {
    let client = numbers(std::slice::from_ref(&i.client), hosts)?[0];
    let servers = numbers(&i.servers, hosts)?;
    let connections: Vec<(u32, u32)> = (0..i.fanout as usize)
        .map(|n| (client, servers[n % servers.len()]))
        .collect();
    let mut flows = Vec::new();
    for round in 0..rounds {
        flows.extend(
            connections
                .iter()
                .enumerate()
                .map(|(n, (client, server))| PlannedFlow {
                    role: Role::Measured,
                    counted: true,
                    disjoint: false,
                    start: Start::After(i.idle),
                    client: *client,
                    server: *server,
                    bytes: i.response,
                    connection: Some(n as u32),
                    group: round as u32,
                }),
        );
    }
    Ok(Plan {
        foreground: connections.len() as u32,
        connections,
        warm_up: i.warm_up,
        idle: i.idle,
        request: i.request,
        flows,
        ..Plan::default()
    })
}

struct Kind;

impl TrafficKind for Kind {
    fn read(&self, s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Arc<dyn Traffic>> {
        let network = place.network;
        let client: String = s.need("client")?;
        host_known(s, "client", &client, network)?;
        let servers = hosts(s, "servers", network)?;
        if servers.contains(&client) {
            return Err(s.error(
                "servers",
                format!("{client} is the client, want other hosts"),
            ));
        }
        let fanout: u32 = s.or("fanout", servers.len() as u32)?;
        let response = s.or("response", Size(64_000))?.0;
        if fanout == 0 || response == 0 {
            let key = if fanout == 0 { "fanout" } else { "response" };
            return Err(s.error(key, "found 0, want more"));
        }
        Ok(Arc::new(Incast {
            client,
            servers,
            fanout,
            response,
            request: s.or("request", Size(100))?.0.max(1),
            warm_up: s.or("warm_up", Size(100_000))?.0,
            idle: s.or("idle", Duration::from_millis(500))?,
            rounds: count(s, "rounds", 100)?,
        }))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TrafficKind>) {
    let summary = "all servers respond to one client at once, round after round";
    catalog.add("incast", summary, Arc::new(Kind));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Vec<String> {
        (1..=6).map(|i| format!("H{i}")).collect()
    }

    #[test]
    fn flows_of_an_incast_round_form_a_group() {
        let i = Incast {
            client: "H1".to_owned(),
            servers: hosts()[1..3].to_vec(),
            fanout: 5,
            response: 64_000,
            request: 100,
            warm_up: 0,
            idle: Duration::from_millis(5),
            rounds: 3,
        };
        let p = incast(&i, &hosts(), 3).unwrap();
        assert_eq!((p.connections.len(), p.flows.len()), (5, 15));
        assert_eq!(p.flows.iter().filter(|f| f.group == 1).count(), 5);
        let e = incast(
            &Incast {
                client: "H9".to_owned(),
                ..i
            },
            &hosts(),
            1,
        )
        .unwrap_err();
        assert!(e.to_string().contains("\"H9\""));
    }
}
