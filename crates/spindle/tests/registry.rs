//! The command line with a user's own names.

use std::process::ExitCode;
use std::sync::Arc;

use spindle::fabric::Balancing;
use spindle::fabric::topology::Dumbbell;
use spindle::mptcp::path_manager::Ports;
use spindle::mptcp::{Config, MultipathConfig};
use spindle::{Registry, run};

fn registry() -> Registry {
    Registry::standard()
        .transport("pair", vec!["two plain subflows".to_owned()], || Config {
            multipath: Some(MultipathConfig {
                path_manager: Arc::new(Ports(2)),
                ..MultipathConfig::default()
            }),
            ..Config::default()
        })
        .balancer("mine", "any path", || Balancing::RandomSpray)
        .topology("wire", |request| {
            let rate = request.links.rate;
            Dumbbell {
                pairs: 1,
                access_rate: rate,
                ..Dumbbell::default()
            }
            .build()
        })
}

/// Runs the command line and returns whether the exit code was that of success.
fn succeeds(arguments: &[&str]) -> bool {
    let code = run(
        registry(),
        std::iter::once("spindle").chain(arguments.iter().copied()),
    );
    format!("{code:?}") == format!("{:?}", ExitCode::SUCCESS)
}

#[test]
fn registered_names_are_accepted_in_files_and_flags() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let out = dir.path().join("out.json");
    std::fs::write(
        &file,
        "transports = [\"pair\", \"fuso\"]\ntopology = { name = \"wire\" }\n\
         [traffic]\nkind = \"requests\"\nclients = [\"R1\"]\nservers = [\"S1\"]\n\
         sizes = \"20KB\"\nflows = 20\n",
    )
    .unwrap();
    let (file, json) = (file.to_str().unwrap(), out.to_str().unwrap());
    assert!(succeeds(&[
        "run",
        file,
        "--transports",
        "pair@mine,fuso",
        "--json",
        json
    ]));
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(
        value["points"][0]["transports"]["pair@mine"]["completed"],
        20
    );
    assert!(succeeds(&["explain", "pair"]));
    assert!(!succeeds(&["explain", "nothing"]));
    assert!(!succeeds(&["run", file, "--transports", "pair@nothing"]));
}
