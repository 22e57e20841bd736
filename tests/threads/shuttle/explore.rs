//! Runs a model under many schedules.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, MaxSteps, Runner, thread};

use crate::sync::{Condvar, Mutex};
use crate::time;

/// The depth of the schedules with few preemptions, which limits their number of preemptions.
const DEPTH: usize = 4;

/// The task number of the thread that moves the time.
///
/// This thread always starts second.
const TIME: usize = 1;

/// How often time passes while other threads can run.
///
/// Each schedule uses one of these values: never, or on average at one of the given number of steps.
const SELDOM: [Option<u64>; 4] = [None, Some(256), Some(64), Some(12)];

/// The seed of all schedules, unless `SHUTTLE_RANDOM_SEED` is set.
const SEED: u64 = 4;

/// Runs `model` under `schedules` schedules.
///
/// Half of the schedules are random, and the others have few preemptions. `SHUTTLE_TIMES` multiplies their number.
pub fn explore(name: &str, schedules: usize, model: fn()) {
    let times = std::env::var("SHUTTLE_TIMES").map_or(1, |times| times.parse().expect("SHUTTLE_TIMES is a number"));
    let each = schedules * times / 2;
    let began = std::time::Instant::now();
    let steps = Rc::new(Cell::new(0));
    run(RandomScheduler::new_from_seed(SEED, each), &steps, model);
    run(PctScheduler::new_from_seed(SEED, DEPTH, each), &steps, model);
    println!("{name}: {} schedules, {} steps, {:.1?}", 2 * each, steps.get(), began.elapsed());
}

fn run(scheduler: impl Scheduler + 'static, steps: &Rc<Cell<u64>>, model: fn()) {
    let mut config = Config::new();
    config.stack_size = 256 * 1024;
    config.max_steps = MaxSteps::FailAfter(200_000);
    config.silence_warnings = true;
    let scheduler = WithTime { scheduler, steps: Rc::clone(steps), seldom: None };
    Runner::new(scheduler, config).run(move || {
        fastrand::seed(1);
        time::begin();
        RUNNING.set(Some(Rc::new(Threads::default())));
        let passing = thread::spawn(time::pass);
        model();
        wait_for_all_threads();
        time::end();
        passing.join().unwrap();
    });
}

/// A scheduler that also decides when time passes.
struct WithTime<S> {
    scheduler: S,
    steps: Rc<Cell<u64>>,
    seldom: Option<u64>,
}

impl<S: Scheduler> Scheduler for WithTime<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        let schedule = self.scheduler.new_execution()?;
        // The value depends on the schedule's seed, so that a failing schedule can be repeated alone.
        self.seldom = SELDOM[schedule.seed as usize % SELDOM.len()];
        Some(schedule)
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, _: bool) -> Option<TaskId> {
        self.steps.set(self.steps.get() + 1);
        let is_time = |task: &&&Task| usize::from(task.id()) == TIME;
        let others: Vec<&Task> = runnable.iter().filter(|task| !is_time(task)).copied().collect();
        time::nobody_else_can_run(others.is_empty());
        let time = runnable.iter().find(is_time).map(|task| task.id());
        match (time, self.seldom) {
            (Some(time), _) if others.is_empty() => Some(time),
            (Some(time), Some(seldom)) if self.scheduler.next_u64().is_multiple_of(seldom) => Some(time),
            // No thread spins here, so the scheduler need not treat a yield as a request to run another thread.
            _ => self.scheduler.next_task(&others, current, false),
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.scheduler.next_u64()
    }
}

/// A running thread that an elector has started.
pub(crate) struct Running(());

#[derive(Default)]
struct Threads {
    running: Mutex<usize>,
    changed: Condvar,
}

thread_local! {
    static RUNNING: RefCell<Option<Rc<Threads>>> = const { RefCell::new(None) };
}

fn threads() -> Rc<Threads> {
    RUNNING.with_borrow(|threads| threads.clone().expect("a model runs"))
}

impl Running {
    pub(crate) fn new() -> Self {
        *threads().running.lock() += 1;
        Self(())
    }

    pub(crate) fn ended(self) {
        let threads = threads();
        *threads.running.lock() -= 1;
        threads.changed.notify_all();
    }
}

/// Waits until all threads that electors have started have ended.
///
/// If a thread never ends, shuttle reports a deadlock.
pub fn wait_for_all_threads() {
    let threads = threads();
    let mut running = threads.running.lock();
    while *running > 0 {
        running = threads.changed.wait(running);
    }
}
