//! The descendants of a process: all processes that a command has started.
//!
//! They are found in the kernel's lists, in any process group or session.
//!
//! A process ID is signaled as soon as it is read. Before the kernel can reuse an ID, its process must end and all
//! other IDs must have been used.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait, waitpid};

/// The depth limit of a search. Deeper processes are found after those above them have ended.
const DEEPEST: usize = 64;

/// Checks that the kernel lists children, and that `/proc` is of the own PID namespace.
///
/// In another namespace, the IDs would be those of foreign processes.
pub fn check() -> io::Result<()> {
    let ours = std::fs::read_link("/proc/self")?;
    if ours.to_str().and_then(parse) != Some(getpid()) {
        return Err(io::Error::other("/proc belongs to another PID namespace"));
    }
    own().map(drop)
}

/// Returns the children that a thread of a process has started. The main thread's children include adopted orphans.
fn children_of(pid: Pid, task: Pid) -> io::Result<Vec<Pid>> {
    let list = format!("/proc/{}/task/{}/children", pid.as_raw_nonzero(), task.as_raw_nonzero());
    Ok(std::fs::read_to_string(list)?.split_whitespace().filter_map(parse).collect())
}

fn parse(number: &str) -> Option<Pid> {
    number.parse().ok().and_then(Pid::from_raw)
}

/// Returns the children of this process's main thread: started ones and adopted ones.
///
/// # Errors
///
/// Returns an error if the children are unknown, never because there is none.
pub fn own() -> io::Result<Vec<Pid>> {
    children_of(getpid(), getpid())
}

fn children(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let tasks = tasks.into_iter().flatten().flatten();
    let tasks = tasks.filter_map(|task| parse(task.file_name().to_str()?));
    // A process that has ended has no children.
    tasks.flat_map(|task| children_of(pid, task).unwrap_or_default()).collect()
}

/// Calls `visit` with each of `roots` and all their descendants, parents first.
fn walk(roots: &[Pid], depth: usize, visit: &mut impl FnMut(Pid)) {
    for &pid in roots {
        // A killed process has no children: they were adopted.
        let below = if depth < DEEPEST { children(pid) } else { Vec::new() };
        visit(pid);
        walk(&below, depth + 1, visit);
    }
}

/// Sends SIGTERM and SIGCONT to `roots` and all their descendants.
///
/// SIGTERM is sent once per process. SIGCONT is needed because a stopped process handles no signal.
pub fn terminate(roots: &[Pid], are_told: bool) {
    let signals: &[Signal] = if are_told { &[Signal::CONT] } else { &[Signal::TERM, Signal::CONT] };
    walk(roots, 0, &mut |pid| signals.iter().for_each(|signal| _ = kill_process(pid, *signal)));
}

/// Kills `roots` and all their descendants, and returns their number.
///
/// The next call finds processes that start in the meantime.
pub fn kill(roots: &[Pid]) -> usize {
    let mut count = 0;
    walk(roots, 0, &mut |pid| {
        let _ = kill_process(pid, Signal::KILL);
        count += 1;
    });
    count
}

/// Kills all descendants of `pid`, but not `pid` itself.
pub fn kill_below(pid: Pid) {
    kill(&children(pid));
}

/// Reaps each child of this process that has ended.
///
/// Returns `false` if there is no child left.
///
/// No other code in this process may wait for children.
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

/// Reaps those of `adopted` that have ended.
///
/// Other code in the process waits for its own children.
pub fn reap(adopted: &[Pid]) {
    for &pid in adopted {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
