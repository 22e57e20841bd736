//! The common interface to the real database servers of tests.

use std::ops::DerefMut;
use std::process::Command;
use std::sync::OnceLock;

use super::server::{Scratch, Server, text_of};
use super::session::Session;

/// The password of every user for connections over TCP.
pub const PASSWORD: &str = "password-of-database-1";

/// A real database server.
pub trait SqlServer: DerefMut<Target = Server> + Send + Sync + Sized + 'static {
    const NAME: &'static str;
    /// The database in which the administrator's statements run.
    const ADMINISTRATION: &'static str;
    /// The settings for TLS.
    ///
    /// The values of the last two settings are the files of the certificate and the key.
    const TLS: &'static [&'static str];
    /// The statement that makes the client of this server print the end of an answer.
    const MARK: &'static str;
    type Programs;

    /// Finds the programs of the server. If a program is not installed, the test is skipped.
    fn programs() -> Option<Self::Programs>;

    /// Returns the values that all tests of a binary share.
    fn kept() -> &'static Kept<Self>;

    /// Creates the directory `data` in `scratch`.
    fn make_data(programs: &Self::Programs, scratch: &Scratch);

    fn on_data(scratch: Scratch, programs: Self::Programs, settings: &[&str]) -> Self;

    fn url(&self, user: &str, database: &str) -> String;

    /// Returns the administrator's client, which reads statements and prints rows on lines.
    fn client(&self, database: &str) -> Command;

    /// Ends the connections to a database and returns their number.
    fn end_connections(&self, database: &str) -> usize;

    /// Returns the server that all tests of a binary share, each in a database of its own.
    fn shared() -> Option<&'static Self> {
        let programs = Self::programs()?;
        Some(Self::kept().shared.get_or_init(|| Self::on_data(Self::new_data(&programs), programs, &[])))
    }

    /// Starts a server that only one test uses, with settings such as `max_connections=10`.
    fn start(settings: &[&str]) -> Option<Self> {
        Self::programs().map(|programs| Self::on_data(Self::new_data(&programs), programs, settings))
    }

    /// Starts a server that accepts TLS and that only one test uses.
    fn start_with_tls(certificate_pem: &str, key_pem: &str, settings: &[&str]) -> Option<Self> {
        let programs = Self::programs()?;
        let scratch = Self::new_data(&programs);
        let (others, files) = Self::TLS.split_at(Self::TLS.len() - 2);
        let file = |setting: &str, name: &str, text: &str| format!("{setting}={}", scratch.write(name, text));
        let certificate = file(files[0], "server.crt", certificate_pem);
        let key = file(files[1], "server.key", key_pem);
        let settings = [others, &[&*certificate, &*key], settings].concat();
        Some(Self::on_data(scratch, programs, &settings))
    }

    /// Returns a copy of a new server's data.
    ///
    /// Creating the data again would take ten times as long.
    fn new_data(programs: &Self::Programs) -> Scratch {
        let packed = Self::kept().data.get_or_init(|| {
            let scratch = Scratch::unprivileged(&format!("{}-data", Self::NAME));
            Self::make_data(programs, &scratch);
            scratch.pack("data")
        });
        let scratch = Scratch::unprivileged(Self::NAME);
        scratch.unpack(packed);
        scratch
    }

    /// Creates a database for one test.
    fn database(&self, name: &str) -> String {
        self.execute(&format!("CREATE DATABASE {name}"));
        name.to_owned()
    }

    fn execute(&self, sql: &str) {
        self.query(sql);
    }

    /// Runs statements as the administrator. Returns each row on a line.
    fn query(&self, sql: &str) -> String {
        self.query_in(Self::ADMINISTRATION, sql)
    }

    fn execute_in(&self, database: &str, sql: &str) {
        self.query_in(database, sql);
    }

    fn query_in(&self, database: &str, sql: &str) -> String {
        text_of(&mut self.client(database), sql)
    }

    /// Opens a connection of the administrator that stays open.
    fn session(&self, database: &str) -> Session {
        Session::new(&mut self.client(database), Self::MARK)
    }
}

pub struct Kept<S> {
    shared: OnceLock<S>,
    data: OnceLock<Vec<u8>>,
}

impl<S> Kept<S> {
    pub const fn new() -> Self {
        Self { shared: OnceLock::new(), data: OnceLock::new() }
    }
}

/// Implements `Deref` from a type with a field `server` to this [`Server`].
#[macro_export]
macro_rules! is_a_server {
    ($($type:ident)*) => {
        $(impl std::ops::Deref for $type {
            type Target = $crate::support::server::Server;

            fn deref(&self) -> &Self::Target {
                &self.server
            }
        }

        impl std::ops::DerefMut for $type {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.server
            }
        })*
    };
}
