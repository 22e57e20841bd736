//! Virtual time, which passes only when a schedule permits.
//!
//! One thread of the model moves the time. Each thread that waits with a timeout registers its deadline. When the time
//! thread has a turn, it moves the clock to the next registered deadline.
//!
//! The time thread always has a turn when no other thread can run, so that no thread waits forever. Sometimes it also
//! has a turn while other threads can run, which simulates a machine that delays them. Every such run is possible in
//! reality, because any thread may be delayed for any time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;

use crate::sync::{Condvar, Mutex};

/// The most turns of the time thread in one run.
///
/// Each model needs far fewer turns, unless a thread waits for an event that never comes.
const TURNS: u32 = 2_000;

/// An object on which a thread waits with a timeout.
pub(crate) trait Sleeper {
    fn wake(&self);
}

/// A reading of the virtual clock, which replaces `std::time::Instant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Self {
        Self(now())
    }

    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    pub fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub fn saturating_duration_since(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

struct Time {
    now: Cell<Duration>,
    sleepers: Mutex<Sleepers>,
    changed: Condvar,
}

#[derive(Default)]
struct Sleepers {
    list: Vec<(Duration, u64, Arc<dyn Sleeper>)>,
    last_id: u64,
    over: bool,
}

// Shuttle runs all threads of a model on one system thread, so all of them share these values.
thread_local! {
    static TIME: RefCell<Option<Rc<Time>>> = const { RefCell::new(None) };
    static NOBODY_ELSE: Cell<bool> = const { Cell::new(false) };
    static EAGER: Cell<Duration> = const { Cell::new(Duration::MAX) };
}

fn time() -> Rc<Time> {
    TIME.with_borrow(|time| time.clone().expect("a model runs"))
}

/// Returns the virtual time since a fixed origin.
pub(crate) fn now() -> Duration {
    time().now.get()
}

/// Limits each step of the clock to `at_most` while another thread can run.
///
/// An elector waits with a deadline even while its request runs. Without a limit, a lease may expire during any request.
pub fn eager_for(at_most: Duration) {
    EAGER.set(at_most);
}

pub(crate) fn nobody_else_can_run(is_so: bool) {
    NOBODY_ELSE.set(is_so);
}

/// A registered wake-up, which is canceled when this value is dropped.
pub(crate) struct Alarm(u64);

/// Registers a wake-up of `sleeper` at `deadline`.
///
/// The caller must hold the lock of `sleeper`, and `Sleeper::wake` must acquire the same lock.
pub(crate) fn wake_at(deadline: Instant, sleeper: Arc<dyn Sleeper>) -> Alarm {
    let time = time();
    let mut sleepers = time.sleepers.lock();
    sleepers.last_id += 1;
    let id = sleepers.last_id;
    sleepers.list.push((deadline.0, id, sleeper));
    time.changed.notify_all();
    Alarm(id)
}

impl Drop for Alarm {
    fn drop(&mut self) {
        time().sleepers.lock().list.retain(|(_, id, _)| *id != self.0);
    }
}

/// Starts the time of one run.
///
/// The clock does not start at zero, because a deadline uses zero to mark a term as over.
pub(crate) fn begin() {
    let time = Time {
        now: Cell::new(Duration::from_secs(1000)),
        sleepers: Mutex::new(Sleepers::default()),
        changed: Condvar::new(),
    };
    TIME.set(Some(Rc::new(time)));
    EAGER.set(Duration::MAX);
}

/// Moves the clock from deadline to deadline until the run is over.
pub(crate) fn pass() {
    let time = time();
    for _ in 0..TURNS {
        let Some((deadline, sleeper)) = next(&time) else { return };
        time.now.set(time.now.get().max(deadline));
        sleeper.wake();
    }
    panic!("somebody is left waiting for what never comes");
}

/// Waits until time may pass, and removes the next sleeper from the list.
///
/// Returns `None` at the end of the run.
fn next(time: &Time) -> Option<(Duration, Arc<dyn Sleeper>)> {
    let mut sleepers = time.sleepers.lock();
    loop {
        if sleepers.over {
            return None;
        }
        let soonest = (0..sleepers.list.len()).min_by_key(|index| sleepers.list[*index].0);
        match soonest {
            None => sleepers = time.changed.wait(sleepers),
            Some(index) => {
                let far = sleepers.list[index].0.saturating_sub(time.now.get()) > EAGER.get();
                if NOBODY_ELSE.get() || !far {
                    let (deadline, _, sleeper) = sleepers.list.remove(index);
                    return Some((deadline, sleeper));
                }
                drop(sleepers);
                thread::yield_now();
                sleepers = time.sleepers.lock();
            }
        }
    }
}

/// Ends the time of one run.
pub(crate) fn end() {
    let time = time();
    time.sleepers.lock().over = true;
    time.changed.notify_all();
}

/// Sleeps for `duration` of virtual time.
pub fn sleep(duration: Duration) {
    let (_sender, receiver) = crate::channel::bounded::<()>(0);
    let _ = receiver.recv_timeout(duration);
}
