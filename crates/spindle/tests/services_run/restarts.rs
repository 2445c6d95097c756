//! A gateway takes over from another with `--take-over`, over UDP on loopback.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::program::{Running, program, status_at, wait_for};
use crate::service::{self as kernel, serve, transfer};
use crate::two_hosts::{Hosts, StopOnDrop, copy_program, have, on_path, run, within};
use crate::udp::{echo, exchange, free, join, metric, scrape, start, works};

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
            match stream
                .read(&mut got[filled..])
                .expect("the download goes on")
            {
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

pub(crate) fn handed_over(gateway: &Running) {
    wait_for("it is handed over", || {
        assert!(
            !gateway.log().contains("not handed over"),
            "{}",
            gateway.log()
        );
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
    wait_for("the downloads are open", || open(&old) == downloads.len());
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
        let done = workers
            .into_iter()
            .map(|w| w.join().expect("a worker"))
            .sum();
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
    let left = |g: &Gateways| {
        std::fs::read_dir(g.directory.path())
            .expect("a directory")
            .count()
    };
    assert_eq!((left(&gateways), left(&others)), (0, 0));
}

/// Connections that a process has open.
fn open(gateway: &Running) -> usize {
    let list = gateway.status()["connections"].as_array().cloned();
    list.unwrap_or_default().len()
}

/// Writes five bytes, which come back.
fn talks(stream: &mut TcpStream) -> bool {
    let mut five = [0; 5];
    let done = stream
        .write_all(b"hello")
        .and_then(|()| stream.read_exact(&mut five));
    done.is_ok() && &five == b"hello"
}

#[test]
fn gateway_that_fails_at_its_start_leaves_the_old_one_as_it_was() {
    let (outer, taken) = (free(), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let gateways = Gateways::new(format!("--listen {outer} --to {}", echo()));
    let mut old = gateways.start("");
    let (_connect, port) = connect(outer, "");
    let mut stream = join(port);
    assert!(talks(&mut stream));
    let metrics = format!(
        "--take-over --metrics {}",
        taken.local_addr().expect("a port")
    );
    assert!(gateways.fails(&metrics).contains("--metrics"));
    let more = format!("--take-over --listen {}", free());
    assert!(gateways.fails(&more).contains("want the same addresses"));
    let mut command = gateways.command("--take-over");
    let other = gateways.directory.path().join("other.sock");
    let out = command.arg("--control").arg(&other).output();
    let said = String::from_utf8_lossy(&out.expect("the command").stderr).into_owned();
    let name = other.display().to_string();
    assert!(said.contains(&name) && said.contains("--control"), "{said}");
    let mut command = Command::new(program());
    command.args(["gateway", "--tun", "spin9", "--listen", "10.9.0.1:80"]);
    command.args(["--to", "127.0.0.1:80", "--take-over", "--control"]);
    let out = command.arg(gateways.control()).output();
    let said = String::from_utf8_lossy(&out.expect("the command").stderr).into_owned();
    let kinds = "it runs with --udp, this process with --tun";
    assert!(said.contains(kinds), "{said}");
    assert!(
        gateways
            .fails("")
            .contains("a running program answers there")
            || works(port)
    );
    // Processes that ask and are killed before they are ready, and afterwards.
    for n in 0..20 {
        let mut command = gateways.command("--take-over");
        command
            .arg("--control")
            .arg(gateways.control())
            .stderr(Stdio::null());
        let mut killed = command.spawn().expect("a gateway");
        std::thread::sleep(Duration::from_millis(n * 3));
        killed.kill().expect("it runs");
        killed.wait().expect("it has ended");
        assert!(talks(&mut stream), "{}", old.log());
        wait_for("the old gateway serves", || works(port));
    }
    wait_for("it has its name again", || {
        gateways.control().exists() && status_at(&gateways.control())["pid"] == old.id()
    });
    wait_for("one connection is left", || open(&old) == 1);
    drop(stream);
    assert_eq!(old.end(), Some(0), "{}", old.log());
}

#[test]
fn status_names_both_gateways_and_the_log_has_the_last_counters_of_the_old_one() {
    let (outer, at) = (free(), free());
    let flags = format!("--listen {outer} --to {} --metrics {at}", echo());
    let gateways = Gateways::new(flags);
    let mut old = gateways.start("");
    let (_connect, port) = connect(outer, "");
    let mut stream = join(port);
    assert!(talks(&mut stream) && works(port));
    let open = "spindle_connections{transport=\"spindle\"} ";
    assert!(metric(&scrape(at), open) >= 1.0);
    let mut new = gateways.start("--take-over");
    handed_over(&old);
    let drained = status_at(&gateways.drained(&old));
    let current = status_at(&gateways.control());
    assert_eq!(
        (&drained["pid"], &current["pid"]),
        (&old.id().into(), &new.id().into())
    );
    assert_eq!(
        (&drained["stage"], &current["stage"]),
        (&"handed-over".into(), &"running".into())
    );
    assert_eq!(drained["connections"].as_array().expect("a list").len(), 1);
    let mut text = Command::new(program());
    text.args(["status", "--control"])
        .arg(gateways.drained(&old));
    let text = text.output().expect("spindle status");
    assert!(
        String::from_utf8_lossy(&text.stdout).contains("handed over"),
        "{text:?}"
    );
    // The metrics are those of the new process at once.
    assert_eq!(metric(&scrape(at), open), 0.0);
    assert!(talks(&mut stream) && works(port));
    drop(stream);
    assert_eq!(old.wait(), Some(0), "{}", old.log());
    let line = old.log();
    let line = line
        .lines()
        .find(|l| l.contains("the last counters"))
        .expect("a line");
    assert!(
        line.contains("connections=2") && line.contains("bytes_received=5010"),
        "{line}"
    );
    assert!(!gateways.drained(&old).exists());
    assert_eq!(new.end(), Some(0), "{}", new.log());
}

#[test]
fn gateway_whose_successor_was_killed_serves_again_and_can_be_taken_over_again() {
    let outer = free();
    let gateways = Gateways::new(format!("--listen {outer} --to {}", echo()));
    let mut old = gateways.start("");
    let (_connect, port) = connect(outer, "");
    let mut stream = join(port);
    assert!(talks(&mut stream));
    let new = gateways.start("--take-over");
    handed_over(&old);
    assert!(talks(&mut stream) && works(port));
    drop(new);
    wait_for("the old gateway serves", || works(port));
    assert!(talks(&mut stream), "{}", old.log());
    wait_for("it has its name again", || {
        status_at(&gateways.control())["stage"] == "running"
    });
    let mut new = gateways.start("--take-over");
    assert!(talks(&mut stream) && works(port));
    drop(stream);
    assert_eq!(old.wait(), Some(0), "{}", old.log());
    assert_eq!(new.end(), Some(0), "{}", new.log());
}

#[test]
fn sigterm_stops_all_gateways_and_open_connections_finish_within_the_limit() {
    let outer = free();
    let gateways = Gateways::new(format!("--listen {outer} --to {}", echo()));
    let mut first = gateways.start("");
    let (_connect, port) = connect(outer, "");
    let mut streams = vec![join(port)];
    assert!(talks(&mut streams[0]));
    let mut second = gateways.start("--take-over");
    handed_over(&first);
    streams.push(join(port));
    assert!(talks(&mut streams[1]));
    let mut third = gateways.start("--take-over");
    handed_over(&second);
    third.signal("TERM");
    for gateway in [&first, &second, &third] {
        wait_for("it drains", || gateway.log().contains("draining"));
    }
    assert!(!works(port), "a new connection");
    for stream in &mut streams {
        assert!(talks(stream), "{}", first.log());
    }
    drop(streams);
    for gateway in [&mut first, &mut second, &mut third] {
        assert_eq!(gateway.wait(), Some(0), "{}", gateway.log());
    }
    let mut again = gateways.start("--take-over");
    assert!(again.log().contains("no gateway runs"), "{}", again.log());
    assert!(works(port), "{}", again.log());
    assert_eq!(again.end(), Some(0), "{}", again.log());
}

#[test]
fn second_sigterm_resets_connections_of_all_gateways() {
    let outer = free();
    let gateways = Gateways::new(format!("--listen {outer} --to {}", echo()));
    let mut old = gateways.start("");
    let (_connect, port) = connect(outer, "");
    let mut stream = join(port);
    assert!(talks(&mut stream));
    let mut new = gateways.start("--take-over");
    handed_over(&old);
    new.signal("TERM");
    wait_for("it drains", || old.log().contains("draining"));
    assert!(talks(&mut stream));
    new.signal("TERM");
    assert_eq!(old.wait(), Some(1), "{}", old.log());
    assert!(!talks(&mut stream));
    assert_eq!(new.wait(), Some(0), "{}", new.log());
}

#[test]
fn killed_gateway_between_two_others_cuts_only_the_connections_behind_it() {
    let outer = free();
    let gateways = Gateways::new(format!("--listen {outer} --to {}", echo()));
    let mut first = gateways.start("");
    let (_connect, port) = connect(outer, "");
    let mut oldest = join(port);
    assert!(talks(&mut oldest));
    let second = gateways.start("--take-over");
    handed_over(&first);
    let mut third = gateways.start("--take-over");
    handed_over(&second);
    let mut newest = join(port);
    assert!(talks(&mut oldest) && talks(&mut newest));
    drop(second);
    assert_eq!(first.wait(), Some(1), "{}", first.log());
    assert!(first.log().contains("cut off"), "{}", first.log());
    assert!(!talks(&mut oldest));
    assert!(talks(&mut newest) && works(port), "{}", third.log());
    drop(newest);
    assert_eq!(third.end(), Some(0), "{}", third.log());
}

/// A copy of the program that this user may execute.
fn program_of(user: u32, directory: &Path) -> PathBuf {
    let copy = directory.join("spindle");
    copy_program(program(), &copy);
    open_to_all(&copy, 0o755);
    std::os::unix::fs::chown(&copy, Some(user), None).expect("an owner");
    copy
}

fn open_to_all(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

/// A user that is not root.
const OTHER: u32 = 12_345;

#[test]
fn another_user_may_not_take_over() {
    use std::os::unix::process::CommandExt;
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped another_user_may_not_take_over: it takes root");
        return;
    }
    let outer = free();
    let gateways = Gateways::new(format!("--listen {outer} --to {}", echo()));
    let mut old = gateways.start("");
    let (_connect, port) = connect(outer, "");
    // Even if the files are open to all.
    open_to_all(gateways.directory.path(), 0o777);
    open_to_all(&gateways.directory.path().join("gw.sock.handover"), 0o666);
    let copy = program_of(OTHER, gateways.directory.path());
    let mut command = Command::new(&copy);
    command.args(["gateway", "--udp", "--take-over", "--control"]);
    command
        .arg(gateways.control())
        .args(gateways.flags.split_whitespace());
    let out = command.uid(OTHER).gid(OTHER).output();
    let out = out.expect("the command");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        said.contains("it runs as user 0; want user 12345"),
        "{said}"
    );
    wait_for("the old one refuses", || {
        old.log().contains("user 12345 may not ask")
    });
    assert!(works(port));
    std::fs::remove_file(&copy).expect("the copy");
    assert_eq!(old.end(), Some(0), "{}", old.log());
}

#[test]
fn root_does_not_take_over_from_another_user() {
    use std::os::unix::process::CommandExt;
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped root_does_not_take_over_from_another_user: it takes root");
        return;
    }
    let outer = free();
    let gateways = Gateways::new(format!("--listen {outer} --to {}", echo()));
    open_to_all(gateways.directory.path(), 0o777);
    let copy = program_of(OTHER, gateways.directory.path());
    let mut command = Command::new(&copy);
    command.args(["gateway", "--udp"]);
    command.args(gateways.flags.split_whitespace());
    command.uid(OTHER).gid(OTHER);
    let mut old = Running::start_at(command, &gateways.control());
    let (_connect, port) = connect(outer, "");
    let said = gateways.fails("--take-over");
    assert!(
        said.contains("it runs as user 12345; want user 0"),
        "{said}"
    );
    assert!(works(port));
    assert_eq!(old.end(), Some(0), "{}", old.log());
}

#[test]
fn request_of_another_version_or_that_is_none_is_refused() {
    use std::os::unix::net::UnixStream;
    let outer = free();
    let gateways = Gateways::new(format!("--listen {outer} --to {}", echo()));
    let mut old = gateways.start("");
    let (_connect, port) = connect(outer, "");
    let ask = |text: &str| {
        let path = gateways.directory.path().join("gw.sock.handover");
        let mut stream = UnixStream::connect(path).expect("the gateway");
        let len = (text.len() as u32).to_be_bytes();
        stream
            .write_all(&[&len, text.as_bytes()].concat())
            .expect("room");
        let mut answer = Vec::new();
        // Closing may lose the rest, after the answer.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    for (text, why) in [
        (
            r#"{"take-over":{"version":1}}"#,
            "version 2 of the handover",
        ),
        (r#""ready""#, "want a request"),
        ("{", "cannot be read"),
    ] {
        let answer = ask(text);
        assert!(
            answer.contains("refused") && answer.contains(why),
            "{answer}"
        );
    }
    assert!(works(port), "{}", old.log());
    assert_eq!(old.end(), Some(0), "{}", old.log());
}

#[test]
fn sigusr2_starts_the_program_again_and_notifies_the_service_manager() {
    use std::os::unix::net::UnixDatagram;
    let outer = free();
    let gateways = Gateways::new(format!("--listen {outer} --to {}", echo()));
    let path = gateways.directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    let heard = || {
        let mut text = [0; 256];
        let n = manager.recv(&mut text).expect("a message");
        String::from_utf8_lossy(&text[..n]).into_owned()
    };
    let mut command = gateways.command("");
    command.env("NOTIFY_SOCKET", &path);
    let mut old = Running::start_at(command, &gateways.control());
    assert_eq!(heard(), "READY=1");
    let (_connect, port) = connect(outer, "");
    let mut stream = join(port);
    assert!(talks(&mut stream));
    old.signal("USR2");
    handed_over(&old);
    let mut said = [heard(), heard()];
    said.sort();
    let pid: i32 = said[0]
        .strip_prefix("MAINPID=")
        .and_then(|rest| rest.strip_suffix("\nWATCHDOG=1"))
        .and_then(|p| p.parse().ok())
        .expect("a pid");
    let started = Started(nix::unistd::Pid::from_raw(pid));
    assert_eq!(said[1], "READY=1");
    assert_eq!(status_at(&gateways.control())["pid"], pid);
    assert!(talks(&mut stream) && works(port));
    drop(stream);
    wait_for("the old one has ended", || !gateways.drained(&old).exists());
    started.terminate();
    assert!(heard().starts_with("STOPPING=1"));
    wait_for("its socket is removed", || !gateways.control().exists());
    assert_eq!(old.wait(), Some(0), "{}", old.log());
}

/// A process that another one has started. It is stopped when dropped.
struct Started(nix::unistd::Pid);

impl Started {
    fn terminate(&self) {
        // An error means that it has ended.
        let _ = nix::sys::signal::kill(self.0, nix::sys::signal::SIGTERM);
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.terminate();
    }
}

/// Starts a gateway over TUN.
fn start_tun(control: &Path, flags: &str, more: &str) -> Running {
    let mut command = Command::new(program());
    command.args(["gateway", "--tun", "spin0", "--to", "127.0.0.1:9000"]);
    command.args(flags.split_whitespace());
    command.args(more.split_whitespace());
    Running::start_at(command, control)
}

/// Kernel clients, with MPTCP and TCP, of a gateway over TUN.
fn over_tun(hosts: &Hosts, listen: &str, to: SocketAddr, from: [IpAddr; 2]) {
    serve("127.0.0.1:9000".parse().expect("an address"), false);
    let directory = tempfile::tempdir().expect("a directory");
    let control = directory.path().join("spin0.sock");
    let start = |more: &str| start_tun(&control, listen, more);
    let mut old = start("");
    // Transfers that go on during all restarts, whose pace is that of the slow path.
    let long = |down: bool, multipath: bool| {
        let stream = hosts.at_client(|| kernel::connect(from[0], to, multipath));
        std::thread::spawn(move || transfer(&stream, down, 12_000_000))
    };
    let transfers = [
        long(true, true),
        long(false, true),
        long(true, false),
        long(false, false),
    ];
    wait_for("the transfers have begun", || open(&old) == 4);
    let stop = AtomicBool::new(false);
    let mut former = Vec::new();
    let done: usize = std::thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        let work = |multipath| {
            hosts.at_client(|| {
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    let stream = kernel::connect(from[0], to, multipath);
                    assert!(transfer(&stream, done % 2 == 0, 20_000), "a new connection");
                    done += 1;
                }
                done
            })
        };
        let workers: Vec<_> = [false, true, true]
            .map(|m| scope.spawn(move || work(m)))
            .into_iter()
            .collect();
        for round in 0..3 {
            let next = start("--take-over");
            handed_over(&old);
            former.push(std::mem::replace(&mut old, next));
            if round == 0 {
                // The second path joins the connections that the first process has.
                hosts.client_endpoint();
            }
        }
        let joined = || {
            let list = status_at(&drained_at(&control, &former[0]))["connections"].clone();
            let subflows = |c: &serde_json::Value| c["subflows"].as_array().map_or(0, Vec::len);
            list.as_array()
                .is_some_and(|l| l.iter().any(|c| subflows(c) == 2))
        };
        wait_for("a path joins", joined);
        drop(stopping);
        workers
            .into_iter()
            .map(|w| w.join().expect("a worker"))
            .sum()
    });
    assert!(done > 0);
    for t in transfers {
        assert!(t.join().expect("a transfer"), "{}", former[0].log());
    }
    for gateway in &mut former {
        assert_eq!(gateway.wait(), Some(0), "{}", gateway.log());
        assert!(gateway.log().contains("aborted=0"), "{}", gateway.log());
    }
    // The last one still has the set-up, and undoes it.
    let stream = hosts.at_client(|| kernel::connect(from[1], to, true));
    assert!(transfer(&stream, true, 100_000));
    drop(stream);
    assert_eq!(old.end(), Some(0), "{}", old.log());
    assert!(!run("ip link show; ip route").contains("spin0"));
}

