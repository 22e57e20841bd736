//! A real PgBouncer before a PostgreSQL, which shares few connections among many.

use std::net::TcpStream;
use std::path::Path;

use super::postgres::{PASSWORD, Postgres};
use super::server::{Scratch, Server, free_port, installed};

/// A pooler, which ends with this, and with the test process, however that ends.
pub struct PgBouncer {
    server: Server,
    port: u16,
    _scratch: Scratch,
}

impl PgBouncer {
    /// Before all databases and users of that server, with settings like `pool_mode=transaction`. `None`, said aloud, where it is
    /// not installed.
    pub fn start(postgres: &Postgres, settings: &[&str]) -> Option<PgBouncer> {
        let program = installed("pgbouncer", &[Path::new("/usr/sbin").into()], "every test on a real PgBouncer")?;
        let scratch = Scratch::unprivileged("pgbouncer");
        let port = free_port();
        let users = scratch.write("users", &format!("\"postgres\" \"{PASSWORD}\"\n"));
        let (socket, port_of_postgres) = (postgres.socket_dir().display(), postgres.port());
        let mut configuration = format!("[databases]\n* = host={socket} port={port_of_postgres}\n[pgbouncer]\n");
        let ours = [
            "listen_addr=127.0.0.1",
            &format!("listen_port={port}"),
            "unix_socket_dir=",
            "auth_type=scram-sha-256",
            &format!("auth_file={users}"),
            // Who is not in the file is looked up by this user.
            "auth_user=postgres",
        ];
        for setting in ours.iter().chain(settings) {
            configuration.push_str(&format!("{setting}\n"));
        }
        let arguments = vec![program.display().to_string(), scratch.write("pgbouncer.ini", &configuration)];
        let server = Server::new(&scratch, "log", arguments);
        let mut pgbouncer = PgBouncer { server, port, _scratch: scratch };
        pgbouncer.start_again();
        Some(pgbouncer)
    }

    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn log(&self) -> String {
        self.server.log()
    }

    /// Ends it without a chance to do anything about it.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts one that was killed.
    pub fn start_again(&mut self) {
        self.server.launch();
        self.server.wait_until_ready(|| TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.server.pause();
    }

    pub fn resume(&self) {
        self.server.resume();
    }
}
