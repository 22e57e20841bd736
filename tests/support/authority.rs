//! Certificates for servers and clients of tests.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::version_1::{pem, version_1};

/// A certificate authority, which issues the certificates of a test.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        Self::with_key(KeyPair::generate().expect("a key"))
    }

    pub fn with_key(key: KeyPair) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, "an authority of tests");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Issues a certificate for a host name, an address or a user.
    pub fn issue(&self, name: &str) -> Pair {
        self.issue_with(name, Vec::new(), |certificate| certificate.pem())
    }

    /// Issues a certificate that only a server may show.
    pub fn issue_for_a_server(&self, name: &str) -> Pair {
        self.issue_with(name, vec![ExtendedKeyUsagePurpose::ServerAuth], |certificate| certificate.pem())
    }

    /// Issues a certificate of X.509 version 1, which contains no extensions.
    pub fn issue_version_1(&self, name: &str) -> Pair {
        self.issue_with(name, Vec::new(), |certificate| pem(&version_1(certificate.der(), self.issuer.key())))
    }

    fn issue_with(
        &self,
        name: &str,
        purposes: Vec<ExtendedKeyUsagePurpose>,
        finish: impl FnOnce(Certificate) -> String,
    ) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = purposes;
        let certificate = finish(params.signed_by(&key, &self.issuer).expect("a certificate"));
        Pair { certificate, key: key.serialize_pem() }
    }
}
