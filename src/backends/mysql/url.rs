//! Parsing of MySQL's configuration from a URL with the parameters of common clients.

use std::time::Duration;

use super::config::{MySqlConfig, POLL_INTERVAL};
use crate::backends::sql::tls_mode::TlsMode::{self, Disable, Require, VerifyCa, VerifyFull};
use crate::net::database_url::{Address, DatabaseUrl};
use crate::net::parameters::{
    self, Decision::Followed, Decision::Ignored, Decision::Only, Decision::Refused, set, set_interval,
};
use crate::net::tls::config::UrlFiles;
use crate::util::config_error::ConfigError;

const PORT: u16 = 3306;

/// The values of the parameters.
#[derive(Default)]
struct MySqlUrl {
    url: DatabaseUrl,
    socket: Option<String>,
    tls_mode: Option<TlsMode>,
    files: UrlFiles,
    poll_interval: Option<Duration>,
}

/// The decision about each parameter of MySQL's and MariaDB's clients, Connector/J and other drivers.
///
/// The names are folded by [`fold`], so that `ssl-ca`, `ssl_ca` and `sslCa` are the same parameter.
const PARAMETERS: parameters::ParameterTable<MySqlUrl> = &[
    ("user", Followed(|it, value| set(&mut it.url.user, value))),
    ("password", Followed(|it, value| set(&mut it.url.password, value))),
    ("socket unixsocket localsocket", Followed(|it, value| set(&mut it.socket, value))),
    ("sslmode ssl tls sslaccept", Followed(|it, value| it.raise(&value, Disable, VerifyFull))),
    // Without verification, the connection is still encrypted.
    ("sslverifyservercert sslverifyidentity", Followed(|it, value| it.raise(&value, Require, VerifyFull))),
    ("sslverifycert", Followed(|it, value| it.raise(&value, Require, VerifyCa))),
    ("sslca serversslcert", Followed(|it, value| set(&mut it.files.ca, value))),
    ("sslcert", Followed(|it, value| set(&mut it.files.certificate, value))),
    ("sslkey", Followed(|it, value| set(&mut it.files.key, value))),
    ("pollinterval", Followed(|it, value| set_interval(&mut it.poll_interval, &value))),
    // Each call of the store has its own timeout, and its own small pool.
    ("connecttimeout connectiontimeout sockettimeout readtimeout writetimeout timeout pooltimeout", Ignored),
    ("connectionlimit maxallowedpacket tcpkeepalive autoreconnect statementcachecapacity cacheprepstmts", Ignored),
    // These parameters change how a driver sends statements or returns values.
    ("useserverprepstmts prepstmtcachesize prepstmtcachesqllimit cacheserverconfiguration checkconnliveness", Ignored),
    ("rewritebatchedstatements multistatements allowmultiqueries interpolateparams clientfoundrows", Ignored),
    ("zerodatetimebehavior tinyint1isbit columnswithalias rejectreadonly", Ignored),
    // The client always uses utf8mb4, and stores no times.
    ("charset collation characterencoding connectioncollation useunicode", Ignored),
    ("parsetime loc timezone servertimezone connectiontimezone", Ignored),
    // The client sends the password only through TLS or a socket, and needs no key of the server.
    ("allowpublickeyretrieval getserverpublickey serverpublickeypath serverrsapublickeyfile", Ignored),
    ("allowcleartextpasswords allownativepasswords", Ignored),
    (
        "tlsversion enabledsslprotocolsuites enabledtlsprotocols",
        Only(
            &["TLSv1.2,TLSv1.3", "TLSv1.3,TLSv1.2", "TLSv1.2", "TLSv1,TLSv1.1,TLSv1.2", "TLSv1.1,TLSv1.2"],
            "the client offers TLS 1.2 and 1.3",
        ),
    ),
    ("usessl requiressl verifyservercertificate", Refused("drivers differ in the meaning; use ssl-mode")),
    ("sslcapath", Refused("directories are not read; use ssl-ca with a file")),
    ("sslcrl sslcrlpath", Refused("the client does not check revocation lists")),
    ("sslcipher tlsciphersuites", Refused("the client chooses the ciphers")),
    ("sslidentity sslpassword", Refused("encrypted keys are not supported; use ssl-cert and ssl-key")),
    (
        "trustcertificatekeystoreurl trustcertificatekeystoretype trustcertificatekeystorepassword truststore \
         truststorepassword clientcertificatekeystoreurl clientcertificatekeystoretype \
         clientcertificatekeystorepassword keystore keystorepassword",
        Refused("Java key stores are not read; use ssl-ca, ssl-cert and ssl-key with PEM files"),
    ),
    (
        "sessionvariables initcommand initsql sqlmode autocommit transactionisolation txisolation",
        Refused("settings of the session can weaken the store"),
    ),
];

