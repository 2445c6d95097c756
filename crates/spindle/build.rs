//! Determines the commit that `spindle --version` prints after the version of the results. It is the commit of
//! the checkout that contains the sources, or the value of `SPINDLE_COMMIT` if that is set, as in a
//! distribution's build without a checkout. Nothing else depends on it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=SPINDLE_COMMIT");
    let given = env::var("SPINDLE_COMMIT").unwrap_or_default();
    let commit = match given.lines().next().map(str::trim) {
        Some(given) if !given.is_empty() => given.to_owned(),
        _ => checkout().unwrap_or_default(),
    };
    println!("cargo::rustc-env=SPINDLE_COMMIT={commit}");
}

/// Short hash and day of the commit, and whether the sources differ from it. `None` if there is no git, or if
/// the sources are only a part of another checkout.
fn checkout() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().ok()?;
    let top = PathBuf::from(git(&root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root {
        return None;
    }
    watch(&root);
    let commit = git(&root, &["log", "-1", "--abbrev=7", "--format=%h %cs"])?;
    let same = git(
        &root,
        &["diff", "--quiet", "HEAD", "--", "crates", "Cargo.lock"],
    );
    Some(match same {
        Some(_) => commit,
        None => commit + ", modified",
    })
}

/// Watches the files that change with another commit, or with other sources.
fn watch(root: &Path) {
    let branch = git(root, &["rev-parse", "--symbolic-full-name", "HEAD"]);
    for name in ["HEAD", "logs/HEAD", "packed-refs"]
        .into_iter()
        .chain(branch.as_deref())
    {
        let path = git(root, &["rev-parse", "--git-path", name]);
        watch_path(path.map(|p| root.join(p)));
    }
    watch_path(Some(root.join("Cargo.lock")));
    let crates = std::fs::read_dir(root.join("crates"));
    for entry in crates.into_iter().flatten().flatten() {
        watch_path(Some(entry.path().join("src")));
    }
}

/// A path that does not exist would make cargo run this script at every build.
fn watch_path(path: Option<PathBuf>) {
    if let Some(path) = path.filter(|p| p.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// The output of git, if it succeeds. The repository of a git hook is ignored.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .current_dir(root)
        .args(arguments)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
