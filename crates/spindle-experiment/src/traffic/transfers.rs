//! `transfers`: long transfers that last until the end, and short transfers at the same time (MMPTCP section 3,
//! mechanisms T8).

use std::sync::Arc;

use spindle_units::Duration;

use super::message::message;
use super::plan::{ENDLESS, ONSET, Role, apart, flow, numbers, other, sort_by_start};
use super::read::{hosts, matching, observe};
use super::{
    Ask, MessagePlan, Observe, OnlyInLab, Plan, PlanError, PlanRequest, PlannedFlow, Result,
    Traffic, TrafficKind, TrafficPlace,
};
use crate::catalog::Catalog;
use crate::document::{Section, Share};
use crate::rng::{Purpose, Stream, Streams};
use crate::workload::SizeSampler;

/// Transfers from host to host for a given time (MMPTCP section 3, mechanisms T8). Long transfers last until
/// the end and count as background. The others are short. Each transfer has its own connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfers {
    /// All hosts that take part.
    pub hosts: Vec<String>,
    /// Share of the hosts that send a long transfer and nothing else. These hosts are drawn for each run.
    pub long: f64,
    /// Which host each host sends to.
    pub matrix: TrafficMatrix,
    /// When short transfers start.
    pub coming: TransferArrivals,
    /// When their time begins: when the connection is opened, or once it is established.
    pub ask: Ask,
    /// Sizes of short transfers.
    pub sizes: SizeSampler,
    /// How long the transfers go on.
    pub duration: Duration,
    /// Name of the transport of the long transfers. If `None`, it is the transport under test.
    pub background: Option<String>,
    /// What is observed of each short transfer.
    pub observe: Observe,
    /// What senders say about their short transfers.
    pub message: Option<MessagePlan>,
}

/// Which host each host sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficMatrix {
    /// Each host sends to one other host, drawn for each run. No host has two senders.
    Permutation,
    /// The n-th host sends to the host this many positions after it.
    Stride(u32),
    /// The receiver is drawn for each transfer.
    Random,
}

/// When short transfers start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransferArrivals {
    /// This many per second in the whole network, one by one at random times, each from a host without a long
    /// transfer.
    Poisson(f64),
    /// Several at once to one host.
    Together {
        /// Number of hosts that send.
        senders: u32,
        /// Time between two such rounds, and before the first one.
        every: Duration,
        /// How often the receiver and the senders are drawn.
        draw: Draw,
    },
}

/// How often the receiver and the senders of [`TransferArrivals::Together`] are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// Once for each run. All rounds have the same receiver and the same senders (MMPTCP section 3.8).
    Once,
    /// Again for each round.
    #[default]
    EachRound,
}

impl Traffic for Transfers {
    fn size(&self) -> String {
        self.duration.to_string()
    }

    fn plan(&self, request: &PlanRequest<'_>) -> std::result::Result<Plan, PlanError> {
        transfers(self, request.hosts, request.streams)
    }

    fn observes(&self, what: &str) -> bool {
        self.observe.has(what)
    }

    fn at_load(&self, factor: f64) -> Option<Arc<dyn Traffic>> {
        let coming = match self.coming {
            TransferArrivals::Poisson(rate) => TransferArrivals::Poisson(rate * factor),
            TransferArrivals::Together {
                senders,
                every,
                draw,
            } => TransferArrivals::Together {
                senders,
                every: apart(every, factor),
                draw,
            },
        };
        Some(Arc::new(Self {
            coming,
            ..self.clone()
        }))
    }

    fn only_in_lab(&self) -> Option<OnlyInLab> {
        let remedy = "only the lab has them; want requests, incast or mix";
        Some(OnlyInLab::new("traffic", "transfers", remedy))
    }
}

