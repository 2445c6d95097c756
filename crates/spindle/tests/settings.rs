//! `--config FILE`: the settings of a file are handled like flags, and its mistakes are reported with their
//! line.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs a gateway with a file of this text, and flags.
fn gateway(text: &str, flags: &str) -> (Output, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("g.toml"), text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .current_dir(dir.path())
        .args(["gateway", "--config", "g.toml"])
        .args(flags.split_whitespace())
        .output()
        .unwrap();
    (output, dir)
}

/// The one line on standard error of a gateway that is refused with exit code 2.
fn refused(text: &str, flags: &str) -> String {
    let (output, _dir) = gateway(text, flags);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}: {error}");
    assert_eq!(error.lines().count(), 1, "{text}: {error}");
    error.trim_end().to_owned()
}

const BASE: &str = "udp = true\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:8080\"\n";

/// Lines after the usual three, and parts of the error message.
const FILES: &[(&str, &[&str])] = &[
    (
        "max_connections = 5",
        &[
            "g.toml:4: max_connections: unknown key, accepted here: ",
            "tls-cert",
            "did you mean \"max-connections\"?",
        ],
    ),
    ("config = \"g.toml\"", &["g.toml:4: config: unknown key"]),
    ("= 5", &["g.toml:4: not valid TOML"]),
    ("udp = true", &["g.toml:4: not valid TOML: duplicate key"]),
    (
        "\nlog = \"loud\"",
        &["g.toml:5: log: found \"loud\", want one of error, warn, info, debug, trace"],
    ),
    (
        "insecure = \"yes\"",
        &["g.toml:4: insecure: found \"yes\", want true or false"],
    ),
    (
        "drain = 30.5",
        &["g.toml:4: drain: found 30.5, want TIME in quotes"],
    ),
    ("drain = 30", &["g.toml:4: drain: "]),
    (
        "max-connections = true",
        &["g.toml:4: max-connections: found true, want a whole number"],
    ),
    (
        "max-connections = 0",
        &["g.toml:4: max-connections: found \"0\", want a whole number, 1 or more"],
    ),
    (
        "tls-cert = \"\"",
        &["g.toml:4: tls-cert: found \"\", want FILE in quotes"],
    ),
    (
        "tls-cert = \"none.pem\"",
        &["g.toml:4: tls-cert needs --tls-key"],
    ),
    (
        "tls-key = \"k\"\n\ntls-cert = \"none.pem\"",
        &["g.toml:6: tls-cert: none.pem: cannot be read"],
    ),
    (
        "announce = [\n  \"127.0.0.1\",\n  \"192.0.2.1\"]",
        &["g.toml:6: announce: found \"192.0.2.1\", want one of the --listen addresses"],
    ),
    (
        "announce = { a = 1 }",
        &["g.toml:4: announce: found a table, want ADDR[:PORT] in quotes, or a list of them"],
    ),
    (
        "tun = \"spin0\"",
        &["g.toml:4: tun and --udp exclude each other"],
    ),
    (
        "transport = \"fsuo\"",
        &["g.toml:4: transport: ", "\"fuso\""],
    ),
];

#[test]
fn mistakes_are_reported_with_file_line_and_key() {
    for (lines, wanted) in FILES {
        let error = refused(&format!("{BASE}{lines}\n"), "");
        assert!(
            error.starts_with(&format!("error: {}", wanted[0])),
            "{lines}: {error}"
        );
        for text in &wanted[1..] {
            assert!(error.contains(text), "{lines}: {error}");
        }
    }
}

