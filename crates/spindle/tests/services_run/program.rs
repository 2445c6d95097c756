//! The `spindle` command as a child process, with its log, its status and its signals.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// The program's path.
pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_spindle")
}

/// Waits until a condition holds.
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A running gateway or connect service. It is killed when dropped.
pub(crate) struct Running {
    child: Child,
    control: PathBuf,
    /// Where the control socket is, unless the test chose the place.
    _directory: Option<tempfile::TempDir>,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    /// Starts `command` and waits until its log reports that it listens.
    pub(crate) fn start(command: Command) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let control = directory.path().join("control");
        let mut running = Self::start_at(command, &control);
        running._directory = Some(directory);
        running
    }

    /// The same with this control socket.
    pub(crate) fn start_at(mut command: Command, control: &Path) -> Self {
        let mut child = command
            .arg("--control")
            .arg(control)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command");
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let copy = log.clone();
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                copy.lock().expect("the log").push(line);
            }
        });
        let mut running = Self {
            child,
            control: control.to_owned(),
            _directory: None,
            log,
            reader: Some(reader),
        };
        let begin = Instant::now();
        while !running.log().contains("listening") {
            let ended = running.child.try_wait().expect("a child").is_some();
            let late = ended || begin.elapsed() > PATIENCE;
            assert!(!late, "{command:?} is not ready: {}", running.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        running
    }

    /// The most bytes of physical memory that the process has used (proc_pid_status(5)).
    pub(crate) fn peak(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|l| l.trim().strip_suffix(" kB"));
        let kilobytes: u64 = kilobytes.and_then(|n| n.parse().ok()).expect("a number");
        kilobytes << 10
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("the log").join("\n")
    }

    /// The output of `spindle status --json` for this process.
    pub(crate) fn status(&self) -> serde_json::Value {
        status_at(&self.control)
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the process a signal, by its short name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(sent.expect("kill").success(), "SIG{name}");
    }

    /// Waits until the process has ended and its log is complete. Returns its exit code, or `None` if it does
    /// not end.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("a child") {
                self.reader.take().map(std::thread::JoinHandle::join);
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Asks the process to end. Returns its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.signal("TERM");
        self.wait()
    }
}

/// The output of `spindle status --json` for this control socket.
pub(crate) fn status_at(control: &Path) -> serde_json::Value {
    let out = Command::new(program())
        .args(["status", "--json", "--control"])
        .arg(control)
        .output()
        .expect("spindle status");
    let said = String::from_utf8_lossy(&out.stderr);
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"))
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
