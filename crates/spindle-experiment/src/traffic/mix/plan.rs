//! Plans a mix of short and long flows.

use spindle_units::Duration;

use super::{BurstTimes, Matching, Mix, Pairs, Starts};
use crate::rng::{Purpose, Stream};
use crate::topologies::NamedTopology;
use crate::traffic::plan::{ENDLESS, ONSET, Role, flow, sort_by_start};
use crate::traffic::{Plan, PlanError, PlanRequest, PlannedFlow};

/// Latest start of a flow. No run takes longer.
const LATEST: Duration = Duration::from_secs(48 * 3600);

/// The streams of short flows, of long flows, and of what is drawn once for the run. Each stream is independent
/// of how much is drawn from the others.
const SHORT: u64 = 0;
const LONG: u64 = 1;
const RUN: u64 = 2;

/// Plans the flows of `m`.
pub(super) fn mix(m: &Mix, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let streams = request.streams;
    let mut flows = long_flows(m, request)?;
    let partners = Partners::new(&m.pairs, request)?;
    let mut pairs = streams.stream(Purpose::Pairs, SHORT);
    let mut sizes = streams.stream(Purpose::Sizes, SHORT);
    let until = m.duration.map_or(LATEST, |d| d.min(LATEST));
    let times = Times {
        from: m.head_start,
        until,
        most: m.flows.map_or(usize::MAX, |n| n as usize),
        rng: streams.stream(Purpose::Arrivals, SHORT),
    };
    for (n, at) in times.draw(&m.starts).into_iter().enumerate() {
        let ends = partners.draw(n, &mut pairs)?;
        let bytes = m.sizes.sample(&mut sizes);
        flows.push(PlannedFlow {
            role: Role::background_if(request.short_below.is_some_and(|s| bytes >= s)),
            counted: at >= m.warm_up,
            ..flow(at, ends, bytes)
        });
    }
    sort_by_start(&mut flows);
    Ok(Plan {
        ask: m.ask,
        ends: m.duration,
        leaves_background: m.duration.is_none(),
        counts_from: m.warm_up,
        numbered: true,
        push: true,
        observe: m.observe,
        background_transport: m.background.clone(),
        flows,
        ..Plan::default()
    })
}

/// Flows that are declared as long, in the order in which they were drawn.
fn long_flows(m: &Mix, request: &PlanRequest<'_>) -> Result<Vec<PlannedFlow>, PlanError> {
    let Some(long) = &m.long else {
        return Ok(Vec::new());
    };
    let own = long.pairs.as_ref().unwrap_or(&m.pairs);
    let partners = Partners::new(own, request)?;
    let [mut pairs, mut sizes, mut onsets] = [Purpose::Pairs, Purpose::Sizes, Purpose::Arrivals]
        .map(|p| request.streams.stream(p, LONG));
    let all = own.from.len();
    let one = |n: u32| {
        let turn = all - 1 - n as usize % all;
        let at = Duration::from_nanos(onsets.below(ONSET.as_nanos()));
        let bytes = long.sizes.as_ref().map(|s| s.sample(&mut sizes));
        let ends = partners.draw(turn, &mut pairs)?;
        Ok(PlannedFlow {
            role: Role::Background,
            disjoint: long.distinct,
            ..flow(at, ends, bytes.unwrap_or(ENDLESS))
        })
    };
    (0..long.count).map(one).collect()
}

/// Draws senders and receivers.
struct Partners<'a> {
    from: Vec<u32>,
    to: Vec<u32>,
    matching: Matching,
    /// Index of the run's receiver, if there is only one.
    receiver: usize,
    /// The topology, if senders and receivers must be in different places.
    across: Option<&'a NamedTopology>,
    hosts: &'a [String],
}

impl<'a> Partners<'a> {
    fn new(pairs: &Pairs, request: &PlanRequest<'a>) -> Result<Self, PlanError> {
        let to = request.numbers(&pairs.to)?;
        let mut run = request.streams.stream(Purpose::Pairs, RUN);
        Ok(Self {
            from: request.numbers(&pairs.from)?,
            receiver: run.below(to.len() as u64) as usize,
            to,
            matching: pairs.matching,
            across: pairs.across.then_some(request.topology),
            hosts: request.hosts,
        })
    }

    fn fits(&self, a: u32, b: u32) -> bool {
        let place = |host| self.across.and_then(|t| t.place(host));
        a != b && (self.across.is_none() || place(a) != place(b))
    }