/// Plans the transfers between `t`'s hosts.
fn transfers(
    t: &Transfers,
    hosts: &[String],
    streams: &Streams,
) -> std::result::Result<Plan, PlanError> {
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
            role: Role::Background,
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
        TransferArrivals::Together {
            senders,
            every,
            draw,
        } => {
            let mut drawn = Vec::new();
            let mut at = every;
            while at < t.duration {
                if drawn.is_empty() || draw == Draw::EachRound {
                    drawn = shuffled(members.len(), &mut pairs);
                }
                let (sink, sources) = (drawn[0], &drawn[1..]);
                for from in &sources[..sources.len().min(senders as usize)] {
                    let ends = (members[*from], members[sink]);
                    flows.push(flow(at, ends, t.sizes.sample(&mut sizes)));
                }
                at += every;
            }
        }
    }
    sort_by_start(&mut flows);
    Ok(Plan {
        ask: t.ask,
        ends: Some(t.duration),
        push: true,
        observe: t.observe,
        message: t.message,
        background_transport: t.background.clone(),
        flows,
        ..Plan::default()
    })
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

struct Kind;

impl TrafficKind for Kind {
    fn read(&self, s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Arc<dyn Traffic>> {
        Ok(Arc::new(read(s, place)?))
    }
}

fn read(s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Transfers> {
    let network = place.network;
    let hosts = match s.node("hosts") {
        Some(_) => hosts(s, "hosts", network)?,
        None => matching(s, "hosts", "all", network)?,
    };
    if hosts.len() < 2 {
        return Err(s.error("hosts", "found one host, want two or more"));
    }
    let kinds = [("permutation", 0), ("stride", 1), ("random", 2)];
    let matrix = match (s.choice("matrix", &kinds)?, s.get::<u32>("stride")?) {
        (Some(1), Some(by)) if !(by as usize).is_multiple_of(hosts.len()) => {
            TrafficMatrix::Stride(by)
        }
        (Some(1), Some(_)) => {
            let problem = "leads each host to itself, want another number";
            return Err(s.error("stride", problem));
        }
        (Some(1), None) => return Err(s.error("stride", "missing, want a number of hosts")),
        (_, Some(_)) => {
            return Err(s.error("stride", "has a meaning with matrix = \"stride\" only"));
        }
        (Some(2), None) => TrafficMatrix::Random,
        (_, None) => TrafficMatrix::Permutation,
    };
    let coming = arrivals(s, hosts.len())?;
    let background = place.background(s)?;
    let duration: Duration = s.need("duration")?;
    if duration == Duration::ZERO {
        return Err(s.error("duration", "found 0, want more"));
    }
    let ask = [("opening", Ask::Opening), ("at-once", Ask::AtOnce)];
    Ok(Transfers {
        ask: s.choice("ask", &ask)?.unwrap_or_default(),
        long: s.or("long", Share(0.0))?.0,
        matrix,
        coming,
        sizes: place.sizes(s)?,
        duration,
        background,
        observe: observe(s)?,
        message: message(s)?,
        hosts,
    })
}

/// When short transfers between `hosts` hosts start.
fn arrivals(s: &Section<'_>, hosts: usize) -> Result<TransferArrivals> {
    let draws = [("once", Draw::Once), ("each-round", Draw::EachRound)];
    let (rate, senders) = (s.get::<f64>("rate")?, s.get::<u32>("senders")?);
    let draw = s.choice("draw", &draws)?;
    match (rate, senders, draw) {
        (Some(_), Some(_), _) => {
            let problem = "given together with rate, want only one of them";
            Err(s.error("senders", problem))
        }
        (_, None, Some(_)) => Err(s.error("draw", "has a meaning with senders only")),
        (_, Some(senders), draw) => {
            let every: Duration = s.need("every")?;
            if senders == 0 || senders as usize >= hosts || every == Duration::ZERO {
                let problem = format!("want 1 to {} at once, at times apart", hosts - 1);
                return Err(s.error("senders", problem));
            }
            let draw = draw.unwrap_or_default();
            Ok(TransferArrivals::Together {
                senders,
                every,
                draw,
            })
        }
        (rate, None, None) => {
            let rate = rate.unwrap_or(0.0);
            if !(0.0..=1e9).contains(&rate) {
                let problem = format!("found {rate}, want transfers a second, 0 to 1e9");
                return Err(s.error("rate", problem));
            }
            Ok(TransferArrivals::Poisson(rate))
        }
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TrafficKind>) {
    let summary = "hosts send to hosts for a given time, some all the time (MMPTCP)";
    catalog.add("transfers", summary, Arc::new(Kind));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Overrides;
    use crate::library;
    use crate::registry::Registry;
    use crate::traffic::Start;
    use crate::workload::Sizes;

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
            message: None,
        };
        transfers(&t, &hosts(30), &Streams::new(1, 0)).unwrap()
    }

    /// Twenty senders every half a second.
    fn incast(draw: Draw) -> TransferArrivals {
        TransferArrivals::Together {
            senders: 20,
            every: Duration::from_millis(500),
            draw,
        }
    }

    #[test]
    fn a_third_of_the_hosts_send_long_transfers_and_the_others_short_ones() {
        let plan = plan(TrafficMatrix::Permutation, TransferArrivals::Poisson(256.0));
        let long: Vec<_> = plan.flows.iter().filter(|f| f.is_background()).collect();
        assert_eq!(long.len(), 10);
        let short: Vec<_> = plan.flows.iter().filter(|f| !f.is_background()).collect();
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
        let incast = plan(TrafficMatrix::Random, incast(Draw::EachRound));
        let short: Vec<_> = incast.flows.iter().filter(|f| !f.is_background()).collect();
        assert_eq!(short.len(), 3 * 20, "at 0.5, 1 and 1.5 s");
        for round in short.chunks(20) {
            assert!(round.iter().all(|f| f.server == round[0].server));
            let mut from: Vec<u32> = round.iter().map(|f| f.client).collect();
            from.sort_unstable();
            from.dedup();
            assert_eq!(from.len(), 20);
        }
    }

    #[test]
    fn hosts_drawn_once_are_the_same_in_every_round_of_a_run() {
        let ends = |draw| {
            let plan = plan(TrafficMatrix::Random, incast(draw));
            let short = plan.flows.into_iter().filter(|f| !f.is_background());
            let ends: Vec<_> = short.map(|f| (f.client, f.server)).collect();
            let mut rounds: Vec<_> = ends.chunks(20).map(<[_]>::to_vec).collect();
            rounds.dedup();
            rounds
        };
        let (once, each) = (ends(Draw::Once), ends(Draw::EachRound));
        assert_eq!(once.len(), 1);
        assert_eq!(each.len(), 3);
        assert_eq!(once[0], each[0], "the first round is the same");
    }

    /// The arrivals in a file with these keys, or the error about them.
    fn read_arrivals(keys: &str) -> std::result::Result<TransferArrivals, String> {
        let text = format!(
            "transports = [\"tcp\"]\ntopology = {{ name = \"fuso-sim\" }}\n[traffic]\n\
             kind = \"transfers\"\nsizes = \"70KB\"\nduration = \"2s\"\n{keys}"
        );
        let file = ("f.toml", text.as_str());
        let here = std::path::Path::new(".");
        let e = library::parse(&Registry::standard(), file, here, &Overrides::default())
            .map_err(|e| e.to_string())?;
        let traffic: &dyn std::any::Any = &*e.points[0].scenario.traffic;
        Ok(traffic.downcast_ref::<Transfers>().unwrap().coming)
    }

    #[test]
    fn draw_key_says_how_often_hosts_are_drawn_and_needs_senders() {
        let with = "senders = 20\nevery = \"500ms\"\n";
        for (key, draw) in [
            ("", Draw::EachRound),
            ("draw = \"each-round\"", Draw::EachRound),
            ("draw = \"once\"", Draw::Once),
        ] {
            assert_eq!(read_arrivals(&format!("{with}{key}")), Ok(incast(draw)));
        }
        let wrong = read_arrivals("rate = 1.0\ndraw = \"once\"").unwrap_err();
        assert!(
            wrong.contains("traffic.draw") && wrong.contains("with senders only"),
            "{wrong}"
        );
        let wrong = read_arrivals(&format!("{with}draw = \"never\"")).unwrap_err();
        assert!(
            wrong.contains("once") && wrong.contains("each-round"),
            "{wrong}"
        );
    }
}
