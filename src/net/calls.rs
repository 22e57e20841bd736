//! The call of every client: one request and one answer on an exclusive connection.
//!
//! Each rule has a test. `U` stands for `net::calls::tests`, `B` for the tests of the clients for etcd, MySQL and
//! PostgreSQL.
//!
//! | question | rule | test |
//! | --- | --- | --- |
//! | What does a call return after its deadline? | If the call succeeds after its deadline, it returns `Timeout`. A late refusal stays a refusal. | `U::late_success_is_a_timeout_and_a_late_refusal_stays` |
//! | What does a canceled call return? | A canceled call returns `Interrupted`, even if its answer is complete. Only the Kubernetes client still returns a complete answer. | `U::cancelled_call_keeps_its_answer_only_for_kubernetes` |
//! | When is a read repeated? | A read is repeated once, on a new connection, if the connection broke during the request. | `U::broken_read_is_repeated_once_on_a_new_connection` |
//! | When is a write repeated? | A write is repeated once, if the connection was already closed and nothing was sent, or if the client proves that the server has not applied the first copy. | `U::write_that_a_closed_connection_did_not_take_is_repeated`, `U::write_is_repeated_only_if_the_first_copy_is_undone` |
//! | When is a connection used again? | A connection is used again after a success, or after a refusal that leaves the session unchanged. Its certificate files must still be the latest. | `U::connection_is_reused_after_a_success_or_a_clean_refusal`, `U::connection_with_an_older_certificate_is_not_used` |
//! | When are idle connections closed? | A call that times out or is canceled closes every connection that was idle when the call began. A call that used no connection closes none. | `U::end_of_a_call_closes_connections_idle_at_its_begin` |
//! | When does a standby keep a connection open? | If the connection took more than 10 ms to open, a standby uses the connection after 65 s, and the pool keeps the connection for 75 s. | `U::slowly_opened_connection_is_kept_and_used_in_time` |
//! | When is `maybe_sent` set? | `maybe_sent` is `false` if no byte of the request was written. A refusal and a late success count as sent. | `U::refused_or_late_call_counts_as_sent`, `B::error_reports_if_the_request_may_have_been_sent` |

use std::cell::Cell;
use std::time::Instant;

use super::MAX_WAIT;
use super::error::{Error, NetErrorKind};
use super::interrupt::{Interrupter, interrupted};
use super::pool::{CallConnection, Demand, Pool, PoolSlot, Versions, is_new_enough};
use crate::store::CallContext;
use crate::util::cancel::CancelHook;
use crate::util::log_fields::CLIENT;
use crate::util::panics::log_line;

/// An error of a client, with the properties that the rules of this module need.
///
/// The rules do not use the text of the error, because the text may quote a secret that only the client can remove.
pub(crate) trait CallError: From<Error> {
    /// `true` if a canceled call still returns a complete answer.
    const ANSWER_OUTLIVES_CANCEL: bool = false;

    /// Returns the kind of a transfer failure, or `None` if the server refused the request.
    fn net_kind(&self) -> Option<NetErrorKind>;

    /// Returns `true` if the server may have received the request.
    fn maybe_sent(&self) -> bool;

    /// Returns `true` if the server refused the request and the session is unchanged.
    fn leaves_session_unchanged(&self) -> bool;
}

/// One call from its start to its end.
pub(crate) struct ActiveCall {
    context: CallContext,
    began: Instant,
    pub(crate) deadline: Instant,
    pub(crate) interrupter: Interrupter,
    hook: CancelHook,
    /// `true` if the call has started an exchange.
    has_exchanged: Cell<bool>,
}

/// The pool for a request, and the conditions for choosing a connection and for a repetition.
pub(crate) struct Exchange<'a, 'p, C> {
    pub(crate) pool: &'a Pool<C>,
    /// Returns the server or the request for a log line. Called only if a line is logged.
    pub(crate) place: &'p dyn Fn() -> String,
    /// The oldest certificate versions that a connection may have.
    pub(crate) versions: Versions,
    /// The time by which the call must have a connection.
    pub(crate) connected_by: Instant,
    /// `true` if the request is a read, which may be sent twice because a read changes nothing.
    pub(crate) is_read: bool,
}

