//! The cryptography library of TLS, which the features of this crate select.
//!
//! A process-wide default provider of rustls has no effect.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;

use crate::net::error::Error;

mod chosen;

/// Returns the provider of AWS-LC, which supports more algorithms than `ring`.
///
/// With the feature `fips`, the provider uses the validated form of AWS-LC.
#[cfg(feature = "aws-lc-rs")]
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

#[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

// This function exists so that the compiler reports only the `compile_error!` in `chosen`, and not each missing use.
#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
pub(crate) fn provider() -> Arc<CryptoProvider> {
    unreachable!("the crate does not compile without one")
}

/// Returns the remedy for a key or a signature that this build does not support.
pub(crate) fn hint() -> &'static str {
    match cfg!(feature = "aws-lc-rs") {
        true => "",
        false => "; P-521 needs the feature `aws-lc-rs` of leasehold",
    }
}

/// Returns an error if FIPS is `required` and the configuration is not in FIPS mode.
pub(crate) fn check_fips(required: bool, config: &ClientConfig) -> Result<(), Error> {
    let rule = "the cryptography of this build is not in FIPS mode; build AWS-LC in its validated form, or disable the \
                feature";
    match required && !config.fips() {
        true => Err(Error::config("feature fips", rule)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_fips_required_no_other_cryptography_will_do() {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        assert!(check_fips(false, &config).is_ok());
        let verdict = check_fips(true, &config);
        assert_eq!(verdict.is_ok(), cfg!(feature = "fips"), "{verdict:?}");
        if let Err(error) = verdict {
            assert!(error.to_string().contains("fips"), "{error}");
        }
    }

    #[test]
    fn provider_that_supports_p_521_is_preferred() {
        use rustls::SignatureScheme::ECDSA_NISTP521_SHA512;
        let schemes = provider().signature_verification_algorithms.supported_schemes();
        assert_eq!(schemes.contains(&ECDSA_NISTP521_SHA512), cfg!(feature = "aws-lc-rs"));
    }
}