    /// Sender and receiver of the flow number `turn`.
    fn draw(&self, turn: usize, rng: &mut Stream) -> Result<(u32, u32), PlanError> {
        let any = |of: &[u32], rng: &mut Stream| of[rng.below(of.len() as u64) as usize];
        match self.matching {
            Matching::OneToOne => {
                let n = turn % self.from.len();
                let (from, to) = (self.from[n], self.to[n % self.to.len()]);
                let fits = self.fits(from, to).then_some((from, to));
                fits.ok_or_else(|| self.alone(from))
            }
            Matching::Random => {
                let from = any(&self.from, rng);
                Ok((from, self.partner(from, &self.to, rng)?))
            }
            Matching::OneReceiver => {
                let to = self.to[self.receiver];
                Ok((self.partner(to, &self.from, rng)?, to))
            }
        }
    }

    /// Draws a host of `among` that fits `host`. All fitting hosts are equally likely.
    fn partner(&self, host: u32, among: &[u32], rng: &mut Stream) -> Result<u32, PlanError> {
        // Usually most hosts fit.
        const ATTEMPTS: u32 = 64;
        for _ in 0..ATTEMPTS {
            let drawn = among[rng.below(among.len() as u64) as usize];
            if self.fits(host, drawn) {
                return Ok(drawn);
            }
        }
        let fitting = among
            .iter()
            .copied()
            .filter(|other| self.fits(host, *other));
        let fitting: Vec<u32> = fitting.collect();
        let drawn = fitting.get(rng.below(fitting.len() as u64) as usize);
        drawn.copied().ok_or_else(|| self.alone(host))
    }

    fn alone(&self, host: u32) -> PlanError {
        PlanError::Alone {
            host: self.hosts[host as usize].clone(),
        }
    }
}

/// Draws the start times of flows.
struct Times {
    from: Duration,
    until: Duration,
    most: usize,
    rng: Stream,
}

impl Times {
    fn draw(mut self, starts: &Starts) -> Vec<Duration> {
        let mut times = Vec::new();
        match *starts {
            Starts::Poisson(rate) => self.poisson(rate, &mut times),
            Starts::OnOff { on, off, rate } => self.on_off((on, off), rate, &mut times),
            Starts::Together => {
                let all = if self.most == usize::MAX {
                    0
                } else {
                    self.most
                };
                times.resize(all, self.from);
            }
            Starts::Bursts {
                size,
                times: when,
                spread,
            } => self.bursts(size, when, spread, &mut times),
        }
        times
    }

    fn exponential(&mut self, mean: f64) -> Duration {
        Duration::from_secs_f64(self.rng.exponential(mean))
    }

    fn is_over(&self, times: &[Duration], at: Duration) -> bool {
        times.len() >= self.most || at >= self.until
    }

    fn poisson(&mut self, rate: f64, times: &mut Vec<Duration>) {
        let mut at = self.from + self.exponential(1.0 / rate);
        while !self.is_over(times, at) {
            times.push(at);
            at += self.exponential(1.0 / rate);
        }
    }

    fn on_off(&mut self, (on, off): (Duration, Duration), rate: f64, times: &mut Vec<Duration>) {
        let mut begin = self.from;
        while !self.is_over(times, begin) {
            let end = begin + self.exponential(on.as_secs_f64());
            let mut at = begin + self.exponential(1.0 / rate);
            while at < end && !self.is_over(times, at) {
                times.push(at);
                at += self.exponential(1.0 / rate);
            }
            begin = end + self.exponential(off.as_secs_f64());
        }
    }

    fn bursts(&mut self, size: u32, when: BurstTimes, spread: Duration, times: &mut Vec<Duration>) {
        let gap = |own: &mut Self| match when {
            BurstTimes::Every(every) => every,
            BurstTimes::Poisson(rate) => own.exponential(1.0 / rate),
        };
        let mut begin = match when {
            BurstTimes::Every(_) => self.from,
            BurstTimes::Poisson(_) => self.from + gap(self),
        };
        while !self.is_over(times, begin) {
            for _ in 0..size {
                let at = begin + Duration::from_nanos(self.rng.below(spread.as_nanos().max(1)));
                if !self.is_over(times, at) {
                    times.push(at);
                }
            }
            begin += gap(self);
        }
    }
}

#[cfg(test)]
mod tests;
