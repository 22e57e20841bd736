//! Without cryptography there is no TLS. In a file that needs nothing, so that a test can have it compiled alone.

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
compile_error!(
    "leasehold needs cryptography for TLS; choose one of its features: `ring` (the default: compiles quickly), \
     `aws-lc-rs` (knows P-521, too) or `fips` (AWS-LC as validated for FIPS 140-3; its build needs CMake, Go and Perl)"
);
