//! A gateway with several services and lists of networks, over UDP on loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use crate::program::{Running, program, status_at, wait_for};
use crate::restarts::handed_over;
use crate::udp::{free, join, metric, scrape, start};

/// A back end that sends its letter on each connection, and sends back all data.
fn back_end(letter: u8) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a service");
    let addr = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.write_all(&[letter]);
                std::io::copy(&mut &stream, &mut &stream)
            });
        }
    });
    addr
}

/// Opens a connection and receives the letter of its back end. `None` if the connection is reset.
fn open(port: SocketAddr) -> Option<(u8, TcpStream)> {
    let mut stream = join(port);
    let mut letter = [0];
    let received = stream.read_exact(&mut letter);
    received.ok().map(|()| (letter[0], stream))
}

fn letter(port: SocketAddr) -> Option<u8> {
    open(port).map(|(letter, _)| letter)
}

fn talks(stream: &mut TcpStream) -> bool {
    let mut five = [0; 5];
    let done = stream
        .write_all(b"hello")
        .and_then(|()| stream.read_exact(&mut five));
    done.is_ok() && &five == b"hello"
}

/// A file of settings, and a gateway's control socket.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { directory }
    }

    fn control(&self) -> PathBuf {
        self.directory.path().join("gw.sock")
    }

    fn write(&self, text: &str) {
        let file = self.directory.path().join("gateway.toml");
        std::fs::write(file, text).expect("the file");
    }

    fn gateway(&self, more: &[&str]) -> Running {
        let mut command = Command::new(program());
        command.arg("gateway").args(more).arg("--config");
        command.arg(self.directory.path().join("gateway.toml"));
        Running::start_at(command, &self.control())
    }
}

/// A connect from this address to a gateway.
fn connect(via: SocketAddr, from: &str) -> (Running, SocketAddr) {
    let port = free();
    let flags = format!("--listen {port} --via {via} --local {from}");
    (start("connect", &flags), port)
}

/// Sends SIGHUP, and waits until all services were read `times` times in all.
fn reload(gateway: &Running, services: usize, times: usize) {
    gateway.signal("HUP");
    let all = |text: &str| gateway.log().matches(text).count() == services * times;
    wait_for("the reload", || {
        all("networks read again") && all("back ends read again")
    });
}

