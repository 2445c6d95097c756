//! The keys of a gateway from their making to a revocation, with the program and curl as a user has them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::program::{Running, program, wait_for};
use crate::two_hosts::have;
use crate::udp::free;

/// A web service: `/endless` never ends, everything else is a short page.
fn web() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a service");
    let addr = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    addr
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = String::new();
    let mut lines = BufReader::new(stream.try_clone()?);
    lines.read_line(&mut request)?;
    if !request.contains("/endless") {
        return stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    }
    stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n")?;
    loop {
        stream.write_all(&[b'x'; 1000])?;
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs `spindle` in the directory.
fn spindle(directory: &Path, words: &str) -> Output {
    Command::new(program())
        .current_dir(directory)
        .args(words.split_whitespace())
        .output()
        .expect("spindle")
}

fn succeeds(directory: &Path, words: &str) -> String {
    let out = spindle(directory, words);
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{words}: {error}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The error of a command that fails as bad usage.
fn fails(directory: &Path, words: &str) -> String {
    let out = spindle(directory, words);
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{words}: {error}");
    error
}

fn start(directory: &Path, words: &str) -> Running {
    let mut command = Command::new(program());
    command.current_dir(directory);
    command.args(words.split_whitespace());
    Running::start(command)
}

/// What curl gets from the address.
fn page(port: SocketAddr) -> Option<String> {
    let out = Command::new("curl")
        .args(["-s", "-m", "20", &format!("http://{port}/")])
        .output()
        .expect("curl");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    out.status.success().then_some(text)
}

fn mode(path: &Path) -> u32 {
    let metadata = path.metadata().expect("a file");
    metadata.permissions().mode() & 0o777
}

#[test]
fn a_revoked_client_is_cut_off_and_another_client_goes_on() {
    let test = "keys::a_revoked_client_is_cut_off_and_another_client_goes_on";
    if !have(test, "curl") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path();
    let (outer, laptop, phone, metrics) = (free(), free(), free(), free());
    succeeds(at, "keygen keys --name gateway.example --name 192.0.2.1");
    let enroll = |client: &str| {
        let words = format!("enroll keys --client {client} --via {outer} --via 192.0.2.1:7");
        succeeds(at, &words)
    };
    enroll("laptop");
    enroll("phone");
    let words = format!(
        "gateway --udp --listen {outer} --to {} --keys keys --metrics {metrics}",
        web()
    );
    let gateway = start(at, &words);
    let connect = |name: &str, port| {
        start(
            at,
            &format!("connect --udp --listen {port} --bundle {name}.bundle"),
        )
    };
    let (first, second) = (connect("laptop", laptop), connect("phone", phone));
    wait_for("the trial", || {
        first.log().contains("its certificate is accepted")
    });

    assert_eq!(page(laptop).as_deref(), Some("hello"), "{}", first.log());
    let download = at.join("download");
    let mut curl = Command::new("curl")
        .args(["-s", "-o", "download", &format!("http://{laptop}/endless")])
        .current_dir(at)
        .stderr(Stdio::null())
        .spawn()
        .expect("curl");
    let length = || download.metadata().map_or(0, |m| m.len());
    wait_for("the download begins", || length() > 0);
    succeeds(at, "revoke keys --client laptop");
    assert!(
        curl.try_wait().expect("a child").is_none(),
        "nothing changes before the signal"
    );
    gateway.signal("HUP");
    wait_for("the download is cut", || {
        curl.try_wait().expect("a child").is_some()
    });
    wait_for("the log says why", || {
        let log = gateway.log();
        log.contains("no longer admitted") && log.contains("laptop")
    });
    assert_eq!(page(laptop), None, "{}", first.log());
    wait_for("the gateway says who was refused, and why", || {
        gateway.log().contains("client \"laptop\"") && gateway.log().contains("is revoked")
    });
    assert_eq!(page(phone).as_deref(), Some("hello"), "{}", second.log());
    // A new start of the revoked client says so at once, and keeps running.
    let again = connect("laptop", free());
    wait_for("the reason in plain words", || {
        again
            .log()
            .contains("the gateway refuses this client's certificate: it is revoked")
    });
    let scraped = Command::new("curl")
        .args(["-s", &format!("http://{metrics}/metrics")])
        .output()
        .expect("curl");
    let text = String::from_utf8_lossy(&scraped.stdout);
    for line in [
        "spindle_certificate_expiry_seconds{transport=\"spindle\",certificate=\"own\"} ",
        "spindle_certificate_expiry_seconds{transport=\"spindle\",certificate=\"authority\"} ",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("why=\"tls\"} 0"), "{text}");
}

#[test]
fn keys_are_private_and_are_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path();
    let said = succeeds(at, "keygen keys --name gateway.example");
    assert!(
        said.contains("gateway.example") && said.contains("pin: sha256/"),
        "{said}"
    );
    assert_eq!(mode(&at.join("keys")), 0o700);
    succeeds(at, "enroll keys --client laptop --via gateway.example:7000");
    let bundle = at.join("laptop.bundle");
    assert_eq!(mode(&bundle), 0o600);
    for file in std::fs::read_dir(at.join("keys")).expect("files").flatten() {
        assert_eq!(mode(&file.path()), 0o600, "{:?}", file.path());
    }
    let read = |name: &str| std::fs::read_to_string(at.join("keys").join(name)).expect("a file");
    assert!(fails(at, "keygen keys --name other.example").contains("nothing is overwritten"));
    let error = fails(at, "enroll keys --client Laptop --via gateway.example:7000");
    assert!(
        error.contains("valid until") && error.contains("--renew"),
        "{error}"
    );
    let error = fails(
        at,
        "enroll keys --client laptop --via gateway.example:7000 --renew",
    );
    assert!(error.contains("laptop.bundle: there already"), "{error}");
    assert_eq!(read("clients.toml").matches("[[clients]]").count(), 1);
    let (certificate, key) = (read("gateway.pem"), read("gateway.key"));
    succeeds(at, "keygen keys --renew --days 10");
    assert_ne!(read("gateway.pem"), certificate);
    assert_eq!(read("gateway.key"), key);
    let error = fails(at, "revoke keys --client lapto");
    assert!(error.contains("did you mean \"laptop\"?"), "{error}");
    for (words, wanted) in [
        ("keygen other --name http://x", "want a DNS name"),
        (
            "enroll keys --client ../x --via gateway.example:7000",
            "want a name of letters",
        ),
        ("enroll keys --client a --via gateway.example", "--via"),
        (
            "enroll none --client a --via gateway.example:7000",
            "none: cannot open",
        ),
    ] {
        let error = fails(at, words);
        assert!(error.contains(wanted), "{words}: {error}");
    }
}

#[test]
fn mistakes_about_keys_are_errors_at_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path();
    succeeds(at, "keygen keys --name gateway.example");
    succeeds(at, "keygen others --name gateway.example");
    let line = succeeds(at, "enroll keys --client laptop --via 127.0.0.1:9 --line");
    let line = line.trim();
    assert!(line.starts_with("spindle1:") && !line.contains(char::is_whitespace));
    let connect = format!("connect --udp --listen 127.0.0.1:0 --bundle {line}");
    let error = fails(at, &format!("{connect} --via 127.0.0.1:9"));
    assert!(
        error.contains("--bundle and --via exclude each other"),
        "{error}"
    );
    assert!(!error.contains(line), "{error}");
    let error = fails(at, &format!("{} x", &connect[..connect.len() - 40]));
    assert!(!error.contains(&line[..100]), "{error}");
    for other in [
        "--tls-ca keys/ca.pem",
        "--tls-name x",
        "--tls-cert x",
        "--tls-key x",
    ] {
        assert!(fails(at, &format!("{connect} {other}")).contains("exclude each other"));
    }
    assert!(fails(at, &format!("{connect} --tls-pin sha256/x")).contains("44 characters"));
    let gateway = "gateway --udp --listen 127.0.0.1:9 --to 127.0.0.1:8";
    for (flags, wanted) in [
        (
            "--keys none",
            "want a directory that `spindle keygen` has made",
        ),
        (
            "--keys keys --tls-ca keys/ca.pem",
            "--keys and --tls-ca exclude each other",
        ),
        ("--tls-crl keys/revoked.pem", "--tls-crl needs --keys"),
        ("--tls-clients a", "--tls-clients needs --keys"),
        ("--keys keys --tls-clients a,,b", "separated by commas"),
        (
            "--tls-cert keys/gateway.pem --tls-key others/gateway.key",
            "want the private key of this certificate",
        ),
        (
            "--tls-cert keys/gateway.pem --tls-key keys/gateway.key --tls-crl keys/revoked.pem",
            "--tls-crl needs --tls-ca",
        ),
    ] {
        let error = fails(at, &format!("{gateway} {flags}"));
        assert!(error.contains(wanted), "{flags}: {error}");
    }
    std::fs::copy(at.join("others/ca.pem"), at.join("keys/ca.pem")).expect("a file");
    let error = fails(at, &format!("{gateway} --keys keys"));
    assert!(error.contains("not signed by the authority"), "{error}");
    let error = fails(at, "enroll keys --client phone --via 127.0.0.1:9");
    assert!(error.contains("not the key of ca.pem"), "{error}");
}

