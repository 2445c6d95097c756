//! Captures as Wireshark's dissector reads them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Stdio};

use spindle_units::Instant;
use spindle_wire::{
    DataNumber, Dss, Ecn, Endpoint, Flags, Mapping, MpCapable, Payload, Segment, SeqNumber,
    Timestamps,
};

use super::*;

const CLIENT_KEY: u64 = 0x0102_0304_0506_0708;
const SERVER_KEY: u64 = 0x1112_1314_1516_1718;
const CLIENT_ISN: u32 = 1_000;
const SERVER_ISN: u32 = u32::MAX - 100;

/// A connection as it would be captured, over IPv4 or IPv6.
struct Conversation {
    client: Endpoint,
    server: Endpoint,
}

impl Conversation {
    fn v4() -> Self {
        let host = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
        Self {
            client: Endpoint::new(host(1), 40_000),
            server: Endpoint::new(host(2), 80),
        }
    }

    fn v6() -> Self {
        let host = |n| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n));
        Self {
            client: Endpoint::new(host(1), 40_001),
            server: Endpoint::new(host(2), 80),
        }
    }

    fn up(&self, seq: u32, ack: u32, flags: Flags) -> Segment {
        let mut s = Segment::new(self.client, self.server);
        (s.seq, s.ack, s.flags, s.window) = (SeqNumber(seq), SeqNumber(ack), flags, 60_000);
        s.options.timestamps = Some(Timestamps { value: 5, echo: 0 });
        s
    }

    fn down(&self, seq: u32, ack: u32, flags: Flags) -> Segment {
        let up = self.up(seq, ack, flags);
        Segment {
            src: self.server,
            dst: self.client,
            ..up
        }
    }

    /// Handshake with MP_CAPABLE, a request, an answer that is only a length, DATA_FIN.
    fn segments(&self) -> Vec<Segment> {
        let capable = MpCapable {
            version: 1,
            hmac_sha256: true,
            ..MpCapable::default()
        };
        let mut syn = self.up(CLIENT_ISN, 0, Flags::SYN);
        syn.options.rare_mut().mss = Some(1460);
        syn.options.rare_mut().mp_capable = Some(capable);
        let mut syn_ack = self.down(SERVER_ISN, CLIENT_ISN + 1, Flags::SYN | Flags::ACK);
        let server_capable = MpCapable {
            sender_key: Some(SERVER_KEY),
            ..capable
        };
        syn_ack.options.rare_mut().mp_capable = Some(server_capable);
        let mut ack = self.up(CLIENT_ISN + 1, SERVER_ISN.wrapping_add(1), Flags::ACK);
        let keys = MpCapable {
            receiver_key: Some(SERVER_KEY),
            sender_key: Some(CLIENT_KEY),
            ..capable
        };
        ack.options.rare_mut().mp_capable = Some(keys);
        let mut request = self.up(
            CLIENT_ISN + 1,
            SERVER_ISN.wrapping_add(1),
            Flags::ACK | Flags::PSH,
        );
        request.payload = Payload::from(b"GET / HTTP/1.1\r\n\r\n".to_vec());
        request.options.dss = Some(dss(100, 1, 18, None));
        let mut answer = self.down(SERVER_ISN.wrapping_add(1), CLIENT_ISN + 19, Flags::ACK);
        answer.payload = Payload::Length(1_401);
        answer.ecn = Ecn::Ce;
        answer.options.dss = Some(dss(9_000, 1, 1_401, Some(118)));
        let mut fin = self.down(SERVER_ISN.wrapping_add(1_402), CLIENT_ISN + 19, Flags::ACK);
        fin.options.dss = Some(Dss {
            data_fin: true,
            ..dss(10_401, 0, 1, Some(118))
        });
        vec![syn, syn_ack, ack, request, answer, fin]
    }
}

fn dss(dsn: u64, ssn: u32, len: u16, data_ack: Option<u64>) -> Dss {
    let mapping = Mapping {
        dsn: DataNumber::Full(dsn),
        ssn,
        len,
        checksum: None,
    };
    Dss {
        data_ack: data_ack.map(DataNumber::Full),
        mapping: Some(mapping),
        data_fin: false,
    }
}

/// The fields of each packet as tshark prints them. `None`, with a note, if tshark is not installed.
fn dissect(file: &Path, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    if Command::new("tshark")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        println!("note: tshark is not installed; captures are not dissected");
        return None;
    }
    let mut command = Command::new("tshark");
    command
        .arg("-n")
        .arg("-r")
        .arg(file)
        .args(["-T", "fields", "-E", "separator=|"]);
    for check in ["ip.check_checksum", "tcp.check_checksum"] {
        command.arg("-o").arg(format!("{check}:TRUE"));
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(
        text.lines()
            .map(|l| l.split('|').map(str::to_owned).collect())
            .collect(),
    )
}

