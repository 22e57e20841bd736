//! Tests of `leasehold run` in a container, in a terminal, in a pipe and under `nohup`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::support::command::{Arena, LONG, children};
use crate::support::run::Run;
use crate::support::{SOON, skip, wait_for, wait_or_explain, wait_until};

/// Returns `leasehold run` as the first process of a PID namespace, as in a container.
fn first_of_a_namespace(arena: &Arena, flags: &[&str]) -> Option<Command> {
    if !geteuid().is_root() {
        skip("this is not root", "every test of a process that is the first", "run it as root");
        return None;
    }
    Some(arena.command_under(&["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"], flags))
}

#[test]
fn first_process_reaps_orphans_and_ends_on_sigterm() {
    let arena = Arena::on_a_file(LONG);
    let script = r#"
        echo parent $PPID
        while :; do
            cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z 1 ' | sed 's/^/zombies /'
            sleep 0.2
        done"#;
    // The orphans of the probe become children of the first process, not of the guardian.
    let probe = "--probe=sh -c '(sleep 0.05 &) ; (sleep 0.01 &) ; true'";
    let flags = [probe, "--probe-timeout=30s", "--", "sh", "-c", script];
    let Some(mut unshare) = first_of_a_namespace(&arena, &flags) else { return };
    let run = Run::of(&mut unshare);
    wait_until("it works for a while", || run.out().lines().count() > 12);
    // A few orphans may have ended so recently that the first process has not reaped them.
    let counts = run.out().lines().filter_map(|line| line.strip_prefix("zombies ")?.parse().ok()).collect::<Vec<u32>>();
    assert!(counts.iter().all(|&count| count <= 4), "{counts:?}");
    let supervisor = children(run.pid)[0];
    kill_process(supervisor, Signal::TERM).expect("it runs");
    run.ends_with(143);
    arena.assert_nothing_is_left();
}

#[test]
fn first_process_ends_with_its_command_and_its_leftovers() {
    let arena = Arena::on_a_file(LONG);
    let flags = ["--", "sh", "-c", "setsid sleep 1000 & exit 5"];
    let Some(mut unshare) = first_of_a_namespace(&arena, &flags) else { return };
    Run::of(&mut unshare).ends_with(5);
    arena.assert_nothing_is_left();
}

#[test]
fn where_proc_is_of_another_namespace_nothing_is_run() {
    if !geteuid().is_root() {
        return skip("this is not root", "the test of a namespace without its own /proc", "run it as root");
    }
    let arena = Arena::on_a_file(LONG);
    let unshare = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "\"$@\"; exit $?", "sh"];
    let ended = Run::of(&mut arena.command_under(&unshare, &["--", "echo", "works"])).end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(125), ""), "{}", ended.errors);
    assert!(ended.errors.contains("/proc belongs to another PID namespace"), "{}", ended.errors);
}

#[test]
fn after_nohup_neither_of_both_ends_by_sighup() {
    let arena = Arena::on_a_file(LONG);
    let flags = ["--", "sh", "-c", "echo $$; sleep 1000; echo no more"];
    let run = Run::of(&mut arena.command_under(&["nohup"], &flags));
    wait_until("it works", || !run.out().is_empty());
    let pid = run.out().trim().parse().ok().and_then(Pid::from_raw).expect("a number");
    for _ in 0..3 {
        run.signal(Signal::HUP);
        kill_process(pid, Signal::HUP).expect("it runs");
        thread::sleep(Duration::from_millis(50));
    }
    let ended = run.terminates_with(143);
    assert!(ended.errors.contains("ended by SIGTERM after"), "{}", ended.errors);
}

/// A program that blocks signals, and becomes the program in its arguments.
const BLOCKS_SIGNALS: &str = "
import os, signal, sys
names = 'TERM INT HUP QUIT USR1 USR2 WINCH CONT CHLD ALRM URG'
signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, 'SIG' + name) for name in names.split()])
os.execvp(sys.argv[1], sys.argv[1:])";

/// A program that shows its blocked signals, and the signals that it receives. (Some shells reset the mask.)
const SHOWS_SIGNALS: &str = "
import signal, sys, time
def term(*_):
    print('term', flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, term)
signal.signal(signal.SIGUSR1, lambda *_: print('one', flush=True))
print('ready with', sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))), flush=True)
while True:
    time.sleep(0.05)";