/// The control socket of a gateway that has been taken over.
fn drained_at(control: &Path, gateway: &Running) -> PathBuf {
    control.with_extension(format!("draining-{}.sock", gateway.id()))
}

#[test]
fn restarts_over_tun_refuse_no_connection_and_cut_no_transfer() {
    let test = "restarts::restarts_over_tun_refuse_no_connection_and_cut_no_transfer";
    within(test, 120, |hosts| {
        hosts.limit("20mbit");
        let to = "10.9.0.1:8080".parse().expect("an address");
        let listen = "--listen 10.9.0.1:8080 --listen [fd09::1]:8080";
        over_tun(
            hosts,
            listen,
            to,
            [on_path(false, 1, 2), on_path(false, 2, 2)],
        );
    });
}

#[test]
fn restarts_with_dnat_keep_the_rules_and_a_killed_successor_does_not_remove_them() {
    let test =
        "restarts::restarts_with_dnat_keep_the_rules_and_a_killed_successor_does_not_remove_them";
    within(test, 120, |hosts| {
        if !have(test, "nft") {
            return;
        }
        serve("127.0.0.1:9000".parse().expect("an address"), false);
        let directory = tempfile::tempdir().expect("a directory");
        let control = directory.path().join("spin0.sock");
        let flags = "--dnat --listen 10.1.1.1:8080";
        let start = |more: &str| start_tun(&control, flags, more);
        let mut old = start("");
        let to = "10.1.1.1:8080".parse().expect("an address");
        let connect = || hosts.at_client(|| kernel::connect(on_path(false, 1, 2), to, true));
        let open = connect();
        let killed = start("--take-over");
        handed_over(&old);
        assert!(transfer(&connect(), true, 100_000));
        drop(killed);
        wait_for("the old one serves", || transfer(&connect(), true, 100_000));
        let mut new = start("--take-over");
        assert!(transfer(&connect(), true, 100_000), "{}", new.log());
        assert!(transfer(&open, true, 100_000), "{}", old.log());
        drop(open);
        assert_eq!(old.wait(), Some(0), "{}", old.log());
        assert!(transfer(&connect(), false, 100_000), "{}", new.log());
        assert_eq!(new.end(), Some(0), "{}", new.log());
        let left = run("nft list tables; ip link show");
        assert!(!left.contains("spin"), "{left}");
    });
}
