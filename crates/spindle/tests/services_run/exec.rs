//! Programs that `spindle exec` runs: they reach servers that only the gateway reaches, by name and by address.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::forward::page;
use crate::program::{Running, program, wait_for};
use crate::two_hosts::{Hosts, copy_program, have, output, run, within};

/// The server's addresses, and its name, which only the gateway knows.
const SERVERS: [&str; 2] = ["203.0.113.5", "fd99::5"];
const NAME: &str = "www.spindle.test";
/// The user that has no rights on most systems.
const UNPRIVILEGED: &str = "65534";

/// A gateway and the servers, in the network that the client has no route to.
struct World {
    directory: tempfile::TempDir,
    gateway: Running,
    port: u16,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(directory.path(), open(0o755)).expect("its mode");
        // The build directory may be closed to others.
        let copy = directory.path().join("spindle");
        copy_program(program(), &copy);
        std::fs::set_permissions(&copy, open(0o755)).expect("its mode");
        let sockets = directory.path().join("sockets");
        std::fs::create_dir(&sockets).expect("a directory");
        std::fs::set_permissions(&sockets, open(0o777)).expect("its mode");
        let hosts = directory.path().join("hosts");
        std::fs::write(&hosts, format!("{} {NAME}\n", SERVERS[0])).expect("a file");
        for ip in SERVERS {
            let length = if ip.contains(':') { "128 nodad" } else { "32" };
            run(&format!("ip addr add dev lo {ip}/{length}"));
        }
        let any: IpAddr = "::".parse().expect("an address");
        let port = page(any);
        let mut command = Command::new("unshare");
        let line = format!("mount --bind {} /etc/hosts && exec \"$@\"", hosts.display());
        command.args(["--mount", "sh", "-c", &line, "sh", program()]);
        command.args("gateway --udp --insecure --listen 10.1.1.1:4430".split(' '));
        command.args([
            "--forward",
            "203.0.113.0/24:*",
            "--forward",
            "[fd99::/64]:*",
        ]);
        Self {
            gateway: Running::start(command),
            directory,
            port,
        }
    }

    /// A new path for a control socket, in a directory that every user may write.
    fn control(&self) -> String {
        let random: [u8; 8] = spindle_net::random_bytes().expect("random bytes");
        let sockets = self.directory.path().join("sockets");
        format!("{}/{:016x}", sockets.display(), u64::from_ne_bytes(random))
    }

    fn spindle(&self) -> PathBuf {
        self.directory.path().join("spindle")
    }

    /// `spindle exec` at the client, by this user, with the program still to be added.
    fn exec(&self, hosts: &Hosts, user: &str, flags: &str) -> Command {
        let spindle = self.spindle();
        let as_user = [
            "setpriv",
            &format!("--reuid={user}"),
            &format!("--regid={user}"),
            "--clear-groups",
            spindle.to_str().expect("a path in UTF-8"),
            "exec",
        ];
        let mut command = hosts.client_command(&as_user);
        command.args("--udp --insecure --via 10.1.1.1:4430".split(' '));
        // The default is named after the process, whose number a process of another namespace may have.
        command.args(["--control", &self.control()]);
        command.args(flags.split_whitespace()).arg("--");
        // A user's path has no directory of the system's programs, such as nft.
        command
            .current_dir("/")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
    }

    fn output(&self, hosts: &Hosts, user: &str, words: &[&str]) -> Output {
        let mut command = self.exec(hosts, user, "");
        command.args(words).output().expect("started")
    }
}

/// Whether what these tests need is there.
fn ready(test: &str) -> bool {
    ["curl", "nft", "setpriv", "python3"]
        .into_iter()
        .all(|program| have(test, program))
}

/// Whether a user other than root may create namespaces here.
fn allowed(test: &str) -> bool {
    let made = output(&format!(
        "setpriv --reuid={UNPRIVILEGED} --regid={UNPRIVILEGED} --clear-groups unshare --user --net --mount true"
    ));
    if !made.status.success() {
        eprintln!("skipped in {test}: user namespaces are not allowed here");
    }
    made.status.success()
}

