//! A scripted MySQL server for tests.

use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use rustls::ServerConfig;

use crate::backends::mysql::client::MySqlClient;
use crate::backends::mysql::config::MySqlConfig;
use crate::backends::mysql::error::Error;
use crate::backends::mysql::store::MySqlStore;
use crate::backends::tests;
use crate::backends::tests::{Act, Login, REFUSAL, Scripted, Step};
use crate::net::error as net;
use crate::net::tests::certificates::{Duplex, accept};
use crate::store::{CallContext, Store};
use crate::util::config_error::ConfigError;

/// A phase of the login, or a statement, that the server received.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) connection: usize,
    pub(super) what: String,
    /// The number of earlier requests on this connection with the same `what`.
    pub(super) repeats: usize,
}

pub(super) const GREETING: &str = "greeting";
pub(super) const LOGIN: &str = "login";
/// The first statement of a session.
pub(super) const SET_UP: &str = "SET SESSION autocommit";

pub(super) enum Say {
    /// Packets in order, with correct numbers.
    Packets(Vec<Vec<u8>>),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// The first packets, and then one packet that is repeated forever.
    Endless(Vec<Vec<u8>>, Vec<u8>),
    /// Packets, after which the server closes the connection.
    Last(Vec<Vec<u8>>),
    Silence,
    Close,
}

/// A function that returns the server's response, or `None` for a normal response.
type Script = dyn Fn(&Asked) -> Option<Say> + Send + Sync;

pub(super) struct Server {
    pub(super) port: u16,
    /// The phases and statements for which the script has run.
    pub(super) asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(super) fn new(script: impl Fn(&Asked) -> Option<Say> + Send + Sync + 'static) -> Self {
        Self::with_tls(None, script)
    }

    pub(super) fn with_tls(
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&Asked) -> Option<Say> + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let log = Arc::clone(&asked);
        let serve = move |connection, stream| _ = serve(connection, Box::new(stream), tls.clone(), &script, &log);
        let (port, _) = tests::listen(serve);
        Self { port, asked }
    }

    /// Serves one connection through a Unix socket.
    #[cfg(unix)]
    pub(super) fn on_socket(
        path: &std::path::Path,
        script: impl Fn(&Asked) -> Option<Say> + Send + Sync + 'static,
    ) -> Self {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let log = Arc::clone(&asked);
        thread::spawn(move || serve(0, Box::new(listener.accept().unwrap().0), None, &script, &log));
        Self { port: 0, asked }
    }

    pub(super) fn well() -> Self {
        Self::new(|_| None)
    }

    /// Returns the statements about the table, with the numbers of their connections.
    pub(super) fn statements(&self) -> Vec<(usize, String)> {
        let is_about = |asked: &Asked| asked.what.contains("leasehold") && !asked.what.contains("information_schema");
        let asked = self.asked.lock();
        asked.iter().filter(|it| is_about(it)).map(|it| (it.connection, it.what.clone())).collect()
    }

    pub(super) fn connections(&self) -> Vec<usize> {
        self.statements().into_iter().map(|(connection, _)| connection).collect()
    }

    pub(super) fn count(&self, asked: &str) -> usize {
        self.asked.lock().iter().filter(|it| it.what.starts_with(asked)).count()
    }

    pub(super) fn was_asked(&self, what: &str) -> bool {
        self.asked.lock().iter().any(|asked| asked.what.contains(what))
    }

    pub(super) fn config(&self) -> MySqlConfig {
        MySqlConfig::new(&format!("mysql://jobs:hunter2@127.0.0.1:{}/app", self.port)).unwrap()
    }

    pub(super) fn store(&self) -> MySqlStore {
        MySqlStore::new(self.config()).unwrap()
    }
}

fn step(what: &str) -> Option<Step> {
    match what {
        LOGIN => Some(Step::Login),
        _ if what.starts_with("SELECT @@") || what.starts_with("UPDATE") => Some(Step::Request),
        _ => None,
    }
}

