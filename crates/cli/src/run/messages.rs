//! The messages between supervisor and guardian, and their transport.

use std::borrow::Cow;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use signal_hook::low_level;

use super::times::Times;

/// A message from the supervisor. The guardian acknowledges each order by its number.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub number: u64,
    pub what: OrderKind,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum OrderKind {
    /// Prepares the start of a command.
    Prepare,
    /// Starts the command. The command's stdin is attached.
    Start { times: Times, valid_until: Duration, group: Option<i32>, environment: Environment },
    /// Reports that the term is valid until this time.
    Valid { until: Duration },
    /// Requests only an acknowledgement.
    Ping,
    /// Stops the command by SIGTERM.
    ///
    /// If `is_told` is `true`, the terminal has already sent a signal to end to the group of `Start`.
    Stop { is_told: bool },
    /// Kills the command at once.
    Kill,
    /// Passes a signal on to the command.
    Signal(i32),
}

/// The command's changes to the guardian's environment; `None` removes a variable.
pub type Environment = Vec<(String, Option<String>)>;

/// A message from the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub enum GuardianReport {
    /// The guardian is ready to start a command.
    Ready,
    Acknowledged(u64),
    /// The command was started, with this process ID.
    Started(i32),
    /// The command was not started. `code` is the exit code, and `error` is the cause.
    NotStarted {
        code: u8,
        error: String,
    },
    /// The command received SIGTERM because the term was not renewed.
    Terminated,
    /// The guardian kills the remaining processes. Contains their number in the first round.
    Killing(usize),
    /// The command has ended. Processes that it started may remain.
    Ended(CommandEnd),
    /// No process of the command is left.
    Gone,
    /// The guardian received a signal to end.
    AskedToStop,
}

/// The status of a command that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandEnd {
    Code(u8),
    Signal(u8),
}

impl std::fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "with code {code}"),
            Self::Signal(signal) => write!(f, "by {}", signal_name((*signal).into())),
        }
    }
}

/// Returns the name of a signal, such as `SIGTERM`.
pub fn signal_name(signal: i32) -> Cow<'static, str> {
    low_level::signal_name(signal).map_or_else(|| format!("signal {signal}").into(), Cow::from)
}

/// The longest message in bytes.
///
/// Messages are short, because they contain no text of users or programs.
const LONGEST: usize = 16 * 1024;

/// One end of the socket between the two processes.
///
/// The socket carries whole messages. [`send`](Self::send) and [`receive`](Self::receive) never block.
#[derive(Debug)]
pub struct GuardianLink(pub OwnedFd);

impl GuardianLink {
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(ours), theirs))
    }

    /// Sends a message with an optional file descriptor. Never blocks.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if the other process has not read for so long that no message fits, or the error of the
    /// system.
    pub fn send(&self, message: &impl Serialize, attached: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = attached.map(|descriptor| [descriptor]);
        if let Some(descriptors) = &descriptors {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        retry_on_intr(|| sendmsg(&self.0, &[IoSlice::new(&text)], &mut control, flags))?;
        Ok(())
    }

    /// Waits for a message. Returns `None` if the other process is gone.
    pub fn next<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        loop {
            wait_for(&mut [PollFd::new(&self.0, PollFlags::IN)], None)?;
            match self.receive() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    }

    /// Receives a message without waiting. Returns `None` if the other process is gone.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no message, or the error of the system.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let mut buffer = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = retry_on_intr(|| recvmsg(&self.0, &mut [IoSliceMut::new(&mut buffer)], &mut control, flags));
        let length = match received {
            Ok(received) if received.bytes > 0 => received.bytes,
            Ok(_) => return Ok(None),
            // The other process has ended without reading all messages.
            Err(Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let attached = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Ok(Some((serde_json::from_slice(&buffer[..length])?, attached)))
    }
}

impl AsFd for GuardianLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until a stream is ready, until `timeout`, or until a signal arrives.
pub fn wait_for(polled: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(polled, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn message_arrives_whole_with_attachment_and_end_is_noticed() {
        let (one, other) = GuardianLink::pair().expect("a pair");
        let other = GuardianLink(other);
        assert!(other.receive::<Order>().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        one.send(&Order { number: 1, what: OrderKind::Kill }, Some(writer.as_fd())).expect("it fits");
        one.send(&Order { number: 2, what: OrderKind::Stop { is_told: true } }, None).expect("it fits");
        drop(writer);
        let Ok(Some((Order { number: 1, what: OrderKind::Kill }, Some(attached)))) = other.receive() else {
            panic!("the first one")
        };
        std::fs::File::from(attached).write_all(b"through").expect("written");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "through");
        drop(one);
        assert!(matches!(other.receive(), Ok(Some((Order { number: 2, .. }, None)))), "before it ended");
        // The test waits, because a process of another test may briefly hold an inherited copy of the closed end.
        assert!(matches!(other.next::<Order>(), Ok(None)));
        let (one, other) = GuardianLink::pair().expect("a pair");
        one.send(&GuardianReport::Gone, None).expect("it fits");
        drop(other);
        assert!(matches!(one.next::<GuardianReport>(), Ok(None)), "unread messages");
    }

    #[test]
    fn absent_reader_is_noticed() {
        let (one, _other) = GuardianLink::pair().expect("a pair");
        let full =
            (0..1_000_000).find_map(|_| one.send(&GuardianReport::Gone, None).err()).expect("the socket fills up");
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }
}
