//! The properties that experiment files can give to links by name: `[links]`, or several `[[links]]`.
//!
//! Each property is a key of that table and one file of this folder, which registers itself in [`built_in`]. Other
//! crates add theirs with [`Registry::link_property`](crate::registry::Registry::link_property).

mod jitter;
mod local_retransmission;
mod port;
mod reorder;

use std::fmt;
use std::sync::Arc;

use spindle_fabric::{LinkSpec, Network, NetworkError};

use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};
use crate::loss_models::{Direction, links as links_named};
use crate::topologies::Buffer;

type Result<T> = std::result::Result<T, ExperimentError>;

/// Properties of some links.
#[derive(Clone, Debug)]
pub struct LinkProperties {
    /// Links: hosts (their cables), cables such as `P1`, patterns such as `access:H4-H6`, or `all`.
    pub on: Vec<String>,
    /// The directions of the links.
    pub direction: Direction,
    /// The properties, in the order of the catalog.
    pub properties: Vec<Arc<dyn LinkProperty>>,
}

/// A property of links.
///
/// The `Debug` text must contain everything that determines the property: points of a sweep with the same text
/// share their results.
pub trait LinkProperty: fmt::Debug + Send + Sync {
    /// Gives the property to a link.
    fn apply(&self, link: &mut LinkSpec);

    /// The property with another capacity of the port. `None` if it is not a capacity.
    fn with_buffer(&self, change: &dyn Fn(Buffer) -> Buffer) -> Option<Arc<dyn LinkProperty>> {
        let _ = change;
        None
    }
}

