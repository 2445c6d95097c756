//! A client's bundle: all that a client needs for a gateway, in one file or one line.
//!
//! The file begins with a header of lines `key: value`. PEM blocks follow (RFC 7468): the certificates of the
//! authority and of the client in any order, and the client's private key. The line is `spindle1:` and the whole
//! file in base64url without padding (RFC 4648, section 5).
//!
//! | key | value |
//! |---|---|
//! | `spindle-bundle` | the version of the format, `1`; it comes first |
//! | `via` | address or name and port of the gateway; may be repeated |
//! | `tls-name` | the name in the gateway's certificate |
//! | `client` | the client's name |
//! | `tls-pin` | the pin of the gateway's public key; optional, may be repeated |

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use data_encoding::BASE64URL_NOPAD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{Certificate, Pin};

/// What a bundle in one line begins with.
pub const LINE_PREFIX: &str = "spindle1:";
/// Most bytes of a bundle. One with a few addresses and certificates has about 2000.
const LONGEST: usize = 64 * 1024;
/// The version of the format.
const VERSION: &str = "1";
/// Most addresses or pins.
const MOST: usize = 32;

/// Why a bundle cannot be used. The text never contains parts of the bundle that may be secret.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct BundleError {
    /// Where the bundle comes from.
    pub place: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// The header of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleHeader {
    /// Addresses or names of the gateway, each with a port; at least one.
    pub via: Vec<String>,
    /// The name in the gateway's certificate.
    pub tls_name: String,
    /// The client's name.
    pub client: String,
    /// Pins of the gateway's public key.
    pub pins: Vec<Pin>,
}

impl BundleHeader {
    /// The text of a bundle with this header and these PEM texts.
    pub fn with(&self, authority: &str, certificate: &str, key: &str) -> String {
        let mut text = format!("spindle-bundle: {VERSION}\n");
        let lines = (self.via.iter().map(|v| ("via", v.clone())))
            .chain([
                ("tls-name", self.tls_name.clone()),
                ("client", self.client.clone()),
            ])
            .chain(self.pins.iter().map(|p| ("tls-pin", p.to_string())));
        for (key, value) in lines {
            text.push_str(&format!("{key}: {value}\n"));
        }
        for block in [authority, certificate, key] {
            text.push('\n');
            text.push_str(block.trim());
            text.push('\n');
        }
        text
    }

    fn read(text: &str) -> Result<Self, String> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty());
        let first = lines.next().and_then(|(_, line)| line.split_once(':'));
        match first.map(|(key, value)| (key.trim(), value.trim())) {
            Some(("spindle-bundle", VERSION)) => {}
            Some(("spindle-bundle", _)) => {
                return Err(format!(
                    "a bundle of another version; this program reads version {VERSION}"
                ));
            }
            _ => {
                return Err(format!(
                    "not a bundle; want a file that begins with \"spindle-bundle: {VERSION}\", as `spindle \
                     enroll` makes it"
                ));
            }
        }
        let mut header = Self::default();
        for (number, line) in lines {
            header
                .take(line)
                .map_err(|e| format!("line {number}: {e}"))?;
        }
        header.complete()
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        let want = "want via, tls-name, client or tls-pin, a colon and a value";
        let (key, value) = line.split_once(':').ok_or(want)?;
        let value = value.trim().to_owned();
        let single = |there: &String| match there.is_empty() {
            true => Ok(()),
            false => Err("a second line of this kind, want one".to_owned()),
        };
        match key.trim() {
            "via" if self.via.len() < MOST => self.via.push(value),
            "tls-pin" if self.pins.len() < MOST => {
                self.pins
                    .push(value.parse().map_err(|e| format!("tls-pin: {e}"))?);
            }
            "tls-name" => {
                single(&self.tls_name)?;
                self.tls_name = value;
            }
            "client" => {
                single(&self.client)?;
                self.client = value;
            }
            "via" | "tls-pin" => return Err(format!("too many, want {MOST} at most")),
            _ => return Err(format!("unknown key, {want}")),
        }
        Ok(())
    }

    fn complete(self) -> Result<Self, String> {
        let missing = |what| Err(format!("the header has no line \"{what}: ...\""));
        match () {
            () if self.via.is_empty() => missing("via"),
            () if self.tls_name.is_empty() => missing("tls-name"),
            () if self.client.is_empty() => missing("client"),
            () => Ok(self),
        }
    }
}

/// A bundle. Its debug output does not contain the key.
#[derive(Debug)]
pub struct Bundle {
    /// The header.
    pub header: BundleHeader,
    pub(super) authorities: Vec<CertificateDer<'static>>,
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Bundle {
    /// Reads a bundle from the text of a file, or from one line. White space in the line does not matter.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(line) = text.trim_start().strip_prefix(LINE_PREFIX) else {
            return Self::parse_file(text);
        };
        let line: String = line.split_whitespace().collect();
        let bytes = BASE64URL_NOPAD.decode(line.as_bytes());
        let text = bytes.ok().and_then(|b| String::from_utf8(b).ok());
        let text = text.ok_or_else(|| {
            format!(
                "damaged: what follows \"{LINE_PREFIX}\" is not base64url; want the line as `spindle enroll \
                 --line` prints it, to its end"
            )
        })?;
        Self::parse_file(&text)
    }

    fn parse_file(text: &str) -> Result<Self, String> {
        let header = text.split("-----BEGIN").next().unwrap_or_default();
        let header = BundleHeader::read(header)?;
        let mut authorities = Vec::new();
        let mut own = Vec::new();
        for der in CertificateDer::pem_slice_iter(text.as_bytes()) {
            let der = der.map_err(|e| format!("damaged: {e}"))?;
            let list = match Certificate::read(&der)?.authority {
                true => &mut authorities,
                false => &mut own,
            };
            list.push(der);
        }
        let keys: Result<Vec<_>, _> = PrivateKeyDer::pem_slice_iter(text.as_bytes()).collect();
        // The error names the kind of damage only.
        let mut keys = keys.map_err(|_| "damaged: its private key cannot be read".to_owned())?;
        if authorities.is_empty() {
            return Err("it has no certificate of an authority, want one".to_owned());
        }
        let (own, key) = match (own.len(), keys.len(), own.pop(), keys.pop()) {
            (1, 1, Some(own), Some(key)) => (own, key),
            (1, n, ..) => return Err(format!("it has {n} private keys, want the client's")),
            (n, ..) => return Err(format!("it has {n} certificates of a client, want one")),
        };
        Ok(Self {
            header,
            authorities,
            certificate: own,
            key,
        })
    }

    /// The text of a bundle in one line.
    pub fn line(text: &str) -> String {
        format!("{LINE_PREFIX}{}", BASE64URL_NOPAD.encode(text.as_bytes()))
    }
}

