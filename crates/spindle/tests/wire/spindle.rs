//! The `spindle` command as a child process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long a command may take to report that it is ready.
const READY: Duration = Duration::from_secs(20);

/// The program's path. `SPINDLE_BIN` names another build of it, to compare the two.
pub(crate) fn program() -> &'static str {
    static OTHER: OnceLock<Option<String>> = OnceLock::new();
    let other = OTHER.get_or_init(|| std::env::var("SPINDLE_BIN").ok());
    other.as_deref().unwrap_or(env!("CARGO_BIN_EXE_spindle"))
}

/// A running gateway or connect service. It is killed when dropped, which also removes its device.
pub(crate) struct Running {
    child: Child,
    control: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
}

impl Running {
    /// Starts `command`, in which the program's path is the first word or follows `nsenter`, and waits until
    /// its log reports that it listens.
    pub(crate) fn start(mut command: Command, name: &str) -> Self {
        let control = std::env::temp_dir().join(format!("spindle-{}-{name}", std::process::id()));
        let mut child = command
            .arg("--control")
            .arg(&control)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command");
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let copy = log.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                copy.lock().expect("the log").push(line);
            }
        });
        let running = Self {
            child,
            control,
            log,
        };
        let started = Instant::now();
        while !running.log().contains("listening") {
            assert!(started.elapsed() < READY, "not ready: {}", running.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        running
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("the log").join("\n")
    }

    /// The output of `spindle status --json` for this process.
    pub(crate) fn status(&self) -> serde_json::Value {
        let Output { stdout, stderr, .. } = Command::new(program())
            .args(["status", "--json", "--control"])
            .arg(&self.control)
            .output()
            .expect("spindle status");
        serde_json::from_slice(&stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&stderr)))
    }

    /// The most memory that the process has used so far, in bytes (`VmHWM` of `/proc/PID/status`).
    pub(crate) fn peak_memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("a running process");
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.expect("a number") << 10
    }

    /// Asks the process to end. Returns its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let started = Instant::now();
        while started.elapsed() < READY {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.control);
    }
}
