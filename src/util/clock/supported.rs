//! On which systems a clock is known that counts the time in suspend. Elsewhere the promise would break in silence.

#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "openbsd",
    target_vendor = "apple",
    target_os = "windows",
)))]
compile_error!(
    "leasehold needs a clock that counts the time in which a machine is suspended, and knows none on this system: \
     a leader that wakes would believe in a term that others have taken over. CLOCK_MONOTONIC does not count it on \
     FreeBSD, NetBSD and illumos. Supported are Linux, Android, OpenBSD, Apple's systems and Windows; see docs/SAFETY.md."
);
