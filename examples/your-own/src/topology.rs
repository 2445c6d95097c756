//! A topology: two racks connected by planes. The first plane is slower than the others.

use spindle::TopologyRequest;
use spindle_fabric::{Buffer, Builder, LinkSpec, Network, NetworkError};
use spindle_units::{BitRate, Bytes, Duration};

/// Hosts A1 and up at one switch, B1 and up at another, and planes P1 and up between the switches. Parameters:
/// the number of `planes` (4), the number of `hosts` in each rack (3), and the factor `slower` by which P1 is
/// slower (2).
pub fn planes(request: &TopologyRequest) -> Result<Network, NetworkError> {
    let planes = number(request, "planes", 4)?;
    let hosts = number(request, "hosts", 3)?;
    let slower = number(request, "slower", 2)?;
    let links = &request.links;
    // A round trip crosses three links in each direction.
    let delay = Duration::from_nanos(links.rtt.as_nanos() / 6);
    let buffer = Buffer::Bytes(Bytes(256_000));
    let link = |rate: BitRate| LinkSpec {
        mark_above: links.ecn_threshold.map(Bytes),
        ..LinkSpec::new(rate, delay, buffer)
    };
    let mut builder = Builder::new("planes");
    let racks = [
        ("A", builder.switch("left", 1)),
        ("B", builder.switch("right", 1)),
    ];
    for (letter, switch) in racks {
        for i in 1..=hosts {
            let name = format!("{letter}{i}");
            let host = builder.host(name.as_str());
            let spec = link(links.rate);
            builder.cable(
                format!("{name}.access"),
                "access",
                (host, switch),
                spec.clone(),
                spec,
            );
        }
    }
    for i in 1..=planes {
        let rate = BitRate(links.rate.0 / if i == 1 { slower } else { 1 });
        let ends = (racks[0].1, racks[1].1);
        builder.cable(format!("P{i}"), "planes", ends, link(rate), link(rate));
    }
    builder.build()
}

/// A parameter of the file's `[topology.parameters]`, from 1 to 64.
fn number(
    request: &TopologyRequest,
    name: &'static str,
    default: u64,
) -> Result<u64, NetworkError> {
    let given = request.parameters.iter().find(|(key, _)| key == name);
    let Some((_, text)) = given else {
        return Ok(default);
    };
    let read = text.parse().ok().filter(|n| (1..=64).contains(n));
    read.ok_or_else(|| NetworkError::Parameter {
        what: "the topology \"planes\"".to_owned(),
        parameter: name,
        found: text.clone(),
        remedy: "it is a number from 1 to 64",
    })
}
