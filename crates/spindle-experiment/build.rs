//! Defines the version that results carry. It consists of the package's version and a fingerprint of the
//! sources that results depend on, so that runs of different cores are not taken for runs of the same core.

use std::fs;
use std::path::{Path, PathBuf};

/// The other crates that results depend on. The lab makes the runs that carry the version.
const CRATES: [&str; 6] = [
    "spindle-units",
    "spindle-wire",
    "spindle-codes",
    "spindle-mptcp",
    "spindle-fabric",
    "spindle-lab",
];

/// The files and directories that only judge and present results.
const SHOWN: [&str; 8] = [
    "src/causes.rs",
    "src/claims",
    "src/results",
    "src/library.rs",
    "src/explain.rs",
    "src/file/printed.rs",
    "../spindle-lab/src/progress.rs",
    "../spindle-lab/src/story.rs",
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
    let files = sources(&roots);
    let version = match files.as_deref().and_then(fingerprint) {
        Some(hash) => format!("{version}+{:08x}", hash >> 32),
        None => version,
    };
    if let Some(out) = std::env::var_os("OUT_DIR") {
        let names = files.unwrap_or_default();
        let names: Vec<_> = names.iter().filter_map(|f| f.to_str()).collect();
        let _ = fs::write(Path::new(&out).join("sources.txt"), names.join("\n"));
    }
    println!("cargo::rustc-env=SPINDLE_VERSION={version}");
}

/// Returns all sources that results depend on. Returns `None` if the sources of a crate are missing, as in a
/// package from a registry. The package's version identifies such a build completely.
fn sources(roots: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let mut files = Vec::new();
    for root in roots {
        collect(root, &mut files)?;
    }
    files.sort();
    Some(files)
}

/// Returns a hash over the names and contents of `files`.
fn fingerprint(files: &[PathBuf]) -> Option<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325u64; // FNV-1a
    for file in files {
        let text = fs::read(file).ok()?;
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
        let path = entry.path();
        let tests = name.to_str()?.ends_with("tests.rs");
        let shown = SHOWN.iter().any(|shown| path == Path::new(shown));
        if tests || shown {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Some(())
}