#[test]
fn a_dissector_reads_every_packet_and_finds_nothing_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory
        .path()
        .join("runs")
        .join(file_name(&["fuso", "seed1"]));
    let mut writer = PcapWriter::create(&file, "fuso, seed 1", "h1").unwrap();
    let second = writer.add_interface("h2").unwrap();
    let segments: Vec<Segment> = [Conversation::v4(), Conversation::v6()]
        .iter()
        .flat_map(Conversation::segments)
        .collect();
    for (i, segment) in segments.iter().enumerate() {
        let at = Instant::from_nanos(1_000_000_123 + i as u64);
        let packet = segment.clone().into();
        if i % 2 == 0 {
            writer.write(at, &packet).unwrap();
        } else {
            writer.write_at(at, second, &packet, "seen at h2").unwrap();
        }
    }
    assert_eq!(writer.packets(), segments.len() as u64);
    writer.finish().unwrap();

    const FIELDS: [&str; 10] = [
        "frame.time_epoch",
        "frame.interface_name",
        "_ws.malformed",
        "ip.checksum.status",
        "tcp.checksum.status",
        "tcp.len",
        "tcp.options.mptcp.subtype",
        "tcp.options.mptcp.rawdataseqno",
        "ip.dsfield.ecn",
        "frame.comment",
    ];
    let Some(packets) = dissect(&file, &FIELDS) else {
        return;
    };
    assert_eq!(packets.len(), segments.len());
    for (i, (packet, segment)) in packets.iter().zip(&segments).enumerate() {
        assert_eq!(packet[0], format!("1.{:09}", 123 + i), "nanoseconds");
        assert_eq!(packet[1], if i % 2 == 0 { "h1" } else { "h2" });
        assert_eq!(packet[2], "", "malformed: packet {i}");
        let ip = if segment.src.addr.is_ipv4() { "1" } else { "" };
        assert_eq!(packet[3], ip, "IP checksum of packet {i}");
        assert_eq!(packet[4], "1", "TCP checksum of packet {i}");
        assert_eq!(packet[5], segment.payload.len().to_string());
        assert_eq!(
            packet[6],
            if segment.options.dss.is_some() {
                "2"
            } else {
                "0"
            }
        );
        assert_eq!(packet[9], if i % 2 == 0 { "" } else { "seen at h2" });
    }
    let dsn: Vec<&str> = packets
        .iter()
        .map(|p| p[7].as_str())
        .filter(|d| !d.is_empty())
        .collect();
    assert_eq!(dsn, ["100", "9000", "10401", "100", "9000", "10401"]);
    assert_eq!(packets[4][8], "3", "congestion experienced");
}

#[test]
fn a_length_is_captured_as_zero_bytes() {
    let capture = |payload: Payload| {
        let mut writer = PcapWriter::new(Vec::new(), Path::new("a"), "", "h1").unwrap();
        let mut segment = Conversation::v4().up(1, 1, Flags::ACK);
        segment.payload = payload;
        writer.write(Instant::ZERO, &segment.into()).unwrap();
        writer.finish().unwrap()
    };
    assert_eq!(
        capture(Payload::Length(999)),
        capture(Payload::from(vec![0; 999]))
    );
}

#[test]
fn an_oversized_segment_is_refused_and_leaves_the_file_intact() {
    let mut writer = PcapWriter::new(Vec::new(), Path::new("runs/big.pcapng"), "", "h1").unwrap();
    let mut segment = Conversation::v4().up(1, 1, Flags::ACK);
    segment.payload = Payload::Length(u32::MAX);
    let too_long = segment.clone().into();
    let error = writer.write(Instant::from_nanos(7), &too_long).unwrap_err();
    assert!(error.to_string().contains("runs/big.pcapng"), "{error}");
    assert_eq!(writer.packets(), 0);
    segment.payload = Payload::Length(10);
    let packet = segment.into();
    writer.write(Instant::from_nanos(8), &packet).unwrap();
    let written = writer.finish().unwrap();
    let mut blocks = 0;
    let mut at = 0;
    while at < written.len() {
        at += u32::from_le_bytes(written[at + 4..at + 8].try_into().unwrap()) as usize;
        blocks += 1;
    }
    assert_eq!((blocks, at), (3, written.len()));
}
