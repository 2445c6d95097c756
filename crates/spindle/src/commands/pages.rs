//! `spindle pages`: man pages and shell completions, made from the definitions of the arguments.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::file_name;
use crate::args::{Args, Pages};
use crate::failure::Failure;

/// Shells, and the directory of each.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash"),
    (Shell::Zsh, "zsh"),
    (Shell::Fish, "fish"),
];

pub(crate) fn pages(args: &Pages) -> Result<ExitCode, Failure> {
    let man = made(&args.directory, "man1")?;
    clap_mangen::generate_to(Args::command(), &man)
        .map_err(|e| Failure::file(&man, "write", &e))?;
    for (shell, name) in SHELLS {
        let directory = made(&args.directory, name)?;
        clap_complete::generate_to(shell, &mut Args::command(), file_name(), &directory)
            .map_err(|e| Failure::file(&directory, "write", &e))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn made(directory: &Path, name: &str) -> Result<PathBuf, Failure> {
    let path = directory.join(name);
    std::fs::create_dir_all(&path).map_err(|e| Failure::file(&path, "make", &e))?;
    Ok(path)
}