/// Lines after `udp = true`, and parts of the error message.
const SERVICES: &[(&str, &[&str])] = &[
    (
        "[[service]]\nlisten = \"127.0.0.1:7000\"",
        &["g.toml:2: to: missing, want the service's address"],
    ),
    (
        "[[service]]\nto = \"127.0.0.1:80\"",
        &["g.toml:2: listen: missing, want an address and port for clients"],
    ),
    (
        "[[service]]\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"\n\
         [[service]]\nlisten = [\"127.0.0.1:7001\",\n\"127.0.0.1:7000\"]\nto = \"127.0.0.1:80\"",
        &["g.toml:7: listen: found \"127.0.0.1:7000\", want an address of no other service"],
    ),
    (
        "listen = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"\n\
         [[service]]\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"",
        &["g.toml:5: listen: found \"127.0.0.1:7000\", want an address of no other service"],
    ),
    (
        "[[service]]\nname = \"a\"\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"\n\
         [[service]]\nname = \"a\"\nlisten = \"127.0.0.1:7001\"\nto = \"127.0.0.1:80\"",
        &["g.toml:7: name: found \"a\", want a name of no other service"],
    ),
    (
        "[[service]]\nname = \"a b\"\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"",
        &["g.toml:3: name: found \"a b\", want at most 64 visible"],
    ),
    (
        "[[service]]\nlsten = \"127.0.0.1:7000\"",
        &[
            "g.toml:3: lsten: unknown key, accepted here: ",
            "name",
            "did you mean \"listen\"?",
        ],
    ),
    (
        "[[service]]\ndrain = \"5s\"",
        &["g.toml:3: drain: is common to all services; put it before the first [[service]]"],
    ),
    (
        "[[servce]]\nlisten = \"127.0.0.1:7000\"",
        &["g.toml:2: servce: unknown key", "did you mean \"service\"?"],
    ),
    (
        "[service]\nlisten = \"127.0.0.1:7000\"",
        &["g.toml:2: service: found a table, want tables: [[service]]"],
    ),
    (
        "service = [5]",
        &["g.toml:2: service: found 5, want tables: [[service]]"],
    ),
    (
        "[[service]]\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"\nforward = \"*:443\"",
        &["g.toml:5: forward and --to exclude each other"],
    ),
    (
        "[[service]]\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"\nallow = [\n\"10.0.0.0/8\",\n\"10.0.0.1/8\"]",
        &[
            "g.toml:7: allow: found \"10.0.0.1/8\": it has bits beyond the length of its prefix; want 10.0.0.0/8",
        ],
    ),
    (
        "deny = \"ten\"\n[[service]]\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"",
        &["g.toml:2: deny: found \"ten\": want an address or a network"],
    ),
    (
        "proxy-protocol = true\n[[service]]\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"",
        &["g.toml:2: proxy-protocol belongs to the service of listen and to"],
    ),
    (
        "to = \"127.0.0.1:80\"\n[[service]]\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"",
        &["g.toml: listen: missing"],
    ),
    (
        "[[service]]\nlisten = \"127.0.0.1:7000\"\nto = \"127.0.0.1:80\"\n\
         [[service]]\nlisten = \"192.0.2.1:7000\"\nto = \"127.0.0.1:80\"",
        &["g.toml:6: listen 192.0.2.1:7000: a UDP gateway without TLS"],
    ),
];

#[test]
fn mistakes_in_tables_of_services_are_reported_with_file_line_and_key() {
    for (lines, wanted) in SERVICES {
        let error = refused(&format!("udp = true\n{lines}\n"), "");
        assert!(
            error.starts_with(&format!("error: {}", wanted[0])),
            "{lines}: {error}"
        );
        for text in &wanted[1..] {
            assert!(error.contains(text), "{lines}: {error}");
        }
    }
}

#[test]
fn only_a_gateway_has_services() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("c.toml"), "udp = true\n[[service]]\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .current_dir(dir.path())
        .args(["connect", "--config", "c.toml"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("c.toml:2: service: unknown key"), "{error}");
}

#[test]
fn missing_settings_are_reported_with_the_file() {
    let error = refused("udp = true\nto = \"127.0.0.1:1\"\n", "");
    assert!(
        error.starts_with("error: g.toml: listen: missing, want "),
        "{error}"
    );
    let error = refused("udp = true\nlisten = \"127.0.0.1:1\"\n", "");
    assert!(
        error.starts_with("error: g.toml: to: missing, want "),
        "{error}"
    );
    let error = refused(
        "udp = false\nlisten = \"127.0.0.1:1\"\nto = \"127.0.0.1:1\"\n",
        "",
    );
    assert!(
        error.starts_with("error: g.toml: want --tun NAME"),
        "{error}"
    );
}

#[test]
fn a_flag_overrides_the_file_and_its_mistakes_are_reported_as_the_flags() {
    let error = refused(&format!("{BASE}drain = \"soon\"\n"), "--drain later");
    assert!(error.starts_with("error: --drain: "), "{error}");
    assert!(error.contains("later"), "{error}");
    // The value in the file is no longer a mistake.
    let error = refused(&format!("{BASE}drain = \"soon\"\nlog = 1\n"), "--drain 1s");
    assert!(error.starts_with("error: g.toml:5: log: "), "{error}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    for flags in ["--config none.toml", "--config ."] {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
            .current_dir(dir.path())
            .arg("gateway")
            .args(flags.split_whitespace())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains("--config: ") && error.contains("cannot be read"),
            "{error}"
        );
    }
    let (output, _dir) = gateway(&"#".repeat((1 << 20) + 1), "");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("longer than 1048576 bytes"), "{error}");
}

/// The settings that are comments in the packaged file are valid without the comment sign.
#[test]
fn each_setting_of_the_packaged_file_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/gateway.toml");
    let text = fs::read_to_string(path).unwrap();
    let settings = text.lines().filter_map(|l| l.strip_prefix('#'));
    let settings: Vec<&str> = settings
        .filter(|l| l.contains(" = ") && !l.starts_with(' '))
        .collect();
    assert!(settings.len() > 10, "{text}");
    for line in settings {
        let key = line.split(' ').next().unwrap();
        let usual = ["udp", "listen", "to"].map(|k| match (k, k == key) {
            (_, true) => "",
            ("udp", _) => "--udp ",
            ("to", _) => "--to 127.0.0.1:1 ",
            _ => "--listen 127.0.0.1:1 ",
        });
        // A mistake that is found after the file was read.
        let error = refused(line, &format!("{}--max-half-open 0", usual.concat()));
        let end = match key {
            "tun" => "error: g.toml:1: tun and --udp exclude each other",
            _ => "error: --max-half-open: found \"0\"",
        };
        assert!(error.starts_with(end), "{line}: {error}");
    }
}