#[test]
fn a_gateway_of_another_authority_is_reported_in_plain_words_and_the_service_runs_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path();
    succeeds(at, "keygen keys --name gateway.example --days 3");
    succeeds(at, "keygen others --name gateway.example");
    let outer = free();
    succeeds(at, &format!("enroll others --client laptop --via {outer}"));
    let words = format!("gateway --udp --listen {outer} --to {} --keys keys", web());
    let gateway = start(at, &words);
    wait_for("the warning", || {
        gateway
            .log()
            .contains("the certificate ends within 30 days")
    });
    let words = format!("connect --udp --listen {} --bundle laptop.bundle", free());
    let mut connect = start(at, &words);
    wait_for("the reason", || {
        connect
            .log()
            .contains("is not signed by the authority that this side trusts")
    });
    assert_eq!(connect.end(), Some(0), "{}", connect.log());
}

#[test]
fn a_bundle_may_be_a_line_standard_input_or_a_file_next_to_the_configuration() {
    let test = "keys::a_bundle_may_be_a_line_standard_input_or_a_file_next_to_the_configuration";
    if !have(test, "curl") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path();
    let outer = free();
    succeeds(at, "keygen keys --name gateway.example");
    succeeds(
        at,
        &format!("enroll keys --client phone --via {outer} --pin"),
    );
    let line = succeeds(
        at,
        &format!("enroll keys --client laptop --via {outer} --line"),
    );
    let line = line.trim();
    let words = format!("gateway --udp --listen {outer} --to {} --keys keys", web());
    let gateway = start(at, &words);
    let connect = |words: &str, input: Stdio| {
        let port = free();
        let mut command = Command::new(program());
        command.current_dir(at).stdin(input);
        command.args(["connect", "--udp", "--listen", &port.to_string()]);
        command.args(words.split_whitespace());
        let running = Running::start(command);
        assert_eq!(page(port).as_deref(), Some("hello"), "{}", gateway.log());
        let log = running.log();
        assert!(!log.contains(&line[..100]), "{log}");
        log.contains("every user of this host can see it")
    };
    assert!(connect(&format!("--bundle {line}"), Stdio::null()));
    let file = std::fs::File::open(at.join("phone.bundle")).expect("a file");
    assert!(!connect("--bundle -", file.into()));
    std::fs::create_dir(at.join("etc")).expect("a directory");
    std::fs::rename(at.join("phone.bundle"), at.join("etc/b")).expect("a file");
    for value in ["b", line] {
        let text = format!("bundle = \"{value}\"\n");
        std::fs::write(at.join("etc/connect.toml"), text).expect("a file");
        assert!(
            !connect("--config etc/connect.toml", Stdio::null()),
            "{value}"
        );
    }
}

