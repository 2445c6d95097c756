//! The register: the clients that have a certificate of the authority.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{KeyDirectory, KeysError, read, replace};

/// The first lines of the file.
const TITLE: &str =
    "# The clients of this gateway, written by `spindle enroll` and `spindle revoke`.\n\n";
/// Most characters of a client's name, as in a certificate (RFC 5280, appendix A.1, ub-common-name).
const LONGEST_NAME: usize = 64;

/// All clients, in the order in which they were enrolled.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Register {
    #[serde(default)]
    pub(crate) clients: Vec<Client>,
}

/// One certificate of a client.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) name: String,
    /// The certificate's serial number, in lower-case hexadecimal digits.
    pub(crate) serial: String,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) expires: OffsetDateTime,
    /// When it was revoked.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) revoked: Option<OffsetDateTime>,
}

impl Client {
    fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl Register {
    pub(crate) fn read(directory: &KeyDirectory) -> Result<Self, KeysError> {
        let path = directory.register();
        let text = read(&path)?;
        let unfit = |problem| KeysError::Unfit {
            path: path.clone(),
            problem,
        };
        let register: Self =
            toml::from_str(&text).map_err(|e| unfit(format!("not a register of clients: {e}")))?;
        let is_serial = |c: &&Client| {
            let digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            !c.serial.is_empty() && c.serial.len().is_multiple_of(2) && c.serial.chars().all(digit)
        };
        // A revocation list without one of them would be worse than an error.
        match register.clients.iter().find(|c| !is_serial(c)) {
            Some(c) => Err(unfit(format!(
                "client \"{}\": its serial is not a serial number in hexadecimal digits, two a byte",
                c.name.escape_debug()
            ))),
            None => Ok(register),
        }
    }

    /// Replaces the file.
    pub(crate) fn write(&self, directory: &KeyDirectory) -> Result<(), KeysError> {
        let path = directory.register();
        let text = toml::to_string(self).map_err(|e| KeysError::Unfit {
            path: path.clone(),
            problem: e.to_string(),
        })?;
        replace(&path, &format!("{TITLE}{text}"))
    }

    /// A certificate of the client that is valid at this time, the one that ends last.
    pub(crate) fn valid(&self, name: &str, now: OffsetDateTime) -> Option<&Client> {
        let valid = |c: &&Client| c.is_named(name) && c.revoked.is_none() && c.expires > now;
        self.clients.iter().filter(valid).max_by_key(|c| c.expires)
    }

    /// Marks all certificates of the client as revoked at this time. Returns how many it has, and how many of them were
    /// not revoked before.
    pub(crate) fn revoke(&mut self, name: &str, now: OffsetDateTime) -> (usize, usize) {
        let (mut all, mut new) = (0, 0);
        for client in self.clients.iter_mut().filter(|c| c.is_named(name)) {
            all += 1;
            new += usize::from(client.revoked.is_none());
            client.revoked.get_or_insert(now);
        }
        (all, new)
    }
}

/// Checks a client's name. It becomes a name in a certificate, and of a file.
pub(crate) fn client_name(name: &str) -> Result<(), KeysError> {
    let character = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let first = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    match first && name.len() <= LONGEST_NAME && name.chars().all(character) {
        true => Ok(()),
        false => Err(KeysError::Flag {
            flag: "client",
            problem: format!(
                "found \"{name}\", want a name of letters, digits, '-', '_' and '.', {LONGEST_NAME} characters at \
                 most, that begins with a letter or digit, such as laptop"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn at(day: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000 + day * 24 * 3600).unwrap()
    }

    fn client(name: &str, serial: &str, expires: i64) -> Client {
        Client {
            name: name.to_owned(),
            serial: serial.to_owned(),
            expires: at(expires),
            revoked: None,
        }
    }

    #[test]
    fn a_register_is_read_as_it_is_written_and_a_revocation_stays() {
        let dir = tempfile::tempdir().unwrap();
        let directory = KeyDirectory::at(dir.path());
        let mut register = Register::default();
        register.write(&directory).unwrap();
        assert!(Register::read(&directory).unwrap().clients.is_empty());
        register.clients.push(client("laptop", "01ff", 10));
        register.clients.push(client("phone", "02ff", 10));
        register.clients.push(client("Laptop", "03ff", 20));
        assert_eq!(register.valid("laptop", at(5)).unwrap().serial, "03ff");
        assert_eq!(register.revoke("laptop", at(1)), (2, 2));
        assert_eq!(register.revoke("laptop", at(2)), (2, 0));
        register.write(&directory).unwrap();
        let read = Register::read(&directory).unwrap();
        let revoked: Vec<_> = read.clients.iter().map(|c| c.revoked).collect();
        assert_eq!(revoked, [Some(at(1)), None, Some(at(1))]);
        assert!(read.valid("laptop", at(5)).is_none());
        assert!(read.valid("phone", at(15)).is_none());
    }

    #[test]
    fn a_register_with_a_damaged_serial_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let directory = KeyDirectory::at(dir.path());
        for serial in ["", "0", "0G", "AB"] {
            let register = Register {
                clients: vec![client("laptop", serial, 1)],
            };
            register.write(&directory).unwrap();
            let error = Register::read(&directory).unwrap_err().to_string();
            assert!(error.contains("laptop"), "{serial}: {error}");
        }
    }

    #[test]
    fn names_of_clients_are_names_of_files_without_a_directory() {
        for name in ["laptop", "a.b-c_d", "7"] {
            assert!(client_name(name).is_ok(), "{name}");
            assert_eq!(Path::new(name).components().count(), 1);
        }
        let long = "a".repeat(65);
        for name in ["", "..", "../x", ".x", "a b", "a,b", "ä", "a\n", &long] {
            assert!(client_name(name).is_err(), "{name}");
        }
    }
}
