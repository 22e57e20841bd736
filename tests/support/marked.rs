//! Finds processes by an environment variable, even if their parent process has ended.

use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

/// Returns all processes whose environment contains `variable` with this value.
pub fn processes(variable: &str, value: &str) -> Vec<Pid> {
    let mark = format!("{variable}={value}");
    let is_marked = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&pid| is_marked(pid)).filter_map(Pid::from_raw).collect()
}

/// Kills all processes with this variable, including processes that start during the search.
pub fn end(variable: &str, value: &str, limit: Duration) {
    let until = Instant::now() + limit;
    loop {
        let left = processes(variable, value);
        if left.is_empty() || Instant::now() > until {
            return;
        }
        left.into_iter().for_each(|pid| _ = kill_process(pid, Signal::KILL));
        thread::sleep(Duration::from_millis(2));
    }
}