#[test]
fn the_secrets_of_tls_are_written_where_sslkeylogfile_says() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    succeeds(at, "keygen --name gateway.example keys");
    let listen = free();
    let flags = format!("keys --client laptop --via {listen} --out laptop.bundle");
    succeeds(at, &format!("enroll {flags}"));
    let gateway = format!("gateway --udp --listen {listen} --to {} --keys keys", web());
    let port = free();
    let connect = format!("connect --udp --listen {port} --bundle laptop.bundle");
    let logging = |words: &str, file: &str| {
        let mut command = Command::new(program());
        command.current_dir(at).env("SSLKEYLOGFILE", file);
        command.args(words.split_whitespace());
        Running::start(command)
    };
    let gateway = logging(&gateway, "gateway.keys");
    let connect = logging(&connect, "connect.keys");
    assert_eq!(page(port).as_deref(), Some("hello"), "{}", connect.log());
    let secrets = |file: &str| std::fs::read_to_string(at.join(file)).expect("the file");
    let (ours, theirs) = (secrets("connect.keys"), secrets("gateway.keys"));
    let of_client: Vec<_> = ours
        .lines()
        .filter(|line| line.starts_with("CLIENT_TRAFFIC_SECRET_0 "))
        .collect();
    assert!(!of_client.is_empty(), "{ours}");
    assert!(
        of_client.iter().all(|line| theirs.contains(line)),
        "{ours}{theirs}"
    );
    for service in [&gateway, &connect] {
        wait_for("a warning", || {
            service.log().contains("everyone who can read the file")
        });
    }
    drop(connect);
    let connect = format!("connect --udp --listen {port} --bundle laptop.bundle");
    let connect = logging(&connect, "missing/connect.keys");
    let log = connect.log();
    assert!(
        log.contains("missing/connect.keys") && log.contains("cannot be written"),
        "{log}"
    );
}
