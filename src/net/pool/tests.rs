use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;

impl<C> Pool<C> {
    /// Returns the time for which each idle connection is kept, the newest last.
    pub(crate) fn idle_for(&self) -> Vec<Duration> {
        self.state.lock().idle.iter().map(|it| it.max_idle).collect()
    }

    /// Makes each idle connection older.
    pub(crate) fn age(&self, by: Duration) {
        self.state.lock().idle.iter_mut().for_each(|it| it.since -= by);
    }

    fn add_idle(&self, connection: C) {
        self.state.lock().idle.push(Idle { connection, since: Instant::now(), max_idle: LONG });
    }
}

/// A connection with a number. A connection with an odd number is quiet.
#[derive(Debug, PartialEq)]
struct Numbered(usize);

impl CallConnection for Numbered {
    fn versions(&self) -> Versions {
        [0, 0]
    }

    fn is_quiet(&mut self) -> bool {
        self.0 % 2 == 1
    }

    fn use_for(&mut self, interrupter: &Interrupter) -> Result<(), Error> {
        interrupter.check()
    }
}

const LONG: Duration = Duration::from_secs(60);

fn pool() -> Pool<Numbered> {
    Pool::new(2, Duration::MAX)
}

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn demand(interrupter: &Interrupter, deadline: Instant) -> Demand<'_> {
    Demand { idle: Some([0, 0]), deadline, interrupter }
}

/// A pool in virtual time. Callers ask again whenever the state has changed.
struct Virtual {
    state: PoolState<Numbered>,
    interrupter: Interrupter,
    began: Instant,
}

impl Virtual {
    fn new() -> Self {
        Self { state: pool().state.into_inner(), interrupter: Interrupter::default(), began: Instant::now() }
    }

    /// Puts a caller with `timeout` into the queue, and returns its rank.
    fn wait(&mut self, timeout: Duration) -> Rank {
        self.state.enqueue(&demand(&self.interrupter, self.began + timeout)).0
    }

    /// Lets a caller ask `after` the start. A caller that is served has not left the queue yet.
    fn ask(&mut self, rank: Rank, after: Duration) -> SlotClaim<Numbered> {
        self.state.claim(&demand(&self.interrupter, rank.0), rank, self.began, self.began + after)
    }

    fn opens(&mut self, rank: Rank, after: Duration) -> bool {
        matches!(self.ask(rank, after), SlotClaim::Dial(_))
    }

    fn put_idle(&mut self, number: usize) {
        self.state.idle.push(Idle { connection: Numbered(number), since: self.began, max_idle: Duration::MAX });
    }

    fn open_eight(&mut self) {
        for _ in 0..8 {
            let rank = self.wait(LONG);
            assert!(self.opens(rank, Duration::ZERO));
        }
    }

    fn answer_one(&mut self) {
        self.state.dials.pop_front();
        self.state.in_use -= 1;
    }
}

#[test]
fn newest_quiet_connection_is_used_first() {
    let (pool, interrupter) = (pool(), Interrupter::default());
    for number in [1, 3, 4] {
        pool.state.lock().in_use += 1;
        PoolSlot { pool: &pool, dial: None }.put_back(Numbered(number));
    }
    let take = || pool.take(&demand(&interrupter, Instant::now() + LONG)).unwrap();
    let (first, second, third) = (take(), take(), take());
    assert_eq!([&first.1, &second.1, &third.1], [&Some(Numbered(3)), &Some(Numbered(1)), &None], "4 is not quiet");
    assert_eq!(pool.state.lock().in_use, 3);
}

#[test]
fn idle_connections_of_a_burst_close_after_30_s() {
    let mut it = Virtual::new();
    for number in 0..5 {
        it.put_idle(number);
    }
    let mut close = |after| it.state.remove_unusable(2, [0, 0], it.began + after).into_iter().map(|it| it.connection.0);
    assert_eq!(close(MAX_IDLE - milliseconds(1)).len(), 0);
    assert_eq!(close(MAX_IDLE).collect::<Vec<_>>(), [0, 1, 2], "the oldest are closed");
    assert_eq!(close(MAX_IDLE * 1000).len(), 0, "two stay open");
}

#[test]
fn idle_connection_closes_at_its_own_limit() {
    let (mut it, short, long) = (Virtual::new(), Duration::from_secs(65), Duration::from_secs(75));
    let idle = |(number, max_idle)| Idle { connection: Numbered(number), since: it.began, max_idle };
    it.state.idle = [(1, short), (3, long)].map(idle).into();
    for (after, closed) in [(short - milliseconds(1), &[][..]), (short, &[1]), (long, &[3])] {
        let found = it.state.remove_unusable(2, [0, 0], it.began + after);
        assert_eq!(found.iter().map(|it| it.connection.0).collect::<Vec<_>>(), closed, "{after:?}");
    }
}

