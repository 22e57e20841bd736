//! The start of a session: the server's greeting, TLS, and authentication.

use std::time::Instant;

use super::auth::{self, AuthMethod, SCRAMBLE};
use super::config::MySqlConfig;
use super::connection::MySqlConnection;
use super::error::Error;
use super::packet::{self, EOF, MORE_AUTH, OK, PacketReader, capability, check, malformed};
use crate::net::database_url::Address;
use crate::net::error::{self as net, NetErrorKind};
use crate::net::tls::TlsParts;

/// The version of the protocol, the only version since 1998.
const PROTOCOL: u8 = 10;

/// The number of the collation utf8mb4_general_ci, which MySQL and MariaDB both have.
const UTF8MB4: u8 = 45;

/// In `caching_sha2_password`, the answer that the server's cache contains the user.
const IS_KNOWN: u8 = 3;
const IS_NOT_KNOWN: u8 = 4;

/// Maximum number of the server's requests during one login.
///
/// A server that sends more requests has repeated a request.
const MOST_QUESTIONS: usize = 5;

const WANTED: u32 = capability::LONG_PASSWORD
    | capability::LONG_FLAG
    | capability::CONNECT_WITH_DB
    | capability::PROTOCOL_41
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH;

/// The capabilities that the client requires of a server.
const NEEDED: u32 = capability::PROTOCOL_41 | capability::SECURE_CONNECTION | capability::PLUGIN_AUTH;

/// The first packet of a server.
#[derive(Debug)]
struct Greeting {
    thread: u32,
    capabilities: u32,
    scramble: Vec<u8>,
    method: Vec<u8>,
}

impl Greeting {
    fn parse(packet: &[u8]) -> Result<Self, net::Error> {
        let mut reader = PacketReader::new(packet);
        check(reader.u8()? == PROTOCOL, "the greeting is not of protocol 10")?;
        let _version = reader.until_zero()?;
        let thread = reader.u32()?;
        let mut scramble = reader.take(8)?.to_vec();
        reader.take(1)?;
        let lower = reader.u16()?;
        let _character_set = reader.u8()?;
        let _status = reader.u16()?;
        let capabilities = (u32::from(reader.u16()?) << 16) | u32::from(lower);
        check(capabilities & NEEDED == NEEDED, "a server older than MySQL 5.5")?;
        let _length = reader.u8()?;
        let _reserved = reader.take(10)?;
        scramble.extend_from_slice(reader.take(SCRAMBLE - 8)?);
        reader.take(1)?;
        // Some versions of the server end the method's name with a zero byte, and others do not.
        let rest = reader.rest();
        let method = rest.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        Ok(Self { thread, capabilities, scramble, method })
    }
}

/// Logs in on a connection, through TLS if `tls` is set.
pub(super) fn shake_hands(
    connection: &mut MySqlConnection,
    config: &MySqlConfig,
    password: &str,
    tls: Option<&TlsParts>,
    deadline: Instant,
) -> Result<(), Error> {
    let greeting = Greeting::parse(&connection.receive(deadline)?)?;
    connection.thread = greeting.thread;
    let mut capabilities = WANTED;
    if let Some(parts) = tls {
        if greeting.capabilities & capability::SSL == 0 {
            let rule =
                "the server offers no TLS; configure TLS on the server, or use ssl-mode=DISABLED on a trusted network";
            return Err(net::Error::new(NetErrorKind::TlsVerification, rule).into());
        }
        capabilities |= capability::SSL;
        connection.send(&head(capabilities), deadline)?;
        connection.start_tls(parts, deadline)?;
    }
    let is_confidential = connection.is_tls() || matches!(config.address, Address::Unix(_));
    // If the user's method is not the server's default method, the server requests the user's method later.
    let mut method =
        AuthMethod::of(&greeting.method).filter(|method| *method != AuthMethod::Clear).unwrap_or(AuthMethod::Native);
    let answer = method.answer(password, &greeting.scramble, is_confidential)?;
    connection.send(&response(capabilities, config, &answer, method)?, deadline)?;
    // Answers the server's requests until the server accepts or rejects the login.
    for _ in 0..MOST_QUESTIONS {
        let packet = connection.receive(deadline)?;
        let mut reader = PacketReader::new(&packet);
        match reader.u8()? {
            OK => return Ok(()),
            EOF => {
                let name = match reader.is_empty() {
                    true => &b"mysql_old_password"[..],
                    false => reader.until_zero()?,
                };
                method = AuthMethod::of(name)
                    .ok_or_else(|| auth::unknown(name, config.user.as_deref().unwrap_or_default()))?;
                let scramble = reader.rest();
                let scramble = scramble.strip_suffix(&[0]).unwrap_or(scramble);
                connection.send(&method.answer(password, scramble, is_confidential)?, deadline)?;
            }
            MORE_AUTH if method == AuthMethod::CachingSha2 => match reader.rest() {
                [IS_KNOWN] => {}
                [IS_NOT_KNOWN] => connection.send(&method.full(password, is_confidential)?, deadline)?,
                _ => return Err(malformed("an unknown request of caching_sha2_password").into()),
            },
            _ => return Err(malformed("not a part of a login").into()),
        }
    }
    Err(malformed("too many requests during the login").into())
}

