use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::net::tests::Scratch;
use crate::net::tests::certificates::{Leaf, authority};
use crate::net::tls::{Clock, IdentitySource};
use crate::util::clock::Moment;

/// Files that rotate, and a clock that goes when it is told to.
struct Disk {
    scratch: Scratch,
    seconds: Arc<AtomicU64>,
}

impl Disk {
    fn new() -> Self {
        Disk { scratch: Scratch::new(), seconds: Arc::new(AtomicU64::new(1)) }
    }

    fn source(&self, name: &str, content: &str) -> PemSource {
        PemSource::read(&self.scratch.file(name, content)).unwrap()
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        self.scratch.file(name, content)
    }

    fn identity(&self, leaf: &Leaf) -> Option<IdentitySource> {
        let key = self.source("tls.key", &leaf.key.serialize_pem());
        Some(IdentitySource { chain: self.source("tls.crt", &leaf.pem), key })
    }

    fn tls(&self, ca: Option<PemSource>, identity: Option<IdentitySource>) -> ClientTls {
        let seconds = Arc::clone(&self.seconds);
        let clock = Clock::new(move || Moment::from_nanos(0) + Duration::from_secs(seconds.load(Ordering::SeqCst)));
        ClientTls::new(TlsSettings { ca, identity, clock, ..TlsSettings::default() }, "127.0.0.1").unwrap()
    }

    fn wait(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }
}

fn config(tls: &ClientTls) -> Arc<ClientConfig> {
    tls.parts(None).unwrap().config
}

#[test]
fn unchanged_files_keep_the_configuration_and_its_sessions() {
    let (disk, ours) = (Disk::new(), authority());
    let tls = disk.tls(Some(disk.source("ca.crt", &ours.pem)), disk.identity(&ours.leaf("jane")));
    let before = config(&tls);
    for _ in 0..3 {
        disk.wait(60);
        assert_eq!(tls.refresh(), 0);
        assert!(!tls.has_newer_identity(0) && !tls.has_newer_after(Some(NetErrorKind::TlsVerification), 0));
        // Written, but with the same in it.
        disk.write("ca.crt", &ours.pem);
        assert!(Arc::ptr_eq(&before, &config(&tls)));
    }
}

#[test]
fn a_file_is_read_again_when_it_is_a_minute_old_and_not_before() {
    let (disk, ours, other) = (Disk::new(), authority(), authority());
    let tls = disk.tls(Some(disk.source("ca.crt", &ours.pem)), disk.identity(&ours.leaf("jane")));
    let first = config(&tls);
    disk.write("ca.crt", &other.pem);
    disk.wait(59);
    assert_eq!(tls.refresh(), 0);
    assert!(Arc::ptr_eq(&first, &config(&tls)));
    disk.wait(1);
    assert_eq!(tls.refresh(), 1);
    let second = config(&tls);
    assert!(!Arc::ptr_eq(&first, &second), "what was trusted before can still be resumed");
    disk.identity(&ours.leaf("jane"));
    disk.wait(60);
    assert_eq!((tls.refresh(), tls.version()), (2, 2));
    assert!(!Arc::ptr_eq(&second, &config(&tls)));
}

#[test]
fn after_a_rejection_only_what_was_rejected_is_read_at_once() {
    let (disk, ours, other) = (Disk::new(), authority(), authority());
    let tls = disk.tls(Some(disk.source("ca.crt", &ours.pem)), disk.identity(&ours.leaf("jane")));
    disk.identity(&ours.leaf("jane"));
    assert!(!tls.has_newer_after(Some(NetErrorKind::TlsVerification), 0));
    assert!(tls.has_newer_identity(0));
    assert!(!tls.has_newer_identity(1), "that one was used already");
    disk.write("ca.crt", &other.pem);
    assert!(!tls.has_newer_identity(1));
    assert!(tls.has_newer_after(Some(NetErrorKind::TlsVerification), 1));
}

#[test]
fn half_a_rotation_is_none() {
    let (disk, ours) = (Disk::new(), authority());
    let (one, two) = (ours.leaf("jane"), ours.leaf("jane"));
    let tls = disk.tls(Some(disk.source("ca.crt", &ours.pem)), disk.identity(&one));
    let before = config(&tls);
    disk.write("tls.crt", &two.pem);
    disk.wait(60);
    assert_eq!(tls.refresh(), 0);
    assert!(!tls.has_newer_identity(0) && Arc::ptr_eq(&before, &config(&tls)));
    disk.write("tls.key", &two.key.serialize_pem());
    assert!(tls.has_newer_identity(0));
}

#[test]
fn what_cannot_be_used_leaves_the_other_part_its_rotation() {
    let (disk, ours, other) = (Disk::new(), authority(), authority());
    let tls = disk.tls(Some(disk.source("ca.crt", &ours.pem)), disk.identity(&ours.leaf("jane")));
    let before = config(&tls);
    for unusable in ["", "-----BEGIN CERTIFICATE-----\n!", &ours.leaf("jane").key.serialize_pem()] {
        disk.write("ca.crt", unusable);
        assert!(!tls.has_newer_after(Some(NetErrorKind::TlsVerification), 0));
    }
    std::fs::remove_file(disk.scratch.path().join("ca.crt")).unwrap();
    disk.wait(60);
    assert_eq!(tls.refresh(), 0);
    assert!(Arc::ptr_eq(&before, &config(&tls)));
    disk.identity(&ours.leaf("jane"));
    disk.wait(60);
    assert_eq!(tls.refresh(), 1);
    disk.write("ca.crt", &other.pem);
    disk.wait(60);
    assert_eq!(tls.refresh(), 2);
}

#[test]
fn what_stands_in_the_configuration_itself_never_changes() {
    let (disk, ours) = (Disk::new(), authority());
    let leaf = ours.leaf("jane");
    let key = PemSource::inline(leaf.key.serialize_pem());
    let identity = IdentitySource { chain: PemSource::inline(leaf.pem.as_bytes()), key };
    let tls = disk.tls(Some(PemSource::inline(ours.pem.as_bytes())), Some(identity));
    disk.wait(600);
    assert_eq!(tls.refresh(), 0);
    assert!(!tls.has_newer_after(Some(NetErrorKind::TlsVerification), 0) && !tls.has_newer_identity(0));
}

#[test]
fn files_are_named_where_they_break_a_rule() {
    let (disk, ours) = (Disk::new(), authority());
    let mut identity = disk.identity(&ours.leaf("jane")).unwrap();
    identity.key = disk.source("other.key", &ours.leaf("jane").key.serialize_pem());
    let settings =
        |identity| TlsSettings { ca: Some(PemSource::inline(ours.pem.as_bytes())), identity, ..TlsSettings::default() };
    let error = ClientTls::new(settings(Some(identity)), "127.0.0.1").err().unwrap().to_string();
    assert!(error.contains("tls.crt") && error.contains("other.key"), "{error}");
    let empty = TlsSettings { ca: Some(disk.source("empty.crt", "")), ..TlsSettings::default() };
    let error = ClientTls::new(empty, "127.0.0.1").err().unwrap().to_string();
    assert!(error.contains("empty.crt"), "{error}");
}