impl Scripted for Server {
    fn scripted(tls: Option<Arc<ServerConfig>>, script: Box<tests::Script>) -> Self {
        Self::with_tls(tls, move |asked| match script(asked.connection, step(&asked.what)?, asked.repeats) {
            Act::Answer => None,
            Act::Silence => Some(Say::Silence),
            Act::Close => Some(Say::Close),
            Act::AnswerAndClose => Some(Say::Last(well(&asked.what))),
            Act::Surplus => Some(Say::Bytes([framed(&well(&asked.what), 1), framed(&[ok(0, 0)], 1)].concat())),
            Act::Refuse => Some(error(1045, REFUSAL)),
        })
    }

    fn steps(&self) -> Vec<(usize, Step)> {
        self.asked.lock().iter().filter_map(|asked| Some((asked.connection, step(&asked.what)?))).collect()
    }

    fn open(&self, login: Login) -> Result<Box<dyn Store>, ConfigError> {
        let without = MySqlConfig::new(&format!("mysql://jobs@127.0.0.1:{}/app", self.port))?;
        Ok(Box::new(MySqlStore::new(match login {
            Login::Plain => self.config(),
            Login::Tls(tls) => self.config().with_tls(tls),
            Login::From(password) => without.with_password(password),
        })?))
    }

    fn write(&self, call: &CallContext) -> net::Error {
        let client = MySqlClient::new(self.config()).unwrap();
        match client.query("UPDATE leasehold", false, call) {
            Err(Error::Net(error)) => error,
            other => panic!("{other:?}"),
        }
    }
}

fn serve(
    connection: usize,
    mut stream: Box<dyn Duplex>,
    tls: Option<Arc<ServerConfig>>,
    script: &Script,
    log: &Mutex<Vec<Asked>>,
) -> Option<()> {
    let is_tls = tls.is_some();
    let say = |stream: &mut dyn Duplex, sequence: u8, what: &str| {
        let is_same = |it: &&Asked| it.connection == connection && it.what == what;
        let repeats = log.lock().iter().filter(is_same).count();
        let asked = Asked { connection, what: what.to_owned(), repeats };
        let mut said = script(&asked).unwrap_or_else(|| Say::Packets(well(what)));
        log.lock().push(asked);
        if let Say::Packets(packets) = &mut said
            && is_tls
            && what == GREETING
        {
            offer_tls(&mut packets[0]);
        }
        match said {
            Say::Packets(packets) => stream.write_all(&framed(&packets, sequence)).ok(),
            Say::Bytes(bytes) => stream.write_all(&bytes).ok(),
            Say::Endless(first, packet) => {
                stream.write_all(&framed(&first, sequence)).ok()?;
                // Packet numbers repeat after 256 packets, so the server can send the same bytes again.
                let many = framed(&vec![packet; 256], sequence.wrapping_add(first.len() as u8));
                loop {
                    stream.write_all(&many).ok()?;
                }
            }
            Say::Last(packets) => {
                stream.write_all(&framed(&packets, sequence)).ok()?;
                None
            }
            Say::Silence => {
                // Blocks until the client closes the connection.
                let _ = stream.read(&mut [0]);
                None
            }
            Say::Close => None,
        }
    };
    say(&mut *stream, 0, GREETING)?;
    let (mut sequence, mut response) = packet(&mut *stream)?;
    if let Some(config) = tls {
        stream = accept(&config, stream);
        (sequence, response) = packet(&mut *stream)?;
    }
    assert!(!String::from_utf8_lossy(&response).contains("hunter2"));
    say(&mut *stream, sequence + 1, LOGIN)?;
    loop {
        let (sequence, command) = packet(&mut *stream)?;
        let sql = match command.split_first() {
            Some((3, sql)) => String::from_utf8(sql.to_vec()).unwrap(),
            // The client answers a further request of the server during the login.
            _ => format!("answer {}", String::from_utf8_lossy(&command)),
        };
        say(&mut *stream, sequence + 1, &sql)?;
    }
}

fn packet(stream: &mut dyn Duplex) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let mut packet = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
    stream.read_exact(&mut packet).ok()?;
    Some((header[3], packet))
}

pub(super) fn framed(packets: &[Vec<u8>], mut sequence: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for packet in packets {
        bytes.extend(&(packet.len() as u32).to_le_bytes()[..3]);
        bytes.push(sequence);
        bytes.extend(packet);
        sequence = sequence.wrapping_add(1);
    }
    bytes
}

