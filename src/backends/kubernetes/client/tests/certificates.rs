//! Clients and servers with certificates that tests generate.

use super::server::{Script, Server, serve_with};
use super::{LONG, get};
use crate::backends::kubernetes::client::{Client, ClientConfig, ErrorKind};
use crate::net::calls::CallError;
use crate::net::tests::certificates::{Leaf, server_config};
use crate::net::tls::config::TlsConfig;

pub(super) fn tls_server(leaf: &Leaf, scripts: Vec<Script>) -> Server {
    serve_with(Some(server_config(leaf, None)), scripts)
}

/// Returns settings that trust the authority with the certificate `ca`.
pub(super) fn trusting(ca: &str) -> TlsConfig {
    TlsConfig::new().with_ca_pem(ca).unwrap()
}

pub(super) fn config(server: &Server, ca: &str) -> ClientConfig {
    config_with(server, trusting(ca))
}

pub(super) fn config_with(server: &Server, tls: TlsConfig) -> ClientConfig {
    ClientConfig::new(&format!("https://127.0.0.1:{}", server.port)).unwrap().with_tls(tls)
}

/// Returns the kind of error of a request, or `None` if the request succeeds.
pub(super) fn kind(config: ClientConfig) -> Option<ErrorKind> {
    let result = get(&Client::new(config).unwrap(), LONG);
    if let Err(e) = &result {
        assert!(!e.maybe_sent(), "{e:?}");
    }
    result.err().map(|e| e.kind().clone())
}
