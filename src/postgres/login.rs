//! How a connection begins: TLS, who we are, and what proves it.

use std::time::Instant;

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;

use super::config::PostgresConfig;
use super::error::{Error, Refusal};
use super::wire::{Key, Wire};
use crate::net::error::{self as net, ErrorKind};
use crate::net::socket::{Socket, explain};
use crate::net::tls::TlsParts;

/// Servers ask for 4,096, and some for ten times that. Whoever asks for more wants to keep this machine busy.
const MOST_ITERATIONS: u32 = 1_000_000;

/// Asks for TLS, and begins it. Nothing of ours goes out before that.
pub(super) fn encrypt(socket: &mut Socket, parts: &TlsParts, deadline: Instant) -> Result<(), net::Error> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request, deadline).map_err(explain)?;
    // One byte, and not one more: what is sent in clear behind it must not pass for what came in TLS (CVE-2021-23222).
    let mut answer = [0];
    let end = || net::Error::new(ErrorKind::Connect, "the server closed the connection when it was asked for TLS");
    match (socket.read(&mut answer, deadline).map_err(explain)?, answer[0]) {
        (0, _) => Err(end()),
        (_, b'S') if socket.is_quiet() => socket.start_tls(parts, deadline),
        (_, b'N') => {
            let what = "the server does not do TLS: switch `ssl` on there, or say sslmode=disable in the URL";
            Err(net::Error::new(ErrorKind::Tls, what))
        }
        _ => Err(net::Error::new(ErrorKind::Malformed, "the answer to the request for TLS is none of PostgreSQL's")),
    }
}

/// Says who we are, and proves it, until statements may be sent. Answers what the server calls the session.
pub(super) fn log_in(
    wire: &mut Wire,
    config: &PostgresConfig,
    password: Option<&str>,
    deadline: Instant,
) -> Result<Option<Key>, Error> {
    let none = "the server wants a password, and none is given: PostgresConfig::with_password";
    let password = || password.ok_or_else(|| refuse(none));
    let mut out = BytesMut::new();
    let parameters = [
        ("user", config.user.as_str()),
        ("database", &config.database),
        ("application_name", &config.application_name),
        ("client_encoding", "UTF8"),
    ];
    frontend::startup_message(parameters, &mut out).map_err(Error::malformed)?;
    wire.send(&out, deadline)?;
    let (mut scram, mut key) = (None, None);
    loop {
        out.clear();
        match wire.receive(deadline)? {
            Message::AuthenticationOk | Message::NoticeResponse(_) => {}
            Message::BackendKeyData(body) => {
                key = Some(Key { process: body.process_id(), secret: body.secret_key() });
            }
            Message::ErrorResponse(body) => {
                return Err(Error::Refused(Refusal { is_fatal: true, ..Refusal::read(body.fields()) }));
            }
            Message::ReadyForQuery(_) => return Ok(key),
            Message::AuthenticationCleartextPassword => {
                // Only to whom it may be told: SCRAM tells it to nobody.
                if !wire.socket.is_tls() && !config.address.is_local() {
                    return Err(
                        refuse("the server wants the password in clear, and the connection is not encrypted").into()
                    );
                }
                frontend::password_message(password()?.as_bytes(), &mut out).map_err(Error::malformed)?;
            }
            Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(config.user.as_bytes(), password()?.as_bytes(), body.salt());
                frontend::password_message(hash.as_bytes(), &mut out).map_err(Error::malformed)?;
            }
            Message::AuthenticationSasl(body) => {
                let offered = body.mechanisms().any(|name| Ok(name == SCRAM_SHA_256)).map_err(Error::malformed)?;
                if !offered {
                    return Err(
                        refuse("the server offers no authentication by SCRAM-SHA-256 without channel binding").into()
                    );
                }
                // To bind to the channel is for those who do not know whom they speak to.
                let begun = ScramSha256::new(password()?.as_bytes(), ChannelBinding::unsupported());
                frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), &mut out).map_err(Error::malformed)?;
                scram = Some(begun);
            }
            Message::AuthenticationSaslContinue(body) => {
                let begun = scram.as_mut().ok_or_else(|| Error::malformed("SCRAM goes on before it began"))?;
                if iterations(body.data()).is_none_or(|count| count > MOST_ITERATIONS) {
                    return Err(refuse("the server wants SCRAM with more than a million rounds").into());
                }
                begun.update(body.data()).map_err(Error::malformed)?;
                frontend::sasl_response(begun.message(), &mut out).map_err(Error::malformed)?;
            }
            Message::AuthenticationSaslFinal(body) => {
                // The server knows the password as well.
                let mut begun = scram.take().ok_or_else(|| Error::malformed("SCRAM ends before it began"))?;
                let stranger = |_| refuse("the server does not know the password that it asked for");
                begun.finish(body.data()).map_err(stranger)?;
            }
            Message::AuthenticationGss
            | Message::AuthenticationSspi
            | Message::AuthenticationKerberosV5
            | Message::AuthenticationScmCredential => {
                let what = "the server wants Kerberos, GSSAPI or SSPI: give this user scram-sha-256 in pg_hba.conf";
                return Err(refuse(what).into());
            }
            _ => return Err(Error::malformed("there is something else before the login's end")),
        }
        if !out.is_empty() {
            wire.send(&out, deadline)?;
        }
    }
}

fn refuse(what: &str) -> net::Error {
    net::Error::new(ErrorKind::Credentials, what)
}

/// Of the server's first message, `r=…,s=…,i=4096`. Source: RFC 5802, section 7.
fn iterations(message: &[u8]) -> Option<u32> {
    let message = str::from_utf8(message).ok()?;
    message.split(',').find_map(|attribute| attribute.strip_prefix("i="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rounds_of_scram_are_counted_before_they_are_made() {
        assert_eq!(iterations(b"r=abc,s=ZGVm,i=4096"), Some(4096));
        for bad in [&b"r=abc,s=ZGVm"[..], b"i=99999999999", b"i=-1", b"\xff,i=1"] {
            assert_eq!(iterations(bad), None);
        }
    }
}