/// Returns the bytes with which both a request for TLS and a login begin.
fn head(capabilities: u32) -> Vec<u8> {
    let mut head = capabilities.to_le_bytes().to_vec();
    head.extend((packet::LONGEST as u32).to_le_bytes());
    head.push(UTF8MB4);
    head.extend([0; 23]);
    head
}

fn response(capabilities: u32, config: &MySqlConfig, answer: &[u8], method: AuthMethod) -> Result<Vec<u8>, Error> {
    let too_long = || net::Error::new(NetErrorKind::Config, "the password is too long for this server's method");
    let mut response = head(capabilities);
    response.extend(config.user.as_deref().unwrap_or_default().as_bytes());
    response.push(0);
    response.push(u8::try_from(answer.len()).map_err(|_| too_long())?);
    response.extend(answer);
    for text in [&*config.database, method.name()] {
        response.extend(text.as_bytes());
        response.push(0);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the greeting of MariaDB 10.11.
    fn greeting() -> Vec<u8> {
        let mut packet = vec![PROTOCOL];
        packet.extend(b"5.5.5-10.11.19-MariaDB\0");
        packet.extend([31, 0, 0, 0]);
        packet.extend(b"abcdefgh\0");
        packet.extend([0xfe, 0xf7, 45, 2, 0, 0xff, 0x81, 21]);
        packet.extend([0; 10]);
        packet.extend(b"ijklmnopqrst\0mysql_native_password\0");
        packet
    }

    #[test]
    fn a_greeting_is_taken_apart() {
        let found = Greeting::parse(&greeting()).unwrap();
        assert_eq!((&*found.scramble, &*found.method), (&b"abcdefghijklmnopqrst"[..], &b"mysql_native_password"[..]));
        assert_eq!(found.capabilities, 0x81ff_f7fe);
        let whole = greeting();
        let least = whole.len() - b"mysql_native_password\0".len();
        for end in 0..least {
            assert!(Greeting::parse(&whole[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_server_of_another_age_is_refused() {
        let mut old = greeting();
        old[0] = 9;
        assert!(Greeting::parse(&old).unwrap_err().to_string().contains("not of protocol 10"));
        let mut old = greeting();
        let upper = old.windows(3).position(|window| window == [0xff, 0x81, 21]).unwrap();
        old[upper] = 0;
        assert!(Greeting::parse(&old).unwrap_err().to_string().contains("older than"));
    }

    #[test]
    fn a_response_names_user_database_and_method() {
        let config = MySqlConfig::new("mysql://jobs:hunter2@db.test/app").unwrap();
        let response = response(WANTED, &config, &[7; SCRAMBLE], AuthMethod::Native).unwrap();
        let mut rest = PacketReader::new(&response);
        assert_eq!(rest.take(32).unwrap(), head(WANTED));
        assert_eq!(rest.until_zero().unwrap(), b"jobs");
        assert_eq!(rest.text().unwrap(), [7; SCRAMBLE]);
        assert_eq!(rest.rest(), b"app\0mysql_native_password\0");
        let file = 1 << 7;
        let statements = 1 << 16;
        assert_eq!(WANTED & (file | statements), 0, "no files, and one statement at a time");
    }
}
