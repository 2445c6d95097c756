//! `outages`: links that go down and return, once or periodically.

use std::sync::Arc;

use spindle_fabric::{LinkId, LinkSpec, Loss as LinkLoss, Network, NetworkError};
use spindle_units::{Duration, Instant};

use super::{LossModel, LossPlace, ReadLossModel, Result};
use crate::catalog::Catalog;
use crate::document::Section;

/// Until when periodic outages begin by default (our choice; longer than runs in the lab).
const UNTIL: Duration = Duration::from_secs(3600);

/// Largest number of outages of a link (our choice). Each takes 32 bytes for each link and run.
const MOST: u64 = 100_000;

/// The links are down for a given time, once or periodically.
#[derive(Clone, Copy, Debug)]
struct Outages {
    /// Start of the first outage. Time counts from the start of the run and includes the preparation of
    /// connections.
    start: Duration,
    /// How long each outage lasts.
    length: Duration,
    /// Time from the start of an outage to the start of the next. `None` if there is only one outage.
    every: Option<Duration>,
    /// No outage begins at or after this time.
    until: Duration,
}

impl Outages {
    /// The number of outages.
    fn count(&self) -> u64 {
        match self.every {
            None => 1,
            Some(every) => {
                let window = self.until.as_nanos().saturating_sub(self.start.as_nanos());
                window.div_ceil(every.as_nanos().max(1))
            }
        }
    }

    /// The times when the link is down, ascending.
    fn times(&self) -> impl Iterator<Item = (Instant, Instant)> {
        let every = self.every.unwrap_or(Duration::ZERO);
        (0..self.count()).map(move |n| {
            let start = Instant::ZERO + self.start + every * n;
            (start, start + self.length)
        })
    }
}