pub(super) fn greeting(method: &str) -> Vec<u8> {
    let mut packet = b"\x0a8.0.36\0\x01\0\0\0abcdefgh\0\xff\xf7\x2d\x02\0\xff\x81\x15".to_vec();
    packet.extend([0; 10]);
    packet.extend(format!("ijklmnopqrst\0{method}\0").bytes());
    packet
}

/// Sets the bit for TLS in the lower half of the capabilities.
pub(super) fn offer_tls(greeting: &mut [u8]) {
    let capabilities = greeting.iter().position(|byte| *byte == 0).unwrap() + 1 + 4 + 8 + 1;
    greeting[capabilities + 1] |= 0x08;
}

pub(super) fn ok(affected: u8, last_insert_id: u8) -> Vec<u8> {
    vec![0, affected, last_insert_id, 2, 0, 0, 0]
}

pub(super) fn error(code: u16, message: &str) -> Say {
    let [low, high] = code.to_le_bytes();
    Say::Packets(vec![[&[0xff, low, high], &b"#HY000"[..], message.as_bytes()].concat()])
}

pub(super) const END: [u8; 5] = [0xfe, 0, 0, 2, 0];

pub(super) fn row(columns: &[Option<&str>]) -> Vec<u8> {
    let column = |column: &Option<&str>| match column {
        Some(text) => [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat(),
        None => vec![0xfb],
    };
    columns.iter().flat_map(column).collect()
}

pub(super) fn rows(columns: u8, rows: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut packets = vec![vec![columns]];
    packets.extend((0..columns).map(|_| b"a column".to_vec()));
    packets.push(END.to_vec());
    packets.extend(rows);
    packets.push(END.to_vec());
    packets
}

pub(super) fn pairs(pairs: &[(&str, &str)]) -> Vec<Vec<u8>> {
    rows(2, pairs.iter().map(|(name, value)| row(&[Some(name), Some(value)])).collect())
}

pub(super) const RECORD: [Option<&str>; 13] = [
    Some("0"),
    Some("0"),
    Some("3"),
    Some("jobs"),
    Some("4"),
    Some("u"),
    Some("a"),
    Some("15"),
    Some("t"),
    None,
    Some("7"),
    Some(r#"{"stepDown":"a"}"#),
    Some("1700000000000000"),
];

pub(super) fn found() -> Vec<Vec<u8>> {
    rows(13, vec![row(&RECORD)])
}

/// Returns the rows of a read, with another value in one column.
pub(super) fn found_with(column: usize, value: Option<&str>) -> Vec<Vec<u8>> {
    let mut columns: [Option<&str>; 13] = RECORD;
    columns[column] = value;
    rows(13, vec![row(&columns)])
}

/// The engines of the two tables.
pub(super) const TABLES: [(&str, &str); 2] = [("leasehold", "InnoDB"), ("leasehold_fence", "InnoDB")];

/// Sets the flag in the last packet of a response that means that a transaction is open.
pub(super) fn in_transaction(mut packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    packets.last_mut().unwrap()[3] |= 1;
    packets
}

pub(super) fn well(what: &str) -> Vec<Vec<u8>> {
    match what {
        GREETING => vec![greeting("mysql_native_password")],
        _ if what.starts_with("SHOW VARIABLES") => pairs(&[("version", "8.0.36"), ("version_comment", "MySQL")]),
        _ if what.starts_with("SELECT TABLE_NAME, ENGINE") => pairs(&TABLES),
        _ if what.contains("information_schema") => pairs(&[]),
        _ if what.starts_with("SELECT @@global.read_only, @@global.innodb_read_only, r.") => found(),
        "START TRANSACTION" => in_transaction(vec![ok(0, 0)]),
        _ if what.starts_with("SELECT acquired") => in_transaction(rows(1, vec![row(&[Some("5")])])),
        _ if what.starts_with("INSERT INTO") => in_transaction(vec![ok(1, 9)]),
        _ if what.starts_with("UPDATE leasehold_fence") => in_transaction(vec![ok(2, 0)]),
        _ if what.starts_with("UPDATE") => vec![ok(1, 0)],
        _ => vec![ok(0, 0)],
    }
}

/// Creates a server that responds normally, except to messages that start with `begin`.
pub(super) fn but(begin: &'static str, say: impl Fn() -> Say + Send + Sync + 'static) -> Server {
    Server::new(move |asked| asked.what.starts_with(begin).then(&say))
}
