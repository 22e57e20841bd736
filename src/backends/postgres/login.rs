//! The start of a connection: TLS and authentication.

use std::time::Instant;

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{SCRAM_SHA_256_PLUS, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;

use super::config::PostgresConfig;
use super::error::{Error, PostgresRefusal};
use super::wire::Wire;
use crate::net::error::{self as net, NetErrorKind};
use crate::net::socket::{Socket, explain};
use crate::net::tls::TlsParts;

/// Requests and starts TLS before the client sends anything else.
pub(super) fn encrypt(socket: &mut Socket, parts: &TlsParts, deadline: Instant) -> Result<(), net::Error> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request, deadline).map_err(explain)?;
    // Reads exactly one byte. Plain text after this byte must not count as received through TLS (CVE-2021-23222).
    let mut answer = [0];
    let end = || net::Error::new(NetErrorKind::Connect, "the server closed the connection after the request for TLS");
    match (socket.read(&mut answer, deadline).map_err(explain)?, answer[0]) {
        (0, _) => Err(end()),
        (_, b'S') if socket.is_quiet() => socket.start_tls(parts, deadline),
        (_, b'N') => {
            let what = "the server has TLS disabled; set `ssl` on the server, or sslmode=disable in the URL";
            Err(net::Error::new(NetErrorKind::Tls, what))
        }
        _ => Err(net::Error::new(NetErrorKind::Malformed, "unexpected answer to the request for TLS")),
    }
}

/// Logs in, and returns once the server accepts statements.
///
/// Returns the request that cancels the session's statements.
pub(super) fn log_in(
    wire: &mut Wire,
    config: &PostgresConfig,
    password: Option<&str>,
    deadline: Instant,
) -> Result<Option<BytesMut>, Error> {
    let none = "the server requests a password; set one with PostgresConfig::with_password";
    let password = || password.ok_or_else(|| refuse(none));
    let mut out = BytesMut::new();
    let parameters = [
        ("user", config.user.as_str()),
        ("database", &config.database),
        ("application_name", &config.application_name),
        ("client_encoding", "UTF8"),
    ];
    let options = Some(("options", &*config.options)).filter(|(_, options)| !options.is_empty());
    frontend::startup_message(parameters.into_iter().chain(options), &mut out).map_err(Error::malformed)?;
    wire.send(&out, deadline)?;
    let (mut scram, mut cancel) = (None, None);
    let binding = config.channel_binding;
    // Whether SCRAM has ended, and whether the server has accepted the login.
    let (mut is_proved, mut is_accepted) = (false, false);
    loop {
        out.clear();
        match wire.receive(deadline)? {
            Message::NoticeResponse(_) => {}
            // After the start of SCRAM, the server must prove that it knows the password before it accepts the login.
            Message::AuthenticationOk if scram.is_none() => {
                if !is_proved {
                    binding.allow_unbound("no password")?;
                }
                is_accepted = true;
            }
            Message::BackendKeyData(body) => {
                let request = cancel.insert(BytesMut::new());
                frontend::cancel_request(body.process_id(), body.secret_key(), request);
            }
            Message::ErrorResponse(body) => {
                return Err(Error::Refused(PostgresRefusal { is_fatal: true, ..PostgresRefusal::read(body.fields()) }));
            }
            Message::ReadyForQuery(_) if is_accepted => return Ok(cancel),
            Message::AuthenticationCleartextPassword => {
                binding.allow_unbound("a cleartext password")?;
                // Only local or encrypted connections may send the password itself. SCRAM never sends the password.
                if !wire.socket.is_tls() && !config.address.is_local() {
                    return Err(refuse("the server requests a cleartext password on an unencrypted connection").into());
                }
                frontend::password_message(password()?.as_bytes(), &mut out).map_err(Error::malformed)?;
            }
            Message::AuthenticationMd5Password(body) => {
                binding.allow_unbound("MD5")?;
                let hash = md5_hash(config.user.as_bytes(), password()?.as_bytes(), body.salt());
                frontend::password_message(hash.as_bytes(), &mut out).map_err(Error::malformed)?;
            }
            Message::AuthenticationSasl(body) => {
                let offers = |wanted| body.mechanisms().any(|name| Ok(name == wanted)).map_err(Error::malformed);
                let (mechanism, binding) =
                    binding.scram(offers(SCRAM_SHA_256_PLUS)?, wire.socket.server_certificate())?;
                if !offers(mechanism)? {
                    return Err(refuse(&format!("the server does not offer {mechanism}")).into());
                }
                let begun = ScramSha256::new(password()?.as_bytes(), binding);
                frontend::sasl_initial_response(mechanism, begun.message(), &mut out).map_err(Error::malformed)?;
                scram = Some(begun);
            }
            Message::AuthenticationSaslContinue(body) => {
                let begun = scram.as_mut().ok_or_else(|| Error::malformed("SCRAM continued before its start"))?;
                // `update` fails above 100,000 rounds, which would occupy this machine.
                begun.update(body.data()).map_err(|error| refuse(&format!("cannot prove the password: {error}")))?;
                frontend::sasl_response(begun.message(), &mut out).map_err(Error::malformed)?;
            }
            Message::AuthenticationSaslFinal(body) => {
                // Verifies the server's proof that it also knows the password.
                let mut begun = scram.take().ok_or_else(|| Error::malformed("SCRAM ended before its start"))?;
                let stranger = |_| refuse("the server has another password than this client");
                begun.finish(body.data()).map_err(stranger)?;
                is_proved = true;
            }
            Message::AuthenticationGss
            | Message::AuthenticationSspi
            | Message::AuthenticationKerberosV5
            | Message::AuthenticationScmCredential => {
                let what = "the server requests Kerberos, GSSAPI or SSPI; set scram-sha-256 in pg_hba.conf";
                return Err(refuse(what).into());
            }
            _ => return Err(Error::malformed("unknown message during the login")),
        }
        if !out.is_empty() {
            wire.send(&out, deadline)?;
        }
    }
}

