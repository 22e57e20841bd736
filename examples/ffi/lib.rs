//! A C interface to leasehold. `leasehold.h` describes each function and its arguments.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicPtr;
use std::time::Duration;

use leasehold::crossbeam_channel::RecvTimeoutError;
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{Campaign, Error, LeaderElector, LeaderGuard};

/// Results that are not an `Error` of leasehold.
///
/// An `Error` is returned as the number of `code`.
const OK: c_int = 0;
const NOT_YET: c_int = -1;
const PANIC: c_int = -2;

thread_local!(static LAST_ERROR: RefCell<CString> = RefCell::default());

/// Runs `work` and catches a panic, because a panic must not unwind into C.
///
/// Keeps the text of an error for `leasehold_last_error`.
fn call(work: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    let (code, text) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => return code,
        Ok(Err(error)) => (code(&error), error.to_string()),
        Err(_) => (PANIC, "panic in the library; see stderr".to_owned()),
    };
    LAST_ERROR.set(CString::new(text.replace('\0', "")).unwrap_or_default());
    code
}

/// Returns the number of an error, which never changes. A later version of the library may have further errors.
fn code(error: &Error) -> c_int {
    match error {
        Error::Config(_) => 1,
        Error::Cluster(_) => 2,
        Error::Store(_) => 3,
        Error::Busy => 4,
        Error::Stopped => 5,
        Error::ReleaseTimeout { .. } => 6,
        Error::Thread(_) => 7,
        Error::Withdrawn => 8,
        Error::Forked => 9,
        Error::Unfit => 10,
        Error::Signals(_) => 11,
        Error::Work(_) => 12,
        _ => 99,
    }
}

/// Stores the guard in `out`, or returns `NOT_YET` without a guard.
///
/// The C caller must later pass the guard to `leasehold_release`.
fn give(guard: Option<LeaderGuard>, out: &mut *mut LeaderGuard) -> c_int {
    guard.map_or(NOT_YET, |guard| {
        *out = Box::into_raw(Box::new(guard));
        OK
    })
}

/// # Safety
/// `text` must be null or point to text that ends with a zero byte.
unsafe fn text(text: *const c_char) -> Option<String> {
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|last| last.as_ptr())
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_log_to_stderr() {
    let _ = env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).try_init();
}

/// # Safety
/// `name` and `kubeconfig` must each be null or point to text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leasehold_start(
    name: *const c_char,
    kubeconfig: *const c_char,
    lease_duration_ms: u64,
    out: &mut *mut LeaderElector,
) -> c_int {
    let (name, kubeconfig) = unsafe { (text(name), text(kubeconfig)) };
    call(|| {
        let mut builder = LeaderElector::builder(name.unwrap_or_default());
        if lease_duration_ms > 0 {
            builder = builder.lease_duration(Duration::from_millis(lease_duration_ms));
        }
        let elector = match kubeconfig {
            Some(path) => {
                let config = ClientConfig::from_kubeconfig(Some(path.as_ref()), None)?;
                builder.start_with_client(Client::new(config)?)?
            }
            None => builder.start()?,
        };
        *out = Box::into_raw(Box::new(elector));
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_acquire(elector: &LeaderElector, timeout_ms: i64, out: &mut *mut LeaderGuard) -> c_int {
    call(|| {
        let won = match u64::try_from(timeout_ms) {
            Err(_) => elector.block_until_leader().map(Some),
            Ok(0) => elector.try_acquire(),
            Ok(timeout) => elector.block_until_leader_timeout(Duration::from_millis(timeout)),
        };
        Ok(give(won?, out))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_campaign(
    elector: &LeaderElector,
    wake: extern "C" fn(*mut c_void),
    context: *mut c_void,
    out: &mut *mut Campaign,
) -> c_int {
    call(|| {
        let campaign = elector.campaign()?;
        // `AtomicPtr` can move to another thread. The header requires that any thread can use `context`.
        let context = AtomicPtr::new(context);
        campaign.on_decided(move || wake(context.into_inner()))?;
        *out = Box::into_raw(Box::new(campaign));
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_take(campaign: &Campaign, out: &mut *mut LeaderGuard) -> c_int {
    call(|| Ok(give(campaign.receiver().try_recv().ok().transpose()?, out)))
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_withdraw(campaign: Option<Box<Campaign>>) {
    drop(campaign);
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_free(elector: Option<Box<LeaderElector>>) {
    drop(elector);
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_is_leader(guard: &LeaderGuard) -> bool {
    guard.is_leader()
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_token(guard: &LeaderGuard) -> u64 {
    guard.fencing_token()
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_wait_lost(guard: &LeaderGuard, timeout_ms: u64) -> bool {
    guard.ended().recv_timeout(Duration::from_millis(timeout_ms)) == Err(RecvTimeoutError::Disconnected)
}

#[unsafe(no_mangle)]
pub extern "C" fn leasehold_release(guard: Option<Box<LeaderGuard>>) -> c_int {
    call(|| guard.map_or(Ok(()), |guard| guard.release()).map(|()| OK))
}
