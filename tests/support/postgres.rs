//! A real PostgreSQL server and its standbys.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::server::{Scratch, Server, free_port, installed, output_of, text_of};
use super::sql::{Kept, PASSWORD, SqlServer};
use super::wait_until;
use crate::is_a_server;

/// A PostgreSQL server. Connections through the Unix socket need no password.
pub struct Postgres {
    server: Server,
    bin: PathBuf,
}

is_a_server!(Postgres);

impl SqlServer for Postgres {
    const NAME: &'static str = "postgres";
    const ADMINISTRATION: &'static str = "postgres";
    const TLS: &'static [&'static str] = &["ssl=on", "ssl_cert_file", "ssl_key_file"];
    const MARK: &'static str = "\\echo 'end of the answer'";
    /// The directory of the programs.
    type Programs = PathBuf;

    /// Finds the newest installed version.
    ///
    /// On Debian, only some of the programs are in the `PATH`.
    fn programs() -> Option<PathBuf> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut versions: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
        let number = |bin: &PathBuf| bin.parent().and_then(Path::file_name)?.to_str()?.parse::<u32>().ok();
        versions.sort_by_key(|bin| std::cmp::Reverse(number(bin)));
        let initdb = installed("initdb", &versions, "every test on a real PostgreSQL")?;
        // A symbolic link in the `PATH` must be resolved, because the other programs are beside its target.
        initdb.canonicalize().expect("a program").parent().map(Path::to_owned)
    }

    fn kept() -> &'static Kept<Self> {
        static KEPT: Kept<Postgres> = Kept::new();
        &KEPT
    }

    fn make_data(bin: &PathBuf, scratch: &Scratch) {
        let mut initdb = scratch.command(&bin.join("initdb"));
        initdb.args(["-D", "data", "-U", "postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync"]);
        initdb.args(["--encoding=UTF8", "--locale=C", "--wal-segsize=1"]);
        initdb.arg(format!("--pwfile={}", scratch.write("password", PASSWORD)));
        output_of(&mut initdb, &[]);
    }

    fn on_data(scratch: Scratch, bin: PathBuf, settings: &[&str]) -> Postgres {
        let port = free_port();
        let mut arguments = vec![bin.join("postgres").display().to_string(), "-D".to_owned(), scratch.file("data")];
        let (port_setting, socket) = (format!("port={port}"), format!("unix_socket_directories={}", scratch.file("")));
        let ours = [
            &*port_setting,
            &socket,
            "listen_addresses=127.0.0.1",
            // Tests need not survive a power cut, and a slow disk must not make tests flaky. The writes of a killed
            // server survive even without fsync.
            "fsync=off",
            "shared_buffers=16MB",
            // With this setting, shared memory is in the data directory, whose removal also frees the memory of a
            // killed server.
            "dynamic_shared_memory_type=mmap",
        ];
        for setting in ours.iter().chain(settings) {
            arguments.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        let server = Server::new(&Arc::new(scratch), "log", port, arguments, |server| {
            // The file contains the process ID and the state of the server. A killed server leaves its file behind.
            let state = std::fs::read_to_string(server.data().join("postmaster.pid")).unwrap_or_default();
            let mut lines = state.lines();
            lines.next() == Some(&server.process().to_string())
                && lines.next_back().is_some_and(|state| state.trim() == "ready")
        });
        let mut postgres = Postgres { server, bin };
        postgres.start_again();
        postgres
    }

    fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}:{PASSWORD}@127.0.0.1:{}/{database}", self.port())
    }

    fn client(&self, database: &str) -> Command {
        self.psql(&self.socket_url(database))
    }

    fn end_connections(&self, database: &str) -> usize {
        let of_others = format!("datname = '{database}' AND pid <> pg_backend_pid()");
        let sql = format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {of_others}");
        self.query(&sql).parse().expect("a number")
    }
}

impl Postgres {
    /// Returns the directory of the Unix socket. The name of the socket contains the port.
    pub fn socket_dir(&self) -> &Path {
        self.scratch().path()
    }

    /// Returns the client program for this URL. The caller adds the statement.
    pub fn psql(&self, url: &str) -> Command {
        let mut psql = self.scratch().command(&self.bin.join("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", url]);
        psql
    }

    /// Returns a database as text, as `pg_dump` writes it.
    pub fn dump(&self, database: &str) -> String {
        let mut dump = self.scratch().command(&self.bin.join("pg_dump"));
        text_of(dump.args(["-d", &self.socket_url(database)]), "")
    }

    fn socket_url(&self, database: &str) -> String {
        format!("postgres:///{database}?host={}&port={}&user=postgres", self.socket_dir().display(), self.port())
    }

    /// Changes a setting that is not among the server's arguments.
    ///
    /// The change is effective at once for new connections, and soon for open connections.
    pub fn set(&self, name: &str, value: &str) {
        self.execute(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        self.reload();
    }

    /// Replaces the rules for connections over TCP.
    ///
    /// The initial rule admits each user with the password.
    pub fn set_hba(&self, lines: &str) {
        let local = "local all all trust\nlocal replication all trust\n";
        self.scratch().write("data/pg_hba.conf", &format!("{local}{lines}\n"));
        self.reload();
    }

    fn reload(&self) {
        let loaded = || self.query("SELECT pg_conf_load_time()");
        let before = loaded();
        self.execute("SELECT pg_reload_conf()");
        wait_until("the settings are read", || loaded() != before);
    }

    /// Starts a standby, which replicates this server and answers reads.
    pub fn standby(&self, settings: &[&str]) -> Postgres {
        let scratch = Scratch::unprivileged("postgres");
        let mut copy = scratch.command(&self.bin.join("pg_basebackup"));
        copy.args(["-D", "data", "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
        copy.args(["-U", "postgres", "-p", &self.port().to_string(), "-h"]).arg(self.socket_dir());
        output_of(&mut copy, &[]);
        Postgres::on_data(scratch, self.bin.clone(), settings)
    }

    /// Waits until this standby has replayed all current writes of the primary.
    pub fn catch_up(&self, primary: &Postgres) {
        let all = primary.query("SELECT pg_current_wal_lsn()");
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{all}'");
        wait_until("the standby has it all", || self.query(&sql) == "t");
    }

    /// Makes a standby accept writes.
    pub fn promote(&self) {
        assert_eq!(self.query("SELECT pg_promote()"), "t");
    }
}