#[test]
fn services_have_own_back_ends_and_networks_and_a_reload_changes_both() {
    let (place, web, mail, observer) = (Place::new(), free(), free(), free());
    let [a, b, c] = [b'a', b'b', b'c'].map(back_end);
    let write = |web_lists: &str, mail_lists: &str, mail_to: SocketAddr| {
        place.write(&format!(
            "udp = true\nmetrics = \"{observer}\"\n\
             [[service]]\nname = \"web\"\nlisten = \"{web}\"\nto = \"{a}\"\n{web_lists}\n\
             [[service]]\nlisten = \"{mail}\"\nto = \"{mail_to}\"\n{mail_lists}\n"
        ));
    };
    write("deny = \"127.0.0.2\"", "allow = \"127.0.0.2/32\"", b);
    let gateway = place.gateway(&[]);
    let (_c1, web_1) = connect(web, "127.0.0.1");
    let (_c2, web_2) = connect(web, "127.0.0.2");
    let (_c3, mail_1) = connect(mail, "127.0.0.1");
    let (_c4, mail_2) = connect(mail, "127.0.0.2");
    let (first, mut open_web) = open(web_1).expect("allowed");
    let (second, mut open_mail) = open(mail_2).expect("allowed");
    assert_eq!((first, second), (b'a', b'b'));
    assert_eq!((letter(web_2), letter(mail_1)), (None, None));

    let status = gateway.status();
    let names: Vec<_> = [0, 1]
        .map(|i| status["services"][i]["name"].as_str().unwrap().to_owned())
        .to_vec();
    assert_eq!(names, ["web".to_owned(), mail.to_string()]);
    let of = |i: usize| {
        status["connections"][i]["service"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!([of(0), of(1)], ["web".to_owned(), mail.to_string()]);
    let refused = |service: &str| {
        let labels = format!("{{transport=\"spindle\",service=\"{service}\",why=\"network\"}} ");
        metric(&scrape(observer), &format!("spindle_refused_total{labels}"))
    };
    assert!(refused("web") >= 1.0 && refused(&mail.to_string()) >= 1.0);
    wait_for("the log tells of it", || {
        gateway
            .log()
            .contains("the clients' networks are not allowed")
    });

    write("deny = \"127.0.0.1\"", "allow = [\"127.0.0.0/8\"]", c);
    reload(&gateway, 2, 1);
    assert!(!talks(&mut open_web), "its network is denied");
    assert!(talks(&mut open_mail), "its network is still allowed");
    assert_eq!((letter(web_1), letter(web_2)), (None, Some(b'a')));
    assert_eq!((letter(mail_1), letter(mail_2)), (Some(b'c'), Some(b'c')));

    write("", "allow = \"127.0.0.1/8\"", c);
    gateway.signal("HUP");
    wait_for("the mistake", || {
        let log = gateway.log();
        let found = "gateway.toml:11: allow: found \"127.0.0.1/8\"";
        log.contains("back ends, rules and networks stay as they were") && log.contains(found)
    });
    assert_eq!((letter(web_1), letter(mail_1)), (None, Some(b'c')));

    place.write(&format!(
        "udp = true\ndeny = \"127.0.0.2\"\n[[service]]\nname = \"web\"\nlisten = [\"{web}\", \"{mail}\"]\nto = \"{b}\"\n"
    ));
    gateway.signal("HUP");
    wait_for("the difference", || {
        let log = gateway.log();
        log.contains("the listening addresses in the file differ")
            && log.contains("is not in the file and stays as it was")
            && log.matches("back ends read again").count() == 3
    });
    assert_eq!((letter(web_1), letter(web_2)), (Some(b'b'), None));
    assert_eq!((letter(mail_1), letter(mail_2)), (Some(b'c'), Some(b'c')));
}

#[test]
fn reload_applies_other_rules_to_new_connections_and_keeps_the_rules_if_one_is_wrong() {
    let (place, outer, local) = (Place::new(), free(), free());
    let [a, b] = [b'a', b'b'].map(back_end);
    let write = |rules: &str| {
        place.write(&format!(
            "udp = true\nlisten = \"{outer}\"\nforward = {rules}\n"
        ));
    };
    write(&format!("[\"{a}\"]"));
    let gateway = place.gateway(&[]);
    let flags = format!("--listen {local} --via {outer} --http-connect");
    let _connect = start("connect", &flags);
    let tunnel = |to: SocketAddr| {
        let mut stream = join(local);
        let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("room");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("an answer");
        let allowed = &status == b"HTTP/1.1 200";
        // The rest of the head, and the letter of the target.
        while allowed && !status.ends_with(b"\r\n\r\n") {
            status.rotate_left(1);
            stream.read_exact(&mut status[11..]).expect("the head");
        }
        let mut letter = [0];
        (allowed && stream.read_exact(&mut letter).is_ok()).then_some((letter[0], stream))
    };
    let letter = |to| tunnel(to).map(|(letter, _)| letter);
    let (_, mut open) = tunnel(a).expect("allowed");
    assert_eq!((letter(a), letter(b)), (Some(b'a'), None));

    write(&format!("[\"{b}\"]"));
    gateway.signal("HUP");
    wait_for("the reload", || gateway.log().contains("rules read again"));
    assert_eq!((letter(a), letter(b)), (None, Some(b'b')));
    assert!(talks(&mut open), "an open connection stays");

    write("[\"nowhere\"]");
    gateway.signal("HUP");
    wait_for("the mistake", || {
        let log = gateway.log();
        log.contains("rules stay as they were") && log.contains("gateway.toml:3: forward")
    });
    assert_eq!((letter(a), letter(b)), (None, Some(b'b')));
}

#[test]
fn gateway_with_several_services_is_taken_over_by_one_with_other_services() {
    let (place, one, two) = (Place::new(), free(), free());
    let [a, b, c] = [b'a', b'b', b'c'].map(back_end);
    let two_services = |first: (SocketAddr, SocketAddr), second: (SocketAddr, SocketAddr)| {
        place.write(&format!(
            "udp = true\nlisten = \"{}\"\nto = \"{}\"\n\
             [[service]]\nname = \"another\"\nlisten = \"{}\"\nto = \"{}\"\n",
            first.0, first.1, second.0, second.1
        ));
    };
    two_services((one, a), (two, b));
    let mut old = place.gateway(&[]);
    let (_c1, at_one) = connect(one, "127.0.0.1");
    let (_c2, at_two) = connect(two, "127.0.0.1");
    let (first, mut open_one) = open(at_one).expect("a connection");
    let (second, mut open_two) = open(at_two).expect("a connection");
    assert_eq!((first, second), (b'a', b'b'));

    // The same addresses, in one service.
    place.write(&format!(
        "udp = true\n[[service]]\nname = \"both\"\nlisten = [\"{two}\", \"{one}\"]\nto = \"{c}\"\n"
    ));
    let mut middle = place.gateway(&["--take-over"]);
    handed_over(&old);
    assert!(talks(&mut open_one) && talks(&mut open_two));
    let (third, mut open_both) = open(at_two).expect("a connection");
    assert_eq!((letter(at_one), third), (Some(b'c'), b'c'));

    // The addresses are exchanged.
    two_services((two, a), (one, b));
    let mut new = place.gateway(&["--take-over"]);
    handed_over(&middle);
    assert!(talks(&mut open_one) && talks(&mut open_two) && talks(&mut open_both));
    assert_eq!((letter(at_one), letter(at_two)), (Some(b'b'), Some(b'a')));
    let status = status_at(&place.control());
    assert_eq!(status["services"][1]["listen"][0], one.to_string());

    drop((open_one, open_two, open_both));
    assert_eq!(old.wait(), Some(0), "{}", old.log());
    assert_eq!(middle.wait(), Some(0), "{}", middle.log());
    assert_eq!(new.end(), Some(0), "{}", new.log());
}