impl ActiveCall {
    pub(crate) fn begin(context: &CallContext) -> Self {
        let (began, context) = (Instant::now(), context.clone());
        let deadline = began + context.remaining().min(MAX_WAIT);
        let (interrupter, hook) = Interrupter::hooked(context.cancel());
        Self { context, began, deadline, interrupter, hook, has_exchanged: Cell::new(false) }
    }

    /// Runs a request, and repeats the request once if the rules of this module allow that.
    ///
    /// Uses the connection in `used`, or else a connection by the rules of the pool. Leaves the connection in `used`.
    ///
    /// `is_undone` returns `true` if an error proves that the server has not applied the request and a repetition may
    /// succeed.
    pub(crate) fn exchange<'a, C: CallConnection, T, E: CallError>(
        &self,
        Exchange { pool, place, versions, connected_by, is_read }: Exchange<'a, '_, C>,
        used: &mut Option<(PoolSlot<'a, C>, C)>,
        open: impl Fn() -> Result<C, E>,
        mut run: impl FnMut(&mut C) -> Result<T, E>,
        is_undone: impl FnOnce(&C, &E) -> bool,
    ) -> Result<T, E> {
        self.interrupter.check()?;
        if self.deadline <= Instant::now() {
            return Err(late().into());
        }
        let deadline = connected_by.min(self.deadline);
        let connect = |idle| {
            let taken = pool.take(&Demand { idle, deadline, interrupter: &self.interrupter })?;
            self.has_exchanged.set(true);
            match taken {
                (slot, Some(mut connection)) => {
                    connection.use_for(&self.interrupter)?;
                    Ok((slot, connection))
                }
                (mut slot, None) => {
                    let connection = open()?;
                    if !C::OPENS_IN_RUN {
                        slot.end_request(true);
                    }
                    Ok::<_, E>((slot, connection))
                }
            }
        };
        let is_usable = |connection: &mut C| is_new_enough(connection, versions) && connection.is_quiet();
        let usable = used.take().and_then(|(slot, mut it)| is_usable(&mut it).then_some((slot, it)));
        let (mut slot, mut connection) = usable.map_or_else(|| connect(Some(versions)), Ok)?;
        let is_answered = |answer: &Result<T, E>| answer.as_ref().err().is_none_or(|error| error.net_kind().is_none());
        let mut answer = run(&mut connection);
        slot.end_request(is_answered(&answer));
        if let Err(error) = &answer {
            let is_broken = matches!(error.net_kind(), Some(NetErrorKind::Io | NetErrorKind::ConnectionClosed));
            let is_unsent = error.net_kind() == Some(NetErrorKind::ConnectionClosed) && !error.maybe_sent();
            let is_repeated = (is_read && is_broken) || is_unsent || is_undone(&connection, error);
            if is_repeated && !self.interrupter.is_interrupted() {
                let why = if is_broken { "the connection broke" } else { "the server did not run the request" };
                log_line!(debug, target: CLIENT, "{}: {why}, retrying once on a new connection", place());
                (slot, connection) = connect(None)?;
                answer = run(&mut connection);
                slot.end_request(is_answered(&answer));
            }
        }
        *used = Some((slot, connection));
        answer
    }