#[test]
fn signals_that_the_parent_has_blocked_are_handled() {
    let arena = Arena::on_a_file(LONG);
    let under = ["env", "--default-signal", "python3", "-c", BLOCKS_SIGNALS];
    let start = |flags: &[&str]| Run::of(&mut arena.command_under(&under, flags));
    let run = start(&["--", "python3", "-c", SHOWS_SIGNALS]);
    // The command keeps the blocked signals that `run` does not send: SIGALRM, SIGCHLD and SIGURG.
    run.wait_for_out("ready with [14, 17, 23]");
    run.signal(Signal::USR1);
    run.wait_for_out("one");
    let standby = start(&["--", "true"]);
    standby.wait_for_error("new leader");
    assert_eq!(standby.terminate().code, Some(143));
    run.signal(Signal::INT);
    let ended = run.ends_with(7);
    assert!(ended.out.ends_with("term\n"), "{}", ended.out);
    // The guardian is told of the end of the command, although the parent has blocked SIGCHLD.
    let began = Instant::now();
    for _ in 0..5 {
        start(&["--", "sh", "-c", "exit 3"]).ends_with(3);
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn command_in_a_pipe_ends_without_a_reader() {
    let arena = Arena::on_a_file(LONG);
    let mut supervisor =
        arena.command(&["--", "yes"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
    drop(supervisor.stdout.take());
    let ended = wait_for("it ends", || supervisor.try_wait().expect("a child of ours"));
    assert_eq!(ended.code(), Some(141), "by SIGPIPE");
    arena.assert_nothing_is_left();
}

/// A shell in its own terminal.
struct Terminal {
    name: String,
}

impl Terminal {
    fn open(arena: &Arena) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip("there is no tmux", "every test in a terminal", "`tests/run --all` installs it");
            return None;
        }
        let terminal = Self { name: arena.path("terminal").display().to_string() };
        terminal.tmux(&["new-session", "-d", "-x", "200", "-y", "50", "env PS1='ready> ' bash --norc --noprofile -i"]);
        terminal.wait_for_prompt();
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.args(["-f", "/dev/null", "-S", &self.name]).args(arguments);
        let output = tmux.env("TERM", "xterm").env_remove("TMUX").output().expect("tmux");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn type_in(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.press("Enter");
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// The name of the program that reads from the terminal.
    fn foreground(&self) -> String {
        self.tmux(&["display-message", "-p", "#{pane_current_command}"])
    }

    /// Returns all text of the terminal, including the lines that have scrolled away.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    fn wait_for(&self, text: &str) {
        let explain = || format!("{text:?} is not on the screen: {}", self.screen());
        wait_or_explain(SOON, explain, || self.screen().contains(text));
    }

    /// Waits until the shell reads a line.
    ///
    /// Earlier input can get lost while the terminal changes its mode.
    fn wait_for_prompt(&self) {
        wait_until("a prompt", || self.screen().trim_end().ends_with("ready>"));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Returns `leasehold run` with these flags as a line for a shell.
fn line(arena: &Arena, flags: &[&str]) -> String {
    let command = arena.command(flags);
    let words =
        std::iter::once(command.get_program()).chain(command.get_args()).map(|word| word.to_str().expect("text"));
    shlex::try_join(words).expect("words")
}

#[test]
fn in_a_terminal_its_keys_are_the_commands() {
    let arena = Arena::on_a_file(LONG);
    let Some(terminal) = Terminal::open(&arena) else { return };
    let script = "while read line; do echo got:$line; done; echo end of input; exit 6";
    terminal.type_in(&format!("{}; echo code=$?", line(&arena, &["--", "sh", "-c", script])));
    terminal.wait_for("command started");
    terminal.type_in("first");
    terminal.wait_for("got:first");

    // The user stops the command and continues it in the foreground. The lease is held meanwhile.
    terminal.press("C-z");
    terminal.wait_for("Stopped");
    terminal.wait_for_prompt();
    terminal.type_in("echo shell=$((6*7))");
    terminal.wait_for("shell=42");
    terminal.wait_for_prompt();
    let shell = terminal.foreground();
    terminal.type_in("fg");
    wait_until("the command is in the foreground", || terminal.foreground() != shell);
    terminal.type_in("second");
    terminal.wait_for("got:second");

    terminal.press("C-d");
    terminal.wait_for("end of input");
    terminal.wait_for_prompt();
    terminal.type_in("echo last=$?");
    terminal.wait_for("last=");
}

#[test]
fn ctrl_c_in_a_terminal_is_delivered_once() {
    let arena = Arena::on_a_file(LONG);
    let Some(terminal) = Terminal::open(&arena) else { return };
    // After the first signal, the command waits for a second one.
    let script = "trap 'echo int; got=1' INT; trap 'echo term' TERM; echo ready; while [ -z \"$got\" ]; do sleep 0.1; done; \
                  i=0; while [ $i -lt 10 ]; do sleep 0.1; i=$((i+1)); done; exit 4";
    terminal.type_in(&format!("{}; echo code=$?", line(&arena, &["--", "sh", "-c", script])));
    wait_until("it has its traps", || terminal.screen().lines().any(|line| line == "ready"));
    terminal.press("C-c");
    terminal.wait_for("code=4");
    let screen = terminal.screen();
    assert!(screen.lines().any(|line| line.ends_with("int")) && !screen.lines().any(|line| line == "term"), "{screen}");
}

/// The command stops alone, so the shell does not see a stopped job that it could continue.
#[test]
fn ctrl_c_ends_a_stopped_command_at_once() {
    let arena = Arena::on_a_file(LONG);
    let Some(terminal) = Terminal::open(&arena) else { return };
    let file = arena.path("stat");
    let script = format!("ln -s /proc/$$/stat {}; kill -STOP $$; echo continued", file.display());
    terminal.type_in(&format!("{}; echo code=$?", line(&arena, &["--stop-timeout=1h", "--", "sh", "-c", &script])));
    wait_until("the command stops", || fs::read_to_string(&file).is_ok_and(|stat| stat.contains(") T ")));
    terminal.press("C-c");
    terminal.wait_for("code=130");
}

#[test]
fn in_a_terminal_that_goes_everything_ends() {
    let arena = Arena::on_a_file(LONG);
    let Some(terminal) = Terminal::open(&arena) else { return };
    terminal.type_in(&line(&arena, &["--", "sh", "-c", "echo works; sleep 1000"]));
    terminal.wait_for("command started");
    drop(terminal);
    let other = arena.run(&["--", "echo", "next"]);
    assert_eq!(other.end().out, "next\n", "it was released");
}
