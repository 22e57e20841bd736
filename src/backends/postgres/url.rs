//! Parsing of PostgreSQL's configuration from a URL with libpq's parameters.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::channel_binding::ChannelBindingMode;
use super::config::{POLL_INTERVAL, PostgresConfig};
use crate::backends::sql::tls_mode::TlsMode;
use crate::net::database_url::{Address, DatabaseUrl};
use crate::net::parameters::{
    self, Decision::Followed, Decision::Ignored, Decision::Only, Decision::Refused, set, set_interval,
};
use crate::net::tls::config::UrlFiles;
use crate::util::config_error::ConfigError;

const DEFAULT_PORT: u16 = 5432;

/// The values of the parameters.
#[derive(Default)]
struct PostgresUrl {
    url: DatabaseUrl,
    /// The IP address to connect to, instead of an address of the host.
    address: Option<IpAddr>,
    application_name: Option<String>,
    fallback_name: Option<String>,
    options: String,
    tls_mode: Option<TlsMode>,
    files: UrlFiles,
    channel_binding: ChannelBindingMode,
    poll_interval: Option<Duration>,
}

/// The decision about each parameter of libpq 17.
const PARAMETERS: parameters::ParameterTable<PostgresUrl> = &[
    ("host", Followed(set_host)),
    ("hostaddr", Followed(|it, value| set(&mut it.address, value))),
    ("port", Followed(|it, value| set(&mut it.url.port, value))),
    ("user", Followed(|it, value| set(&mut it.url.user, value))),
    ("password", Followed(|it, value| set(&mut it.url.password, value))),
    ("dbname", Followed(|it, value| set(&mut it.url.database, value))),
    ("application_name", Followed(|it, value| set(&mut it.application_name, value))),
    ("fallback_application_name", Followed(|it, value| set(&mut it.fallback_name, value))),
    ("options", Followed(set_options)),
    // Prisma and JDBC name the schema of the tables.
    ("schema currentSchema", Followed(set_schema)),
    // As in libpq, `requiressl` of old versions and `ssl` of JDBC are other names.
    ("sslmode ssl requiressl", Followed(set_tls_mode)),
    ("sslrootcert", Followed(|it, value| set(&mut it.files.ca, value))),
    ("sslcert", Followed(|it, value| set(&mut it.files.certificate, value))),
    ("sslkey", Followed(|it, value| set(&mut it.files.key, value))),
    ("channel_binding", Followed(|it, value| ChannelBindingMode::parse(&value).map(|mode| it.channel_binding = mode))),
    ("poll_interval", Followed(|it, value| set_interval(&mut it.poll_interval, &value))),
    ("target_session_attrs", Only(&["any", "primary", "read-write"], "the store needs the primary, to write")),
    // Each call of the store has its own timeout, and the client probes idle connections itself.
    ("connect_timeout keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout", Ignored),
    // These parameters belong to other drivers, poolers and their caches.
    ("pgbouncer supa uselibpqcompat connection_limit pool_timeout pool_max_conns socket_timeout", Ignored),
    ("statement_cache_capacity statement_cache_size prepareThreshold default_query_exec_mode", Ignored),
    // The client always uses UTF8, connects to one host, and never compresses.
    ("client_encoding load_balance_hosts sslcompression", Ignored),
    // These parameters belong to GSSAPI.
    ("krbsrvname gsslib gssdelegation", Ignored),
    ("gssencmode", Only(&["disable", "prefer"], "GSSAPI is not supported")),
    ("require_auth", Refused("use channel_binding=require, which allows SCRAM-SHA-256-PLUS alone")),
    ("sslcertmode", Only(&["allow"], "the certificate in sslcert is sent if the server requests a certificate")),
    ("sslnegotiation", Only(&["postgres"], "the client requests TLS as servers before PostgreSQL 17 expect")),
    ("sslsni", Only(&["1"], "the client always sends the host's name")),
    ("ssl_min_protocol_version", Only(&["TLSv1", "TLSv1.1", "TLSv1.2"], "the client cannot exclude TLS 1.2")),
    ("ssl_max_protocol_version", Only(&["TLSv1.3"], "the client cannot exclude TLS 1.3")),
    ("replication", Only(&["false", "off", "no", "0"], "a replication connection runs no statements of the store")),
    ("sslcrl sslcrldir", Refused("the client does not check revocation lists")),
    ("sslpassword", Refused("encrypted keys are not supported; store the key decrypted")),
    ("requirepeer", Refused("the client does not check the user of a socket's server")),
    ("passfile", Refused("password files are not read; use `with_password`")),
    ("service servicefile", Refused("service files are not read; write the parameters into the URL")),
    ("scram_client_key scram_server_key", Refused("keys of SCRAM are not supported; use a password")),
];

