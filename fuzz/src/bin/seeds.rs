//! Writes the seeded generator's scripts as an initial corpus: `seeds DIRECTORY [NUMBER]`, as in `cargo run
//! --no-default-features --bin seeds -- corpus/block_parities && cargo +nightly fuzz run block_parities`.

use std::path::PathBuf;

use spindle_fuzz::seeded;

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let directory = PathBuf::from(args.next().unwrap_or_else(|| "corpus".to_owned()));
    let number = args.next().and_then(|n| n.parse().ok()).unwrap_or(200);
    std::fs::create_dir_all(&directory)?;
    for seed in 1..=number {
        std::fs::write(directory.join(seed.to_string()), seeded::bytes(seed))?;
    }
    Ok(())
}
