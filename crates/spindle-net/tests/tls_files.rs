//! Mistakes in certificates that are found at the start, pins, and bundles.

mod authority;

use std::path::Path;

use authority::{Authority, Identity, NAME};
use rcgen::{ExtendedKeyUsagePurpose, date_time_ymd};
use spindle_net::tls::{
    Bundle, BundleHeader, BundleSource, Certificate, Certificates, ClientSource, ClientTls, Owner,
    Pin, ServerFiles, ServerTls,
};

fn server(own: &Identity, ca: Option<&Authority>) -> Result<ServerTls, String> {
    let ca = ca.map(|a| a.pem.as_path());
    ServerTls::load(&own.cert, &own.key, ca).map_err(|e| e.to_string())
}

fn client(ca: &Authority, own: &Identity) -> Result<ClientTls, String> {
    ClientTls::load(&ca.pem, own.paths(), NAME).map_err(|e| e.to_string())
}

/// Whether the handshake succeeds on both sides, or the client's error.
async fn handshake(server: &ServerTls, client: &ClientTls) -> Result<(), String> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (theirs, ours) = tokio::join!(server.accept(far), client.connect(near));
    ours.map_err(|e| e.to_string())?;
    theirs.map(drop).map_err(|e| e.to_string())
}

#[test]
fn certificates_that_are_not_valid_now_are_refused_at_the_start_with_the_date() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::new(dir.path(), "ca", "ca");
    let old = ca.sign(NAME, 1, |p| p.not_after = date_time_ymd(2020, 5, 17));
    let new = ca.sign(NAME, 2, |p| p.not_before = date_time_ymd(2090, 5, 17));
    for result in [server(&old, None).err(), client(&ca, &old).err()] {
        let error = result.expect("an error");
        let named =
            error.contains("ended on 2020-05-17") && error.contains("gateway.example-1.crt");
        assert!(named && error.contains("want"), "{error}");
    }
    for result in [server(&new, None).err(), client(&ca, &new).err()] {
        let error = result.expect("an error");
        assert!(error.contains("not valid before 2090-05-17"), "{error}");
    }
}

#[test]
fn a_reload_accepts_a_certificate_that_has_ended_so_that_revocations_still_take_effect() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::new(dir.path(), "ca", "ca");
    let own = ca.sign(NAME, 1, |_| {});
    let tls = server(&own, Some(&ca)).unwrap();
    ca.sign(NAME, 1, |p| p.not_after = date_time_ymd(2020, 5, 17));
    tls.reload().unwrap();
    let expiries = tls.expiries();
    let own = expiries.iter().find(|e| e.owner == Owner::Own).unwrap();
    assert!(own.is_soon(1_800_000_000));
    assert!(expiries.iter().any(|e| e.owner == Owner::Authority));
}

#[test]
fn a_certificate_of_another_authority_of_the_same_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ours = Authority::new(dir.path(), "the authority", "ours");
    let namesake = Authority::new(dir.path(), "the authority", "namesake");
    let stranger = Authority::new(dir.path(), "another", "stranger");
    let own = ours.sign(NAME, 1, |_| {});
    for error in [
        server(&own, Some(&namesake)).err(),
        client(&namesake, &own).err(),
    ] {
        let error = error.expect("an error");
        assert!(error.contains("not signed by the authority"), "{error}");
        assert!(error.contains("namesake.pem"), "{error}");
    }
    // Two authorities may sign for the two sides, unless the files must fit.
    assert!(server(&own, Some(&stranger)).is_ok() && client(&stranger, &own).is_ok());
    let files = ServerFiles {
        client_ca: Some(stranger.pem.clone()),
        same_authority: true,
        ..ServerFiles::new(&own.cert, &own.key)
    };
    let error = ServerTls::from_files(files).unwrap_err().to_string();
    assert!(error.contains("its issuer has another name"), "{error}");
}

#[test]
fn a_certificate_for_the_other_side_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::new(dir.path(), "ca", "ca");
    let usage = |usage| move |p: &mut rcgen::CertificateParams| p.extended_key_usages = vec![usage];
    let for_client = ca.sign("laptop", 1, usage(ExtendedKeyUsagePurpose::ClientAuth));
    let for_server = ca.sign(NAME, 2, usage(ExtendedKeyUsagePurpose::ServerAuth));
    let error = server(&for_client, Some(&ca)).expect_err("an error");
    assert!(error.contains("want a certificate for a server"), "{error}");
    let error = client(&ca, &for_server).expect_err("an error");
    assert!(error.contains("want a certificate for a client"), "{error}");
    assert!(server(&for_server, Some(&ca)).is_ok() && client(&ca, &for_client).is_ok());
}

