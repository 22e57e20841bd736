//! A real MariaDB.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::SOON;
use super::server::{Scratch, Server, free_port, installed, output_of};
use super::session::Session;

/// That of every user, over TCP. Through the socket root needs none.
pub const PASSWORD: &str = "password-of-mariadb-1";

/// A server, which ends with this, and with the test process, however that ends.
pub struct MariaDb {
    server: Server,
    port: u16,
    client: PathBuf,
    scratch: Scratch,
}

struct Programs {
    server: PathBuf,
    install: PathBuf,
    client: PathBuf,
}

impl MariaDb {
    /// The one that a test binary's tests share, each in a database of its own. `None`, said aloud, where it is not installed.
    pub fn shared() -> Option<&'static MariaDb> {
        static SHARED: OnceLock<MariaDb> = OnceLock::new();
        let programs = programs()?;
        Some(SHARED.get_or_init(|| MariaDb::on_data(new_data(&programs), programs, &[])))
    }

    /// One of a test's own, with settings like `max_connections=10`.
    pub fn start(settings: &[&str]) -> Option<MariaDb> {
        programs().map(|programs| MariaDb::on_data(new_data(&programs), programs, settings))
    }

    /// One that speaks TLS to who wants it.
    pub fn start_with_tls(certificate_pem: &str, key_pem: &str, settings: &[&str]) -> Option<MariaDb> {
        let programs = programs()?;
        let scratch = new_data(&programs);
        let certificate = format!("ssl_cert={}", scratch.write("server.crt", certificate_pem));
        let key = format!("ssl_key={}", scratch.write("server.key", key_pem));
        let settings = [&[&*certificate, &*key], settings].concat();
        Some(MariaDb::on_data(scratch, programs, &settings))
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
            // Not every container has the system calls for it.
            "innodb_use_native_aio=0",
            // Tests outlive no power cut, and a slow disk must not make them flaky. With 0 a killed server loses a second.
            "innodb_flush_log_at_trx_commit=2",
        ];
        arguments.extend(ours.iter().chain(settings).map(|setting| format!("--{setting}")));
        let server = Server::new(&scratch, "log", arguments);
        let mut mariadb = MariaDb { server, port, client: programs.client, scratch };
        mariadb.start_again();
        mariadb
    }

    pub fn url(&self, user: &str, database: &str) -> String {
        format!("mysql://{user}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn socket(&self) -> PathBuf {
        self.scratch.path().join(SOCKET)
    }

    /// A new database, for a test of its own.
    pub fn database(&self, name: &str) -> String {
        self.execute(&format!("CREATE DATABASE {name}"));
        name.to_owned()
    }

    /// A user who may do all in one database, and nothing elsewhere: unlike root he is bound by `read_only`.
    pub fn add_user(&self, name: &str, database: &str) {
        self.execute(&format!(
            "CREATE USER {name}@'%' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON {database}.* TO {name}@'%';"
        ));
    }

    /// As root.
    pub fn execute(&self, sql: &str) {
        self.query(sql);
    }

    /// As root: rows on lines, columns between tabs.
    pub fn query(&self, sql: &str) -> String {
        self.query_in("mysql", sql)
    }

    pub fn execute_in(&self, database: &str, sql: &str) {
        self.query_in(database, sql);
    }

    pub fn query_in(&self, database: &str, sql: &str) -> String {
        let output = output_of(&mut self.client(database), sql.as_bytes());
        String::from_utf8(output).expect("text").trim_end_matches('\n').to_owned()
    }

    /// A connection of root that stays open.
    pub fn session(&self, database: &str) -> Session {
        Session::of_mariadb(&mut self.client(database))
    }

    /// The operator's program at this server's port, with no statement yet.
    pub fn client_as(&self, user: &str, password: &str, database: &str) -> Command {
        let mut client = self.scratch.command(&self.client);
        client.args(["--no-defaults", "--batch", "--raw", "--skip-column-names", "--host=127.0.0.1"]);
        client.args([format!("--port={}", self.port), format!("--user={user}"), format!("--password={password}")]);
        client.arg(format!("--database={database}"));
        client
    }

    fn client(&self, database: &str) -> Command {
        let mut client = self.scratch.command(&self.client);
        client.args(["--no-defaults", "--batch", "--raw", "--skip-column-names", "--user=root"]);
        client.args([format!("--socket={}", self.socket().display()), format!("--database={database}")]);
        client
    }

    /// Ends the connections to a database, and says how many.
    pub fn kill_connections(&self, database: &str) -> usize {
        let sql = format!("SELECT id FROM information_schema.processlist WHERE db = '{database}'");
        let connections = self.query(&sql);
        for id in connections.lines() {
            // One that has ended by itself is not there to be ended.
            self.client("mysql").args(["-e", &format!("KILL {id}")]).output().expect("a client");
        }
        connections.lines().count()
    }

    pub fn set_read_only(&self, read_only: bool) {
        self.execute(&format!("SET GLOBAL read_only = {read_only}"));
    }

    /// The directory of its data.
    pub fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// That of its process.
    pub fn process(&self) -> u32 {
        self.server.process()
    }

    pub fn log(&self) -> String {
        self.server.log()
    }

    /// Ends it without a chance to do anything about it.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts one that was killed, on its data.
    pub fn start_again(&mut self) {
        self.server.launch();
        self.server.wait_until_ready(|| {
            let Ok(mut connection) = UnixStream::connect(self.socket()) else { return false };
            connection.set_read_timeout(Some(SOON)).expect("a time-out");
            // It speaks first, when it is ready.
            connection.read_exact(&mut [0]).is_ok()
        });
    }

    /// Connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.server.pause();
    }

    pub fn resume(&self) {
        self.server.resume();
    }
}

const SOCKET: &str = "socket";

/// The least. Data are written with it and read with it.
const LOG_FILE_SIZE: &str = "innodb_log_file_size=4M";

fn programs() -> Option<Programs> {
    let find = |program| installed(program, &["/usr/sbin".into()], "every test on a real MariaDB");
    Some(Programs { server: find("mariadbd")?, install: find("mariadb-install-db")?, client: find("mariadb")? })
}

/// The data of a new server. To make them takes ten times as long as to copy them.
fn new_data(programs: &Programs) -> Scratch {
    static PACKED: OnceLock<Vec<u8>> = OnceLock::new();
    let packed = PACKED.get_or_init(|| {
        let scratch = Scratch::unprivileged("mariadb-data");
        let password =
            format!("'$.plugin', 'mysql_native_password', '$.authentication_string', PASSWORD('{PASSWORD}')");
        let with_password = format!("UPDATE mysql.global_priv SET priv = JSON_SET(priv, {password})");
        let sql = scratch.write("sql", &format!("{with_password} WHERE user = 'root' AND host <> 'localhost';\n"));
        let mut install = scratch.command(Path::new(&programs.install));
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.args(["--skip-name-resolve", &format!("--{LOG_FILE_SIZE}")]);
        install.args([format!("--datadir={}", scratch.file("data")), format!("--extra-file={sql}")]);
        // A server that starts removes the temporary tables of every other server in the same directory.
        install.arg(format!("--tmpdir={}", scratch.file("")));
        output_of(&mut install, &[]);
        scratch.pack("data")
    });
    let scratch = Scratch::unprivileged("mariadb");
    scratch.unpack(packed);
    scratch
}
