//! A connection of an operator that stays open, for transactions that hold a lock.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running client program.
///
/// The program ends when this value is dropped, and at the end of its input.
pub struct Session {
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    mark: &'static str,
}

/// The line that the client prints after the rows of a statement.
const END: &str = "end of the answer";

impl Session {
    /// Starts a client. `mark` is a statement that makes the client print [`END`].
    pub fn new(command: &mut Command, mark: &'static str) -> Session {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut client = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = client.stdin.take().expect("piped");
        let output = BufReader::new(client.stdout.take().expect("piped"));
        Session { client, input, output, mark }
    }

    pub fn execute(&mut self, sql: &str) {
        self.query(sql);
    }

    /// Runs a statement that ends with a semicolon. Returns each row on a line.
    pub fn query(&mut self, sql: &str) -> String {
        writeln!(self.input, "{sql}\n{}", self.mark).expect("a client that reads");
        let mut answer = String::new();
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("text");
            assert!(read > 0, "the client ended: {sql}");
            if line.trim_end() == END {
                return answer.trim_end_matches('\n').to_owned();
            }
            answer.push_str(&line);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}