#[test]
fn revocation_lists_must_be_of_an_authority_of_the_clients() {
    let dir = tempfile::tempdir().unwrap();
    let ours = Authority::new(dir.path(), "ours", "ours");
    let theirs = Authority::new(dir.path(), "theirs", "theirs");
    let own = ours.sign(NAME, 1, |_| {});
    let crl = dir.path().join("revoked.pem");
    let load = |ca: Option<&Authority>| {
        let files = ServerFiles {
            client_ca: ca.map(|a| a.pem.clone()),
            crl: Some(crl.clone()),
            ..ServerFiles::new(&own.cert, &own.key)
        };
        ServerTls::from_files(files).map_err(|e| e.to_string())
    };
    let refused = |ca| load(ca).expect_err("an error");
    assert!(refused(Some(&ours)).contains("revoked.pem"), "no file");
    std::fs::copy(&ours.pem, &crl).unwrap();
    assert!(refused(Some(&ours)).contains("revocation list"));
    theirs.revoke(&[7], &crl);
    assert!(refused(Some(&ours)).contains("signed by an authority"));
    ours.revoke(&[7], &crl);
    assert!(load(Some(&ours)).is_ok());
    assert!(refused(None).contains("need the authority"));
}

#[tokio::test]
async fn a_gateway_must_have_a_pinned_key_and_a_certificate_of_the_authority() {
    let dir = tempfile::tempdir().unwrap();
    let ours = Authority::new(dir.path(), "ours", "ours");
    let theirs = Authority::new(dir.path(), "theirs", "theirs");
    let own = ours.sign(NAME, 1, |_| {});
    let text = std::fs::read_to_string(&own.cert).unwrap();
    let right = Pin(Certificate::read_pem(&text).unwrap().key_hash);
    let gateway = server(&own, None).unwrap();
    let pinned = |ca: &Authority, pins: &[Pin]| {
        let source = ClientSource::Files {
            ca: ca.pem.clone(),
            identity: None,
            name: NAME.to_owned(),
        };
        ClientTls::from_source(source, pins.to_vec()).unwrap()
    };
    let wrong = Pin([1; 32]);
    assert!(handshake(&gateway, &pinned(&ours, &[right])).await.is_ok());
    assert!(
        handshake(&gateway, &pinned(&ours, &[wrong, right]))
            .await
            .is_ok()
    );
    let error = handshake(&gateway, &pinned(&ours, &[wrong]))
        .await
        .unwrap_err();
    assert!(
        error.contains(&right.to_string()) && error.contains("--tls-pin"),
        "{error}"
    );
    let error = handshake(&gateway, &pinned(&theirs, &[right]))
        .await
        .unwrap_err();
    assert!(error.contains("UnknownIssuer"), "{error}");
}

fn bundle(ca: &Authority, own: &Identity, key: &Path) -> String {
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    let header = BundleHeader {
        via: vec!["192.0.2.1:7000".to_owned()],
        tls_name: NAME.to_owned(),
        client: "laptop".to_owned(),
        pins: Vec::new(),
    };
    header.with(&text(&ca.pem), &text(&own.cert), &text(key))
}

#[tokio::test]
async fn a_bundle_is_enough_for_a_handshake_and_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let ours = Authority::new(dir.path(), "ours", "ours");
    let theirs = Authority::new(dir.path(), "theirs", "theirs");
    let gateway = |a: &Authority, serial| server(&a.sign(NAME, serial, |_| {}), Some(a)).unwrap();
    let (first, second) = (gateway(&ours, 1), gateway(&theirs, 2));
    let own = ours.sign("laptop", 3, |_| {});
    let other = theirs.sign("laptop", 4, |_| {});
    let path = dir.path().join("laptop.bundle");
    std::fs::write(&path, bundle(&ours, &own, &own.key)).unwrap();
    let source = ClientSource::Bundle(BundleSource::File(path.clone()));
    let tls = ClientTls::from_source(source, Vec::new()).unwrap();
    assert!(handshake(&first, &tls).await.is_ok());
    let text = bundle(&theirs, &other, &other.key);
    std::fs::write(&path, &text).unwrap();
    tls.reload().unwrap();
    assert!(handshake(&second, &tls).await.is_ok());
    assert!(handshake(&first, &tls).await.is_err());
    let source = ClientSource::Bundle(BundleSource::Text(Bundle::line(&text)));
    let line = ClientTls::from_source(source, Vec::new()).unwrap();
    assert!(handshake(&second, &line).await.is_ok());
}

#[test]
fn a_bundle_whose_parts_do_not_fit_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let ours = Authority::new(dir.path(), "ours", "ours");
    let theirs = Authority::new(dir.path(), "theirs", "theirs");
    let own = ours.sign("laptop", 1, |_| {});
    let other = ours.sign("phone", 2, |_| {});
    let old = ours.sign("laptop", 3, |p| p.not_after = date_time_ymd(2020, 5, 17));
    let refused = |text: String| {
        let source = ClientSource::Bundle(BundleSource::Text(text));
        let error = ClientTls::from_source(source, Vec::new())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("--bundle: "), "{error}");
        error
    };
    assert!(refused(bundle(&ours, &own, &other.key)).contains("does not fit its private key"));
    assert!(refused(bundle(&theirs, &own, &own.key)).contains("not signed by the authority"));
    assert!(refused(bundle(&ours, &old, &old.key)).contains("ended on 2020-05-17"));
}