/// Reads a property from the table `[links]`. `None` if the table does not have its key.
pub type ReadLinkProperty =
    dyn Fn(&Section<'_>) -> Result<Option<Arc<dyn LinkProperty>>> + Send + Sync;

/// The properties that come with Spindle. The name of each is its key.
pub fn built_in() -> Catalog<ReadLinkProperty> {
    let mut catalog = Catalog::new("property of links");
    for register in [
        port::register,
        jitter::register,
        reorder::register,
        local_retransmission::register,
    ] {
        register(&mut catalog);
    }
    catalog
}

/// Reads `[links]`, or several `[[links]]`.
///
/// # Errors
/// The first mistake.
pub fn read(
    root: &Section<'_>,
    network: &Network,
    catalog: &Catalog<ReadLinkProperty>,
) -> Result<Vec<LinkProperties>> {
    let tables = root.tables("links")?;
    tables.iter().map(|s| table(s, network, catalog)).collect()
}

fn table(
    s: &Section<'_>,
    network: &Network,
    catalog: &Catalog<ReadLinkProperty>,
) -> Result<LinkProperties> {
    let on: Vec<String> = s.list("on")?.unwrap_or_else(|| vec!["all".to_owned()]);
    let direction = Direction::read(s)?;
    for name in &on {
        links_named(network, name, direction).map_err(|e| s.error("on", e.to_string()))?;
    }
    let mut properties = Vec::new();
    for read in catalog.items() {
        properties.extend(read(s)?);
    }
    s.check()?;
    if properties.is_empty() {
        let names: Vec<&str> = catalog.names().collect();
        let problem = format!(
            "has no property of links, want some of {}",
            names.join(", ")
        );
        return Err(ExperimentError::new(
            s.origin().clone(),
            s.path("on"),
            problem,
        ));
    }
    Ok(LinkProperties {
        on,
        direction,
        properties,
    })
}

/// Gives links of a network their properties.
///
/// # Errors
/// If a name matches no link, or a property is impossible.
pub fn apply(
    network: &mut Network,
    tables: &[LinkProperties],
) -> std::result::Result<(), NetworkError> {
    for table in tables {
        for name in &table.on {
            let links = links_named(network, name, table.direction)?;
            let all = &table.properties;
            network.configure(&links, |spec| all.iter().for_each(|p| p.apply(spec)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use spindle_fabric::{
        Buffer, Jitter, JitterDistribution, LinkSpec, LocalRetransmission, Reorder,
    };
    use spindle_units::{BitRate, Bytes, Duration, Probability};

    use crate::file::Overrides;
    use crate::library;
    use crate::network::network;
    use crate::registry::Registry;

    /// The link P1.up of a file with this text, or the error.
    fn link(keys: &str) -> std::result::Result<LinkSpec, String> {
        let text = format!(
            "transports = [\"tcp\"]\ntopology = {{ name = \"fuso-testbed\" }}\n\
             traffic = {{ kind = \"none\" }}\n{keys}"
        );
        let here = std::path::Path::new(".");
        let file = ("f.toml", text.as_str());
        let e = library::parse(&Registry::standard(), file, here, &Overrides::default())
            .map_err(|e| e.to_string())?;
        let network = network(&e.points[0].scenario).map_err(|e| e.to_string())?;
        let link = network.links_matching("P1.up").map_err(|e| e.to_string())?[0];
        Ok(network.link(link).spec.clone())
    }

    #[test]
    fn properties_are_given_to_the_named_links() {
        let spec = link(
            "[[links]]\non = \"P1\"\njitter = \"50us\"\nreorder = { share = \"1%\", delay = \"1ms\" }\n\
             [[links]]\nlocal_retransmission = \"ordered\"\n",
        )
        .unwrap();
        let jitter = Jitter {
            distribution: JitterDistribution::Uniform,
            limit: Duration::from_micros(50),
        };
        assert_eq!(spec.jitter, Some(jitter));
        let reorder = Reorder {
            share: Probability::new(0.01).unwrap(),
            delay: Duration::from_millis(1),
        };
        assert_eq!(spec.reorder, Some(reorder));
        assert_eq!(
            spec.local_retransmission,
            Some(LocalRetransmission::Ordered)
        );
        let other =
            link("[links]\non = \"P1\"\ndirection = \"backward\"\njitter = \"50us\"").unwrap();
        assert_eq!(other.jitter, None);
        let exponential = link("[links]\njitter = { mean = \"5us\", limit = \"50us\" }").unwrap();
        let mean = Duration::from_micros(5);
        assert_eq!(
            exponential.jitter.map(|j| j.distribution),
            Some(JitterDistribution::Exponential(mean))
        );
    }

    #[test]
    fn named_links_have_their_own_rate_delay_buffer_and_threshold() {
        let spec = link(
            "[[links]]\non = \"P1\"\nrate = \"50Mbps\"\ndelay = \"60ms\"\n\
             [[links]]\non = [\"P1.up\", \"P3\"]\nbuffer = \"1MB\"\necn_threshold = \"0B\"\n",
        );
        let spec = spec.unwrap();
        assert_eq!(spec.rate, BitRate(50_000_000));
        assert_eq!(spec.delay, Duration::from_millis(60));
        assert_eq!(spec.buffer, Buffer::Bytes(Bytes(1_000_000)));
        assert_eq!(spec.mark_above, None);
        let other = link("[links]\non = \"P1.down\"\nbuffer_packets = 9").unwrap();
        assert_eq!(other.buffer, Buffer::Bytes(Bytes(128_000)));
        assert_eq!(other.mark_above, Some(Bytes(32_000)));
        let wrong = link("[links]\nrate = \"0bps\"").unwrap_err();
        assert!(wrong.contains("links.rate: found 0"), "{wrong}");
    }

    #[test]
    fn wrong_properties_are_refused_with_what_is_accepted() {
        let wrong = |keys: &str| link(&format!("[links]\n{keys}")).unwrap_err();
        let e = wrong("jiter = \"5us\"");
        assert!(
            e.contains("links.jiter: unknown key") && e.contains("\"jitter\"?"),
            "{e}"
        );
        let e = wrong("on = \"P1\"");
        assert!(
            e.contains("want some of rate, delay, buffer, ecn_threshold, jitter, "),
            "{e}"
        );
        let e = wrong("on = \"P9\"\njitter = \"5us\"");
        assert!(e.contains("links.on: no link matches `P9`"), "{e}");
        let e = wrong("rate = \"0bps\"");
        assert!(e.contains("links.rate: found 0"), "{e}");
        let e = wrong("jitter = \"0us\"");
        assert!(e.contains("links.jitter: found 0"), "{e}");
        let e = wrong("jitter = { mean = \"5us\" }");
        assert!(e.contains("links.jitter.limit: missing"), "{e}");
        let e = wrong("reorder = { share = \"1%\", delay = \"0us\" }");
        assert!(e.contains("links.reorder.delay: found 0"), "{e}");
        let e = wrong("local_retransmission = \"in-order\"");
        assert!(e.contains("want one of ordered, unordered"), "{e}");
    }

    #[test]
    fn scenario_text_without_link_properties_does_not_mention_them() {
        let text = |keys: &str| {
            let text = format!(
                "transports = [\"tcp\"]\ntopology = {{ name = \"fuso-testbed\" }}\n\
                 traffic = {{ kind = \"none\" }}\n{keys}"
            );
            let here = std::path::Path::new(".");
            let file = ("f.toml", text.as_str());
            let e = library::parse(&Registry::standard(), file, here, &Overrides::default());
            format!("{:?}", e.unwrap().points[0].scenario)
        };
        assert!(
            text("").ends_with("balancer: \"ecmp\" }"),
            "stored results keep their hashes"
        );
        assert!(text("[links]\njitter = \"5us\"").contains("links: [LinkProperties"));
    }
}