impl PostgresConfig {
    pub(super) fn from_url(url: &str) -> Result<Self, ConfigError> {
        let refuse = |rule: &str| ConfigError::new("url", "unusable", format!("the URL {rule}"));
        let mut url = DatabaseUrl::parse(url, &["postgres", "postgresql"])
            .map_err(|rule| refuse(&format!("{rule}; use postgres://user@host:5432/database")))?;
        let parameters = std::mem::take(&mut url.parameters);
        let mut settings = PostgresUrl { url, ..PostgresUrl::default() };
        parameters::apply(PARAMETERS, parameters, &mut settings).map_err(|rule| refuse(&rule))?;
        let PostgresUrl { url, mut files, channel_binding, .. } = settings;
        let has_system_roots = files.ca.take_if(|ca| ca == "system").is_some();
        let tls = files.read(|| refuse("must have both sslcert and sslkey, or neither"))?;
        let port = url.port.unwrap_or(DEFAULT_PORT);
        let server_name = settings.address.and(Some(url.host.clone())).filter(|host| !host.is_empty());
        let address = match settings.address.map_or(url.host, |address| address.to_string()) {
            host if host.is_empty() => Address::Tcp { host: "localhost".to_owned(), port },
            directory if directory.starts_with('/') => {
                Address::Unix(PathBuf::from(directory).join(format!(".s.PGSQL.{port}")))
            }
            host => Address::Tcp { host, port },
        };
        let user = url.user.ok_or_else(|| refuse("must name a user"))?;
        let tls_mode = match (&address, settings.tls_mode) {
            // As in libpq, a socket needs no TLS, because the data stays on this machine.
            (Address::Unix(_), _) => TlsMode::Disable,
            (_, mode) if has_system_roots && mode.is_none_or(|mode| mode == TlsMode::VerifyFull) => TlsMode::VerifyFull,
            (_, Some(_)) if has_system_roots => {
                return Err(refuse("must have sslmode=verify-full for sslrootcert=system"));
            }
            (address, mode) => mode.unwrap_or(TlsMode::default_for(address)),
        };
        if tls_mode == TlsMode::Disable && channel_binding == ChannelBindingMode::Require {
            let rule = "must not have channel_binding=require without TLS; add sslmode=verify-full, or sslmode=require";
            return Err(refuse(rule));
        }
        Ok(Self {
            database: url.database.unwrap_or_else(|| user.clone()),
            user,
            password: url.password.into(),
            application_name: settings.application_name.or(settings.fallback_name).unwrap_or("leasehold".to_owned()),
            options: settings.options,
            channel_binding,
            tls_mode,
            address,
            server_name,
            tls,
            poll_interval: settings.poll_interval.unwrap_or(POLL_INTERVAL),
        })
    }
}

fn set_host(settings: &mut PostgresUrl, value: String) -> Result<(), String> {
    settings.url.host = value;
    match settings.url.host.contains(',') {
        true => Err("only one host is supported; use a name that leads to the primary".to_owned()),
        false => Ok(()),
    }
}

fn set_tls_mode(settings: &mut PostgresUrl, value: String) -> Result<(), String> {
    settings.tls_mode = Some(match &*value {
        "disable" | "false" => TlsMode::Disable,
        // A fallback to clear text would follow an attack, too.
        "allow" | "prefer" | "require" | "no-verify" | "true" | "1" | "0" => TlsMode::Require,
        "verify-ca" => TlsMode::VerifyCa,
        "verify-full" => TlsMode::VerifyFull,
        _ => return Err("possible are disable, allow, prefer, require, verify-ca and verify-full".to_owned()),
    });
    Ok(())
}

fn set_schema(settings: &mut PostgresUrl, value: String) -> Result<(), String> {
    if value.is_empty() { Ok(()) } else { set_options(settings, format!("-c search_path={value}")) }
}

