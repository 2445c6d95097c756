//! Gives the version that results carry: the package's, and a fingerprint of the sources that
//! results depend on, so that runs of different cores are not taken for runs of one.

use std::fs;
use std::path::{Path, PathBuf};

/// What results depend on, beside the lab.
const CRATES: [&str; 5] = [
    "spindle-units",
    "spindle-wire",
    "spindle-codes",
    "spindle-mptcp",
    "spindle-fabric",
];

/// What of the lab only judges and shows results.
const SHOWN: [&str; 7] = [
    "claims",
    "report",
    "present",
    "output.rs",
    "progress.rs",
    "story.rs",
    "library.rs",
];

fn main() {
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let mut roots: Vec<PathBuf> = CRATES
        .iter()
        .map(|name| Path::new("..").join(name).join("src"))
        .collect();
    roots.push(PathBuf::from("src"));
    for root in &roots {
        println!("cargo::rerun-if-changed={}", root.display());
    }
    let version = match fingerprint(&roots) {
        Some(hash) => format!("{version}+{:08x}", hash >> 32),
        None => version,
    };
    println!("cargo::rustc-env=SPINDLE_VERSION={version}");
}

/// A hash over the names and contents of all sources; none if a crate's are not there, as in a
/// package from a registry, whose version says it all.
fn fingerprint(roots: &[PathBuf]) -> Option<u64> {
    let mut files = Vec::new();
    for root in roots {
        collect(root, &mut files)?;
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325u64; // FNV-1a
    for file in files {
        let text = fs::read(&file).ok()?;
        for byte in file.to_str()?.bytes().chain([0]).chain(text) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    Some(hash)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Option<()> {
    for entry in fs::read_dir(directory).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let tests = name.to_str()?.ends_with("tests.rs");
        if tests || SHOWN.iter().any(|shown| name == *shown) {
            continue;
        }
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Some(())
}