/// Whether a service of `exec` runs, in the test's namespace of processes.
fn serves() -> bool {
    let list = std::fs::read_dir("/proc").expect("/proc");
    list.flatten().any(|entry| {
        let line = std::fs::read(Path::new(&entry.path()).join("cmdline"));
        line.is_ok_and(|l| String::from_utf8_lossy(&l).contains("--part=service"))
    })
}

#[test]
fn curl_fetches_a_page_by_name_and_by_address_with_and_without_root() {
    let test = "exec::curl_fetches_a_page_by_name_and_by_address_with_and_without_root";
    within(test, 60, |hosts| {
        if !ready(test) {
            return;
        }
        let world = World::new();
        let mut users = vec!["0"];
        users.extend(allowed(test).then_some(UNPRIVILEGED));
        for user in users {
            for host in [NAME, "203.0.113.5", "[fd99::5]"] {
                let url = format!("http://{host}:{}/", world.port);
                let flags = ["curl", "-sS", "--max-time", "20", "--noproxy", "*", &url];
                // Without exec, there is no route.
                assert!(!hosts.client_output(&flags.join(" ")).status.success());
                let got = world.output(hosts, user, &flags);
                let log = world.gateway.log();
                assert_eq!(got.stdout, b"spindle", "{user}, {host}: {got:?}\n{log}");
                assert_eq!(got.status.code(), Some(0), "{got:?}");
                assert!(got.stderr.is_empty(), "{got:?}");
            }
            let words = ["sh", "-c", "id -u; cat /etc/resolv.conf"];
            let got = world.output(hosts, user, &words);
            let text = String::from_utf8_lossy(&got.stdout).into_owned();
            assert!(text.starts_with(&format!("{user}\n")), "{text}");
            assert!(text.contains("\nnameserver 127.0.0.1\n"), "{text}");
        }
        let target = format!("target={NAME}:{} ", world.port);
        wait_for("the gateway logs the name", || {
            world.gateway.log().contains(&target)
        });
        wait_for("the services end with their programs", || !serves());
        let left = std::fs::read_dir(std::env::temp_dir()).expect("a directory");
        let left = left.flatten().map(|e| e.file_name());
        let ours = left.filter(|n| n.to_string_lossy().starts_with("spindle-exec-"));
        assert_eq!(ours.count(), 0);
    });
}

#[test]
fn exit_codes_signals_and_standard_input_are_the_programs_own() {
    let test = "exec::exit_codes_signals_and_standard_input_are_the_programs_own";
    within(test, 60, |hosts| {
        if !ready(test) {
            return;
        }
        let world = World::new();
        let code = |words: &[&str]| world.output(hosts, "0", words).status;
        assert_eq!(code(&["sh", "-c", "exit 7"]).code(), Some(7));
        assert_eq!(code(&["true"]).code(), Some(0));
        assert_eq!(code(&["/no/such/program"]).code(), Some(127));
        assert_eq!(code(&["/etc/passwd"]).code(), Some(126));
        let killed = code(&["sh", "-c", "kill -KILL $$"]);
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&killed),
            Some(9)
        );
        let line = format!(
            "echo input | {} exec --udp --insecure --via 10.1.1.1:4430 --control {} -- cat",
            world.spindle().display(),
            world.control()
        );
        assert_eq!(hosts.client(&line), "input\n");
        // A file that is shared with connect: the flags of its port have no effect.
        let file = world.directory.path().join("connect.toml");
        let text = "udp = true\ninsecure = true\nvia = \"10.1.1.1:4430\"\nlisten = \"127.0.0.1:1\"\nsocks5 = true\nlog = \"warn\"\n";
        std::fs::write(&file, text).expect("a file");
        let line = format!(
            "{} exec --config {} --control {} -- echo ran",
            world.spindle().display(),
            file.display(),
            world.control()
        );
        assert_eq!(hosts.client(&line), "ran\n");
        // SIGTERM reaches the program, which ends as it likes.
        let mut command = world.exec(hosts, "0", "");
        let script = "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done";
        command.args(["sh", "-c", script]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let mut up = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut up).expect("a line");
        assert_eq!(up, "up\n");
        assert!(serves());
        run(&format!("kill -TERM {}", child.id()));
        assert_eq!(child.wait().expect("a child").code(), Some(9));
        wait_for("the service ends with the program", || !serves());
    });
}

