//! [`Conga`]: flowlets on the least congested path, which leaf switches learn from each other.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spindle_units::Duration;

use super::flows::KeyHasher;
use super::{
    Balancer, Balancing, Ecmp, FORGET_AFTER, Flows, Hop, MOST_FLOWS, NamedBalancing, RandomSpray,
    SwitchInfo,
};

/// "conga" in experiment files and on the command line.
pub(super) const BUILT_IN: NamedBalancing = NamedBalancing {
    name: "conga",
    summary: "a flow that pauses for 500 us takes the least congested path, which leaf switches measure and \
              report to each other (CONGA, Alizadeh et al. 2014, mechanisms N6)",
    make: || Balancing::conga(CongaSettings::default()),
};

impl Balancing {
    /// [`Conga`] with these settings.
    pub fn conga(settings: CongaSettings) -> Self {
        let text = format!("{settings:?}");
        Self::coordinated(text, move || {
            let headers = Headers::default();
            let settings = settings.clone();
            Box::new(move |info| Box::new(Conga::new(info, &settings, headers.clone())))
        })
    }
}

/// Settings of [`Conga`] (Alizadeh et al., SIGCOMM 2014, section 3.6).
#[derive(Clone, Debug, PartialEq)]
pub struct CongaSettings {
    /// A flow may take another path after a gap longer than this, T_fl in the paper (default 500 us).
    pub timeout: Duration,
    /// The time constant of the measured rate of a link, tau in the paper (default 160 us).
    pub time_constant: Duration,
    /// The share by which the measured rate decays in each period, alpha in the paper, above 0 and below 1. The
    /// period is alpha times the time constant (default 0.1, our choice).
    pub decay: f64,
    /// The number of bits of a congestion metric, Q in the paper, 1 to 8 (default 3).
    pub bits: u32,
    /// A metric from another leaf that is older than this decays to zero within the same time again (default
    /// 10 ms; the linear decay is our choice).
    pub metric_age: Duration,
}

impl Default for CongaSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_micros(500),
            time_constant: Duration::from_micros(160),
            decay: 0.1,
            bits: 3,
            metric_age: Duration::from_millis(10),
        }
    }
}

/// CONGA (Alizadeh et al., SIGCOMM 2014, section 3) for leaf-spine networks.
///
/// Each switch measures the rate of its links with a discounting rate estimator. A packet between two leaf switches
/// carries the number of its uplink and the largest metric of its links so far. The destination's leaf stores
/// this metric and returns it with a packet in the other direction. A new flowlet takes the uplink with the
/// smallest maximum of the local and the returned metric. Of equal uplinks it keeps that of the flow's last
/// flowlet, otherwise it takes one at random.
///
/// Switches without hosts use ECMP among parallel links. In networks with more than two layers the metrics of all
/// paths behind an uplink are mixed, so that CONGA has no meaning there. The fields that a packet carries in an
/// overlay header are stored next to the network, by the packet's number, and take no bytes on the wire.
#[derive(Debug)]
pub struct Conga {
    switch: u32,
    is_leaf: bool,
    timeout: Duration,
    metric_age: u64,
    estimator: Estimator,
    /// The measured rates of this switch's links, by link.
    rates: HashMap<u64, Rate, BuildHasherDefault<KeyHasher>>,
    /// The last choice of each flow, and when it was seen.
    flows: Flows<(u32, u64)>,
    /// What other leaf switches reported about the uplinks of this one, by the other switch.
    to_leaf: HashMap<u64, Vec<Metric>, BuildHasherDefault<KeyHasher>>,
    /// What packets reported about the uplinks of other leaf switches, by the other switch.
    from_leaf: HashMap<u64, Reports, BuildHasherDefault<KeyHasher>>,
    headers: Headers,
    ecmp: Ecmp,
    spray: RandomSpray,
    /// Scratch: the metrics of the uplinks.
    metrics: Vec<u8>,
}

impl Conga {
    /// CONGA with the switch's random stream. All switches of a network share the headers.
    fn new(info: &SwitchInfo, settings: &CongaSettings, headers: Headers) -> Self {
        Self {
            switch: info.switch,
            is_leaf: info.has_hosts,
            timeout: settings.timeout,
            metric_age: settings.metric_age.as_nanos().max(1),
            estimator: Estimator::new(settings),
            rates: HashMap::default(),
            flows: Flows::new(FORGET_AFTER, MOST_FLOWS),
            to_leaf: HashMap::default(),
            from_leaf: HashMap::default(),
            headers,
            ecmp: Ecmp::new(info),
            spray: RandomSpray::new(info),
            metrics: Vec::new(),
        }
    }

