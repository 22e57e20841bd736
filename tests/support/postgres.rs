//! A real PostgreSQL, and standbys of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::server::{Scratch, Server, free_port, installed, output_of};
use super::session::Session;
use super::wait_until;

/// That of every user, over TCP. Through the socket anybody is who he says.
pub const PASSWORD: &str = "password-of-postgres-1";

/// A server, which ends with this, and with the test process, however that ends.
pub struct Postgres {
    server: Server,
    port: u16,
    bin: PathBuf,
    scratch: Scratch,
}

impl Postgres {
    /// The one that a test binary's tests share, each in a database of its own. `None`, said aloud, where it is not installed.
    pub fn shared() -> Option<&'static Postgres> {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        let bin = bin()?;
        Some(SHARED.get_or_init(|| Postgres::on_data(new_cluster(&bin), bin, &[])))
    }

    /// One of a test's own, with settings like `max_connections=10`.
    pub fn start(settings: &[&str]) -> Option<Postgres> {
        bin().map(|bin| Postgres::on_data(new_cluster(&bin), bin, settings))
    }

    /// One that speaks TLS to who wants it.
    pub fn start_with_tls(certificate_pem: &str, key_pem: &str, settings: &[&str]) -> Option<Postgres> {
        let bin = bin()?;
        let scratch = new_cluster(&bin);
        let certificate = format!("ssl_cert_file={}", scratch.write("server.crt", certificate_pem));
        let key = format!("ssl_key_file={}", scratch.write("server.key", key_pem));
        let settings = [&["ssl=on", &*certificate, &*key], settings].concat();
        Some(Postgres::on_data(scratch, bin, &settings))
    }

    fn on_data(scratch: Scratch, bin: PathBuf, settings: &[&str]) -> Postgres {
        let port = free_port();
        let mut arguments = vec![bin.join("postgres").display().to_string(), "-D".to_owned(), scratch.file("data")];
        let (port_setting, socket) = (format!("port={port}"), format!("unix_socket_directories={}", scratch.file("")));
        let ours = [
            &*port_setting,
            &socket,
            "listen_addresses=127.0.0.1",
            // Tests outlive no power cut, and a slow disk must not make them flaky. What a killed server wrote is there.
            "fsync=off",
            "shared_buffers=16MB",
            // Shared memory of a killed server goes with its directory.
            "dynamic_shared_memory_type=mmap",
        ];
        for setting in ours.iter().chain(settings) {
            arguments.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        let server = Server::new(&scratch, "log", arguments);
        let mut postgres = Postgres { server, port, bin, scratch };
        postgres.start_again();
        postgres
    }

    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where its Unix socket is, named after the port.
    pub fn socket_dir(&self) -> &Path {
        self.scratch.path()
    }

    /// A new database, for a test of its own.
    pub fn database(&self, name: &str) -> String {
        self.execute(&format!("CREATE DATABASE {name}"));
        name.to_owned()
    }

    /// A user who may log in, and no more.
    pub fn add_user(&self, name: &str) {
        self.execute(&format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'"));
    }

    /// As the superuser.
    pub fn execute(&self, sql: &str) {
        self.query(sql);
    }

    /// As the superuser: rows on lines, columns between bars.
    pub fn query(&self, sql: &str) -> String {
        self.query_in("postgres", sql)
    }

    pub fn execute_in(&self, database: &str, sql: &str) {
        self.query_in(database, sql);
    }

    pub fn query_in(&self, database: &str, sql: &str) -> String {
        let output = output_of(self.psql(&self.socket_url(database)).args(["-f", "-"]), sql.as_bytes());
        String::from_utf8(output).expect("text").trim_end_matches('\n').to_owned()
    }

    /// A connection of the superuser that stays open.
    pub fn session(&self, database: &str) -> Session {
        Session::of_psql(&mut self.psql(&self.socket_url(database)))
    }

    /// The operator's program at this URL, with no statement yet.
    pub fn psql(&self, url: &str) -> Command {
        let mut psql = self.scratch.command(&self.bin.join("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", url]);
        psql
    }

    /// A database as text, as `pg_dump` writes it.
    pub fn dump(&self, database: &str) -> String {
        let output =
            output_of(self.scratch.command(&self.bin.join("pg_dump")).args(["-d", &self.socket_url(database)]), b"");
        String::from_utf8(output).expect("text")
    }

    fn socket_url(&self, database: &str) -> String {
        format!("postgres:///{database}?host={}&port={}&user=postgres", self.socket_dir().display(), self.port)
    }

    /// Ends the connections to a database, and says how many.
    pub fn terminate_backends(&self, database: &str) -> usize {
        let of_others = format!("datname = '{database}' AND pid <> pg_backend_pid()");
        let sql = format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {of_others}");
        self.query(&sql).parse().expect("a number")
    }

    /// Changes a setting, but none that it was started with: at once for new connections, and soon for all.
    pub fn set(&self, name: &str, value: &str) {
        self.execute(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        self.reload();
    }

    /// Who may connect over TCP from now on, and how, in place of anybody with his password.
    pub fn set_hba(&self, lines: &str) {
        let local = "local all all trust\nlocal replication all trust\n";
        self.scratch.write("data/pg_hba.conf", &format!("{local}{lines}\n"));
        self.reload();
    }

    fn reload(&self) {
        let loaded = || self.query("SELECT pg_conf_load_time()");
        let before = loaded();
        self.execute("SELECT pg_reload_conf()");
        wait_until("the settings are read", || loaded() != before);
    }

    /// The directory of its data.
    pub fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// That of its first process.
    pub fn process(&self) -> u32 {
        self.server.process()
    }

    pub fn log(&self) -> String {
        self.server.log()
    }

    /// Ends all its processes without a chance to do anything about it.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts one that was killed, on its data.
    pub fn start_again(&mut self) {
        self.server.launch();
        let server = self.server.process().to_string();
        self.server.wait_until_ready(|| {
            // The file says who serves, and how far he is; that of one who was killed may lie there still.
            let state = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            let mut lines = state.lines();
            lines.next() == Some(&server) && lines.next_back().is_some_and(|state| state.trim() == "ready")
        });
    }

    /// Stops all its processes: connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.server.pause();
    }

    pub fn resume(&self) {
        self.server.resume();
    }

    /// A server that follows this one, and answers reads.
    pub fn standby(&self, settings: &[&str]) -> Postgres {
        let scratch = Scratch::unprivileged("postgres");
        let mut copy = scratch.command(&self.bin.join("pg_basebackup"));
        copy.args(["-D", "data", "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
        copy.args(["-U", "postgres", "-p", &self.port.to_string(), "-h"]).arg(self.socket_dir());
        output_of(&mut copy, &[]);
        Postgres::on_data(scratch, self.bin.clone(), settings)
    }

    /// Waits until it has all that the primary has.
    pub fn catch_up(&self, primary: &Postgres) {
        let all = primary.query("SELECT pg_current_wal_lsn()");
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{all}'");
        wait_until("the standby has it all", || self.query(&sql) == "t");
    }

    /// Makes a standby take writes.
    pub fn promote(&self) {
        assert_eq!(self.query("SELECT pg_promote()"), "t");
    }
}

/// The directory of the newest that is installed: Debian has only some of the programs on the `PATH`.
fn bin() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    let number = |bin: &PathBuf| bin.parent().and_then(Path::file_name)?.to_str()?.parse::<u32>().ok();
    versions.sort_by_key(|bin| std::cmp::Reverse(number(bin)));
    let initdb = installed("initdb", &versions, "every test on a real PostgreSQL")?;
    // A link on the path has no other programs beside it.
    initdb.canonicalize().expect("a program").parent().map(Path::to_owned)
}

/// The data of a new cluster. To make them takes ten times as long as to copy them.
fn new_cluster(bin: &Path) -> Scratch {
    static PACKED: OnceLock<Vec<u8>> = OnceLock::new();
    let packed = PACKED.get_or_init(|| {
        let scratch = Scratch::unprivileged("postgres-data");
        let mut initdb = scratch.command(&bin.join("initdb"));
        initdb.args(["-D", "data", "-U", "postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync"]);
        initdb.args(["--encoding=UTF8", "--locale=C", "--wal-segsize=1"]);
        initdb.arg(format!("--pwfile={}", scratch.write("password", PASSWORD)));
        output_of(&mut initdb, &[]);
        scratch.pack("data")
    });
    let scratch = Scratch::unprivileged("postgres");
    scratch.unpack(packed);
    scratch
}