/// The TLS modes by their values in the drivers, which are folded by [`fold`].
const TLS_MODES: [(&str, TlsMode); 4] = [
    ("disabled disable false off 0", Disable),
    // A fallback to clear text would follow an attack, too.
    (r#"preferred required require trust skipverify acceptinvalidcerts {"rejectunauthorized":false}"#, Require),
    ("verifyca", VerifyCa),
    (r#"verifyidentity verifyfull true on 1 strict {} {"rejectunauthorized":true}"#, VerifyFull),
];

impl MySqlUrl {
    /// Sets the mode that `value` names, within the limits, unless another parameter has set a stronger mode.
    ///
    /// The strongest mode of several parameters decides, because drivers differ in which of them they follow.
    fn raise(&mut self, value: &str, least: TlsMode, most: TlsMode) -> Result<(), String> {
        self.tls_mode = self.tls_mode.max(Some(tls_mode(value)?.clamp(least, most)));
        Ok(())
    }
}

impl MySqlConfig {
    pub(super) fn from_url(url: &str) -> Result<Self, ConfigError> {
        let refuse = |rule: &str| {
            let rule = format!("the URL {rule}; use mysql://user:password@host:3306/database");
            ConfigError::new("url", "unusable", rule)
        };
        let mut url = DatabaseUrl::parse(url, &["mysql", "mariadb"]).map_err(refuse)?;
        let mut parameters = std::mem::take(&mut url.parameters);
        parameters.iter_mut().for_each(|(name, _)| *name = fold(name));
        let mut settings = MySqlUrl { url, ..MySqlUrl::default() };
        parameters::apply(PARAMETERS, parameters, &mut settings).map_err(|rule| refuse(&rule))?;
        let MySqlUrl { url, socket, tls_mode, files, poll_interval } = settings;
        let database = url.database.ok_or_else(|| refuse("names no database"))?;
        let has_files = files.are_set();
        let tls = files.read(|| refuse("must have both ssl-cert and ssl-key, or neither"))?;
        let address = match socket {
            Some(path) => Address::Unix(path.into()),
            None if url.host.is_empty() => return Err(refuse("names no host")),
            None => Address::Tcp { host: url.host, port: url.port.unwrap_or(PORT) },
        };
        Ok(Self {
            address,
            user: url.user,
            password: url.password.into(),
            database,
            ssl_mode: tls_mode,
            tls: has_files.then_some(tls),
            poll_interval: poll_interval.unwrap_or(POLL_INTERVAL),
        })
    }
}

/// Returns the form of a name or a value in which spellings of the drivers are equal.
fn fold(text: &str) -> String {
    text.to_ascii_lowercase().replace(['-', '_'], "")
}

/// Returns the mode of a value.
fn tls_mode(value: &str) -> Result<TlsMode, String> {
    let value = fold(value);
    let mode = TLS_MODES.iter().find(|(values, _)| values.split(' ').any(|known| known == value));
    let possible = "possible are DISABLED, PREFERRED, REQUIRED, VERIFY_CA and VERIFY_IDENTITY";
    mode.map(|(_, mode)| *mode).ok_or_else(|| possible.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::parameters::check_page;

    fn config(query: &str) -> Result<MySqlConfig, String> {
        MySqlConfig::new(&format!("mysql://me:hunter2@db.test/x?{query}")).map_err(|error| error.to_string())
    }

    #[test]
    fn page_lists_the_decision_about_each_parameter() {
        check_page(PARAMETERS, "MYSQL.md", fold);
    }

    #[test]
    fn tls_is_named_as_in_the_clients() {
        for (query, mode) in [
            ("ssl-mode=PREFERRED", TlsMode::Require),
            ("sslMode=required", TlsMode::Require),
            ("sslmode=trust", TlsMode::Require),
            ("tls=skip-verify", TlsMode::Require),
            ("sslaccept=accept_invalid_certs", TlsMode::Require),
            ("ssl-verify-server-cert=false", TlsMode::Require),
            ("ssl_mode=verify_ca", TlsMode::VerifyCa),
            ("ssl-verify-server-cert=1", TlsMode::VerifyFull),
            ("sslMode=VERIFY_IDENTITY", TlsMode::VerifyFull),
            ("sslMode=verify-full", TlsMode::VerifyFull),
            ("tls=true", TlsMode::VerifyFull),
            ("sslaccept=strict", TlsMode::VerifyFull),
            ("ssl={\"rejectUnauthorized\":true}", TlsMode::VerifyFull),
            ("ssl={\"rejectUnauthorized\":false}", TlsMode::Require),
            ("ssl_verify_cert=true", TlsMode::VerifyCa),
            ("ssl_verify_cert=true&ssl_verify_identity=true", TlsMode::VerifyFull),
            ("ssl_verify_identity=true&ssl_verify_cert=false", TlsMode::VerifyFull),
            ("ssl-mode=verify-identity&ssl-verify-server-cert=false", TlsMode::VerifyFull),
            ("sslmode=require&enabledTLSProtocols=TLSv1.2", TlsMode::Require),
            ("ssl=false", TlsMode::Disable),
            ("ssl-mode=DISABLED", TlsMode::Disable),
            ("charset=utf8mb4&connectTimeout=1&parseTime=true", TlsMode::VerifyFull),
        ] {
            assert_eq!(config(query).unwrap().tls_mode(), Ok(mode), "{query}");
        }
        let replaced = config("user=a&password=b").unwrap();
        assert_eq!(replaced.user.as_deref(), Some("a"));
    }

    #[test]
    fn refused_value_is_named_with_the_reason() {
        for (query, expected) in [
            ("ssl-mode=", "possible are DISABLED"),
            ("ssl-mode=on-demand", "possible are DISABLED"),
            ("useSSL=true", "use ssl-mode"),
            ("trustCertificateKeyStoreUrl=file:a", "PEM file"),
            ("ssl-cert=/nowhere", "both ssl-cert and ssl-key"),
            ("ssl-ca=/nowhere", "/nowhere"),
            ("ssl-capath=/etc", "directories"),
            ("ssl-crl=a", "revocation"),
            ("sessionVariables=sql_log_bin=0", "weaken the store"),
            ("init_command=SET%20x", "weaken the store"),
            ("tls-version=TLSv1.3", "offers TLS 1.2 and 1.3"),
            ("innodb_lock_wait_timeout=1", "unknown parameter"),
        ] {
            let error = config(query).expect_err(query);
            assert!(error.contains(expected) && !error.contains("hunter2"), "{query}: {error}");
        }
    }
}
