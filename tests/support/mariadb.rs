//! A real MariaDB server.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use super::SOON;
use super::server::{Scratch, Server, free_port, installed, output_of};
use super::sql::{Kept, PASSWORD, SqlServer};
use crate::is_a_server;

/// A MariaDB server. For connections through the Unix socket, root needs no password.
pub struct MariaDb {
    server: Server,
    client: PathBuf,
}

pub struct Programs {
    server: PathBuf,
    install: PathBuf,
    client: PathBuf,
}

is_a_server!(MariaDb);

impl SqlServer for MariaDb {
    const NAME: &'static str = "mariadb";
    const ADMINISTRATION: &'static str = "mysql";
    const TLS: &'static [&'static str] = &["ssl_cert", "ssl_key"];
    const MARK: &'static str = "SELECT 'end of the answer';";
    type Programs = Programs;

    fn programs() -> Option<Programs> {
        let find = |program| installed(program, &["/usr/sbin".into()], "every test on a real MariaDB");
        Some(Programs { server: find("mariadbd")?, install: find("mariadb-install-db")?, client: find("mariadb")? })
    }

    fn kept() -> &'static Kept<Self> {
        static KEPT: Kept<MariaDb> = Kept::new();
        &KEPT
    }

    fn make_data(programs: &Programs, scratch: &Scratch) {
        let password =
            format!("'$.plugin', 'mysql_native_password', '$.authentication_string', PASSWORD('{PASSWORD}')");
        let with_password = format!("UPDATE mysql.global_priv SET priv = JSON_SET(priv, {password})");
        let sql = scratch.write("sql", &format!("{with_password} WHERE user = 'root' AND host <> 'localhost';\n"));
        let mut install = scratch.command(&programs.install);
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.args(["--skip-name-resolve", &format!("--{LOG_FILE_SIZE}")]);
        install.args([format!("--datadir={}", scratch.file("data")), format!("--extra-file={sql}")]);
        // Each server needs its own `tmpdir`, because a starting server removes all temporary tables in this directory.
        install.arg(format!("--tmpdir={}", scratch.file("")));
        output_of(&mut install, &[]);
    }

    fn on_data(scratch: Scratch, programs: Programs, settings: &[&str]) -> MariaDb {
        let port = free_port();
        let mut arguments = vec![programs.server.display().to_string(), "--no-defaults".to_owned()];
        arguments.extend([
            format!("--datadir={}", scratch.file("data")),
            format!("--socket={}", scratch.file(SOCKET)),
            format!("--pid-file={}", scratch.file("pid")),
            format!("--tmpdir={}", scratch.file("")),
            format!("--port={port}"),
        ]);
        let ours = [
            "bind_address=127.0.0.1",
            "skip_name_resolve=1",
            "skip_log_bin=1",
            "innodb_buffer_pool_size=16M",
            LOG_FILE_SIZE,
            "innodb_temp_data_file_path=ibtmp1:3M:autoextend",
            // Some containers forbid the system calls for native asynchronous I/O.
            "innodb_use_native_aio=0",
            // Tests need not survive a power cut, and a slow disk must not make tests flaky. With 0 instead of 2, a
            // killed server would lose its last second of writes.
            "innodb_flush_log_at_trx_commit=2",
        ];
        arguments.extend(ours.iter().chain(settings).map(|setting| format!("--{setting}")));
        let server = Server::new(&Arc::new(scratch), "log", port, arguments, |server| {
            let Ok(mut connection) = UnixStream::connect(server.scratch().file(SOCKET)) else { return false };
            connection.set_read_timeout(Some(SOON)).expect("a time-out");
            // A ready server sends the first packet.
            connection.read_exact(&mut [0]).is_ok()
        });
        let mut mariadb = MariaDb { server, client: programs.client };
        mariadb.start_again();
        mariadb
    }

    fn url(&self, user: &str, database: &str) -> String {
        format!("mysql://{user}:{PASSWORD}@127.0.0.1:{}/{database}", self.port())
    }

    fn client(&self, database: &str) -> Command {
        let mut client = self.client_in(database);
        client.args(["--unbuffered", "--user=root"]).arg(format!("--socket={}", self.socket()));
        client
    }

    fn end_connections(&self, database: &str) -> usize {
        let sql = format!("SELECT id FROM information_schema.processlist WHERE db = '{database}'");
        let connections = self.query(&sql);
        for id in connections.lines() {
            // The connection may already have ended, so the result of KILL is ignored.
            self.client("mysql").args(["-e", &format!("KILL {id}")]).output().expect("a client");
        }
        connections.lines().count()
    }
}

impl MariaDb {
    pub fn socket(&self) -> String {
        self.scratch().file(SOCKET)
    }

    fn client_in(&self, database: &str) -> Command {
        let mut client = self.scratch().command(&self.client);
        client.args(["--no-defaults", "--batch", "--raw", "--skip-column-names", &format!("--database={database}")]);
        client
    }

    pub fn set_read_only(&self, read_only: bool) {
        self.execute(&format!("SET GLOBAL read_only = {read_only}"));
    }
}

const SOCKET: &str = "socket";

/// The minimum size. The server must use the size with which its data was created.
const LOG_FILE_SIZE: &str = "innodb_log_file_size=4M";