    /// The level of a link's measured rate.
    fn level(&mut self, hop: &Hop<'_>, choice: usize) -> u8 {
        let rate = self.rates.entry(u64::from(hop.ports.link(choice).0));
        self.estimator.level(rate.or_default(), hop.now.as_nanos())
    }

    /// Counts a packet on the link that it takes, and returns the level of the link's rate.
    fn count(&mut self, hop: &Hop<'_>, choice: usize) -> u8 {
        let sending = hop.ports.sending_time(choice, hop.wire_len);
        let rate = self.rates.entry(u64::from(hop.ports.link(choice).0));
        let rate = rate.or_default();
        let now = hop.now.as_nanos();
        let level = self.estimator.level(rate, now);
        rate.sum += sending.as_nanos() as f64;
        level.max(self.estimator.level(rate, now))
    }

    /// The uplink of a packet to another leaf switch.
    fn uplink(&mut self, hop: &Hop<'_>, leaf: u32) -> usize {
        let now = hop.now.as_nanos();
        while self.flows.forget_idle(hop.now).is_some() {}
        let ways = hop.ports.len();
        let last = self.flows.see(hop.now, hop.flow_hash).map(|flow| {
            let (choice, seen) = *flow;
            flow.1 = now;
            (choice as usize % ways, now.saturating_sub(seen))
        });
        match last {
            Some((choice, gap)) if gap <= self.timeout.as_nanos() => choice,
            Some((choice, _)) => {
                let best = self.best(hop, leaf, Some(choice));
                if let Some(flow) = self.flows.see(hop.now, hop.flow_hash) {
                    *flow = (best as u32, now);
                }
                best
            }
            None => {
                let best = self.best(hop, leaf, None);
                self.flows.add(hop.now, hop.flow_hash, (best as u32, now));
                best
            }
        }
    }

    /// The uplink with the smallest metric. Of several, the one of the flow's last flowlet if it is among them.
    fn best(&mut self, hop: &Hop<'_>, leaf: u32, last: Option<usize>) -> usize {
        let now = hop.now.as_nanos();
        let mut metrics = std::mem::take(&mut self.metrics);
        metrics.clear();
        for choice in 0..hop.ports.len() {
            let reports = self.to_leaf.get(&u64::from(leaf));
            let remote = reports.and_then(|all| all.get(choice));
            let remote = remote.map_or(0, |metric| metric.at(now, self.metric_age));
            metrics.push(remote.max(self.level(hop, choice)));
        }
        let least = metrics.iter().min().copied().unwrap_or(0);
        let is_least = |choice: &usize| metrics[*choice] == least;
        let best = last.filter(is_least).unwrap_or_else(|| {
            let equal = metrics.iter().filter(|m| **m == least).count();
            let drawn = self.spray.pick(equal as u32) as usize;
            (0..metrics.len()).filter(is_least).nth(drawn).unwrap_or(0)
        });
        self.metrics = metrics;
        best
    }

    /// Stores what a packet from another leaf switch carries.
    fn receive(&mut self, hop: &Hop<'_>) {
        let Some(header) = lock(&self.headers).take(hop) else {
            return;
        };
        let from = u64::from(header.leaf);
        self.from_leaf
            .entry(from)
            .or_default()
            .store(header.uplink, header.congestion);
        if let Some((uplink, level)) = header.feedback {
            let metrics = self.to_leaf.entry(from).or_default();
            grow(metrics, uplink);
            metrics[uplink as usize] = Metric {
                level,
                since: hop.now.as_nanos(),
            };
        }
    }
}