/// Adds times when a link is down to its script. Times that overlap or touch are joined.
pub(super) fn add(spec: &mut LinkSpec, times: impl IntoIterator<Item = (Instant, Instant)>) {
    let mut all = down_times(&spec.up_down);
    all.extend(times);
    all.sort_unstable();
    let mut joined: Vec<(Instant, Instant)> = Vec::with_capacity(all.len());
    for (start, end) in all {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    let steps = joined
        .iter()
        .flat_map(|&(start, end)| [(start, false), (end, true)]);
    spec.up_down = steps.collect();
}

/// The times when a link with this script is down.
fn down_times(script: &[(Instant, bool)]) -> Vec<(Instant, Instant)> {
    let mut times = Vec::new();
    let mut since = None;
    for &(at, up) in script {
        match (up, since) {
            (false, None) => since = Some(at),
            (true, Some(start)) => {
                times.push((start, at));
                since = None;
            }
            _ => {}
        }
    }
    times.extend(since.map(|start| (start, Instant::FAR_FUTURE)));
    times
}

impl LossModel for Outages {
    fn process(&self) -> std::result::Result<LinkLoss, NetworkError> {
        Ok(LinkLoss::black_hole())
    }

    /// The links go down and up again. Packets without payload are lost as well.
    fn apply(
        &self,
        network: &mut Network,
        links: &[LinkId],
        _: bool,
    ) -> std::result::Result<(), NetworkError> {
        network.configure(links, |spec| add(spec, self.times()))
    }
}

fn read(s: &Section<'_>, _: &LossPlace<'_>) -> Result<Arc<dyn LossModel>> {
    let length = s.need::<Duration>("length")?;
    let every = s.get::<Duration>("every")?;
    let outages = Outages {
        start: s.or("start", every.unwrap_or(Duration::ZERO))?,
        length,
        every,
        until: s.or("until", UNTIL)?,
    };
    if length == Duration::ZERO {
        return Err(s.error("length", "found 0, want a time above 0 such as \"200ms\""));
    }
    match every {
        None if s.has("until") => {
            let problem = "has no meaning for a single outage, want every as well";
            return Err(s.error("until", problem));
        }
        Some(every) if every <= length => {
            let problem = format!("found {every}, want more than the length, {length}");
            return Err(s.error("every", problem));
        }
        _ => {}
    }
    match outages.count() {
        0 => Err(s.error("until", "is not after the start of the first outage")),
        1..=MOST => Ok(Arc::new(outages)),
        n => {
            let problem =
                format!("makes {n} outages, want at most {MOST}: set until or a longer time");
            Err(s.error("every", problem))
        }
    }
}

pub(super) fn register(catalog: &mut Catalog<ReadLossModel>) {
    let summary = "the links go down for a time and return, once or periodically";
    catalog.add("outages", summary, Arc::new(read));
}

#[cfg(test)]
mod tests {
    use crate::file::Overrides;
    use crate::library;
    use crate::network::network;
    use crate::registry::Registry;

    /// The script of cable P1's up link in a file with these losses, in milliseconds, or the error.
    fn script(losses: &str) -> std::result::Result<Vec<(u64, bool)>, String> {
        let text = format!(
            "transports = [\"tcp\"]\ntopology = {{ name = \"fuso-testbed\" }}\n\
             traffic = {{ kind = \"none\" }}\n{losses}"
        );
        let here = std::path::Path::new(".");
        let file = ("f.toml", text.as_str());
        let e = library::parse(&Registry::standard(), file, here, &Overrides::default())
            .map_err(|e| e.to_string())?;
        let network = network(&e.points[0].scenario).map_err(|e| e.to_string())?;
        let link = network.links_matching("P1.up").map_err(|e| e.to_string())?[0];
        let steps = network.link(link).spec.up_down.iter();
        Ok(steps
            .map(|(at, up)| (at.as_nanos() / 1_000_000, *up))
            .collect())
    }

    #[test]
    fn periodic_outages_begin_every_period_until_the_end() {
        let file =
            "[loss]\nmodel = \"outages\"\non = \"P1\"\nlength = \"200ms\"\nevery = \"15s\"\n";
        let found = script(&format!("{file}until = \"40s\"")).unwrap();
        assert_eq!(
            found,
            [
                (15_000, false),
                (15_200, true),
                (30_000, false),
                (30_200, true)
            ]
        );
        // 3600 s are the default.
        assert_eq!(script(file).unwrap().len(), 2 * 239);
        assert_eq!(
            script(&format!("{file}direction = \"backward\"")).unwrap(),
            []
        );
    }

    #[test]
    fn single_outage_has_its_start_and_length() {
        let file = "[loss]\nmodel = \"outages\"\non = \"P1\"\nlength = \"50ms\"\nstart = \"1s\"";
        assert_eq!(script(file).unwrap(), [(1000, false), (1050, true)]);
    }

    #[test]
    fn outages_of_several_losses_on_a_link_are_joined() {
        let file = "[[loss]]\nmodel = \"outages\"\nlength = \"50ms\"\nstart = \"1s\"\n\
                    [[loss]]\nmodel = \"outages\"\nlength = \"60ms\"\nstart = \"1040ms\"\n\
                    [[loss]]\nmodel = \"black-hole\"\nfrom = \"2s\"\nuntil = \"3s\"";
        let expected = [(1000, false), (1100, true), (2000, false), (3000, true)];
        assert_eq!(script(file).unwrap(), expected);
    }

    #[test]
    fn outages_that_cannot_be_are_refused() {
        let wrong =
            |keys: &str| script(&format!("[loss]\nmodel = \"outages\"\n{keys}")).unwrap_err();
        let e = wrong("every = \"1s\"");
        assert!(e.contains("loss.length: missing"), "{e}");
        let e = wrong("length = \"1s\"\nevery = \"1s\"");
        assert!(
            e.contains("loss.every") && e.contains("more than the length"),
            "{e}"
        );
        let e = wrong("length = \"1s\"\nuntil = \"5s\"");
        assert!(
            e.contains("loss.until") && e.contains("every as well"),
            "{e}"
        );
        let e = wrong("length = \"1us\"\nevery = \"2us\"");
        assert!(e.contains("at most 100000"), "{e}");
        let e = wrong("length = \"1us\"\nevery = \"5s\"\nuntil = \"5s\"");
        assert!(e.contains("not after the start"), "{e}");
    }
}
