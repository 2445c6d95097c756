//! Transfers from host to host: long transfers that last until the end, and short transfers at the same time
//! (MMPTCP section 3, mechanisms T8).

use spindle_units::Duration;

use super::{Plan, PlanError, PlannedFlow, Start, numbers, other};
use crate::rng::{Purpose, Stream, Streams};
use crate::scenario::{TrafficMatrix, TransferArrivals, Transfers};

/// Long transfers start at random times within this interval, so that they are not synchronised (our choice).
pub(super) const ONSET: Duration = Duration::from_millis(10);

/// Bytes of a transfer that lasts until the end: more than any link can carry.
pub(super) const ENDLESS: u64 = 1 << 50;

/// Plans the transfers between `t`'s hosts.
pub(super) fn transfers(
    t: &Transfers,
    hosts: &[String],
    streams: &Streams,
) -> Result<Plan, PlanError> {
    let members = numbers(&t.hosts, hosts)?;
    let mut pairs = streams.stream(Purpose::Pairs, 0);
    let order = shuffled(members.len(), &mut pairs);
    let long = (t.long * members.len() as f64).round() as usize;
    let (long, short) = order.split_at(long.min(order.len()));
    let partners = partners(t.matrix, members.len(), &mut pairs);
    let to = |from: usize, pairs: &mut Stream| match &partners {
        Some(partners) => partners[from],
        None => other(Some(from), members.len(), pairs),
    };
    let mut gaps = streams.stream(Purpose::Arrivals, 0);
    let mut flows = Vec::new();
    for &from in long {
        let start = gaps.below(ONSET.as_nanos());
        flows.push(PlannedFlow {
            background: true,
            ..flow(
                Duration::from_nanos(start),
                (members[from], members[to(from, &mut pairs)]),
                ENDLESS,
            )
        });
    }
    let mut sizes = streams.stream(Purpose::Sizes, 0);
    match t.coming {
        TransferArrivals::Poisson(rate) => {
            let mut at = Duration::ZERO;
            while rate > 0.0 && !short.is_empty() {
                at += Duration::from_secs_f64(gaps.exponential(1.0 / rate));
                if at >= t.duration {
                    break;
                }
                let from = short[pairs.below(short.len() as u64) as usize];
                let ends = (members[from], members[to(from, &mut pairs)]);
                flows.push(flow(at, ends, t.sizes.sample(&mut sizes)));
            }
        }
        TransferArrivals::Together { senders, every } => {
            let mut at = every;
            while at < t.duration {
                let drawn = shuffled(members.len(), &mut pairs);
                let (sink, sources) = (drawn[0], &drawn[1..]);
                for from in &sources[..sources.len().min(senders as usize)] {
                    let ends = (members[*from], members[sink]);
                    flows.push(flow(at, ends, t.sizes.sample(&mut sizes)));
                }
                at += every;
            }
        }
    }
    flows.sort_by_key(|f| match f.start {
        Start::At(at) | Start::After(at) => at,
    });
    for (n, flow) in flows.iter_mut().enumerate() {
        flow.group = n as u32;
    }
    Ok(Plan {
        ask: t.ask,
        ends: Some(t.duration),
        push: true,
        observe: t.observe,
        flows,
        ..Plan::default()
    })
}

/// A flow over its own connection.
pub(super) fn flow(at: Duration, (client, server): (u32, u32), bytes: u64) -> PlannedFlow {
    PlannedFlow {
        start: Start::At(at),
        client,
        server,
        bytes,
        connection: None,
        group: 0,
        background: false,
        counted: true,
        disjoint: false,
    }
}

/// The numbers 0 to `n - 1` in a uniformly random order (Fisher and Yates).
fn shuffled(n: usize, rng: &mut Stream) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for last in (1..n).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    order
}

/// The receiver of each host. `None` if the receiver is drawn for each transfer.
fn partners(matrix: TrafficMatrix, hosts: usize, rng: &mut Stream) -> Option<Vec<usize>> {
    match matrix {
        TrafficMatrix::Random => None,
        TrafficMatrix::Stride(by) => Some((0..hosts).map(|h| (h + by as usize) % hosts).collect()),
        TrafficMatrix::Permutation => {
            // A cycle through all hosts in random order. No host sends to itself, and each host has one sender.
            let order = shuffled(hosts, rng);
            let mut to = vec![0; hosts];
            for (k, from) in order.iter().enumerate() {
                to[*from] = order[(k + 1) % hosts];
            }
            Some(to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Ask, Observe};
    use crate::workload::{SizeSampler, Sizes};

    fn hosts(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("h{i}")).collect()
    }

    fn plan(matrix: TrafficMatrix, coming: TransferArrivals) -> Plan {
        let t = Transfers {
            hosts: hosts(30),
            long: 1.0 / 3.0,
            matrix,
            coming,
            ask: Ask::default(),
            sizes: SizeSampler::new(Sizes::Fixed(70_000), None).unwrap(),
            duration: Duration::from_secs(2),
            background: None,
            observe: Observe::default(),
        };
        transfers(&t, &hosts(30), &Streams::new(1, 0)).unwrap()
    }

    #[test]
    fn a_third_of_the_hosts_send_long_transfers_and_the_others_short_ones() {
        let plan = plan(TrafficMatrix::Permutation, TransferArrivals::Poisson(256.0));
        let long: Vec<_> = plan.flows.iter().filter(|f| f.background).collect();
        assert_eq!(long.len(), 10);
        let short: Vec<_> = plan.flows.iter().filter(|f| !f.background).collect();
        assert!((450..580).contains(&short.len()), "{}", short.len());
        for s in &short {
            assert!(s.bytes == 70_000 && long.iter().all(|l| l.client != s.client));
        }
        // Each host has one receiver and one sender, for long and short transfers alike.
        let mut to = std::collections::HashMap::new();
        for f in &plan.flows {
            assert_ne!(f.client, f.server);
            assert_eq!(*to.entry(f.client).or_insert(f.server), f.server);
        }
        let mut sinks: Vec<u32> = to.values().copied().collect();
        sinks.sort_unstable();
        sinks.dedup();
        assert_eq!(sinks.len(), to.len());
        let starts = plan.flows.iter().map(|f| f.start);
        let at: Vec<Duration> = starts
            .map(|s| match s {
                Start::At(at) | Start::After(at) => at,
            })
            .collect();
        assert!(at.is_sorted() && at.last().is_some_and(|t| *t < Duration::from_secs(2)));
    }

    #[test]
    fn stride_and_incast_transfers_have_the_configured_ends() {
        let stride = plan(TrafficMatrix::Stride(15), TransferArrivals::Poisson(100.0));
        assert!(
            stride
                .flows
                .iter()
                .all(|f| f.server == (f.client + 15) % 30)
        );
        let incast = plan(
            TrafficMatrix::Random,
            TransferArrivals::Together {
                senders: 20,
                every: Duration::from_millis(500),
            },
        );
        let short: Vec<_> = incast.flows.iter().filter(|f| !f.background).collect();
        assert_eq!(short.len(), 3 * 20, "at 0.5, 1 and 1.5 s");
        for round in short.chunks(20) {
            assert!(round.iter().all(|f| f.server == round[0].server));
            let mut from: Vec<u32> = round.iter().map(|f| f.client).collect();
            from.sort_unstable();
            from.dedup();
            assert_eq!(from.len(), 20);
        }
    }
}