#[test]
fn connections_idle_when_a_call_began_are_dropped() {
    let pool = pool();
    pool.add_idle(Numbered(1));
    let began = Instant::now();
    while Instant::now() == began {}
    pool.add_idle(Numbered(3));
    pool.forget_idle_since(began);
    assert_eq!(pool.state.lock().idle.iter().map(|it| it.connection.0).collect::<Vec<_>>(), [3]);
}

#[test]
fn ninth_caller_waits_for_an_answer_or_an_idle_connection() {
    for answers in [true, false] {
        let mut it = Virtual::new();
        let ranks: Vec<_> = (0..9).map(|_| it.wait(LONG)).collect();
        let soon = milliseconds(200);
        assert!(ranks[..8].iter().all(|rank| it.opens(*rank, Duration::ZERO)));
        assert_eq!(it.ask(ranks[8], Duration::ZERO), SlotClaim::WaitUntil(it.began + PATIENCE));
        assert_eq!(it.ask(ranks[8], soon), SlotClaim::WaitUntil(it.began + LONG / 4));
        if answers {
            it.answer_one();
            assert!(it.opens(ranks[8], soon));
        } else {
            it.put_idle(1);
            assert_eq!(it.ask(ranks[8], soon), SlotClaim::Idle(Numbered(1)));
        }
    }
}

#[test]
fn earliest_deadline_gets_an_idle_connection_first() {
    let mut it = Virtual::new();
    it.open_eight();
    let ranks = [4, 2, 3].map(|seconds| it.wait(Duration::from_secs(seconds)));
    let soon = milliseconds(200);
    it.put_idle(1);
    it.put_idle(3);
    assert!(matches!(it.ask(ranks[0], soon), SlotClaim::WaitUntil(_)), "both are for the two others");
    assert_eq!(it.ask(ranks[2], soon), SlotClaim::Idle(Numbered(3)));
    assert!(matches!(it.ask(ranks[0], soon), SlotClaim::WaitUntil(_)));
    assert_eq!(it.ask(ranks[1], soon), SlotClaim::Idle(Numbered(1)));
    it.put_idle(4);
    assert_eq!(it.ask(ranks[0], soon), SlotClaim::Idle(Numbered(4)), "the two others are served");
}

#[test]
fn latest_deadline_opens_a_connection_first() {
    let mut it = Virtual::new();
    it.open_eight();
    let woken = [4, 2, 3].map(|seconds| it.state.enqueue(&demand(&it.interrupter, it.began + LONG * seconds)).1);
    it.answer_one();
    it.state.wake();
    assert_eq!(woken.map(|woken| woken.len()), [1, 0, 0]);
}

#[test]
fn unanswered_connection_leaves_one_at_a_time_until_an_answer() {
    let pool = pool();
    let interrupter = Interrupter::default();
    let take = || pool.take(&demand(&interrupter, Instant::now() + LONG)).unwrap().0;
    let most = || pool.state.lock().most_dials;
    let (mut answered, unanswered) = (take(), take());
    assert_eq!(most(), MAX_DIALS);
    drop(unanswered);
    assert_eq!(most(), 1);
    answered.end_request(true);
    assert_eq!(most(), MAX_DIALS);
    answered.end_request(false);
    assert_eq!(most(), 1, "the request on an open connection is not answered either");
}

#[test]
fn watches_open_half_of_the_connections() {
    let mut it = Virtual::new();
    let opening = Demand { idle: None, ..demand(&it.interrupter, it.began + LONG) };
    let opened = (0..9)
        .filter(|_| matches!(it.state.claim(&opening, (it.began + LONG, 0), it.began, it.began), SlotClaim::Dial(_)));
    assert_eq!(opened.count(), 4);
}

#[test]
fn idle_connection_wakes_a_caller_that_accepts_it() {
    let mut it = Virtual::new();
    let opening = Demand { idle: None, ..demand(&it.interrupter, it.began + LONG / 2) };
    let (_, urgent) = it.state.enqueue(&opening);
    let (_, other) = it.state.enqueue(&demand(&it.interrupter, it.began + LONG));
    it.state.dials.extend((0..8).map(|number| Dial { number, since: it.began }));
    it.put_idle(1);
    it.state.wake();
    assert_eq!((urgent.len(), other.len()), (0, 1), "the urgent caller needs a new connection");
}