fn refuse(what: &str) -> net::Error {
    net::Error::new(NetErrorKind::Credentials, what)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Logs in to a local server under the name in `host`, which may end with parameters.
    ///
    /// Returns the result and the sent bytes.
    fn log_in_at(
        host: &str,
        mut answer: impl FnMut(&str) -> Vec<u8> + Send + 'static,
    ) -> (Result<Option<BytesMut>, Error>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, mut sent) = (listener.accept().unwrap().0, String::new());
            loop {
                let mut bytes = [0; 4096];
                let length = stream.read(&mut bytes).unwrap_or(0);
                if length == 0 {
                    return sent;
                }
                let text = String::from_utf8_lossy(&bytes[..length]);
                sent += &text;
                let _ = stream.write_all(&answer(&text));
            }
        });
        let config = PostgresConfig::new(&format!("postgres://me:hunter2@{host}")).unwrap();
        let mut wire = Wire::new(Socket::tcp(stream));
        let ended = log_in(&mut wire, &config, Some("hunter2"), Instant::now() + Duration::from_secs(30));
        drop(wire);
        (ended, server.join().unwrap())
    }

    fn authentication(code: u32, body: &str) -> Vec<u8> {
        let length = u32::try_from(8 + body.len()).unwrap();
        [b"R", &length.to_be_bytes()[..], &code.to_be_bytes(), body.as_bytes()].concat()
    }

    fn accepted() -> Vec<u8> {
        [authentication(0, ""), b"Z\0\0\0\x05I".to_vec()].concat()
    }

    #[test]
    fn clear_password_without_tls_goes_to_this_machine_alone() {
        for (host, is_sent) in [("127.0.0.1", true), ("[::1]", true), ("localhost", true), ("db.example", false)] {
            let (ended, sent) = log_in_at(&format!("{host}/db"), |text| match text.contains("hunter2") {
                true => accepted(),
                false => authentication(3, ""),
            });
            assert_eq!((ended.is_ok(), sent.contains("hunter2")), (is_sent, is_sent), "{host}: {ended:?}");
        }
    }

    #[test]
    fn server_without_the_password_cannot_end_scram() {
        let signature = format!("v={}=", "A".repeat(43));
        for last in [authentication(12, &signature), authentication(12, "e=other-error"), Vec::new()] {
            let (ended, sent) = log_in_at("127.0.0.1/db", move |text| match text.split_once("n,,n=,r=") {
                Some((_, nonce)) => authentication(11, &format!("r={nonce}x,s=c2FsdA==,i=4096")),
                None if text.contains(",p=") => [&last[..], &accepted()].concat(),
                None => authentication(10, "SCRAM-SHA-256\0\0"),
            });
            assert!(ended.is_err() && sent.contains(",p="), "{ended:?}: {sent:?}");
        }
    }

    #[test]
    fn server_cannot_skip_the_login() {
        let ready = b"Z\0\0\0\x05I";
        let (ended, _) = log_in_at("127.0.0.1/db", |_| ready.to_vec());
        assert!(ended.is_err());
        let (ended, _) = log_in_at("127.0.0.1/db", |text| match text.contains("n,,n=,r=") {
            true => ready.to_vec(),
            false => authentication(10, "SCRAM-SHA-256\0\0"),
        });
        assert!(ended.is_err());
    }

    #[test]
    fn forbidden_login_sends_no_proof_of_the_password() {
        for (method, request) in [
            ("no password", authentication(0, "")),
            ("cleartext", authentication(3, "")),
            ("MD5", authentication(5, "salt")),
            ("SCRAM without", authentication(10, "SCRAM-SHA-256\0\0")),
            ("SCRAM with a certificate", authentication(10, "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0")),
        ] {
            let request = [&request[..], b"Z\0\0\0\x05I"].concat();
            let url = "127.0.0.1/db?sslmode=require&channel_binding=require";
            let (ended, sent) = log_in_at(url, move |_| request.clone());
            let error = ended.unwrap_err().to_string();
            assert!(error.contains("channel_binding=require") && error.contains(method), "{error}");
            // The password, its hash and the start of SCRAM are messages of type `p`.
            assert!(!sent.contains("hunter2") && !sent.contains("p\0\0\0"), "{method}: {sent:?}");
        }
    }
}
