//! The request thread of an elector, which sends one request at a time.

use std::io;

use crate::election::candidate::messages::Input;
use crate::election::{Operation, StoreRequest, StoreResponse};
use crate::leadership::handle::{Command, Link, as_runtime};
use crate::runtime::STACK_SIZE;
use crate::store::CallContext;
use crate::store::entry::Entry;
use crate::store::record::unix_micros;
use crate::util::cancel::CancelToken;
use crate::util::clock;
use crate::util::sync::channel::{self, Receiver, Sender};
use crate::util::sync::{Arc, thread};

/// The handle to a request thread. Dropping the handle ends the thread after its request.
pub(super) struct RequestThread(Sender<(StoreRequest, CancelToken)>);

struct Requests {
    entry: Entry,
    link: Arc<Link>,
    queue: Receiver<(StoreRequest, CancelToken)>,
}

impl RequestThread {
    pub(super) fn spawn(entry: Entry, link: Arc<Link>) -> io::Result<Self> {
        let (sender, queue) = channel::bounded(1);
        let requests = Requests { entry, link, queue };
        thread::Builder::new().name("leasehold-store".into()).stack_size(STACK_SIZE).spawn(move || requests.run())?;
        Ok(Self(sender))
    }

    /// Sends a request, whose answer arrives as [`Command::Answered`].
    pub(super) fn send(&self, request: StoreRequest, cancel: CancelToken) {
        // No other request is under way, so the channel has room.
        let _ = self.0.try_send((request, cancel));
    }
}

impl Requests {
    fn run(self) {
        let _as_runtime = as_runtime();
        // Dropped before the mark of this thread, because the store may drop a guard.
        let requests = self;
        while let Ok((request, cancel)) = requests.queue.recv() {
            requests.link.send(requests.answer(request, cancel));
        }
    }

    fn answer(&self, request: StoreRequest, cancel: CancelToken) -> Command {
        let StoreRequest { id, operation, notes, timeout } = request;
        let call = CallContext::new(timeout, cancel);
        let (kind, began) = (operation.kind(), clock::now());
        let response = match operation {
            Operation::Get(context) => self.entry.get(&call).map(|found| StoreResponse::Read(context, found)),
            Operation::Create(record) => {
                self.entry.create(record.with_notes(&notes), &call).map(StoreResponse::Written)
            }
            Operation::Update(base, record) => {
                self.entry.update(&base, record.with_notes(&notes), &call).map(StoreResponse::Written)
            }
        };
        Command::Answered {
            id,
            operation: kind,
            took: clock::now().since(began),
            idle_timeout: call.idle_timeout().map(Input::IdleTimeout),
            store_time: call.store_time().map(unix_micros),
            response: response.unwrap_or_else(StoreResponse::Failed),
        }
    }
}

impl Drop for Requests {
    /// Reports a panic of the store.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.link.send(Command::RequestThreadPanicked);
        }
    }
}