impl Balancer for Conga {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        let leaf = hop.last_switch();
        let (true, Some(leaf)) = (self.is_leaf, leaf) else {
            let choice = self.ecmp.pick(hop.flow_hash, hop.ports.len() as u32) as usize;
            let level = self.count(hop, choice);
            lock(&self.headers).raise(hop, level);
            return choice;
        };
        let choice = self.uplink(hop, leaf);
        let congestion = self.count(hop, choice);
        let reports = self.from_leaf.get_mut(&u64::from(leaf));
        let header = Header {
            flow: hop.flow_hash,
            leaf: self.switch,
            uplink: choice as u32,
            congestion,
            feedback: reports.and_then(Reports::next),
        };
        lock(&self.headers).put(hop, header);
        choice
    }

    fn sees_passing(&self) -> bool {
        true
    }

    fn passes(&mut self, hop: &Hop<'_>) {
        if self.is_leaf {
            if hop.last_switch() == Some(self.switch) {
                self.receive(hop);
            }
            return;
        }
        let level = self.count(hop, 0);
        lock(&self.headers).raise(hop, level);
    }
}

/// The discounting rate estimator (section 3.2).
#[derive(Debug)]
struct Estimator {
    /// The time constant in nanoseconds.
    constant: f64,
    /// The length of a period in nanoseconds.
    period: u64,
    decay: f64,
    /// The number of levels.
    levels: f64,
}

/// The measured rate of a link: the sending times of its packets in nanoseconds, which decay each period.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    sum: f64,
    /// The period of the last decay.
    period: u64,
}

impl Estimator {
    fn new(settings: &CongaSettings) -> Self {
        let decay = settings.decay.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
        let constant = settings.time_constant.as_nanos().max(1) as f64;
        Self {
            constant,
            period: ((constant * decay).round() as u64).max(1),
            decay,
            levels: f64::from(1u32 << settings.bits.clamp(1, 8)),
        }
    }

    /// The share of the link's capacity that is used, in levels from 0.
    fn level(&self, rate: &mut Rate, now: u64) -> u8 {
        let period = now / self.period;
        if period > rate.period {
            let passed = i32::try_from(period - rate.period).unwrap_or(i32::MAX);
            rate.sum *= (1.0 - self.decay).powi(passed);
            rate.period = period;
        }
        let level = rate.sum / self.constant * self.levels;
        level.min(self.levels - 1.0) as u8
    }
}

/// A metric that another leaf switch reported.
#[derive(Clone, Copy, Debug, Default)]
struct Metric {
    level: u8,
    /// When it was reported, in nanoseconds.
    since: u64,
}

impl Metric {
    /// The metric at `now`, which decays once it is older than `age`.
    fn at(&self, now: u64, age: u64) -> u8 {
        let old = now.saturating_sub(self.since).saturating_sub(age);
        match old {
            0 => self.level,
            old if old >= age => 0,
            old => (f64::from(self.level) * (1.0 - old as f64 / age as f64)) as u8,
        }
    }
}

/// The metrics of another leaf switch's uplinks that this switch has to report to it.
#[derive(Debug, Default)]
struct Reports {
    levels: Vec<u8>,
    /// Whether the level has changed since it was last reported.
    changed: Vec<bool>,
    /// The uplink that is reported next if none has changed.
    turn: usize,
}

impl Reports {
    fn store(&mut self, uplink: u32, level: u8) {
        grow(&mut self.levels, uplink);
        grow(&mut self.changed, uplink);
        let place = uplink as usize;
        self.changed[place] |= self.levels[place] != level;
        self.levels[place] = level;
    }

    /// The metric to report with the next packet: in turn, changed ones first (section 3.3).
    fn next(&mut self) -> Option<(u32, u8)> {
        let all = self.levels.len();
        let turn = |n: usize| (self.turn + n) % all.max(1);
        let changed = (0..all).map(turn).find(|&n| self.changed[n]);
        let place = changed.unwrap_or(turn(0));
        let level = *self.levels.get(place)?;
        self.changed[place] = false;
        self.turn = place + 1;
        Some((place as u32, level))
    }
}

/// Makes a table long enough for a place.
fn grow<T: Clone + Default>(table: &mut Vec<T>, place: u32) {
    if table.len() <= place as usize {
        table.resize(place as usize + 1, T::default());
    }
}

/// The fields that a packet between two leaf switches carries.
#[derive(Clone, Copy, Debug)]
struct Header {
    /// The packet's flow, so that the header of an earlier packet with the same number is recognised.
    flow: u64,
    /// The leaf switch that sent the packet.
    leaf: u32,
    /// The number of its uplink (LBTag).
    uplink: u32,
    /// The largest level on the path so far (CE).
    congestion: u8,
    /// An uplink of the destination's leaf switch and its level (FB_LBTag, FB_Metric).
    feedback: Option<(u32, u8)>,
}

