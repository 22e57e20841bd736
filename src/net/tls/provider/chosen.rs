//! The compile-time check that a build with TLS selects a cryptography library.
//!
//! The check has a file of its own, so that a test can compile the check alone.

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
compile_error!(
    "leasehold needs cryptography for TLS; choose one of its features: `ring` (the default: compiles quickly), \
     `aws-lc-rs` (also supports P-521) or `fips` (AWS-LC as validated for FIPS 140-3; its build needs CMake, Go and Perl)"
);