/// Where a bundle comes from. The debug output does not contain the bundle.
#[derive(Clone)]
pub enum BundleSource {
    /// A file, which can be read again.
    File(PathBuf),
    /// A text: a bundle in one line or as in a file.
    Text(String),
}

impl fmt::Debug for BundleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Text(_) => f.write_str("Text(..)"),
        }
    }
}

impl BundleSource {
    /// Where the bundle comes from, for messages.
    pub fn place(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Text(_) => Path::new("--bundle"),
        }
    }

    /// Reads the bundle.
    ///
    /// # Errors
    /// [`BundleError`] if the file cannot be read, or the bundle lacks a part.
    pub fn read(&self) -> Result<Bundle, BundleError> {
        let failed = |problem| BundleError {
            place: self.place().display().to_string(),
            problem,
        };
        let text = match self {
            Self::File(path) => {
                let file = std::fs::File::open(path);
                let text = file.and_then(read_bounded);
                &text.map_err(|e| failed(format!("cannot be read: {e}")))?
            }
            Self::Text(text) => text,
        };
        Bundle::parse(text).map_err(failed)
    }

    /// Reads the text of a bundle, from standard input for instance.
    ///
    /// # Errors
    /// The reader's error, or that the text is longer than a bundle.
    pub fn from_reader(reader: impl Read) -> std::io::Result<Self> {
        read_bounded(reader).map(Self::Text)
    }
}

fn read_bounded(reader: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    reader.take(LONGEST as u64 + 1).read_to_string(&mut text)?;
    match text.len() > LONGEST {
        true => Err(std::io::Error::other(format!(
            "longer than {LONGEST} bytes, which no bundle is"
        ))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    fn header() -> BundleHeader {
        BundleHeader {
            via: vec![
                "192.0.2.1:7000".to_owned(),
                "gateway.example:7000".to_owned(),
            ],
            tls_name: "gateway.example".to_owned(),
            client: "laptop".to_owned(),
            pins: vec![Pin([3; 32])],
        }
    }

    /// PEM texts of an authority, a client's certificate, and its key.
    fn parts() -> [String; 3] {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["laptop".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        [authority, certificate, key.serialize_pem()]
    }

    #[test]
    fn file_and_line_are_read_as_they_are_written() {
        let [authority, certificate, key] = parts();
        let text = header().with(&authority, &certificate, &key);
        let line = Bundle::line(&text);
        assert!(!line.contains(char::is_whitespace));
        let (start, end) = line.split_at(line.len() / 2);
        let wrapped = format!(" {start}\n  {end}\n");
        for text in [&text, &line, &wrapped] {
            let bundle = Bundle::parse(text).unwrap();
            assert_eq!(bundle.header, header());
            assert_eq!(bundle.authorities.len(), 1);
        }
    }

    #[test]
    fn a_bundle_without_one_of_its_parts_is_refused_with_the_part() {
        let [authority, certificate, key] = parts();
        let refused = |text: &str| Bundle::parse(text).unwrap_err();
        let with = |a: &str, c: &str, k: &str| refused(&header().with(a, c, k));
        assert!(with("", &certificate, &key).contains("authority"));
        assert!(with(&authority, "", &key).contains("0 certificates of a client"));
        assert!(with(&authority, &certificate, "").contains("0 private keys"));
        let whole = header().with(&authority, &certificate, &key);
        for key in ["via", "tls-name", "client"] {
            let without: String = whole
                .lines()
                .filter(|l| !l.starts_with(&format!("{key}:")))
                .map(|l| format!("{l}\n"))
                .collect();
            assert!(refused(&without).contains(key), "{key}");
        }
        let typo = whole.replace("tls-pin:", "tls-pim:");
        assert!(refused(&typo).contains("line 6: unknown key"));
        let later = whole.replace("spindle-bundle: 1", "spindle-bundle: 2");
        assert!(refused(&later).contains("another version"));
        assert!(refused("-----BEGIN CERTIFICATE-----").contains("not a bundle"));
        let line = Bundle::line(&whole);
        assert!(Bundle::parse(&line[..line.len() / 2]).is_err());
    }

    #[test]
    fn neither_debug_output_nor_errors_contain_the_key() {
        let [authority, certificate, key] = parts();
        let secret = key.lines().nth(1).unwrap();
        let text = header().with(&authority, &certificate, &key);
        let bundle = Bundle::parse(&text).unwrap();
        assert!(!format!("{bundle:?}").contains(secret));
        let source = BundleSource::Text(text.clone());
        assert!(!format!("{source:?}").contains(secret));
        let damaged = text.replace(secret, &format!("%{secret}"));
        let error = BundleSource::Text(damaged).read().unwrap_err();
        assert!(!format!("{error:?} {error}").contains(secret));
    }
}
