//! The check that the system has a supported clock that counts the time in suspend.

#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "openbsd",
    target_vendor = "apple",
    target_os = "windows",
)))]
compile_error!(
    "leasehold needs a clock that counts the time in which a machine is suspended, and supports no such clock on this \
     system: after suspend, a leader could keep a term after a takeover. CLOCK_MONOTONIC does not count suspend on \
     FreeBSD, NetBSD and illumos. Supported are Linux, Android, OpenBSD, Apple's systems and Windows; see docs/SAFETY.md."
);
