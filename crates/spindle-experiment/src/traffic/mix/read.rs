//! Reads `[traffic]` of `kind = "mix"`.

use std::cmp::Reverse;
use std::sync::Arc;

use spindle_units::{BitRate, Duration};

use super::{BurstTimes, LongFlows, Matching, Mix, Pairs, Starts};
use crate::document::{Load, Section};
use crate::traffic::read::{hosts, load, matching, observe, sizes, sizes_of};
use crate::traffic::{Ask, Result, Traffic, TrafficKind, TrafficPlace};
use crate::workload::SizeSampler;

/// Largest number of flows in a run. They need some gigabytes of memory.
const MAX_FLOWS: u64 = 5_000_000;

/// Shortest period, and fewest flows expected in one. These limits keep the time to draw the periods
/// negligible.
const SHORTEST_PERIOD: Duration = Duration::from_micros(10);
const FEWEST_A_PERIOD: f64 = 0.01;

pub(super) struct Kind;

impl TrafficKind for Kind {
    fn read(&self, s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Arc<dyn Traffic>> {
        Ok(Arc::new(mix(s, place)?))
    }
}

/// Reads a mix of short and long flows.
fn mix(s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Mix> {
    let pairs = pairs(s, place)?;
    let long = long_flows(s, &pairs, place)?;
    let sizes = sizes(s, place)?;
    let flows = s.get::<u64>("flows")?;
    let duration = s.get::<Duration>("duration")?;
    let most = most_while_on(s, &pairs, place)?;
    let starts = starts(s, flows, &sizes)?.stretched(&sizes, most);
    let ask = [("opening", Ask::Opening), ("at-once", Ask::AtOnce)];
    let mix = Mix {
        pairs,
        long,
        starts,
        flows,
        sizes,
        ask: s.choice("ask", &ask)?.unwrap_or_default(),
        head_start: s.or("head_start", Duration::ZERO)?,
        warm_up: s.or("warm_up", Duration::ZERO)?,
        duration,
        background: place.background(s)?,
        observe: observe(s)?,
    };
    if mix.observe.recovery {
        let problem = "recovery looks at responses, want others of it";
        return Err(s.error("observe", problem));
    }
    check_extent(s, &mix)?;
    Ok(mix)
}

/// Checks that the run ends and is not too long.
fn check_extent(s: &Section<'_>, mix: &Mix) -> Result<()> {
    let Some(duration) = mix.duration else {
        return match mix.flows {
            None => Err(s.error(
                "duration",
                "missing, want it, or a number of flows, or both",
            )),
            Some(0) => Err(s.error("flows", "found 0, want 1 or more, or a duration")),
            Some(n) => check_flows(s, n),
        };
    };
    if duration == Duration::ZERO {
        return Err(s.error("duration", "found 0, want more"));
    }
    for (key, time) in [("head_start", mix.head_start), ("warm_up", mix.warm_up)] {
        if time >= duration {
            return Err(s.error(key, "as long as the duration or longer, want less"));
        }
    }
    match (mix.flows, mix.starts) {
        (Some(n), _) => check_flows(s, n),
        (None, Starts::Together) => {
            Err(s.error("flows", "missing, want how many come at once, such as 100"))
        }
        (None, starts) => {
            let expected = starts.expected(duration - mix.head_start);
            if expected <= MAX_FLOWS as f64 {
                return Ok(());
            }
            let problem = format!("makes {expected:.0} flows, want {MAX_FLOWS} at most");
            Err(s.error("duration", problem))
        }
    }
}

fn check_flows(s: &Section<'_>, n: u64) -> Result<()> {
    if n > MAX_FLOWS {
        return Err(s.error("flows", format!("found {n}, want {MAX_FLOWS} at most")));
    }
    Ok(())
}

/// `from`, `to`, `matrix` and `across`.
fn pairs(s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Pairs> {
    let from = match s.node("from") {
        None => matching(s, "from", "all", place.network)?,
        Some(_) => hosts(s, "from", place.network)?,
    };
    let to = match s.node("to") {
        None => from.clone(),
        Some(_) => hosts(s, "to", place.network)?,
    };
    let kinds = [
        ("one-to-one", Matching::OneToOne),
        ("random", Matching::Random),
        ("one-receiver", Matching::OneReceiver),
    ];
    let pairs = Pairs {
        from,
        to,
        matching: s.choice("matrix", &kinds)?.unwrap_or(Matching::Random),
        across: s.or("across", false)?,
    };
    check_pairs(s, ("from", "to"), &pairs, place)?;
    Ok(pairs)
}

/// Checks that each host that may be drawn first has a partner.
fn check_pairs(
    s: &Section<'_>,
    (from, to): (&str, &str),
    pairs: &Pairs,
    place: &TrafficPlace<'_>,
) -> Result<()> {
    if pairs.across && place.topology.place(0).is_none() {
        let problem = "has no meaning here, want it in a topology with leaves or pods";
        return Err(s.error("across", problem));
    }
    let area = |name: &String| {
        let host = place.network.host_named(name)?;
        place.topology.place(host.0).filter(|_| pairs.across)
    };
    let located = |names: &[String]| -> Vec<(String, Option<u32>)> {
        names.iter().map(|n| (n.clone(), area(n))).collect()
    };
    let (senders, receivers) = (located(&pairs.from), located(&pairs.to));
    type Located = (String, Option<u32>);
    let fits = |a: &Located, b: &Located| a.0 != b.0 && (!pairs.across || a.1 != b.1);
    let alone = |who: &[Located], others: &[Located]| {
        let lonely = |a: &&Located| !others.iter().any(|b| fits(a, b));
        who.iter().find(lonely).map(|a| a.0.clone())
    };
    let (key, found) = match pairs.matching {
        Matching::OneToOne => {
            let (n, m) = (senders.len(), receivers.len());
            if n != m && m != 1 {
                let problem =
                    format!("one-to-one from {n} to {m} hosts, want as many of each, or one {to}");
                return Err(s.error("matrix", problem));
            }
            let mut ends = senders.iter().zip(receivers.iter().cycle());
            (
                to,
                ends.find(|(a, b)| !fits(a, b)).map(|(a, _)| a.0.clone()),
            )
        }
        Matching::Random => (to, alone(&senders, &receivers)),
        Matching::OneReceiver => (from, alone(&receivers, &senders)),
    };
    let Some(name) = found else { return Ok(()) };
    let other = match pairs.across {
        true => "another leaf or pod",
        false => "another host",
    };
    Err(s.error(key, format!("{name} has no partner, want {other} for it")))
}

/// `long_flows`, and the keys that describe them.
fn long_flows(
    s: &Section<'_>,
    pairs: &Pairs,
    place: &TrafficPlace<'_>,
) -> Result<Option<LongFlows>> {
    const MOST: u32 = 100_000;
    let count: u32 = s.or("long_flows", 0)?;
    if count > MOST {
        return Err(s.error("long_flows", format!("found {count}, want 0 to {MOST}")));
    }
    let sizes = match s.node("long_sizes") {
        None => None,
        Some(_) => SizeSampler::new(sizes_of(s, "long_sizes", false, place)?, None),
    };
    let own = |key| {
        s.node(key)
            .map(|_| hosts(s, key, place.network))
            .transpose()
    };
    let own = match (own("long_from")?, own("long_to")?) {
        (None, None) => None,
        (from, to) => Some(Pairs {
            from: from.unwrap_or_else(|| pairs.from.clone()),
            to: to.unwrap_or_else(|| pairs.to.clone()),
            ..pairs.clone()
        }),
    };
    if let Some(own) = &own {
        check_pairs(s, ("long_from", "long_to"), own, place)?;
    }
    let distinct = s.choice("long_paths", &[("hashed", false), ("distinct", true)])?;
    // A sweep may set the number of long flows to 0 and leave the other keys in place.
    Ok((count > 0).then_some(LongFlows {
        count,
        sizes,
        pairs: own,
        distinct: distinct.unwrap_or(false),
    }))
}

/// `max_on_load`: the largest load that flows of an on period may offer. It is a rate, or a share of the rate of all
/// paths from the first sender to a receiver with a different leaf or pod. It has no effect on other arrivals.
fn most_while_on(
    s: &Section<'_>,
    pairs: &Pairs,
    place: &TrafficPlace<'_>,
) -> Result<Option<BitRate>> {
    let most = match s.get::<Load>("max_on_load")? {
        None => return Ok(None),
        Some(Load::Rate(rate)) => rate,
        Some(Load::Share(share)) => {
            let all = rate_of_paths(pairs, place).ok_or_else(|| {
                let problem = "a share, but no pair of hosts has more than one path, want a rate";
                s.error("max_on_load", problem)
            })?;
            BitRate((share * all.0 as f64).round() as u64)
        }
    };
    match most {
        BitRate(0) => Err(s.error("max_on_load", "found 0, want more")),
        most => Ok(Some(most)),
    }
}

/// The rate of all paths together from the first sender to the receiver with the most paths: n C. `None` if no
/// receiver has more than one path.
fn rate_of_paths(pairs: &Pairs, place: &TrafficPlace<'_>) -> Option<BitRate> {
    let network = place.network;
    let address = |name: &String| {
        let host = network.host_named(name)?;
        network.address(host, 0)
    };
    let from = pairs.from.first().and_then(address)?;
    let to = pairs.to.iter().filter_map(address).filter(|to| *to != from);
    let (paths, to) = to
        .map(|to| (network.path_count(from, to), to))
        .max_by_key(|(paths, to)| (*paths, Reverse(*to)))?;
    let path = network.route_on_path(from, to, 0);
    // The first and the last link are those of the hosts.
    let switches = path.get(1..path.len().saturating_sub(1))?;
    let rate = switches.iter().map(|l| network.link(*l).spec.rate.0).min();
    (paths > 1).then(|| rate.map(|r| BitRate(r.saturating_mul(paths))))?
}

/// `arrivals`, and the keys that belong to each kind of arrivals.
fn starts(s: &Section<'_>, flows: Option<u64>, sizes: &SizeSampler) -> Result<Starts> {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Poisson,
        OnOff,
        AtOnce,
        Bursts,
    }
    let kinds = [
        ("poisson", Kind::Poisson),
        ("on-off", Kind::OnOff),
        ("at-once", Kind::AtOnce),
        ("bursts", Kind::Bursts),
    ];
    let kind = s.choice("arrivals", &kinds)?.unwrap_or(Kind::Poisson);
    let belongs: [(&str, &[Kind]); 7] = [
        ("rate", &[Kind::Poisson, Kind::OnOff, Kind::Bursts]),
        ("load", &[Kind::Poisson]),
        ("on", &[Kind::OnOff]),
        ("off", &[Kind::OnOff]),
        ("burst", &[Kind::Bursts]),
        ("every", &[Kind::Bursts]),
        ("spread", &[Kind::Bursts]),
    ];
    let (rate, load) = (rate(s)?, load(s)?);
    let span = |key| s.get::<Duration>(key);
    let (on, off) = (span("on")?, span("off")?);
    let burst = s.get::<u32>("burst")?;
    let (every, spread) = (span("every")?, span("spread")?);
    for (key, kinds) in belongs {
        if s.has(key) && !kinds.contains(&kind) {
            return Err(s.error(key, "has no meaning with these arrivals"));
        }
    }
    let per_second = || rate.ok_or_else(|| s.error("rate", "missing, want a number a second"));
    Ok(match kind {
        Kind::Poisson => Starts::Poisson(match (rate, load) {
            (Some(_), Some(_)) => {
                return Err(s.error("load", "given together with rate, want only one of them"));
            }
            (Some(rate), None) => rate,
            (None, Some(load)) => load.0 as f64 / (8.0 * sizes.mean()),
            (None, None) if flows == Some(0) => 1.0,
            (None, None) => return Err(s.error("rate", "missing, want it or a load")),
        }),
        Kind::OnOff => {
            let (on, off) = (length(s, "on", on)?, length(s, "off", off)?);
            let rate = per_second()?;
            if on.min(off) < SHORTEST_PERIOD || rate * on.as_secs_f64() < FEWEST_A_PERIOD {
                let problem = "too short, want 10us or more, off likewise, and a hundredth of a flow \
                               expected in it";
                return Err(s.error("on", problem));
            }
            Starts::OnOff { on, off, rate }
        }
        Kind::AtOnce => Starts::Together,
        Kind::Bursts => Starts::Bursts {
            size: match burst {
                None | Some(0) => return Err(s.error("burst", "want how many flows, 1 or more")),
                Some(n) => n,
            },
            times: match (every, rate) {
                (Some(_), Some(_)) => {
                    return Err(s.error("every", "given together with rate, want only one of them"));
                }
                (None, Some(rate)) => BurstTimes::Poisson(rate),
                (every, None) => BurstTimes::Every(length(s, "every", every)?),
            },
            spread: spread.unwrap_or(Duration::ZERO),
        },
    })
}

/// `rate`: a number per second.
fn rate(s: &Section<'_>) -> Result<Option<f64>> {
    match s.get::<f64>("rate")? {
        Some(rate) if !(1e-6..=1e9).contains(&rate) => {
            let problem = format!("found {rate}, want a number a second from 1e-6 to 1e9");
            Err(s.error("rate", problem))
        }
        rate => Ok(rate),
    }
}

fn length(s: &Section<'_>, key: &str, found: Option<Duration>) -> Result<Duration> {
    match found {
        Some(time) if time > Duration::ZERO => Ok(time),
        _ => Err(s.error(key, "missing or 0, want a time such as \"5ms\"")),
    }
}

#[cfg(test)]
mod tests;
