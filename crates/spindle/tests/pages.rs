//! `spindle pages`, and the output of `--version`.

use std::fs;
use std::process::Command;

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(arguments)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = printed(&["--help"]);
    let lines = help.lines().skip_while(|l| *l != "Commands:").skip(1);
    let names = lines
        .take_while(|l| !l.is_empty())
        .filter_map(|l| l.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_command_has_a_man_page_and_is_known_to_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("below");
    printed(&["pages", at.to_str().unwrap()]);
    let commands = commands();
    assert!(commands.iter().any(|c| c == "gateway"), "{commands:?}");
    let read =
        |name: &str| fs::read_to_string(at.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    for file in ["bash/spindle.bash", "zsh/_spindle", "fish/spindle.fish"] {
        let text = read(file);
        for command in &commands {
            assert!(text.contains(command.as_str()), "{file}: {command}");
        }
        assert!(text.contains("proxy-protocol"), "{file}");
    }
    for command in commands {
        let page = read(&format!("man1/spindle-{command}.1"));
        assert!(page.contains(&format!(".TH spindle-{command} 1")), "{page}");
    }
    let page = read("man1/spindle-gateway.1");
    assert!(page.contains("\\-\\-proxy\\-protocol"), "{page}");
    assert!(read("man1/spindle.1").contains("spindle\\-gateway(1)"));
    assert!(read("man1/spindle-analyze-caps.1").contains("\\-\\-blocking"));
}

#[test]
fn the_version_begins_with_that_of_results() {
    let version = printed(&["--version"]);
    let mut words = version.trim_end().splitn(3, ' ');
    assert_eq!(words.next(), Some("spindle"));
    assert_eq!(words.next(), Some(spindle::experiment::identity::VERSION));
    if let Some(commit) = words.next() {
        assert!(
            commit.starts_with('(') && commit.ends_with(')'),
            "{version}"
        );
    }
}
