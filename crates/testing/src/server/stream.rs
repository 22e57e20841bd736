//! The stream of a watch: one JSON event per line, each flushed at once.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use serde_json::{Value, json};

use crate::fault::kind::Action;
use crate::fault::rules::Hit;
use crate::object::resource::Api;
use crate::server::connection::ServedConnection;
use crate::server::handlers::StreamedWatch;
use crate::server::log::RequestLog;
use crate::store::history::WatchMessage;
use crate::wire::http::{chunk, chunked_head};

use crate::object::validate;
use crate::wire::transport::Disconnected;

/// The interval at which a quiet stream checks that its client is still connected.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// The maximum number of messages that a stream takes from its mailbox before it sends them. Further messages stay in
/// the mailbox and count towards the limit of the mailbox.
const QUEUE_LIMIT: usize = 1000;
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

struct WatchStream<'a> {
    connection: &'a mut ServedConnection,
    api: &'static Api,
    facts: &'a RequestLog,
    bookmarks: bool,
    /// Messages that are not sent yet, with their times of arrival.
    queue: VecDeque<(Instant, WatchMessage)>,
    /// The number of sent events.
    sent: u64,
    /// The decision of each watch fault for this stream. A fault decides once per stream.
    decided: HashMap<u64, Option<Hit>>,
    /// The number of event bytes that may still be sent. `None` means no limit.
    budget: Option<usize>,
}

/// The current effect of the watch faults on the stream.
#[derive(Default)]
struct Orders {
    stalled: bool,
    close: bool,
    cut: bool,
    delay: Duration,
    bytes: Vec<Vec<u8>>,
}

/// Streams events until the watch ends. Returns `Ok` if the connection can be used again.
pub(crate) fn stream(
    connection: &mut ServedConnection,
    watch: StreamedWatch,
    facts: &RequestLog,
    truncate: Option<usize>,
) -> Result<(), Disconnected> {
    let deadline = watch.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    connection.transport.write(&chunked_head(200, watch.api.deprecation))?;
    let mut stream = WatchStream {
        connection,
        api: watch.api,
        facts,
        bookmarks: watch.bookmarks,
        queue: VecDeque::new(),
        sent: 0,
        decided: HashMap::new(),
        budget: truncate,
    };
    match watch.opening {
        Err(status) => {
            stream.send_event("ERROR", &status.to_json())?;
            stream.finish()
        }
        Ok(subscription) => {
            let now = Instant::now();
            let backlog = subscription.backlog.into_iter().map(WatchMessage::Change);
            stream.queue.extend(backlog.map(|message| (now, message)));
            stream.run(subscription.id, &subscription.messages, deadline)
        }
    }
}

impl WatchStream<'_> {
    fn run(mut self, id: u64, mailbox: &Receiver<WatchMessage>, deadline: Option<Instant>) -> Result<(), Disconnected> {
        let server = self.connection.server.clone();
        let mut next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
        let mut ended = false;
        loop {
            self.connection.check()?;
            self.connection.wait_while_paused()?;
            let orders = self.consult_faults();
            if orders.cut {
                return Err(Disconnected);
            }
            for bytes in &orders.bytes {
                self.send(bytes)?;
            }
            if orders.close {
                return self.finish();
            }
            let now = Instant::now();
            let mut wake = now + LOOK_AGAIN;
            if !orders.stalled {
                // Only one message is sent here, because the faults are evaluated again before each message.
                match self.queue.pop_front() {
                    Some((arrived, message)) if due(arrived, orders.delay) <= now => {
                        self.deliver(&message)?;
                        continue;
                    }
                    Some((arrived, message)) => {
                        wake = wake.min(due(arrived, orders.delay));
                        self.queue.push_front((arrived, message));
                    }
                    None if ended => return self.finish(),
                    None => {}
                }
                if deadline.is_some_and(|deadline| deadline <= now) {
                    return self.finish();
                }
                if next_bookmark <= now {
                    server.store.lock().bookmark(Some(id));
                    next_bookmark = now + BOOKMARK_INTERVAL;
                }
                wake = deadline.map_or(wake, |deadline| wake.min(deadline));
            }
            if ended || self.queue.len() >= QUEUE_LIMIT {
                // No more messages are taken until queued messages are sent.
                self.connection.hold_client(Some(wake), || false)?;
                continue;
            }
            match mailbox.recv_deadline(wake) {
                Ok(message) => self.queue.push_back((Instant::now(), message)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => ended = true,
            }
            let room = QUEUE_LIMIT.saturating_sub(self.queue.len());
            let more = mailbox.try_iter().take(room);
            self.queue.extend(more.map(|message| (Instant::now(), message)));
        }
    }

    fn deliver(&mut self, message: &WatchMessage) -> Result<(), Disconnected> {
        match message {
            WatchMessage::Change(change) => self.send_event(change.kind, &validate::present(self.api, &change.object)),
            WatchMessage::Bookmark(revision) if self.bookmarks => {
                let bookmark = json!({
                    "kind": self.api.kind,
                    "apiVersion": self.api.api_version(),
                    "metadata": {"resourceVersion": revision.to_string()},
                });
                self.send_event("BOOKMARK", &bookmark)
            }
            WatchMessage::Bookmark(_) | WatchMessage::Wake => Ok(()),
        }
    }

    fn send_event(&mut self, kind: &str, object: &Value) -> Result<(), Disconnected> {
        // The line is formatted by hand, because clients expect `type` before `object`.
        let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        self.send(line.as_bytes())?;
        self.sent += 1;
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Disconnected> {
        if bytes.is_empty() {
            return Ok(());
        }
        let whole = chunk(bytes);
        if let Some(budget) = &mut self.budget {
            if *budget < bytes.len() {
                let overhead = whole.len() - bytes.len() - "\r\n".len();
                let part = &whole[..overhead + *budget];
                self.connection.transport.write(part)?;
                return Err(Disconnected);
            }
            *budget -= bytes.len();
        }
        self.connection.transport.write(&whole)
    }

    fn finish(self) -> Result<(), Disconnected> {
        self.connection.transport.write(&chunk(&[]))
    }

    fn consult_faults(&mut self) -> Orders {
        let mut orders = Orders::default();
        let server = self.connection.server.clone();
        for rule in server.rules.matching(self.facts, true) {
            if self.sent < rule.fault.matcher.after_events {
                continue;
            }
            let first_look = !self.decided.contains_key(&rule.id);
            let hit = self.decided.entry(rule.id).or_insert_with(|| rule.decide());
            let Some(hit) = hit else { continue };
            if first_look {
                server.signal.notify();
            }
            match hit.action() {
                Action::StallWatch => orders.stalled |= hit.holds(),
                Action::CloseWatch => orders.close = true,
                Action::CutWatch => orders.cut = true,
                Action::WatchBytes(bytes) if first_look => orders.bytes.push(bytes.clone()),
                Action::DelayEvents(time) => orders.delay = orders.delay.saturating_add(*time),
                _ => {}
            }
        }
        orders
    }
}

fn due(arrived: Instant, delay: Duration) -> Instant {
    // A delay beyond the range of the clock is replaced by a year.
    arrived.checked_add(delay).unwrap_or(arrived + Duration::from_secs(365 * 24 * 3600))
}