/// Adds to the server's options, if the client allows them.
///
/// Other settings, such as `synchronous_commit=off`, can change the meaning of a commit or a notification.
fn set_options(settings: &mut PostgresUrl, value: String) -> Result<(), String> {
    let mut words = value.split(' ').filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next().unwrap_or_default(),
            Some(setting) => setting,
            None => word.strip_prefix("--").unwrap_or(word),
        };
        let name = setting.split_once('=').map_or("an option without a value", |(name, _)| name);
        let is_allowed = match word.starts_with('-') {
            true => name.replace('-', "_").eq_ignore_ascii_case("search_path"),
            false => ["endpoint", "project", "reference"].contains(&name),
        };
        // The server ends a word at each kind of space, but not after a backslash.
        if !is_allowed || setting.contains(|character: char| character == '\\' || character.is_control()) {
            return Err(format!(
                "{name} is refused, because server settings can weaken the store; possible are endpoint=… and \
                 -c search_path=…, without backslashes"
            ));
        }
    }
    settings.options = format!("{} {value}", settings.options).trim().to_owned();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::parameters::check_page;

    fn config(query: &str) -> Result<PostgresConfig, String> {
        PostgresConfig::new(&format!("postgres://me:hunter2@db.test/x?{query}")).map_err(|error| {
            let text = error.to_string();
            assert!(!text.contains("hunter2"), "{text}");
            text
        })
    }

    #[test]
    fn page_lists_the_decision_about_each_parameter() {
        check_page(PARAMETERS, "POSTGRES.md", str::to_owned);
    }

    /// The tests cover each parameter of libpq 17 and the names that libpq translates.
    #[test]
    fn each_parameter_of_libpq_has_a_decision() {
        let decided: Vec<_> = PARAMETERS.iter().flat_map(|(names, _)| names.split(' ')).collect();
        for name in "host hostaddr port dbname user password passfile require_auth channel_binding connect_timeout \
            client_encoding options application_name fallback_application_name keepalives keepalives_idle \
            keepalives_interval keepalives_count tcp_user_timeout replication gssencmode sslmode requiressl \
            sslnegotiation sslcompression sslcert sslkey sslpassword sslcertmode sslrootcert sslcrl sslcrldir sslsni \
            requirepeer ssl_min_protocol_version ssl_max_protocol_version krbsrvname gsslib gssdelegation service \
            target_session_attrs load_balance_hosts ssl"
            .split_whitespace()
        {
            assert_eq!(decided.iter().filter(|decided| **decided == name).count(), 1, "{name}");
        }
    }

    #[test]
    fn urls_as_providers_show_them_are_accepted() {
        for query in [
            "sslmode=require&channel_binding=require",
            "sslmode=require&options=endpoint%3Dep-cool-name-123456",
            "sslmode=verify-full&sslrootcert=system",
            "sslrootcert=system&channel_binding=prefer&gssencmode=disable",
            "sslmode=prefer&connect_timeout=10&keepalives=1&keepalives_idle=30&keepalives_interval=10&keepalives_count=3",
            "sslmode=allow&target_session_attrs=read-write&fallback_application_name=a&tcp_user_timeout=1000",
            "ssl=true&client_encoding=auto&load_balance_hosts=disable&sslsni=1&sslnegotiation=postgres&sslcompression=0",
            "ssl_min_protocol_version=TLSv1.2&ssl_max_protocol_version=TLSv1.3&replication=false&sslcrl=&passfile=",
            "krbsrvname=postgres&gsslib=&gssdelegation=0&sslcertmode=allow&requiressl=1",
            "pgbouncer=true&connection_limit=1&pool_timeout=0&schema=public&sslmode=no-verify&uselibpqcompat=true",
            "options=reference%3Dabcdefghijklmnop&ssl=0",
            " sslmode = require & options = ",
        ] {
            config(query).expect(query);
        }
    }

    #[test]
    fn refused_value_is_named_with_the_reason() {
        for (query, expected) in [
            ("sslmode=", "possible are disable"),
            ("sslmode=REQUIRE", "possible are disable"),
            ("SSLMODE=require", "unknown parameter \"SSLMODE\""),
            ("ssl=yes", "possible are disable"),
            ("sslrootcert=system&sslmode=require", "must have sslmode=verify-full"),
            ("sslrootcert=/nowhere", "/nowhere"),
            ("sslcert=/nowhere", "both sslcert and sslkey"),
            ("sslcertmode=require", "if the server requests"),
            ("channel_binding=", "disable, prefer and require"),
            ("channel_binding=require&sslmode=disable", "without TLS"),
            ("channel_binding=require&host=/run/pg", "without TLS"),
            ("require_auth=scram-sha-256", "channel_binding=require"),
            ("target_session_attrs=standby", "primary"),
            ("host=a,b", "one host"),
            ("hostaddr=db.test", "not a valid value"),
            ("port=1,2", "not a valid value"),
            ("user=", "must name a user"),
            ("sslcrl=a", "revocation"),
            ("sslpassword=hunter2", "decrypted"),
            ("gssencmode=require", "GSSAPI"),
            ("sslnegotiation=direct", "before PostgreSQL 17"),
            ("ssl_min_protocol_version=TLSv1.3", "TLS 1.2"),
            ("replication=database", "replication connection"),
            ("requirepeer=postgres", "user of a socket"),
            ("service=a", "service files"),
            ("passfile=/a", "with_password"),
            ("application_name=a b", "%20"),
        ] {
            let error = config(query).expect_err(query);
            assert!(error.contains(expected), "{query}: {error}");
        }
    }

    #[test]
    fn last_value_in_the_query_replaces_the_part_of_the_url() {
        let query = "user=a&user=jo%40b&password=secret&port=6543&dbname=y&host=other.test&application_name=";
        let found = config(query).unwrap();
        assert_eq!(
            (&*found.user, &*found.database, found.address.to_string()),
            ("jo@b", "y", "other.test:6543".into())
        );
        assert_eq!(found.password.fixed.as_ref().map(|password| password.expose()), Some("secret"));
        assert_eq!(config("fallback_application_name=b").unwrap().application_name, "b");
        assert_eq!(config("fallback_application_name=b&application_name=a").unwrap().application_name, "a");
        let found = config("hostaddr=::1&sslmode=verify-full").unwrap();
        assert_eq!((found.address.to_string(), found.server_name.as_deref()), ("[::1]:5432".into(), Some("db.test")));
        assert_eq!(config("hostaddr=").unwrap().address.to_string(), "db.test:5432");
    }

    #[test]
    fn tls_mode_is_never_weaker_than_in_libpq() {
        for (query, mode) in [
            ("sslmode=disable", TlsMode::Disable),
            ("ssl=false", TlsMode::Disable),
            ("requiressl=0", TlsMode::Require),
            ("sslmode=no-verify", TlsMode::Require),
            ("sslmode=allow", TlsMode::Require),
            ("sslmode=prefer", TlsMode::Require),
            ("sslmode=require", TlsMode::Require),
            ("sslmode=verify-ca", TlsMode::VerifyCa),
            ("sslmode=verify-full", TlsMode::VerifyFull),
            ("hostaddr=127.0.0.1&sslrootcert=system", TlsMode::VerifyFull),
            ("sslmode=verify-full&sslmode=disable", TlsMode::Disable),
        ] {
            assert_eq!(config(query).unwrap().tls_mode, mode, "{query}");
        }
        let store = |query| crate::postgres::PostgresStore::new(config(query).unwrap()).map(drop);
        let error = store("sslmode=verify-ca").unwrap_err().to_string();
        assert!(error.contains("certificate of an authority"), "{error}");
    }

    #[test]
    fn options_of_the_server_are_a_path_or_an_endpoint() {
        let options = |value: &str| {
            let mut settings = PostgresUrl::default();
            set_options(&mut settings, value.to_owned()).map(|()| settings.options)
        };
        for value in [
            "-c search_path=x",
            "-csearch_path=x,public",
            "--search-path=x  endpoint=ep-a",
            "project=ep-a",
            "-c SEARCH_PATH=x -c search_path=y",
            "--search_path=\"$user\"",
            "",
        ] {
            assert_eq!(options(value).as_deref(), Ok(value));
        }
        for value in [
            "-c synchronous_commit=off",
            "-csession_replication_role=replica",
            "--role=other",
            "-c search_path=x -c role=other",
            "-c",
            "-c search_path",
            "search_path=x",
            "--endpoint=x",
            "-cendpoint=x",
            "-f s",
            "-c\tfsync=off",
            "-c search_path=x\u{b}--role=y",
            "endpoint=x\t-c\trole=y",
            "-c search_path=x\\",
            "endpoint=x\\ y",
        ] {
            assert!(options(value).unwrap_err().contains("is refused"), "{value}");
        }
        let both = config("schema=x,y&options=endpoint%3Dep-a&currentSchema=").unwrap();
        assert_eq!(both.options, "-c search_path=x,y endpoint=ep-a");
        assert!(config("schema=x%20-c%20role%3Dy").unwrap_err().contains("role is refused"));
        let error = config("options=-c%20synchronous_commit%3Doff").unwrap_err();
        assert!(error.contains("synchronous_commit is refused"), "{error}");
    }
}
