//! [`LeoLike`]: a link over satellites in low orbits with a handover every 15 s.

use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_units::{BitRate, Duration, Instant};

use super::{LinkTrace, TraceInfo, TraceStep, TraceSteps, unit};

/// The first handover of a minute: at 12 s, then at 27, 42 and 57 s (Tanveer, Puchol, Singh, Bianchi and
/// Nithyanand, CoNEXT 2023; Mohan et al., WWW 2024).
const FIRST: Duration = Duration::from_secs(12);

/// The time between handovers (Tanveer et al., CoNEXT 2023; Mohan et al., WWW 2024).
const INTERVAL: Duration = Duration::from_secs(15);

/// Settings of [`LeoLike`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeoSettings {
    /// After a handover the delay is the link's delay and up to this much more (default 10 ms, our choice; the
    /// measurements show changes of several milliseconds).
    pub delay_spread: Duration,
    /// The shortest time for which a handover pauses the link (default 20 ms, our choice).
    pub shortest_pause: Duration,
    /// The longest time for which a handover pauses the link, at least the shortest and below 15 s (default
    /// 200 ms, our choice).
    pub longest_pause: Duration,
    /// The lowest rate after a handover as a share of the link's rate, above 0 and at most 1 (default 1/2, our
    /// choice).
    pub lowest: f64,
}

impl Default for LeoSettings {
    fn default() -> Self {
        Self {
            delay_spread: Duration::from_millis(10),
            shortest_pause: Duration::from_millis(20),
            longest_pause: Duration::from_millis(200),
            lowest: 0.5,
        }
    }
}

/// A handover between satellites every 15 s, at 12, 27, 42 and 57 s of each minute, as measured for Starlink
/// (Tanveer, Puchol, Singh, Bianchi and Nithyanand: Making Sense of Constellations, CoNEXT 2023 companion;
/// Mohan et al.: A Multifaceted Look at Starlink Performance, WWW 2024). Instant 0 is the beginning of a
/// minute. A handover pauses the link and then changes its delay and its rate. How much it changes them is our
/// choice. All values are drawn from a uniform distribution.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeoLike(pub LeoSettings);

impl LinkTrace for LeoLike {
    fn steps(&self, link: &TraceInfo) -> TraceSteps {
        let (settings, link) = (self.0, *link);
        let mut rng = link.rng();
        let mut delay = link.delay;
        Box::new((0u64..).flat_map(move |number| {
            let at = Instant::ZERO + FIRST + INTERVAL * number;
            let spread = settings
                .longest_pause
                .saturating_sub(settings.shortest_pause);
            let pause = settings.shortest_pause + part(&mut rng, spread);
            let before = delay;
            delay = link.delay + part(&mut rng, settings.delay_spread);
            let share = settings.lowest + (1.0 - settings.lowest) * unit(&mut rng);
            let rate = BitRate(((link.rate.0 as f64 * share).round() as u64).max(1));
            let paused = TraceStep {
                at,
                rate: BitRate(0),
                delay: before,
            };
            let resumed = TraceStep {
                at: at + pause,
                rate,
                delay,
            };
            [paused, resumed]
        }))
    }
}

/// A part of a time, from none to nearly all of it.
fn part(rng: &mut Xoshiro256PlusPlus, whole: Duration) -> Duration {
    Duration::from_nanos((whole.as_nanos() as f64 * unit(rng)) as u64)
}

#[cfg(test)]
mod tests {
    use crate::LinkId;

    use super::*;

    fn steps(n: usize) -> Vec<TraceStep> {
        let info = TraceInfo {
            link: LinkId(1),
            seed: 1,
            rate: BitRate(100_000_000),
            delay: Duration::from_millis(15),
        };
        LeoLike::default().steps(&info).take(n).collect()
    }

    #[test]
    fn handovers_are_at_12_27_42_and_57_s_of_each_minute() {
        let pauses = steps(10).into_iter().step_by(2);
        let times: Vec<u64> = pauses.map(|s| s.at.as_millis() / 1000).collect();
        assert_eq!(times, [12, 27, 42, 57, 72]);
    }

    #[test]
    fn handover_pauses_the_link_and_changes_rate_and_delay_within_the_bounds() {
        let steps = steps(2000);
        for pair in steps.chunks(2) {
            assert_eq!(pair[0].rate, BitRate(0));
            let pause = pair[1].at.since(pair[0].at).as_millis();
            assert!((20..=200).contains(&pause), "{pause} ms");
            let delay = pair[1].delay.as_millis();
            assert!((15..=25).contains(&delay), "{delay} ms");
            assert!((50_000_000..=100_000_000).contains(&pair[1].rate.0));
        }
        let mean: u64 = steps
            .chunks(2)
            .map(|p| p[1].at.since(p[0].at).as_micros())
            .sum();
        let mean = mean / 1000;
        assert!((105_000..115_000).contains(&mean), "mean pause {mean} us");
    }
}
