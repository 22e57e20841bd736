//! Scoped threads that borrow the guard.

use std::thread::ScopedJoinHandle;

use crate::election::drain::DrainLimit;
use crate::leadership::guard::LeaderGuard;
use crate::util::on_drop::OnDrop;

/// A scope for threads that borrow the guard, created by [`LeaderGuard::scope`].
///
/// # Examples
///
/// ```no_run
/// # use leasehold::LeaderElector;
/// # let elector = LeaderElector::builder("jobs").start()?;
/// let guard = elector.block_until_leader()?;
/// guard.scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| while guard.is_leader() { /* one unit of work */ });
///     }
///     println!("four workers have token {}", scope.guard().fencing_token());
/// });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Scope<'scope, 'env> {
    scope: &'scope std::thread::Scope<'scope, 'env>,
    guard: &'env LeaderGuard,
}

impl LeaderGuard {
    /// Runs `work` in a scope and returns when all threads of the scope have ended.
    ///
    /// The scope can spawn threads that borrow this guard, like `std::thread::scope`. The compiler proves that
    /// protected work ends before the lease is released. The compiler does not prove that the work ends before the term
    /// does. Workers must still check [`is_leader`](Self::is_leader), or wait for [`ended`](Self::ended).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// let done = guard.scope(|scope| {
    ///     let workers: Vec<_> = (0..4)
    ///         .map(|_| scope.spawn(|| (0..100).take_while(|_| guard.is_leader()).count()))
    ///         .collect();
    ///     workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>()
    /// });
    /// # }
    /// ```
    ///
    /// The closure cannot move or drop the guard, and no spawned thread can leave the scope:
    ///
    /// ```compile_fail,E0505
    /// # fn f(guard: leasehold::LeaderGuard) {
    /// guard.scope(|scope| {
    ///     drop(guard);
    /// });
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0505
    /// # fn f(guard: leasehold::LeaderGuard) {
    /// guard.scope(|scope| {
    ///     scope.spawn(move || guard.is_leader());
    /// });
    /// # }
    /// ```
    ///
    /// ```compile_fail
    /// # fn f(guard: leasehold::LeaderGuard) {
    /// let handle = guard.scope(|scope| scope.spawn(|| 1));
    /// handle.join().unwrap();
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics like `std::thread::scope`, if `work` panics, or if a spawned thread panics and was not joined. Either
    /// panic steps the term down at once, so that the candidate does not lead without its workers.
    pub fn scope<'env, T>(&'env self, work: impl for<'scope> FnOnce(Scope<'scope, 'env>) -> T) -> T {
        std::thread::scope(|scope| self.step_down_unless_finished(|| work(Scope { scope, guard: self })))
    }

    fn step_down_unless_finished<T>(&self, work: impl FnOnce() -> T) -> T {
        let unfinished = OnDrop(|| self.link.step_down(&self.term, DrainLimit::Bounded));
        let result = work();
        std::mem::forget(unfinished);
        result
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a thread that ends before the guard can be dropped.
    ///
    /// If the thread panics, the term is stepped down at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// guard.scope(|scope| {
    ///     let worker = scope.spawn(|| guard.fencing_token());
    ///     assert_eq!(worker.join().unwrap(), guard.fencing_token());
    /// });
    /// # }
    /// ```
    pub fn spawn<T: Send + 'scope>(&self, work: impl FnOnce() -> T + Send + 'scope) -> ScopedJoinHandle<'scope, T> {
        let guard = self.guard;
        self.scope.spawn(move || guard.step_down_unless_finished(work))
    }

    /// Returns the guard of this scope.
    pub fn guard(&self) -> &'env LeaderGuard {
        self.guard
    }
}
