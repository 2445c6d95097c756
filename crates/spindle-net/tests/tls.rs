//! Mutual TLS: which ends are accepted, and what a reload changes.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use spindle_net::tls::{ClientTls, ServerTls, TlsError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The name in the gateway's certificates.
const NAME: &str = "gateway.example";

/// A certificate authority with its own key, which signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: PathBuf,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = directory.join(format!("{name}.pem"));
        std::fs::write(&pem, params.self_signed(&key).unwrap().pem()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Writes a certificate for `host` and its key.
    fn sign(&self, host: &str, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let cert = directory.join(format!("{name}.crt"));
        let path = directory.join(format!("{name}.key"));
        std::fs::write(&cert, certificate.pem()).unwrap();
        std::fs::write(&path, key.serialize_pem()).unwrap();
        (cert, path)
    }
}

/// Whether a request and its answer pass, half-close included.
async fn talks(server: &ServerTls, client: &ClientTls) -> bool {
    let (near, far) = tokio::io::duplex(4096);
    let server = server.clone();
    let serving = tokio::spawn(async move {
        let mut stream = server.accept(far).await?;
        let mut request = Vec::new();
        stream.read_to_end(&mut request).await?;
        request.reverse();
        stream.write_all(&request).await?;
        stream.shutdown().await
    });
    let asking = async {
        let mut stream = client.connect(near).await?;
        stream.write_all(b"spindle").await?;
        stream.shutdown().await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = asking.await;
    serving.await.unwrap().is_ok() && answer.is_ok_and(|a| a == b"eldnips")
}

#[tokio::test]
async fn both_ends_must_prove_their_identity() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (
        Authority::new(dir.path(), "ours"),
        Authority::new(dir.path(), "theirs"),
    );
    let (cert, key) = ours.sign(NAME, dir.path(), "gateway");
    let (mine, my_key) = ours.sign("client.example", dir.path(), "client");
    let (other, other_key) = theirs.sign("client.example", dir.path(), "other");
    let server = ServerTls::load(&cert, &key, Some(&ours.pem)).unwrap();
    let client =
        |ca: &Path, id: Option<(&Path, &Path)>, name| ClientTls::load(ca, id, name).unwrap();
    let id = Some((mine.as_path(), my_key.as_path()));
    assert!(talks(&server, &client(&ours.pem, id, NAME)).await);
    assert!(
        !talks(&server, &client(&ours.pem, None, NAME)).await,
        "no certificate"
    );
    let forged = Some((other.as_path(), other_key.as_path()));
    assert!(
        !talks(&server, &client(&ours.pem, forged, NAME)).await,
        "another's client"
    );
    assert!(
        !talks(&server, &client(&theirs.pem, id, NAME)).await,
        "another's gateway"
    );
    assert!(
        !talks(&server, &client(&ours.pem, id, "else.example")).await,
        "another name"
    );
    let open = ServerTls::load(&cert, &key, None).unwrap();
    assert!(
        talks(&open, &client(&ours.pem, None, NAME)).await,
        "no client certificate asked for"
    );
}

#[tokio::test]
async fn a_reload_uses_new_files_and_keeps_the_old_ones_if_the_new_are_broken() {
    let dir = tempfile::tempdir().unwrap();
    let first = Authority::new(dir.path(), "first");
    let second = Authority::new(dir.path(), "second");
    let (cert, key) = first.sign(NAME, dir.path(), "gateway");
    let server = ServerTls::load(&cert, &key, None).unwrap();
    let trusting = |a: &Authority| ClientTls::load(&a.pem, None, NAME).unwrap();
    assert!(talks(&server, &trusting(&first)).await);
    second.sign(NAME, dir.path(), "gateway");
    assert!(
        talks(&server, &trusting(&first)).await,
        "nothing changes by itself"
    );
    server.reload().unwrap();
    assert!(talks(&server, &trusting(&second)).await);
    assert!(!talks(&server, &trusting(&first)).await);
    std::fs::write(&cert, "no certificate").unwrap();
    assert!(matches!(server.reload(), Err(TlsError::File { .. })));
    assert!(talks(&server, &trusting(&second)).await);
}

#[test]
fn errors_name_the_files_that_do_not_match() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::new(dir.path(), "ca");
    let (cert, key) = ca.sign(NAME, dir.path(), "a");
    let (_, other) = ca.sign(NAME, dir.path(), "b");
    let say = |r: Result<ServerTls, TlsError>| r.unwrap_err().to_string();
    let missing = dir.path().join("missing");
    assert!(say(ServerTls::load(&missing, &key, None)).contains("missing"));
    assert!(say(ServerTls::load(&cert, &cert, None)).contains("private key"));
    assert!(say(ServerTls::load(&cert, &other, None)).contains("does not fit"));
    assert!(say(ServerTls::load(&cert, &key, Some(&key))).contains("certificate"));
    let name = ClientTls::load(&ca.pem, None, "not a name").unwrap_err();
    assert!(name.to_string().contains("--tls-name"));
}