#[test]
fn caller_opens_one_more_after_a_quarter_of_its_time() {
    let (timeout, mut it) = (Duration::from_secs(4), Virtual::new());
    let mut ranks: VecDeque<_> = (0..200).map(|_| it.wait(timeout)).collect();
    let mut opened_by = |after: Duration| {
        ranks.retain(|rank| !it.opens(*rank, after));
        200 - ranks.len()
    };
    assert_eq!(opened_by(Duration::ZERO), 8);
    assert_eq!(opened_by(milliseconds(999)), 8);
    assert_eq!(opened_by(milliseconds(1000)), 9);
    assert_eq!(opened_by(milliseconds(1999)), 9);
    assert_eq!(opened_by(milliseconds(2000)), 10, "a hang does not make all callers open connections");
}

#[test]
fn caller_waits_100_ms_for_one_of_many_connections() {
    let mut it = Virtual::new();
    it.state.in_use = 7;
    let ranks = [0, 1, 2].map(|_| it.wait(LONG));
    assert!(it.opens(ranks[0], Duration::ZERO), "few connections are in use");
    assert_eq!(it.ask(ranks[1], Duration::ZERO), SlotClaim::WaitUntil(it.began + PATIENCE));
    assert!(it.opens(ranks[1], PATIENCE));
    assert!(!it.opens(ranks[2], PATIENCE), "two are opened at a time");
    it.answer_one();
    let rank = it.wait(PATIENCE);
    assert!(it.opens(rank, PATIENCE / 4), "a quarter of the time is less");
}

#[test]
fn late_or_interrupted_caller_leaves_the_queue() {
    let (pool, interrupter) = (pool(), Interrupter::default());
    pool.state.lock().dials.extend((0..8).map(|number| Dial { number, since: Instant::now() + LONG }));
    let error = pool.take(&demand(&interrupter, Instant::now() + milliseconds(20))).err().unwrap();
    assert_eq!((error.kind, error.maybe_sent), (NetErrorKind::Timeout, false));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.take(&demand(&interrupter, Instant::now() + LONG)).err().unwrap().kind);
        while pool.state.lock().waiting.is_empty() {
            thread::yield_now();
        }
        interrupter.interrupt();
        assert_eq!(waiting.join().unwrap(), NetErrorKind::Interrupted);
    });
    assert!(pool.state.lock().waiting.is_empty());
}

#[test]
fn wakeup_of_a_caller_that_leaves_goes_to_the_next() {
    let pool = pool();
    let interrupter = Interrupter::default();
    let enqueue = |seconds| pool.state.lock().enqueue(&demand(&interrupter, Instant::now() + LONG * seconds));
    let ((first, woken), (_, second)) = (enqueue(1), enqueue(2));
    pool.add_idle(Numbered(1));
    drop(Waiter { pool: &pool, rank: first, woken });
    assert_eq!(second.len(), 1);
}

#[test]
fn callers_that_fail_or_panic_leave_no_trace() {
    // Callers with short timeouts replace connections that others still open, so the limit does not apply to them.
    for shortest in [LONG * 10, Duration::ZERO] {
        let (pool, opening, most) = (pool(), AtomicUsize::new(0), AtomicUsize::new(0));
        let call = |random: &mut fastrand::Rng| {
            let interrupter = Interrupter::default();
            let timeout = if random.u8(..) < 64 { shortest.max(milliseconds(random.u64(..3))) } else { LONG * 10 };
            if random.u8(..) < 16 {
                interrupter.interrupt();
            }
            let Ok((mut slot, idle)) = pool.take(&demand(&interrupter, Instant::now() + timeout)) else { return };
            if idle.is_none() {
                most.fetch_max(opening.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            }
            thread::sleep(Duration::from_micros(random.u64(..300)));
            if idle.is_none() {
                opening.fetch_sub(1, Ordering::SeqCst);
            }
            match random.u8(..4) {
                0 => resume_unwind(Box::new("a call panics")),
                1 => {}
                _ => {
                    slot.end_request(true);
                    slot.put_back(idle.unwrap_or(Numbered(random.usize(..9))));
                }
            }
        };
        thread::scope(|scope| {
            for seed in 0..32 {
                let call = &call;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    for _ in 0..100 {
                        let _ = catch_unwind(AssertUnwindSafe(|| call(&mut random)));
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!(most > 0 && (most <= MAX_DIALS || shortest.is_zero()), "{most} were opened at a time");
        let state = pool.state.lock();
        assert_eq!((state.in_use, state.dials.len(), state.waiting.len()), (0, 0, 0));
    }
}
