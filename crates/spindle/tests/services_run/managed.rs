//! Gateway and connect under a service manager. Each is configured by a file, and reports when it is ready and
//! when it ends.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use crate::program::{Running, program};
use crate::udp::{echo, free, works};

#[test]
fn both_run_from_files_and_report_their_state_to_a_service_manager() {
    let dir = tempfile::tempdir().expect("a directory");
    let manager = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
    let patience = Some(Duration::from_secs(20));
    manager.set_read_timeout(patience).expect("a timeout");
    let heard = || {
        let mut text = [0; 256];
        let n = manager.recv(&mut text).expect("a message");
        String::from_utf8_lossy(&text[..n]).into_owned()
    };
    let start = |kind: &str, text: String, flags: &[&str]| {
        let file = dir.path().join(format!("{kind}.toml"));
        std::fs::write(&file, text).expect("a file");
        let mut command = Command::new(program());
        command.env("NOTIFY_SOCKET", dir.path().join("notify"));
        command.arg(kind).arg("--config").arg(file).args(flags);
        Running::start(command)
    };
    let (outer, port, unused) = (free(), free(), free());
    let to = echo();
    let text = format!("udp = true\nlisten = [\"{unused}\"]\nto = \"{to}\"\ndrain = \"2s\"\n");
    // The flag overrides the file's setting.
    let mut gateway = start("gateway", text, &["--listen", &outer.to_string()]);
    assert_eq!(heard(), "READY=1");
    assert_eq!(gateway.status()["listen"][0], outer.to_string());
    assert_eq!(gateway.status()["listen"].as_array().map(Vec::len), Some(1));
    let text = format!("udp = true\nlisten = \"{port}\"\nvia = \"{outer}\"\nsubflows = 2\n");
    let mut connect = start("connect", text, &[]);
    assert_eq!(heard(), "READY=1");
    assert!(works(port), "{}", gateway.log());
    assert_eq!(connect.end(), Some(0), "{}", connect.log());
    assert_eq!(heard(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=45000000");
    assert_eq!(gateway.end(), Some(0), "{}", gateway.log());
    // Two seconds of draining, and the time for the end.
    assert_eq!(heard(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=17000000");
}

#[test]
fn a_manager_with_a_watchdog_gets_repeated_reports_that_the_data_path_turns() {
    let dir = tempfile::tempdir().expect("a directory");
    let manager = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
    let patience = Some(Duration::from_secs(20));
    manager.set_read_timeout(patience).expect("a timeout");
    let mut command = Command::new(program());
    command.env("NOTIFY_SOCKET", dir.path().join("notify"));
    command.env("WATCHDOG_USEC", "50000");
    command.args(["gateway", "--udp", "--listen", &free().to_string()]);
    let _gateway = Running::start({
        command.args(["--to", &echo().to_string()]);
        command
    });
    for wanted in ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"] {
        let mut text = [0; 256];
        let n = manager.recv(&mut text).expect("a message");
        assert_eq!(String::from_utf8_lossy(&text[..n]), wanted);
    }
}
