//! The descendants of a process: all processes that a command has started.
//!
//! The kernel's lists of children contain the descendants in all process groups and sessions.
//!
//! A process is signaled as soon as its ID is read, so that the ID still belongs to the process. The kernel reuses an
//! ID only after its process has ended and all other IDs have been used.

use std::io;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpgid, getpid, kill_process, wait, waitpid};

/// The depth limit of a search.
///
/// A later search finds deeper processes after their ancestors have ended.
const DEEPEST: usize = 64;

/// Checks that the kernel lists children, and that `/proc` shows the own PID namespace.
///
/// In another namespace, the IDs would belong to foreign processes.
pub fn check() -> io::Result<()> {
    let ours = std::fs::read_link("/proc/self")?;
    if ours.to_str().and_then(parse) != Some(getpid()) {
        return Err(io::Error::other("/proc belongs to another PID namespace"));
    }
    own().map(drop)
}

/// Returns the children that the thread `task` of a process has started.
///
/// The children of the main thread include the orphans that the process has adopted.
fn children_of(pid: Pid, task: Pid) -> io::Result<Vec<Pid>> {
    let list = format!("/proc/{}/task/{}/children", pid.as_raw_nonzero(), task.as_raw_nonzero());
    Ok(std::fs::read_to_string(list)?.split_whitespace().filter_map(parse).collect())
}

fn parse(number: &str) -> Option<Pid> {
    number.parse().ok().and_then(Pid::from_raw)
}

/// Returns the children of this process's main thread, including adopted orphans.
///
/// # Errors
///
/// Returns an error if the list of children cannot be read. An empty list is not an error.
pub fn own() -> io::Result<Vec<Pid>> {
    children_of(getpid(), getpid())
}

pub fn children(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let tasks = tasks.into_iter().flatten().flatten();
    let tasks = tasks.filter_map(|task| parse(task.file_name().to_str()?));
    // If the list cannot be read, the process has ended and has no children.
    tasks.flat_map(|task| children_of(pid, task).unwrap_or_default()).collect()
}

/// Calls `visit` with each of `roots` and all their descendants, parents first.
fn walk(roots: &[Pid], depth: usize, visit: &mut impl FnMut(Pid)) {
    for &pid in roots {
        // The children are listed first, because another process adopts them as soon as `visit` kills their parent.
        let below = if depth < DEEPEST { children(pid) } else { Vec::new() };
        visit(pid);
        walk(&below, depth + 1, visit);
    }
}

/// Sends SIGTERM and SIGCONT to `roots` and all their descendants.
///
/// The processes of `told_group` have already received a signal to end, so SIGTERM is not sent to them. SIGCONT is
/// needed because a stopped process handles no signal.
pub fn terminate(roots: &[Pid], told_group: Option<Pid>) {
    walk(roots, 0, &mut |pid| {
        if told_group.is_none() || getpgid(Some(pid)).ok() != told_group {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = kill_process(pid, Signal::CONT);
    });
}

/// Kills `roots` and all their descendants, and returns the number of killed processes.
///
/// A process that starts during the call may survive. The next call kills such a process.
pub fn kill(roots: &[Pid]) -> usize {
    let mut count = 0;
    walk(roots, 0, &mut |pid| {
        let _ = kill_process(pid, Signal::KILL);
        count += 1;
    });
    count
}

/// Reaps each child of this process that has ended.
///
/// Returns `false` if there is no child left.
///
/// No other code in this process may wait for children.
pub fn reap_all(mut ended: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match retry_on_intr(|| wait(WaitOptions::NOHANG)) {
            Ok(Some((pid, status))) => ended(pid, status),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Reaps the processes in `adopted` that have ended.
///
/// All other children are left to the code that has started them.
pub fn reap(adopted: &[Pid]) {
    for &pid in adopted {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn child_of_a_parent_that_ends_at_once_is_visited() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo $!; wait"]).stdout(Stdio::piped());
        let (mut shell, mut child) = (command.spawn().unwrap(), String::new());
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut child).unwrap();
        let (parent, mut visited) = (Pid::from_child(&shell), Vec::new());
        walk(&[parent], 0, &mut |pid| {
            kill_process(pid, Signal::KILL).unwrap();
            // After this, the parent has no children.
            drop(shell.wait());
            visited.push(pid);
        });
        assert_eq!(visited, [parent, parse(child.trim()).unwrap()]);
    }
}
