//! `[links]`: links whose settings differ from the topology's.

use spindle_fabric::{Network, NetworkError};
use spindle_units::{BitRate, Bytes, Duration};

use super::Buffer;
use super::links::{buffer, rate};
use crate::document::{ExperimentError, Section, Size};
use crate::loss_models::{Direction, links};

/// Settings of some links that differ from the topology's. Settings that are `None` do not differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// The links: hosts (their cables), cables such as `P1`, patterns such as `access:H4-H6`, or `all`.
    pub on: Vec<String>,
    /// The rate.
    pub rate: Option<BitRate>,
    /// The delay in one direction.
    pub delay: Option<Duration>,
    /// Queue size of the port.
    pub buffer: Option<Buffer>,
    /// Queue length from which packets are marked. `Some(None)` disables marking.
    pub ecn_threshold: Option<Option<u64>>,
}

impl LinkChange {
    /// Reads one table.
    ///
    /// # Errors
    /// If a key is unknown, or a value is out of range or names no link.
    pub(crate) fn read(s: Section<'_>, network: &Network) -> Result<Self, ExperimentError> {
        let on: Vec<String> = s
            .list("on")?
            .ok_or_else(|| s.error("on", "missing, want a list of links such as [\"P1\"]"))?;
        for name in &on {
            links(network, name, Direction::Both).map_err(|e| s.error("on", e.to_string()))?;
        }
        let given = s.has("rate");
        let change = Self {
            on,
            rate: given.then(|| rate(&s, "rate", BitRate(0))).transpose()?,
            delay: s.get("delay")?,
            buffer: buffer(&s)?,
            ecn_threshold: s
                .get::<Size>("ecn_threshold")?
                .map(|Size(bytes)| Some(bytes).filter(|b| *b > 0)),
        };
        let none = Self {
            on: change.on.clone(),
            ..Self::default()
        };
        if change == none {
            let problem = "changes nothing, want at least one of rate, delay, buffer, buffer_packets, ecn_threshold";
            return Err(s.error("on", problem));
        }
        s.finish()?;
        Ok(change)
    }

    /// Changes the links of a network.
    ///
    /// # Errors
    /// If a name matches no link.
    pub(crate) fn apply(&self, network: &mut Network) -> Result<(), NetworkError> {
        for name in &self.on {
            let links = links(network, name, Direction::Both)?;
            network.configure(&links, |spec| {
                spec.rate = self.rate.unwrap_or(spec.rate);
                spec.delay = self.delay.unwrap_or(spec.delay);
                spec.buffer = self.buffer.map_or(spec.buffer, Buffer::port);
                if let Some(threshold) = self.ecn_threshold {
                    spec.mark_above = threshold.map(Bytes);
                }
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use spindle_units::{BitRate, Bytes, Duration};

    use crate::file::Overrides;
    use crate::library;
    use crate::network::network;
    use crate::registry::Registry;

    fn scenario(links: &str) -> Result<crate::scenario::Scenario, String> {
        let text = format!(
            "transports = [\"tcp\"]\ntopology = {{ name = \"fuso-testbed\" }}\n\
             traffic = {{ kind = \"none\" }}\n{links}"
        );
        let here = std::path::Path::new(".");
        let file = ("f.toml", text.as_str());
        let e = library::parse(&Registry::standard(), file, here, &Overrides::default());
        e.map(|e| e.points[0].scenario.clone())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn named_links_have_their_own_rate_delay_buffer_and_threshold() {
        let s = scenario(
            "[[links]]\non = [\"P1\"]\nrate = \"50Mbps\"\ndelay = \"60ms\"\n\
             [[links]]\non = [\"P2.up\", \"P3\"]\nbuffer = \"1MB\"\necn_threshold = \"0B\"\n",
        );
        let network = network(&s.unwrap()).unwrap();
        let spec = |name: &str| {
            let link = network.links_matching(name).unwrap()[0];
            network.link(link).spec.clone()
        };
        let (slow, up, down) = (spec("P1.down"), spec("P2.up"), spec("P2.down"));
        assert_eq!(slow.rate, BitRate(50_000_000));
        assert_eq!(slow.delay, Duration::from_millis(60));
        assert_eq!(slow.buffer, down.buffer);
        assert_eq!(up.buffer, spindle_fabric::Buffer::Bytes(Bytes(1_000_000)));
        assert_eq!((up.mark_above, up.rate), (None, down.rate));
        assert_eq!(down.mark_above, Some(Bytes(32_000)));
        assert_eq!(spec("P3.down").mark_above, None);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let error = |links: &str| scenario(links).unwrap_err();
        for (links, problem) in [
            (
                "[links]\nrate = \"1Mbps\"",
                "links.on: missing, want a list of links",
            ),
            ("[links]\non = [\"P1\"]", "links.on: changes nothing"),
            ("[links]\non = [\"P9\"]\nrate = \"1Mbps\"", "links.on: "),
            (
                "[[links]]\non = [\"P1\"]\nrate = \"0bps\"",
                "links[1].rate: found 0",
            ),
        ] {
            let found = error(links);
            assert!(found.contains(problem), "{found}");
            assert!(found.starts_with("f.toml:"), "{found}");
        }
    }
}
