//! A real PgBouncer, a pooler of connections to a PostgreSQL server.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use super::postgres::Postgres;
use super::server::{Scratch, Server, free_port, installed};
use super::sql::PASSWORD;
use crate::is_a_server;

pub struct PgBouncer {
    server: Server,
}

is_a_server!(PgBouncer);

impl PgBouncer {
    /// Starts a pooler for all databases and users of `postgres`.
    ///
    /// An example of a setting is `pool_mode=transaction`. If PgBouncer is not installed, the test is skipped.
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
            // PgBouncer uses this user to look up users that are not in the file.
            "auth_user=postgres",
        ];
        for setting in ours.iter().chain(settings) {
            configuration.push_str(&format!("{setting}\n"));
        }
        let arguments = vec![program.display().to_string(), scratch.write("pgbouncer.ini", &configuration)];
        let mut server = Server::new(&Arc::new(scratch), "log", port, arguments, |server| {
            TcpStream::connect(("127.0.0.1", server.port())).is_ok()
        });
        server.start_again();
        Some(PgBouncer { server })
    }

    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}:{PASSWORD}@127.0.0.1:{}/{database}", self.port())
    }
}
