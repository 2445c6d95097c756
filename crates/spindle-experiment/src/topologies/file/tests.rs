use spindle_fabric::{Buffer, LinkSpec, Network};
use spindle_units::{BitRate, Bytes, Duration};

use crate::file::Overrides;
use crate::library;
use crate::registry::Registry;

/// The network of a topology file with this text, or the error.
fn network(name: &str, text: &str, keys: &str) -> Result<Network, String> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(name), text).unwrap();
    let experiment = format!(
        "transports = [\"tcp\"]\ntraffic = {{ kind = \"none\" }}\n\
         [topology]\nname = \"file\"\npath = \"{name}\"\n{keys}"
    );
    let file = ("f.toml", experiment.as_str());
    let here = directory.path();
    let e = library::parse(&Registry::standard(), file, here, &Overrides::default())
        .map_err(|e| e.to_string())?;
    e.points[0]
        .scenario
        .topology
        .build()
        .map_err(|e| e.to_string())
}

fn link(network: &Network, name: &str) -> LinkSpec {
    let links = network.links_matching(name).unwrap();
    assert_eq!(links.len(), 1, "{name}");
    network.link(links[0]).spec.clone()
}

const TRIANGLE: &str = r#"
hosts = ["a", "b"]
switches = ["s0", "s1", "s2"]
[[cables]]
ends = ["a", "s0"]
[[cables]]
ends = ["s1", "b"]
delay = "7us"
[[cables]]
ends = ["s0", "s1"]
rate = "10Gbps"
delay = "20us"
buffer = "9KB"
[[cables]]
ends = ["s0", "s1"]
[[cables]]
ends = ["s1", "s2"]
name = "spare"
group = "spares"
"#;

#[test]
fn toml_file_gives_nodes_cables_and_their_properties() {
    let keys = "rate = \"2Gbps\"\nbuffer_packets = 50\ndelay = \"3us\"";
    let network = network("net.toml", TRIANGLE, keys).unwrap();
    assert_eq!((network.hosts(), network.switches().len()), (2, 3));
    let first = link(&network, "s0-s1.up");
    assert_eq!(first.rate, BitRate(10_000_000_000));
    assert_eq!(first.delay, Duration::from_micros(20));
    assert_eq!(first.buffer, Buffer::Bytes(Bytes(9000)));
    let second = link(&network, "s0-s1.2.down");
    assert_eq!(
        (second.rate, second.delay),
        (BitRate(2_000_000_000), Duration::from_micros(3))
    );
    assert_eq!(second.buffer, Buffer::Packets(50));
    // A host's cable begins at the host.
    assert_eq!(
        link(&network, "access:b.up").delay,
        Duration::from_micros(7)
    );
    assert_eq!(link(&network, "b.access.up").buffer, Buffer::Packets(1000));
    assert_eq!(network.links_matching("spares").unwrap().len(), 2);
    let address = |name| {
        network
            .address(network.host_named(name).unwrap(), 0)
            .unwrap()
    };
    assert_eq!(network.path_count(address("a"), address("b")), 2);
}

#[test]
fn mistake_in_a_toml_file_is_reported_with_file_and_line() {
    let wrong =
        |from: &str, to: &str| network("net.toml", &TRIANGLE.replace(from, to), "").unwrap_err();
    let e = wrong("[\"a\", \"s0\"]", "[\"a\", \"s9\"]");
    assert!(
        e.contains("net.toml:5: cables[1].ends: found \"s9\""),
        "{e}"
    );
    let e = wrong("[\"a\", \"s0\"]", "[\"a\"]");
    assert!(e.contains("found 1 names, want two"), "{e}");
    let e = wrong("rate = \"10Gbps\"", "rate = \"0bps\"");
    assert!(e.contains("net.toml:11: cables[3].rate"), "{e}");
    let e = wrong("\"s2\"]\n[[", "\"s2\", \"s3\"]\n[[");
    assert!(e.contains("\"s3\" is not connected with \"a\""), "{e}");
    let e = wrong("hosts = [\"a\", \"b\"]", "hosts = [\"a\", \"b\", \"s0\"]");
    assert!(e.contains("found \"s0\" twice"), "{e}");
    let e = wrong("spare", "a.access");
    assert!(e.contains("two cables named `a.access`"), "{e}");
    let e = network("net.toml", TRIANGLE, "hosts_per_node = 2").unwrap_err();
    assert!(e.contains("f.toml:6: topology.hosts_per_node"), "{e}");
    let e = network("net.json", TRIANGLE, "").unwrap_err();
    assert!(e.contains("want a file .toml, .graphml or .xml"), "{e}");
}