    /// Ends the call, and keeps or closes connections by the rules of this module.
    pub(crate) fn end<'a, C: CallConnection + 'a, T, E: CallError>(
        self,
        answer: Result<T, E>,
        pools: impl IntoIterator<Item = &'a Pool<C>>,
        used: Option<(PoolSlot<'a, C>, C)>,
    ) -> Result<T, E> {
        // From here on, a cancellation must not shut down the connection, because another call may use the connection.
        drop(self.hook);
        let is_interrupted = self.interrupter.is_interrupted();
        let error = answer.as_ref().err();
        let is_kept = E::ANSWER_OUTLIVES_CANCEL && error.is_none_or(|error| error.net_kind().is_none());
        let sent = error.is_none_or(E::maybe_sent);
        let answer = match answer {
            _ if is_interrupted && !is_kept => Err(interrupted().sent(sent).into()),
            Ok(_) if Instant::now() >= self.deadline => Err(late().sent(true).into()),
            other => other,
        };
        if let (Ok(_), Some((slot, connection))) = (&answer, &used) {
            // Reported even if the connection is closed below, because a standby then opens another connection.
            self.context.set_idle_timeout(slot.far(connection).map(|far| far.used_after));
        }
        let kind = answer.as_ref().err().and_then(E::net_kind);
        if kind.is_none() {
            let store_time = used.as_ref().and_then(|(_, connection)| connection.server_time());
            store_time.into_iter().for_each(|time| self.context.set_store_time(time));
        }
        if is_interrupted || matches!(kind, Some(NetErrorKind::Timeout | NetErrorKind::Interrupted)) {
            let pools = pools.into_iter().filter(|_| self.has_exchanged.get());
            pools.for_each(|pool| pool.forget_idle_since(self.began));
        } else if answer.as_ref().err().is_none_or(E::leaves_session_unchanged)
            && let Some((slot, connection)) = used
        {
            slot.put_back(connection);
        }
        answer
    }
}

pub(crate) fn late() -> Error {
    Error::new(NetErrorKind::Timeout, "the call timed out")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::net::pool::MAX_IDLE;
    use crate::util::cancel::CancelToken;

    /// A connection with a number and the versions of its certificates.
    ///
    /// The number is also the time to open the connection, in milliseconds.
    struct Numbered(usize, Versions);

    /// The number of a connection that the server has closed.
    const CLOSED: usize = 99;

    impl CallConnection for Numbered {
        fn opened_in(&self) -> Duration {
            Duration::from_millis(self.0 as u64)
        }

        fn versions(&self) -> Versions {
            self.1
        }

        fn is_quiet(&mut self) -> bool {
            self.0 != CLOSED
        }

        fn use_for(&mut self, interrupter: &Interrupter) -> Result<(), Error> {
            interrupter.check()
        }
    }

    /// An error of a test client.
    ///
    /// The flag of `Net` is `maybe_sent`. The flag of `Refused` is `true` if the session is unchanged.
    #[derive(Debug, PartialEq)]
    enum TestFailure<const OUTLIVES: bool> {
        Net(NetErrorKind, bool),
        Refused(bool),
    }

    use TestFailure::{Net, Refused};

    impl<const OUTLIVES: bool> From<Error> for TestFailure<OUTLIVES> {
        fn from(error: Error) -> Self {
            Net(error.kind, error.maybe_sent)
        }
    }

    impl<const OUTLIVES: bool> CallError for TestFailure<OUTLIVES> {
        const ANSWER_OUTLIVES_CANCEL: bool = OUTLIVES;

        fn net_kind(&self) -> Option<NetErrorKind> {
            if let Net(kind, _) = self { Some(*kind) } else { None }
        }

        fn maybe_sent(&self) -> bool {
            !matches!(self, Net(_, false))
        }

        fn leaves_session_unchanged(&self) -> bool {
            *self == Refused(true)
        }
    }

    type TestOutcome = Result<(), TestFailure<false>>;

    const LONG: Duration = Duration::from_secs(60);

    /// Returns a connection in use, as if a call had opened it.
    fn opened(pool: &Pool<Numbered>, number: usize) -> (PoolSlot<'_, Numbered>, Numbered) {
        let (deadline, interrupter) = (Instant::now() + LONG, &Interrupter::default());
        (pool.take(&Demand { idle: None, deadline, interrupter }).unwrap().0, Numbered(number, [0, 0]))
    }

    fn put_idle(pool: &Pool<Numbered>, connection: Numbered) {
        opened(pool, 0).0.put_back(connection);
    }

    /// Ends a call that used one connection while another connection was idle.
    ///
    /// If `cancels` is `true`, cancels the call before its end. Returns the outcome and the number of idle connections.
    fn end<const O: bool>(
        answer: Result<(), TestFailure<O>>,
        timeout: Duration,
        cancels: bool,
    ) -> (Result<(), TestFailure<O>>, usize) {
        let (pool, cancel) = (Pool::new(9, MAX_IDLE), CancelToken::new());
        put_idle(&pool, Numbered(0, [0, 0]));
        let call = ActiveCall::begin(&CallContext::new(timeout, cancel.clone()));
        call.has_exchanged.set(true);
        if cancels {
            cancel.cancel();
        }
        let ended = call.end(answer, [&pool], Some(opened(&pool, 1)));
        let count = pool.idle_for().len();
        (ended, count)
    }

    #[test]
    fn late_success_is_a_timeout_and_a_late_refusal_stays() {
        assert_eq!(end::<false>(Ok(()), LONG, false), (Ok(()), 2));
        assert_eq!(end::<false>(Ok(()), Duration::ZERO, false).0, Err(Net(NetErrorKind::Timeout, true)));
        assert_eq!(end::<false>(Err(Refused(true)), Duration::ZERO, false).0, Err(Refused(true)));
    }

    #[test]
    fn cancelled_call_keeps_its_answer_only_for_kubernetes() {
        for sent in [true, false] {
            let broken = Err(Net(NetErrorKind::Io, sent));
            assert_eq!(end::<false>(broken, LONG, true).0, Err(Net(NetErrorKind::Interrupted, sent)));
            let broken = Err(Net(NetErrorKind::Io, sent));
            assert_eq!(end::<true>(broken, LONG, true).0, Err(Net(NetErrorKind::Interrupted, sent)));
        }
        assert_eq!(end::<false>(Ok(()), LONG, true).0, Err(Net(NetErrorKind::Interrupted, true)));
        assert_eq!(end::<true>(Ok(()), LONG, true).0, Ok(()));
        assert_eq!(end::<true>(Err(Refused(true)), LONG, true).0, Err(Refused(true)));
    }

    #[test]
    fn refused_or_late_call_counts_as_sent() {
        assert_eq!(end::<false>(Err(Refused(false)), LONG, true).0, Err(Net(NetErrorKind::Interrupted, true)));
        assert_eq!(end::<false>(Ok(()), Duration::ZERO, false).0, Err(Net(NetErrorKind::Timeout, true)));
    }

    #[test]
    fn connection_is_reused_after_a_success_or_a_clean_refusal() {
        for (answer, count) in [
            (Ok(()), 2),
            (Err(Refused(true)), 2),
            (Err(Refused(false)), 1),
            (Err(Net(NetErrorKind::Io, true)), 1),
            (Err(Net(NetErrorKind::Malformed, true)), 1),
        ] {
            assert_eq!(end::<false>(answer, LONG, false).1, count);
        }
    }

    #[test]
    fn end_of_a_call_closes_connections_idle_at_its_begin() {
        assert_eq!(end::<false>(Err(Net(NetErrorKind::Timeout, true)), LONG, false).1, 0);
        assert_eq!(end::<false>(Ok(()), LONG, true).1, 0);
        assert_eq!(end::<true>(Ok(()), LONG, true).1, 0);
        let (pool, cancel) = (Pool::new(9, MAX_IDLE), CancelToken::new());
        put_idle(&pool, Numbered(0, [0, 0]));
        cancel.cancel();
        let call = ActiveCall::begin(&CallContext::new(LONG, cancel));
        let answer = call.end(Err::<(), _>(TestFailure::<false>::from(interrupted())), [&pool], None);
        assert_eq!(answer, Err(Net(NetErrorKind::Interrupted, false)));
        assert_eq!(pool.idle_for().len(), 1, "the call was over before it began");
    }

    #[test]
    fn slowly_opened_connection_is_kept_and_used_in_time() {
        let seconds = Duration::from_secs;
        for (opened_in, max_idle, answer, idle_timeout, kept_for) in [
            (10, MAX_IDLE, Ok(()), Some(None), Some(MAX_IDLE)),
            (11, MAX_IDLE, Ok(()), Some(Some(seconds(65))), Some(seconds(75))),
            (11, MAX_IDLE, Err(Refused(true)), None, Some(seconds(75))),
            (11, MAX_IDLE, Err(Refused(false)), None, None),
            (11, Duration::MAX, Ok(()), Some(None), Some(Duration::MAX)),
        ] {
            let (pool, context) = (Pool::new(9, max_idle), CallContext::new(LONG, CancelToken::new()));
            let call = ActiveCall::begin(&context);
            let _: TestOutcome = call.end(answer, [&pool], Some(opened(&pool, opened_in)));
            assert_eq!(context.idle_timeout(), idle_timeout);
            assert_eq!(pool.idle_for().first().copied(), kept_for);
        }
        // The answer arrived together with the cancellation, which closes the connection.
        let (pool, context) = (Pool::new(9, MAX_IDLE), CallContext::new(LONG, CancelToken::new()));
        let call = ActiveCall::begin(&context);
        context.cancel().cancel();
        let answer = call.end(Ok::<_, TestFailure<true>>(()), [&pool], Some(opened(&pool, 11)));
        assert_eq!((answer, context.idle_timeout()), (Ok(()), Some(Some(seconds(65)))));
    }

    /// Runs one exchange, and returns the numbers of the connections that the exchange used.
    ///
    /// The pool holds connection 1 and the more recently used connection 0. New connections have larger numbers.
    fn exchange(
        is_read: bool,
        versions: Versions,
        is_undone: bool,
        run: impl FnMut(usize) -> TestOutcome,
    ) -> Vec<usize> {
        exchange_after(None, is_read, versions, is_undone, run)
    }

    /// Runs one exchange like [`exchange`], after an exchange of the same call on the connection `before`.
    fn exchange_after(
        before: Option<usize>,
        is_read: bool,
        versions: Versions,
        is_undone: bool,
        mut run: impl FnMut(usize) -> TestOutcome,
    ) -> Vec<usize> {
        let pool = Pool::new(9, MAX_IDLE);
        for connection in [Numbered(1, [1, 1]), Numbered(0, [0, 1])] {
            put_idle(&pool, connection);
        }
        let call = ActiveCall::begin(&CallContext::new(LONG, CancelToken::new()));
        let used = std::cell::RefCell::new(Vec::new());
        let mut kept = before.map(|number| opened(&pool, number));
        let answer: TestOutcome = call.exchange(
            Exchange { pool: &pool, place: &|| "a test".to_owned(), versions, connected_by: call.deadline, is_read },
            &mut kept,
            || Ok(Numbered(2 + used.borrow().len(), versions)),
            |connection| {
                used.borrow_mut().push(connection.0);
                run(connection.0)
            },
            |_, _| is_undone,
        );
        drop(answer);
        used.into_inner()
    }

    #[test]
    fn broken_read_is_repeated_once_on_a_new_connection() {
        for kind in [NetErrorKind::Io, NetErrorKind::ConnectionClosed] {
            assert_eq!(exchange(true, [0, 0], false, |_| Err(Net(kind, true))), [0, 3], "once");
            assert_eq!(exchange(false, [0, 0], false, |_| Err(Net(kind, true))), [0]);
        }
        for kind in [NetErrorKind::Timeout, NetErrorKind::Malformed, NetErrorKind::Connect] {
            assert_eq!(exchange(true, [0, 0], false, |_| Err(Net(kind, true))), [0], "{kind:?}");
        }
        assert_eq!(exchange(true, [0, 0], false, |_| Err(Refused(true))), [0]);
    }

    #[test]
    fn write_is_repeated_only_if_the_first_copy_is_undone() {
        assert_eq!(exchange(false, [0, 0], true, |_| Err(Refused(true))), [0, 3]);
        assert_eq!(exchange(false, [0, 0], false, |_| Err(Refused(true))), [0]);
        assert_eq!(exchange(false, [0, 0], true, |_| Ok(())), [0]);
    }

    #[test]
    fn write_that_a_closed_connection_did_not_take_is_repeated() {
        let closed = |maybe_sent| Err(Net(NetErrorKind::ConnectionClosed, maybe_sent));
        assert_eq!(exchange(false, [0, 0], false, |_| closed(false)), [0, 3], "once");
        assert_eq!(exchange(false, [0, 0], false, |_| closed(true)), [0]);
        assert_eq!(exchange(false, [0, 0], false, |_| Err(Net(NetErrorKind::Connect, false))), [0]);
    }

    #[test]
    fn connection_closed_since_the_last_exchange_is_not_used() {
        assert_eq!(exchange_after(Some(7), false, [0, 0], false, |_| Ok(())), [7]);
        assert_eq!(exchange_after(Some(CLOSED), false, [0, 0], false, |_| Ok(())), [0]);
    }

    #[test]
    fn connection_with_an_older_certificate_is_not_used() {
        assert_eq!(exchange(true, [1, 0], false, |_| Ok(())), [1]);
        assert_eq!(exchange(true, [1, 1], false, |_| Ok(())), [1]);
        assert_eq!(exchange(true, [0, 2], false, |_| Ok(())), [2]);
    }
}
