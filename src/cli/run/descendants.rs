//! Processes below this one, by what the kernel lists: all that a command has started, also what has left its group and session.
//!
//! A number is signalled as soon as it is read. For it to be another process's by then, its own would have to end, and all other
//! numbers to be given meanwhile.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait, waitpid};

/// Deeper than that nothing is followed at once: what is below is found when what is above has ended.
const DEEPEST: usize = 64;

/// Whether the kernel lists children, without which nothing here is found, and whether `/proc` is of the namespace that this process's
/// number is of: else others' processes would be found by it.
pub fn check() -> io::Result<()> {
    let ours = std::fs::read_link("/proc/self")?;
    if ours.to_str().and_then(parse) != Some(getpid()) {
        return Err(io::Error::other("it is of another PID namespace"));
    }
    own().map(drop)
}

/// The children that a thread of a process has started; of its main thread also those that it has adopted.
fn children_of(pid: Pid, task: Pid) -> io::Result<Vec<Pid>> {
    let list = format!("/proc/{}/task/{}/children", pid.as_raw_nonzero(), task.as_raw_nonzero());
    Ok(std::fs::read_to_string(list)?.split_whitespace().filter_map(parse).collect())
}

fn parse(number: &str) -> Option<Pid> {
    number.parse().ok().and_then(Pid::from_raw)
}

/// The children of this process's main thread: those that it has adopted, and those that it has started.
///
/// # Errors
///
/// When that cannot be known: not that there is none.
pub fn own() -> io::Result<Vec<Pid>> {
    children_of(getpid(), getpid())
}

fn children(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let tasks = tasks.into_iter().flatten().flatten();
    let tasks = tasks.filter_map(|task| parse(task.file_name().to_str()?));
    // Who has ended has none.
    tasks.flat_map(|task| children_of(pid, task).unwrap_or_default()).collect()
}

/// Calls `visit` with each of `roots` and all below, those above first.
fn walk(roots: &[Pid], depth: usize, visit: &mut impl FnMut(Pid)) {
    for &pid in roots {
        // Who is ended has no children any more: they are adopted.
        let below = if depth < DEEPEST { children(pid) } else { Vec::new() };
        visit(pid);
        walk(&below, depth + 1, visit);
    }
}

/// Sends SIGTERM to `roots` and all below, unless they were told to end already, and SIGCONT: a stopped process takes no signal.
pub fn terminate(roots: &[Pid], are_told: bool) {
    let signals: &[Signal] = if are_told { &[Signal::CONT] } else { &[Signal::TERM, Signal::CONT] };
    walk(roots, 0, &mut |pid| signals.iter().for_each(|signal| _ = kill_process(pid, *signal)));
}

/// Ends `roots` and all below, and says how many those are. What they start meanwhile is found the next time.
pub fn kill(roots: &[Pid]) -> usize {
    let mut count = 0;
    walk(roots, 0, &mut |pid| {
        let _ = kill_process(pid, Signal::KILL);
        count += 1;
    });
    count
}

/// Ends all that is below `pid`, but not that itself.
pub fn kill_below(pid: Pid) {
    kill(&children(pid));
}

/// Takes note of each child of this process that has ended. False when there is no child left.
///
/// Nothing else in this process may wait for children.
pub fn reap_all(mut ended: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid, status),
            Ok(None) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Takes note of those of `adopted` that have ended, beside others in this process who wait for children of theirs.
pub fn reap(adopted: &[Pid]) {
    for &pid in adopted {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