const ZOO: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d35" />
  <key attr.name="Longitude" attr.type="double" for="node" id="d32" />
  <key attr.name="Latitude" attr.type="double" for="node" id="d29" />
  <key attr.name="label" attr.type="string" for="node" id="d33" />
  <key attr.name="label" attr.type="string" for="graph" id="d0" />
  <graph edgedefault="undirected">
    <data key="d0">A network</data>
    <node id="0"><data key="d29">52.37403</data><data key="d32">4.88969</data><data key="d33">Amsterdam</data></node>
    <node id="1"><data key="d29">41.90000</data><data key="d32">12.48</data><data key="d33">Rome, IT</data></node>
    <node id="2"><data key="d33">Amsterdam</data></node>
    <edge source="0" target="1"><data key="d35">2500000000.0</data></edge>
    <edge source="1" target="2"/>
    <edge source="1" target="2"/>
    <edge source="2" target="2"/>
  </graph>
</graphml>
"#;

#[test]
fn graphml_file_gives_a_switch_with_hosts_for_each_node() {
    let keys = "hosts_per_node = 2\nrate = \"1Gbps\"\ndelay = \"5ms\"";
    let network = network("zoo.graphml", ZOO, keys).unwrap();
    assert_eq!((network.hosts(), network.switches().len()), (6, 3));
    assert_eq!(network.cables().len(), 6 + 3);
    // 1296 km along the great circle.
    let first = link(&network, "Amsterdam-Rome__IT.up");
    assert_eq!(first.rate, BitRate(2_500_000_000));
    let micros = first.delay.as_nanos() / 1000;
    assert!((6450..6520).contains(&micros), "{micros}");
    let second = link(&network, "Rome__IT-Amsterdam.2.down");
    assert_eq!(
        (second.rate, second.delay),
        (BitRate(1_000_000_000), Duration::from_millis(5))
    );
    assert_eq!(
        link(&network, "Rome__IT-Amsterdam.2.2.down").delay,
        second.delay
    );
    assert_eq!(
        link(&network, "h5.access.up").delay,
        Duration::from_micros(10)
    );
}

#[test]
fn mistake_in_a_graphml_file_is_reported_with_its_line() {
    let wrong =
        |from: &str, to: &str| network("zoo.graphml", &ZOO.replace(from, to), "").unwrap_err();
    let e = wrong("2500000000.0", "fast");
    assert!(
        e.contains("zoo.graphml:13: found LinkSpeedRaw \"fast\""),
        "{e}"
    );
    let e = wrong("target=\"1\"", "target=\"9\"");
    assert!(
        e.contains("zoo.graphml:13: found target \"9\", want the id of a <node>"),
        "{e}"
    );
    let e = wrong("<node id=\"1\">", "<node id=\"0\">");
    assert!(
        e.contains("zoo.graphml:11: found the node id \"0\" twice"),
        "{e}"
    );
    let e = wrong("52.37403", "152");
    assert!(e.contains("zoo.graphml:10: found latitude 152"), "{e}");
    let e = wrong("</graphml>", "");
    assert!(e.contains("not valid XML"), "{e}");
    let e = wrong("graph edgedefault", "grph edgedefault").replace('\n', " ");
    assert!(
        e.contains("not valid XML") || e.contains("want <graphml> with a <graph>"),
        "{e}"
    );
    let e = network("zoo.xml", ZOO, "hosts_per_node = 30000").unwrap_err();
    assert!(e.contains("makes 90000 hosts"), "{e}");
}