/// Sends a datagram and waits for an error; has a server of its own on loopback; and looks names up.
const SCRIPT: &str = r#"
import errno, socket, subprocess
for family, ip in ((socket.AF_INET, "203.0.113.5"), (socket.AF_INET6, "fd99::5")):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.connect((ip, 443))
    s.send(b"x")
    try:
        s.recv(1)
    except ConnectionRefusedError:
        print("refused")
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
peer = server.accept()[0]
client.sendall(b"own")
print(peer.recv(3).decode())
for family in (socket.AF_INET, socket.AF_INET6):
    found = socket.getaddrinfo("a.example", 80, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
    print(found[0][4][0])
# A name server that a program has chosen itself is ours, too.
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
s.sendto(bytes.fromhex("00070100000100000000000001610765") + b"xample\0" + bytes([0, 1, 0, 1]), ("9.9.9.9", 53))
print(s.recv(512)[-4:].hex())
print(socket.gethostbyaddr("198.18.0.2")[0])
"#;

#[test]
fn datagrams_get_an_error_at_once_and_loopback_and_names_are_the_programs_own() {
    let test = "exec::datagrams_get_an_error_at_once_and_loopback_and_names_are_the_programs_own";
    within(test, 60, |hosts| {
        if !ready(test) {
            return;
        }
        let world = World::new();
        let got = world.output(hosts, "0", &["python3", "-c", SCRIPT]);
        let text = String::from_utf8_lossy(&got.stdout).into_owned();
        let wanted = [
            "refused",
            "refused",
            "own",
            "198.18.0.2",
            "fd53:7069:6e64:6e61::2",
            "c6120002",
            "a.example",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), wanted, "{got:?}");
    });
}

#[test]
fn what_is_missing_is_said_and_the_program_does_not_run() {
    let test = "exec::what_is_missing_is_said_and_the_program_does_not_run";
    within(test, 60, |hosts| {
        if !ready(test) {
            return;
        }
        let world = World::new();
        let spindle = world.spindle();
        let exec = format!(
            "{} exec --udp --insecure --via 10.1.1.1:4430 -- echo ran",
            spindle.display()
        );
        let hidden = "mount --bind /dev/null $(command -v nft) &&";
        // The limit is one of the namespace in which it is set.
        let none =
            "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin";
        for (line, wanted) in [
            (
                format!("unshare --mount sh -c '{hidden} {exec}'"),
                "install nftables",
            ),
            (
                format!("unshare --user --map-root-user sh -c '{none} {exec}'"),
                "user.max_user_namespaces",
            ),
        ] {
            let got = hosts.client_output(&line);
            let said = String::from_utf8_lossy(&got.stderr).into_owned();
            assert_eq!(got.status.code(), Some(1), "{line}: {said}");
            assert!(
                said.contains(wanted) && got.stdout.is_empty(),
                "{line}: {got:?}"
            );
        }
        wait_for("no service is left", || !serves());
    });
}

#[test]
fn wrong_flags_of_exec_are_refused_before_anything_starts() {
    for (flags, wanted) in [
        ("--udp --via 127.0.0.1:1", "PROGRAM"),
        ("--udp -- true", "--via"),
        ("--via 127.0.0.1:1 -- true", "--udp"),
        ("--udp --via 192.0.2.1:1 -- true", "--insecure"),
        (
            "--udp --bundle - -- true",
            "standard input is the program's",
        ),
    ] {
        let mut command = Command::new(program());
        let got = command.arg("exec").args(flags.split(' ')).output();
        let got = got.expect("the command");
        let said = String::from_utf8_lossy(&got.stderr).into_owned();
        assert_eq!(got.status.code(), Some(2), "{flags}: {said}");
        assert!(said.contains(wanted), "{flags}: {said}");
    }
}
