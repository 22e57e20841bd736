//! A client of the tests for any request to an API server.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::Value;
use ureq::http::Request;
pub use ureq::http::method::Method;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use super::SOON;

/// The server and the user of a kubeconfig whose certificates are inline.
pub struct Api {
    agent: ureq::Agent,
    server: String,
    token: Option<String>,
}

/// A failed request.
#[derive(Debug)]
pub enum ApiError {
    /// The server sent this `Status`.
    Refused(Value),
    /// The server sent no answer.
    Failed(ureq::Error),
}

impl Api {
    pub fn new(kubeconfig: &Path) -> Self {
        Self::of(&std::fs::read_to_string(kubeconfig).expect("a kubeconfig"))
    }

    pub fn of(kubeconfig: &str) -> Self {
        let config: Value = serde_saphyr::from_str(kubeconfig).expect("YAML");
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let pem = |value: &Value| value.as_str().map(|text| BASE64_STANDARD.decode(text).expect("Base64"));
        let certificate = |pem: Vec<u8>| Certificate::from_pem(&pem).expect("a certificate");
        let roots = pem(&cluster["certificate-authority-data"]).map(|pem| [certificate(pem)]);
        let identity = pem(&user["client-certificate-data"]).map(|chain| {
            let key = PrivateKey::from_pem(&pem(&user["client-key-data"]).expect("a key")).expect("a key");
            ClientCert::new_with_certs(&[certificate(chain)], key)
        });
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(roots.as_ref().map_or(&[], |roots| roots)))
            .client_cert(identity)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = ureq::Agent::config_builder().timeout_global(Some(SOON)).http_status_as_error(false);
        Self {
            agent: config.proxy(None).tls_config(tls.build()).build().into(),
            server: cluster["server"].as_str().expect("a server").trim_end_matches('/').to_owned(),
            token: user["token"].as_str().map(str::to_owned),
        }
    }

    /// Sends a request and returns the object in the answer.
    ///
    /// `path` may end with a query.
    pub fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, ApiError> {
        self.send(method, path, body).map(|(_, object)| object)
    }

    /// Sends a request like [`request`](Self::request), and returns the status code too.
    pub fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<(u16, Value), ApiError> {
        let mut response = self.run(method, path, body)?;
        let object = response.body_mut().read_to_vec().map_err(ApiError::Failed)?;
        Ok((response.status().as_u16(), serde_json::from_slice(&object).expect("an answer in JSON")))
    }

    /// Opens a watch.
    ///
    /// The iterator returns the events, and ends when the server ends the watch.
    pub fn watch(&self, path: &str) -> Result<impl Iterator<Item = Value> + use<>, ApiError> {
        let lines = BufReader::new(self.run(Method::GET, path, None)?.into_body().into_reader()).lines();
        Ok(lines.map(|line| serde_json::from_str(&line.expect("a line or the end")).expect("an event in JSON")))
    }

    fn run(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<ureq::http::Response<ureq::Body>, ApiError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.server));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body.to_string());
                self.agent.run(request.expect("a request"))
            }
            None => self.agent.run(request.body(()).expect("a request")),
        };
        let mut response = answer.map_err(ApiError::Failed)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.body_mut().read_to_vec().map_err(ApiError::Failed)?;
        Err(ApiError::Refused(serde_json::from_slice(&status).expect("a Status")))
    }
}

impl ApiError {
    /// Returns the `Status` of the server.
    pub fn status(&self) -> Option<&Value> {
        match self {
            Self::Refused(status) => Some(status),
            Self::Failed(_) => None,
        }
    }

    /// Returns the status code of the server.
    pub fn code(&self) -> Option<u64> {
        self.status()?["code"].as_u64()
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => status.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}
