//! Reads a CSV file of flows.

use spindle_fabric::{HostId, Network};
use spindle_units::Duration;

use crate::document::suggestion;

/// Largest number of flows (our choice). A run keeps about 200 bytes for each.
const MOST_FLOWS: usize = 1_000_000;

/// Longest time of a flow's start in seconds, ten days (our choice).
const LATEST: f64 = 864_000.0;

/// Largest size of a flow in bytes. It must be below the sizes that stand for transfers without end.
const LARGEST: f64 = (1u64 << 48) as f64;

/// A flow of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceFlow {
    /// When it starts, from the start of the measurement.
    pub(super) start: Duration,
    /// The number of the host that sends.
    pub(super) source: u32,
    /// The number of the host that receives.
    pub(super) destination: u32,
    /// Bytes to send, at least 1.
    pub(super) bytes: u64,
}

/// Why a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub(super) struct TraceError {
    /// The line, from 1.
    line: usize,
    /// What was found and what would be accepted.
    problem: String,
}

/// The header that error messages show.
const HEADER: &str = "a header such as time_us,source,destination,size_KB";

/// Units of the column `time`, each with its length in seconds.
const TIMES: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];

/// Units of the column `size`, each with its number of bytes.
const SIZES: [(&str, f64); 7] = [
    ("B", 1.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

/// The columns of a file, by position, with the factors of their units.
struct Columns {
    time: (usize, f64),
    source: usize,
    destination: usize,
    size: (usize, f64),
    count: usize,
}

/// Reads the flows. The first line is the header, empty lines and the rest of a line from `#` on are skipped. The
/// columns have any order, and other columns are ignored. A unit follows the name of a column after an underscore
/// (`time_us`); without one, times are in seconds and sizes in bytes. Hosts are named, or numbered from 0.
///
/// # Errors
/// The first mistake, with its line.
pub(super) fn parse(text: &str, network: &Network) -> Result<Vec<TraceFlow>, TraceError> {
    let mut columns = None;
    let mut flows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        let line = index + 1;
        let wrong = |problem| TraceError { line, problem };
        let fields: Vec<&str> = content.split(',').map(str::trim).collect();
        let Some(known) = &columns else {
            columns = Some(header(&fields).map_err(wrong)?);
            continue;
        };
        if flows.len() == MOST_FLOWS {
            return Err(wrong(format!(
                "has more than {MOST_FLOWS} flows, want fewer"
            )));
        }
        flows.push(flow(&fields, known, network).map_err(wrong)?);
    }
    match (columns, flows.is_empty()) {
        (None, _) => Err(TraceError {
            line: 1,
            problem: format!("found no line, want {HEADER}"),
        }),
        (_, true) => Err(TraceError {
            line: text.lines().count(),
            problem: "found no flows, want one or more lines after the header".to_owned(),
        }),
        _ => Ok(flows),
    }
}

fn header(fields: &[&str]) -> Result<Columns, String> {
    let place = |name: &str, units: &[(&str, f64)]| {
        let found = fields.iter().enumerate().find_map(|(n, field)| {
            let rest = field.strip_prefix(name)?;
            match rest.strip_prefix('_') {
                Some(unit) => Some((n, unit)),
                None => rest.is_empty().then_some((n, "")),
            }
        });
        let Some((n, unit)) = found else {
            let near = suggestion(name, fields.iter().copied());
            let found = fields.join(",");
            let found: String = found.chars().take(60).collect();
            return Err(format!(
                "found \"{found}\" without the column {name}, want {HEADER}{near}"
            ));
        };
        let factor = match unit {
            "" => Some(1.0),
            unit => units
                .iter()
                .find(|(u, _)| *u == unit)
                .map(|(_, factor)| *factor),
        };
        factor.map(|factor| (n, factor)).ok_or_else(|| {
            let known: Vec<&str> = units.iter().map(|(u, _)| *u).collect();
            let want = match known.is_empty() {
                true => "no unit".to_owned(),
                false => format!("one of the units {}", known.join(", ")),
            };
            format!("found column \"{}\", want {want} after {name}_", fields[n])
        })
    };
    Ok(Columns {
        time: place("time", &TIMES)?,
        source: place("source", &[])?.0,
        destination: place("destination", &[])?.0,
        size: place("size", &SIZES)?,
        count: fields.len(),
    })
}

fn flow(fields: &[&str], columns: &Columns, network: &Network) -> Result<TraceFlow, String> {
    if fields.len() != columns.count {
        let (found, want) = (fields.len(), columns.count);
        return Err(format!(
            "found {found} fields, want {want} as in the header"
        ));
    }
    let number = |(column, factor): (usize, f64), range: (f64, f64), what: &str, want: &str| {
        let value = fields[column].parse::<f64>().ok().map(|v| v * factor);
        let found = value.filter(|v| (range.0..=range.1).contains(v));
        let unit = "in the unit of the header";
        found.ok_or_else(|| format!("found {what} \"{}\", want {want} {unit}", fields[column]))
    };
    let seconds = number(columns.time, (0.0, LATEST), "time", "0 to ten days")?;
    let bytes = number(columns.size, (1.0, LARGEST), "size", "1 byte to 2^48 bytes")?;
    let source = host(fields[columns.source], network)?;
    let destination = host(fields[columns.destination], network)?;
    if source == destination {
        return Err(format!(
            "found {} as source and destination, want two hosts",
            fields[columns.source]
        ));
    }
    Ok(TraceFlow {
        start: Duration::from_nanos((seconds * 1e9).round() as u64),
        source,
        destination,
        bytes: bytes.round() as u64,
    })
}

/// A host by its name, or by its number from 0.
fn host(text: &str, network: &Network) -> Result<u32, String> {
    let numbered = || text.parse().ok().filter(|n| *n < network.hosts());
    let named = network.host_named(text).map(|HostId(n)| n);
    named.or_else(numbered).ok_or_else(|| {
        let first = &network.node(network.host_node(HostId(0))).name;
        let last = network.hosts() - 1;
        format!("found host \"{text}\", want a name such as {first}, or a number from 0 to {last}")
    })
}

#[cfg(test)]
mod tests {
    use spindle_fabric::topology::FusoTestbed;

    use super::*;

    fn read(text: &str) -> Result<Vec<TraceFlow>, String> {
        let network = FusoTestbed::default().build().unwrap();
        parse(text, &network).map_err(|e| e.to_string())
    }

    #[test]
    fn columns_have_any_order_and_units() {
        let text = "# a comment\nsize_KiB, id, destination, time_us, source\n\n2, 7, H4, 1.5, 0\n";
        let flow = TraceFlow {
            start: Duration::from_nanos(1500),
            source: 0,
            destination: 3,
            bytes: 2048,
        };
        assert_eq!(read(text), Ok(vec![flow]));
        let plain = read("time,source,destination,size\n0.5,H1,H2,1\n").unwrap()[0];
        assert_eq!((plain.start, plain.bytes), (Duration::from_millis(500), 1));
    }

    #[test]
    fn wrong_header_is_reported_with_what_is_accepted() {
        let e = read("time,src,destination,size\n").unwrap_err();
        assert!(
            e.starts_with("1: ") && e.contains("without the column source"),
            "{e}"
        );
        let e = read("time_min,source,destination,size\n").unwrap_err();
        assert!(
            e.contains("want one of the units s, ms, us, ns after time_"),
            "{e}"
        );
        let e = read("\n#\n").unwrap_err();
        assert!(e.contains("found no line, want a header"), "{e}");
        let e = read("time,source,destination,size\n").unwrap_err();
        assert!(e.contains("found no flows"), "{e}");
    }

    #[test]
    fn wrong_flow_is_reported_with_its_line() {
        let wrong = |line: &str| {
            let text = format!("time,source,destination,size\n0,H1,H2,5\n{line}\n");
            let e = read(&text).unwrap_err();
            assert!(e.starts_with("3: "), "{e}");
            e
        };
        assert!(wrong("0,H1,H2").contains("found 3 fields, want 4"));
        assert!(wrong("-1,H1,H2,5").contains("found time"));
        assert!(wrong("nan,H1,H2,5").contains("found time"));
        assert!(wrong("0,H1,H2,0").contains("want 1 byte to 2^48"));
        assert!(wrong("0,H1,H2,1e30").contains("found size"));
        assert!(wrong("0,6,H2,5").contains("a number from 0 to 5"));
        assert!(wrong("0,H1,0,5").contains("two hosts"));
    }
}
