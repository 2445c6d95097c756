//! A name server for a program whose connections are redirected. It answers with addresses that stand for names
//! ([`Names`]) and asks no other server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use simple_dns::rdata::{A, AAAA, PTR, RData};
use simple_dns::{
    CLASS, Name, OPCODE, Packet, PacketFlag, QTYPE, Question, RCODE, ResourceRecord, TYPE,
};
use tokio::net::UdpSocket;

use super::names::{self, Meaning, Names};

/// Longest query that is read: more than a question with all its options needs.
const LONGEST: usize = 4096;
/// Length of a message's header (RFC 1035, section 4.1.1).
const HEADER: usize = 12;
/// How long a program may keep an answer, in seconds (our choice). An address changes its name only after as many other names
/// as are remembered were looked up.
const TTL: u32 = 60;
/// Names below these have no addresses. RFC 6761 reserves `invalid`, and RFC 7686 `onion`. A program that got an address for
/// `ipv4only.arpa` would take the network for one with NAT64 (RFC 7050), and one that got an address for
/// `use-application-dns.net` would use DNS over HTTPS, whose addresses stand for no names (Mozilla's canary domain).
const NOWHERE: [&str; 4] = ["invalid", "onion", "arpa", "use-application-dns.net"];

/// Answers the queries that arrive on a socket.
///
/// # Errors
/// The error of a socket that can no longer be read.
pub async fn serve(socket: UdpSocket, names: Names) -> io::Result<()> {
    let mut query = vec![0; LONGEST];
    loop {
        let (length, from) = match socket.recv_from(&mut query).await {
            Ok(received) => received,
            // ICMP reports that a program did not wait for its answer.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(e) => return Err(e),
        };
        if let Some(answer) = answer(&names, &query[..length]) {
            send(&socket, &answer, from).await;
        }
    }
}

async fn send(socket: &UdpSocket, answer: &[u8], to: SocketAddr) {
    if let Err(error) = socket.send_to(answer, to).await {
        // The program asks again.
        tracing::debug!(%error, "an answer of the name server was not sent");
    }
}

/// The answer to a query. `None` if the message is no query.
fn answer(names: &Names, query: &[u8]) -> Option<Vec<u8>> {
    let id = u16::from_be_bytes(*query.first_chunk()?);
    // The bit QR: an answer gets no answer.
    if query.len() < HEADER || query[2] & 0x80 != 0 {
        return None;
    }
    let mut reply = Packet::new_reply(id);
    match Packet::parse(query) {
        Ok(asked) => {
            *reply.opcode_mut() = asked.opcode();
            if asked.has_flags(PacketFlag::RECURSION_DESIRED) {
                reply.set_flags(PacketFlag::RECURSION_DESIRED);
            }
            reply.set_flags(PacketFlag::RECURSION_AVAILABLE);
            let code = match (asked.opcode(), asked.questions.as_slice()) {
                (OPCODE::StandardQuery, [question]) => {
                    let found = records(names, question);
                    reply.questions.push(question.clone());
                    match found {
                        Some(records) => {
                            reply.answers = records;
                            RCODE::NoError
                        }
                        None => RCODE::NameError,
                    }
                }
                (OPCODE::StandardQuery, _) => RCODE::FormatError,
                _ => RCODE::NotImplemented,
            };
            *reply.rcode_mut() = code;
            reply.build_bytes_vec().ok()
        }
        Err(_) => {
            *reply.rcode_mut() = RCODE::FormatError;
            reply.build_bytes_vec().ok()
        }
    }
}

/// The records that answer a question: none if the name has other records only, `None` if there is no such name.
fn records<'a>(names: &Names, question: &Question<'a>) -> Option<Vec<ResourceRecord<'a>>> {
    let name = question.qname.to_string();
    let record = |data| {
        vec![ResourceRecord::new(
            question.qname.clone(),
            CLASS::IN,
            TTL,
            data,
        )]
    };
    if let Some(address) = reversed(&name) {
        let Meaning::Name(name) = names.meaning(address) else {
            return None;
        };
        let is_asked = question.qtype == QTYPE::TYPE(TYPE::PTR);
        let name = Name::new(&name).ok()?.into_owned();
        return Some(if is_asked {
            record(RData::PTR(PTR(name)))
        } else {
            Vec::new()
        });
    }
    let below = |domain: &str| is_below(&name, domain);
    if NOWHERE.into_iter().any(below) {
        return None;
    }
    // RFC 6761, section 6.3.
    let here = below("localhost");
    let number = if here { 0 } else { names.number(&name)? };
    let v4 = if here {
        Ipv4Addr::LOCALHOST
    } else {
        names::v4(number)
    };
    let v6 = if here {
        Ipv6Addr::LOCALHOST
    } else {
        names::v6(number)
    };
    Some(match question.qtype {
        QTYPE::TYPE(TYPE::A) => record(RData::A(A {
            address: v4.to_bits(),
        })),
        QTYPE::TYPE(TYPE::AAAA) => record(RData::AAAA(AAAA {
            address: v6.to_bits(),
        })),
        _ => Vec::new(),
    })
}

/// Whether the name is the domain or below it.
fn is_below(name: &str, domain: &str) -> bool {
    let Some(at) = name.len().checked_sub(domain.len()) else {
        return false;
    };
    // A name is ASCII where it equals a domain, so that `at` is between characters.
    let same = name.is_char_boundary(at) && name[at..].eq_ignore_ascii_case(domain);
    same && (at == 0 || name.as_bytes()[at - 1] == b'.')
}

