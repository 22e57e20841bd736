use super::*;
use crate::net::tests::certificates::{Files, Leaf, authority};
use crate::net::tls::IdentitySource;

impl Files {
    fn source(&self, name: &str, content: &str) -> PemSource {
        PemSource::read(&self.scratch.file(name, content)).unwrap()
    }

    fn identity_source(&self, leaf: &Leaf) -> Option<IdentitySource> {
        let key = self.source("tls.key", &leaf.key.serialize_pem());
        Some(IdentitySource { chain: self.source("tls.crt", &leaf.pem), key })
    }

    fn tls(&self, ca: Option<PemSource>, identity: Option<IdentitySource>) -> ClientTls {
        let settings = TlsSettings { ca, identity, clock: self.clock(), ..TlsSettings::default() };
        ClientTls::new(settings, "127.0.0.1").unwrap()
    }
}

fn config(tls: &ClientTls) -> Arc<ClientConfig> {
    tls.parts(None).unwrap().config
}

#[test]
fn unchanged_files_keep_the_configuration_and_its_sessions() {
    let (files, ours) = (Files::new(), authority());
    let tls = files.tls(Some(files.source("ca.crt", &ours.pem)), files.identity_source(&ours.leaf("jane")));
    let before = config(&tls);
    for _ in 0..3 {
        files.wait(60);
        assert_eq!(tls.refresh(), 0);
        assert!(!tls.has_newer_identity(0) && !tls.has_newer_after(Some(NetErrorKind::TlsVerification), 0));
        // Writing the file with the same content is not a change.
        files.scratch.file("ca.crt", &ours.pem);
        assert!(Arc::ptr_eq(&before, &config(&tls)));
    }
}

#[test]
fn a_file_is_read_again_when_it_is_a_minute_old_and_not_before() {
    let (files, ours, other) = (Files::new(), authority(), authority());
    let tls = files.tls(Some(files.source("ca.crt", &ours.pem)), files.identity_source(&ours.leaf("jane")));
    let first = config(&tls);
    files.scratch.file("ca.crt", &other.pem);
    files.wait(59);
    assert_eq!(tls.refresh(), 0);
    assert!(Arc::ptr_eq(&first, &config(&tls)));
    files.wait(1);
    assert_eq!(tls.refresh(), 1);
    let second = config(&tls);
    assert!(!Arc::ptr_eq(&first, &second), "what was trusted before can still be resumed");
    files.identity(&ours.leaf("jane"));
    files.wait(60);
    assert_eq!((tls.refresh(), tls.version()), (2, 2));
    assert!(!Arc::ptr_eq(&second, &config(&tls)));
}

#[test]
fn rejected_part_alone_is_reloaded_at_once() {
    let (files, ours, other) = (Files::new(), authority(), authority());
    let tls = files.tls(Some(files.source("ca.crt", &ours.pem)), files.identity_source(&ours.leaf("jane")));
    files.identity(&ours.leaf("jane"));
    assert!(!tls.has_newer_after(Some(NetErrorKind::TlsVerification), 0));
    assert!(tls.has_newer_identity(0));
    assert!(!tls.has_newer_identity(1), "that one was used already");
    files.scratch.file("ca.crt", &other.pem);
    assert!(!tls.has_newer_identity(1));
    assert!(tls.has_newer_after(Some(NetErrorKind::TlsVerification), 1));
}

#[test]
fn half_a_rotation_is_none() {
    let (files, ours) = (Files::new(), authority());
    let (one, two) = (ours.leaf("jane"), ours.leaf("jane"));
    let tls = files.tls(Some(files.source("ca.crt", &ours.pem)), files.identity_source(&one));
    let before = config(&tls);
    files.scratch.file("tls.crt", &two.pem);
    files.wait(60);
    assert_eq!(tls.refresh(), 0);
    assert!(!tls.has_newer_identity(0) && Arc::ptr_eq(&before, &config(&tls)));
    files.scratch.file("tls.key", two.key.serialize_pem());
    assert!(tls.has_newer_identity(0));
}

#[test]
fn unusable_part_does_not_stop_reload_of_the_other() {
    let (files, ours, other) = (Files::new(), authority(), authority());
    let tls = files.tls(Some(files.source("ca.crt", &ours.pem)), files.identity_source(&ours.leaf("jane")));
    let before = config(&tls);
    for unusable in ["", "-----BEGIN CERTIFICATE-----\n!", &ours.leaf("jane").key.serialize_pem()] {
        files.scratch.file("ca.crt", unusable);
        assert!(!tls.has_newer_after(Some(NetErrorKind::TlsVerification), 0));
    }
    std::fs::remove_file(files.scratch.path().join("ca.crt")).unwrap();
    files.wait(60);
    assert_eq!(tls.refresh(), 0);
    assert!(Arc::ptr_eq(&before, &config(&tls)));
    files.identity(&ours.leaf("jane"));
    files.wait(60);
    assert_eq!(tls.refresh(), 1);
    files.scratch.file("ca.crt", &other.pem);
    files.wait(60);
    assert_eq!(tls.refresh(), 2);
}

#[test]
fn inline_configuration_never_changes() {
    let (files, ours) = (Files::new(), authority());
    let leaf = ours.leaf("jane");
    let key = PemSource::inline(leaf.key.serialize_pem());
    let identity = IdentitySource { chain: PemSource::inline(leaf.pem.as_bytes()), key };
    let tls = files.tls(Some(PemSource::inline(ours.pem.as_bytes())), Some(identity));
    files.wait(600);
    assert_eq!(tls.refresh(), 0);
    assert!(!tls.has_newer_after(Some(NetErrorKind::TlsVerification), 0) && !tls.has_newer_identity(0));
}

#[test]
fn files_are_named_where_they_break_a_rule() {
    let (files, ours) = (Files::new(), authority());
    let mut identity = files.identity_source(&ours.leaf("jane")).unwrap();
    identity.key = files.source("other.key", &ours.leaf("jane").key.serialize_pem());
    let settings =
        |identity| TlsSettings { ca: Some(PemSource::inline(ours.pem.as_bytes())), identity, ..TlsSettings::default() };
    let error = ClientTls::new(settings(Some(identity)), "127.0.0.1").err().unwrap().to_string();
    assert!(error.contains("tls.crt") && error.contains("other.key"), "{error}");
    let empty = TlsSettings { ca: Some(files.source("empty.crt", "")), ..TlsSettings::default() };
    let error = ClientTls::new(empty, "127.0.0.1").err().unwrap().to_string();
    assert!(error.contains("empty.crt"), "{error}");
}