/// The headers of all packets in the network, by the packets' numbers.
type Headers = Arc<Mutex<Table>>;

#[derive(Debug, Default)]
struct Table(Vec<Option<Header>>);

fn lock(headers: &Headers) -> MutexGuard<'_, Table> {
    headers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    fn put(&mut self, hop: &Hop<'_>, header: Header) {
        grow(&mut self.0, hop.packet);
        self.0[hop.packet as usize] = Some(header);
    }

    /// Raises the congestion that a packet carries.
    fn raise(&mut self, hop: &Hop<'_>, level: u8) {
        if let Some(Some(header)) = self.0.get_mut(hop.packet as usize)
            && header.flow == hop.flow_hash
        {
            header.congestion = header.congestion.max(level);
        }
    }

    fn take(&mut self, hop: &Hop<'_>) -> Option<Header> {
        let header = self.0.get_mut(hop.packet as usize)?.take()?;
        (header.flow == hop.flow_hash).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ways, info};
    use super::*;

    #[test]
    fn estimator_shows_the_used_share_of_a_link() {
        let estimator = Estimator::new(&CongaSettings::default());
        // Packets that need 1 us each, at a share of the link's rate.
        for (every, level) in [(1_000, 7), (2_000, 3), (4_000, 1), (16_000, 0)] {
            let mut rate = Rate::default();
            for n in 1..2000u64 {
                estimator.level(&mut rate, n * every);
                rate.sum += 1000.0;
            }
            let found = estimator.level(&mut rate, 2000 * every);
            assert!((level..=level + 1).contains(&found), "{every}: {found}");
            // After ten time constants the link is idle.
            assert_eq!(estimator.level(&mut rate, 2000 * every + 1_600_000), 0);
        }
    }

    #[test]
    fn metric_decays_after_its_age() {
        let metric = Metric {
            level: 6,
            since: 1_000,
        };
        let found = [1_000, 11_000, 16_000, 21_000, 90_000].map(|now| metric.at(now, 10_000));
        assert_eq!(found, [6, 6, 3, 0, 0]);
    }

    #[test]
    fn changed_metrics_are_reported_first() {
        let mut reports = Reports::default();
        assert_eq!(reports.next(), None);
        (0..3).for_each(|uplink| reports.store(uplink, 0));
        reports.store(2, 5);
        reports.store(1, 4);
        let found: Vec<_> = (0..4).filter_map(|_| reports.next()).collect();
        assert_eq!(found, [(1, 4), (2, 5), (0, 0), (1, 4)]);
    }

    #[test]
    fn flowlet_moves_only_to_a_less_congested_uplink() {
        let ways = Ways::new(4);
        let mut conga = Conga::new(&info(0), &CongaSettings::default(), Headers::default());
        let report = |conga: &mut Conga, levels: [u8; 4]| {
            let since = 29_400_000;
            let metrics = levels.map(|level| Metric { level, since });
            conga.to_leaf.insert(9, metrics.to_vec());
        };
        let first = conga.uplink(&ways.hop(0, 1), 9);
        // All metrics are equal: the flow stays after each gap.
        assert!((1..50).all(|n| conga.uplink(&ways.hop(n * 600, 1), 9) == first));
        let mut levels = [5; 4];
        let other = (first + 1) % 4;
        levels[other] = 2;
        report(&mut conga, levels);
        // Within a flowlet the flow stays.
        assert_eq!(conga.uplink(&ways.hop(29_900, 1), 9), first);
        assert_eq!(conga.uplink(&ways.hop(30_401, 1), 9), other);
        // Metrics of other leaf switches do not matter.
        assert_eq!(conga.uplink(&ways.hop(31_000, 1), 8), other);
    }

    #[test]
    fn new_flows_are_spread_over_equal_uplinks() {
        let ways = Ways::new(4);
        let mut conga = Conga::new(&info(0), &CongaSettings::default(), Headers::default());
        let mut count = [0; 4];
        for flow in 0..4000 {
            count[conga.uplink(&ways.hop(0, flow), 9)] += 1;
        }
        assert!(count.iter().all(|n| (880..1120).contains(n)), "{count:?}");
    }
}
