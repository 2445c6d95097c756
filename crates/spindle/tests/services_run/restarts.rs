//! A gateway takes over from another with `--take-over`, over UDP on loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::program::{Running, program, status_at, wait_for};
use crate::udp::{StopOnDrop, echo, exchange, free, join, metric, scrape, start, works};

/// Bytes of a piece of a download.
const PIECE: usize = 10_000;

/// The bytes of a download at this position.
fn piece(at: usize) -> Vec<u8> {
    (at..at + PIECE).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// A service that sends the bytes of a download slowly, until `stop`, and then the end.
pub(crate) fn slow_downloads(stop: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a service");
    let addr = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let (mut at, mut request) = (0, [0]);
                let _ = stream.read(&mut request);
                while !stop.load(Ordering::Relaxed) && stream.write_all(&piece(at)).is_ok() {
                    at += PIECE;
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
    });
    addr
}

/// Reads a download up to its end. Returns how many bytes were as they should be.
pub(crate) fn download(stream: &mut TcpStream) -> usize {
    let (mut at, mut got) = (0, vec![0; PIECE]);
    loop {
        let mut filled = 0;
        while filled < PIECE {
            match stream.read(&mut got[filled..]).expect("the download goes on") {
                0 => break,
                n => filled += n,
            }
        }
        assert_eq!(got[..filled], piece(at)[..filled], "at {at}");
        at += filled;
        if filled < PIECE {
            return at;
        }
    }
}

/// Gateways that take over from each other.
struct Gateways {
    directory: tempfile::TempDir,
    flags: String,
}

impl Gateways {
    fn new(flags: String) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { directory, flags }
    }

    fn control(&self) -> PathBuf {
        self.directory.path().join("gw.sock")
    }

    fn command(&self, more: &str) -> Command {
        let mut command = Command::new(program());
        command.args(["gateway", "--udp"]);
        command.args(self.flags.split_whitespace());
        command.args(more.split_whitespace());
        command
    }

    fn start(&self, more: &str) -> Running {
        Running::start_at(self.command(more), &self.control())
    }

    /// Starts a gateway that must fail. Returns its error output.
    fn fails(&self, more: &str) -> String {
        let mut command = self.command(more);
        command.arg("--control").arg(self.control());
        let out = command.output().expect("the command");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{said}");
        said
    }

    /// The control socket of a gateway that has been taken over.
    fn drained(&self, gateway: &Running) -> PathBuf {
        let name = format!("gw.draining-{}.sock", gateway.id());
        self.directory.path().join(name)
    }
}

fn connect(to: SocketAddr, flags: &str) -> (Running, SocketAddr) {
    let port = free();
    let flags = format!("--listen {port} --via {to} {flags}");
    (start("connect", &flags), port)
}

fn handed_over(gateway: &Running) {
    wait_for("it is handed over", || {
        assert!(!gateway.log().contains("not handed over"), "{}", gateway.log());
        gateway.log().contains("handed over: this process ends")
    });
}

#[test]
fn restarts_under_load_refuse_no_connection_and_cut_no_download() {
    let (outer, echoing) = (free(), free());
    let stop_downloads = Arc::new(AtomicBool::new(false));
    let slow = slow_downloads(stop_downloads.clone());
    let gateways = Gateways::new(format!("--listen {outer} --to {slow}"));
    let others = Gateways::new(format!("--listen {echoing} --to {}", echo()));
    let (mut old, mut old_echo) = (gateways.start(""), others.start(""));
    let (_to_slow, slow_port) = connect(outer, "");
    let (_to_echo, echo_port) = connect(echoing, "");
    let begun = |_| {
        let mut stream = join(slow_port);
        stream.write_all(b"x").expect("room");
        std::thread::spawn(move || download(&mut stream))
    };
    let downloads: Vec<_> = (0..3).map(begun).collect();
    wait_for("the downloads are open", || {
        gateways.start_count(&old) == downloads.len()
    });
    let stop = AtomicBool::new(false);
    let done: usize = std::thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        let work = || {
            let mut done = 0;
            while !stop.load(Ordering::Relaxed) {
                let back = exchange(echo_port, 20_000).expect("no connection is refused or cut");
                assert!(back == vec![b'x'; 20_000]);
                done += 1;
            }
            done
        };
        let workers: Vec<_> = (0..6).map(|_| scope.spawn(work)).collect();
        let mut former = Vec::new();
        for round in 0..4 {
            let next = (gateways.start("--take-over"), others.start("--take-over"));
            handed_over(&old);
            handed_over(&old_echo);
            former.push(std::mem::replace(&mut old, next.0));
            let mut idle = std::mem::replace(&mut old_echo, next.1);
            // The first two follow each other at once.
            if round > 0 {
                let ended = idle.wait();
                assert_eq!(ended, Some(0), "it has no connection left: {}", idle.log());
            } else {
                former.push(idle);
            }
        }
        drop(stopping);
        let done = workers.into_iter().map(|w| w.join().expect("a worker")).sum();
        stop_downloads.store(true, Ordering::Relaxed);
        for d in downloads {
            assert!(d.join().expect("a download") > PIECE);
        }
        for gateway in &mut former {
            assert_eq!(gateway.wait(), Some(0), "{}", gateway.log());
            assert!(gateway.log().contains("aborted=0"), "{}", gateway.log());
        }
        done
    });
    assert!(done > 0);
    assert_eq!(old.end(), Some(0), "{}", old.log());
    assert_eq!(old_echo.end(), Some(0), "{}", old_echo.log());
    let left = |g: &Gateways| std::fs::read_dir(g.directory.path()).expect("a directory").count();
    assert_eq!((left(&gateways), left(&others)), (0, 0));
}

impl Gateways {
    /// Connections that the process at the control socket has open.
    fn start_count(&self, gateway: &Running) -> usize {
        let list = gateway.status()["connections"].as_array().cloned();
        list.unwrap_or_default().len()
    }
}