/// The address whose name is asked for (RFC 1035, section 3.5, and RFC 3596, section 2.5).
fn reversed(name: &str) -> Option<IpAddr> {
    let name = name.to_ascii_lowercase();
    if let Some(labels) = name.strip_suffix(".in-addr.arpa") {
        let labels: Vec<&str> = labels.rsplit('.').collect();
        return labels.join(".").parse().ok().map(IpAddr::V4);
    }
    let digits = name.strip_suffix(".ip6.arpa")?;
    let mut bits = 0_u128;
    let mut count = 0;
    for digit in digits.rsplit('.') {
        let value = u8::from_str_radix(digit, 16).ok().filter(|v| *v < 16)?;
        bits = bits << 4 | u128::from(value);
        count += 1;
    }
    (count == 32).then(|| Ipv6Addr::from_bits(bits).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use simple_dns::{QCLASS, Question};

    use super::*;

    fn query(name: &str, kind: TYPE) -> Vec<u8> {
        let mut packet = Packet::new_query(7);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        let name = Name::new_unchecked(name);
        let kind = QTYPE::TYPE(kind);
        let class = QCLASS::CLASS(CLASS::IN);
        packet
            .questions
            .push(Question::new(name, kind, class, false));
        packet.build_bytes_vec().unwrap()
    }

    /// The code of the answer, and its records.
    fn asked(names: &Names, name: &str, kind: TYPE) -> (RCODE, Vec<RData<'static>>) {
        let bytes = answer(names, &query(name, kind)).unwrap();
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.id(), packet.questions.len()), (7, 1));
        assert!(packet.has_flags(PacketFlag::RESPONSE | PacketFlag::RECURSION_DESIRED));
        let data = packet.answers.iter().map(|r| r.rdata.clone().into_owned());
        (packet.rcode(), data.collect())
    }

    #[test]
    fn a_name_has_an_address_of_each_family_that_leads_back_to_it() {
        let names = Names::default();
        let (code, records) = asked(&names, "www.example", TYPE::A);
        assert_eq!(code, RCODE::NoError);
        let [RData::A(A { address })] = records[..] else {
            panic!("{records:?}");
        };
        let address = Ipv4Addr::from_bits(address);
        let name = Meaning::Name("www.example".to_owned());
        assert_eq!(names.meaning(address.into()), name);
        let (_, records) = asked(&names, "WWW.example", TYPE::AAAA);
        let [RData::AAAA(AAAA { address })] = records[..] else {
            panic!("{records:?}");
        };
        assert_eq!(names.meaning(Ipv6Addr::from_bits(address).into()), name);
        let text = "2.0.18.198.in-addr.arpa";
        let (_, records) = asked(&names, text, TYPE::PTR);
        let [RData::PTR(PTR(found))] = &records[..] else {
            panic!("{records:?}");
        };
        assert_eq!(found.to_string(), "www.example");
    }

    #[test]
    fn other_types_have_no_records_and_names_that_lead_nowhere_do_not_exist() {
        let names = Names::default();
        for kind in [TYPE::MX, TYPE::TXT, TYPE::HTTPS, TYPE::SOA] {
            assert_eq!(
                asked(&names, "www.example", kind),
                (RCODE::NoError, Vec::new())
            );
        }
        for name in [
            "a.invalid",
            "a.onion",
            "ipv4only.arpa",
            "use-application-dns.net",
            "1.2.0.192.in-addr.arpa",
            "9.0.18.198.in-addr.arpa",
        ] {
            assert_eq!(
                asked(&names, name, TYPE::A),
                (RCODE::NameError, Vec::new()),
                "{name}"
            );
        }
        let here = RData::A(A {
            address: 0x7f00_0001,
        });
        for name in ["localhost", "a.LocalHost"] {
            assert_eq!(
                asked(&names, name, TYPE::A),
                (RCODE::NoError, vec![here.clone()])
            );
        }
        assert_eq!(asked(&names, "notlocalhost", TYPE::A).1.len(), 1);
        assert_ne!(asked(&names, "notlocalhost", TYPE::A).1, [here]);
    }

    #[test]
    fn messages_that_are_no_proper_queries_get_an_error_or_nothing() {
        let names = Names::default();
        let mut answered = query("a.example", TYPE::A);
        answered[2] |= 0x80;
        assert_eq!(answer(&names, &answered), None);
        assert_eq!(answer(&names, &[0; 11]), None);
        let mut cut = query("a.example", TYPE::A);
        cut.truncate(20);
        let bytes = answer(&names, &cut).unwrap();
        assert_eq!(Packet::parse(&bytes).unwrap().rcode(), RCODE::FormatError);
        let mut notify = query("a.example", TYPE::A);
        notify[2] |= 4 << 3;
        let bytes = answer(&names, &notify).unwrap();
        assert_eq!(
            Packet::parse(&bytes).unwrap().rcode(),
            RCODE::NotImplemented
        );
    }

    #[test]
    fn addresses_are_read_from_reversed_names() {
        let v6 = "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.6.e.6.4.6.e.6.9.6.0.7.3.5.d.f.ip6.arpa";
        assert_eq!(reversed(v6), Some(names::v6(2).into()));
        for wrong in [
            "a.example",
            "1.2.3.in-addr.arpa",
            "0.ip6.arpa",
            "10.0.ip6.arpa",
        ] {
            assert_eq!(reversed(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_name_server_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = answer(&Names::default(), &bytes);
        }

        #[test]
        fn no_changed_query_makes_the_name_server_panic(at in 0_usize..26, value: u8) {
            let mut bytes = query("www.example", TYPE::A);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
            let _ = answer(&Names::default(), &bytes);
        }
    }
}
