//! Registers an experiment's claims and sizes before a run, as hashes that do not depend on any result.
//!
//! A hash that is published before a full run shows later that neither a claim nor a size was adapted to the
//! results. The hashes depend on the text of the file and on [`RULES`], not on the layout of the file, the names
//! in the code, or the version of Rust.

use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::claims::Claim;
use crate::file::{Experiment, Point};

/// The version of the rules that turn runs into verdicts: the tests of claims, the defaults of their keys (such as
/// `slack`), and how comparisons are combined. It must increase with each change of these rules, and all hashes of
/// claims change with it.
pub const RULES: u32 = 1;

/// Number of hexadecimal digits of a hash that are kept: 64 bits of SHA-256.
const DIGITS: usize = 16;

/// The hashes of an experiment's claims, and its sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Registration {
    /// A hash of the sizes and of all claims in their order.
    pub hash: String,
    /// Points, transports, runs and flows, as text.
    pub sizes: String,
    /// The id and the hash of each claim. The hash covers the claim's entire table except for its `note`.
    #[serde(skip)]
    pub claims: Vec<(String, String)>,
}

impl Registration {
    /// Registers an experiment. The experiment's scale and seed decide its sizes.
    pub fn of(experiment: &Experiment) -> Self {
        let claims: Vec<(String, String)> = experiment
            .claims
            .iter()
            .map(|claim| (claim.id.clone(), of_claim(claim)))
            .collect();
        let mut all = vec![experiment.id.clone(), exact_sizes(experiment)];
        all.extend(claims.iter().map(|(_, hash)| hash.clone()));
        Self {
            hash: hash(&all),
            sizes: sizes(experiment),
            claims,
        }
    }
}

/// The hash of a claim.
fn of_claim(claim: &Claim) -> String {
    hash(&[format!("rules {RULES}"), claim.written.clone()])
}

/// The first [`DIGITS`] digits of the SHA-256 of the parts, each followed by a zero byte.
fn hash(parts: &[String]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    let mut text = String::with_capacity(2 * DIGITS);
    for byte in hasher.finalize().iter().take(DIGITS / 2) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Everything that decides how many runs are made of which flows, in one text. The points' values are as written.
fn exact_sizes(experiment: &Experiment) -> String {
    let mut text = format!(
        "seeds {} from {} in {} parts",
        experiment.seeds,
        experiment.seed,
        experiment.parts()
    );
    for transport in &experiment.transports {
        let _ = write!(text, "\n{transport}");
    }
    for point in &experiment.points {
        let _ = write!(text, "\n{}", point.scenario.traffic.size());
        for (axis, value) in &point.set {
            let _ = write!(text, " {axis:?}={value:?}");
        }
    }
    text
}

/// The sizes for a reader: "6 points, 8 transports, 1 seed of 300 flows in 20 parts".
fn sizes(experiment: &Experiment) -> String {
    let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let points = count(experiment.points.len() as u64, "point");
    let transports = count(experiment.transports.len() as u64, "transport");
    if experiment.points.iter().all(Point::is_computed) {
        return format!("{points}, {transports}, computed");
    }
    let mut traffic: Vec<String> = Vec::new();
    for point in &experiment.points {
        let size = point.scenario.traffic.size();
        if !traffic.contains(&size) {
            traffic.push(size);
        }
    }
    let seeds = count(experiment.seeds, "seed");
    let parts = count(experiment.parts(), "part");
    let traffic = traffic.join(" or ");
    format!("{points}, {transports}, {seeds} of {traffic} in {parts}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::file::{Overrides, Scale};
    use crate::library;
    use crate::registry::Registry;

    const FILE: &str = r#"
        id = "x-fig1"
        transports = ["tcp", "fuso"]
        topology = { name = "fuso-testbed" }
        sweep = { loss = ["1%", "2%"] }
        loss = { on = ["P1"] }
        [traffic]
        kind = "requests"
        clients = ["H4"]
        servers = ["H1"]
        sizes = "100KB"
        flows = 40
        [scale.full]
        flows = 400
        [[claims]]
        id = "x-fig1-n1"
        kind = "numeric"
        text = "fuso is below 2 ms"
        test = "below"
        of = "fuso"
        value = "2ms"
        note = "a remark"
    "#;

    fn registered(text: &str, scale: Scale) -> Registration {
        let overrides = Overrides {
            scale: Some(scale),
            ..Overrides::default()
        };
        let registry = Registry::standard();
        let file = ("x.toml", text);
        let parsed = library::parse(&registry, file, Path::new("."), &overrides);
        Registration::of(&parsed.unwrap())
    }

    #[test]
    fn hash_of_a_fixed_file_stays_the_same_in_later_versions() {
        let found = registered(FILE, Scale::Quick);
        assert_eq!(
            found.sizes,
            "2 points, 2 transports, 1 seed of 40 flows in 20 parts"
        );
        assert_eq!(
            found.claims,
            [("x-fig1-n1".to_owned(), "6818dde9968cb464".to_owned())]
        );
        assert_eq!(found.hash, "4e9c18fa0c00d2d7");
    }

    #[test]
    fn hash_ignores_layout_comments_and_notes() {
        let other = FILE
            .replace("text = \"fuso is below 2 ms\"", "")
            .replace(
                "id = \"x-fig1-n1\"",
                "id = \"x-fig1-n1\" # a comment\ntext = \"fuso is below 2 ms\"",
            )
            .replace("a remark", "another remark");
        assert_ne!(other, FILE);
        assert_eq!(
            registered(&other, Scale::Quick),
            registered(FILE, Scale::Quick)
        );
    }

    #[test]
    fn hash_of_a_claim_covers_its_text_and_its_bound() {
        let before = registered(FILE, Scale::Quick);
        for (old, new) in [
            ("is below 2 ms", "stays below 2 ms"),
            ("\"2ms\"", "\"3ms\""),
        ] {
            let after = registered(&FILE.replace(old, new), Scale::Quick);
            assert_ne!(after.claims, before.claims, "{new}");
            assert_ne!(after.hash, before.hash, "{new}");
        }
    }

    #[test]
    fn hash_of_an_experiment_covers_its_sizes_and_that_of_a_claim_does_not() {
        let (quick, full) = (
            registered(FILE, Scale::Quick),
            registered(FILE, Scale::Full),
        );
        assert_ne!(quick.hash, full.hash);
        assert_ne!(quick.sizes, full.sizes);
        assert_eq!(quick.claims, full.claims);
        let swept = FILE.replace("\"2%\"]", "\"4%\"]");
        assert_ne!(registered(&swept, Scale::Quick).hash, quick.hash);
    }
}
