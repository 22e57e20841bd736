use std::ffi::OsString;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine};

use super::Kubeconfig;
use crate::backends::kubernetes::client::auth::ExecPlugin;
use crate::backends::kubernetes::client::config::AuthConfig;
use crate::backends::kubernetes::client::{ClientConfig, ClientError, ErrorKind};
use crate::net::tests::Scratch;

const CA: &str = include_str!("../../tests/ca.pem");

fn no_env(_: &str) -> Option<OsString> {
    None
}

fn load(text: &str) -> Result<ClientConfig, ClientError> {
    Kubeconfig::from_text(text, "/etc/kube")?.client_config_from(None, &no_env)
}

/// Returns a kubeconfig with one cluster, one context and this user.
fn with_user(user: &str) -> String {
    with("{ server: 'https://10.0.0.1' }", user)
}

fn with(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\npreferences: {{}}\ncurrent-context: c\n\
         clusters:\n- name: k\n  cluster: {cluster}\n\
         contexts:\n- name: c\n  context: {{ cluster: k, user: u, namespace: jobs, unknown: 1 }}\n\
         users:\n- name: u\n  user: {user}\n"
    )
}

fn authorization(config: &ClientConfig) -> &str {
    match &config.auth {
        AuthConfig::Fixed(value) => value.expose(),
        other => panic!("{other:?}"),
    }
}

/// Returns the credential plugin of a kubeconfig with one context.
fn plugin(text: &str) -> ExecPlugin {
    match load(text).unwrap().auth {
        AuthConfig::Exec(plugin) => *plugin,
        other => panic!("{other:?}"),
    }
}

fn token_file(config: &ClientConfig) -> &Path {
    match &config.auth {
        AuthConfig::TokenFile(path) => path,
        other => panic!("{other:?}"),
    }
}

/// Returns the absolute directory of the kubeconfig, which has a drive on Windows.
fn directory() -> PathBuf {
    std::path::absolute("/etc/kube").unwrap()
}

#[test]
fn a_context_names_all() {
    let config = load(&with_user("{ token: sesame, as: jane, as-groups: [a] }")).unwrap();
    assert_eq!(config.server(), "https://10.0.0.1");
    assert_eq!(config.default_namespace, "jobs");
    assert_eq!(authorization(&config), "Bearer sesame");
    assert_eq!(config.impersonation.user.as_deref(), Some("jane"));
    let config = load(&with_user("{ username: me, password: hunter2 }")).unwrap();
    assert_eq!(authorization(&config), "Basic bWU6aHVudGVyMg==");
    let config = load(&with_user("{ token: a, tokenFile: secrets/token }")).unwrap();
    assert_eq!(token_file(&config), directory().join("secrets/token"));
    assert!(matches!(load(&with_user("null")).unwrap().auth, AuthConfig::None));
}

#[test]
fn json_is_yaml_too() {
    let text = r#"{"current-context":"c","clusters":[{"name":"k","cluster":{"server":"http://a/b/"}}],
        "contexts":[{"name":"c","context":{"cluster":"k"}}],"users":null}"#;
    let config = load(text).unwrap();
    assert_eq!((config.server().as_str(), config.default_namespace.as_str()), ("http://a/b", "default"));
}

#[test]
fn files_are_merged_and_the_first_wins() {
    let scratch = Scratch::new();
    let cluster = |server: &str| format!("clusters: [{{ name: k, cluster: {{ server: 'https://{server}' }} }}]\n");
    let user = "users: [{ name: u, user: { tokenFile: token } }]\n";
    let contexts = |namespace: &str| {
        format!("contexts: [{{ name: c, context: {{ cluster: k, user: u, namespace: {namespace} }} }}]\n")
    };
    std::fs::create_dir(scratch.path().join("other")).unwrap();
    let files = [
        scratch.file("one", cluster("first")),
        scratch.path().join("missing"),
        scratch.file("other/two", format!("current-context: c\n{}{user}{}", cluster("second"), contexts("x"))),
        scratch.file("empty", "\n"),
        scratch.file("three", format!("current-context: d\n{}", contexts("y"))),
    ];
    let list = std::env::join_paths(files.iter().map(|f| f.as_os_str()).chain([OsString::new().as_os_str()])).unwrap();
    let env = move |name: &str| (name == "KUBECONFIG").then(|| list.clone());
    let kubeconfig = Kubeconfig::load_from(&env).unwrap();
    assert_eq!(kubeconfig.current_context.as_deref(), Some("c"));
    assert_eq!(kubeconfig.context_names().collect::<Vec<_>>(), ["c"]);
    let config = kubeconfig.client_config_from(None, &env).unwrap();
    assert_eq!((config.server().as_str(), config.default_namespace.as_str()), ("https://first", "x"));
    assert_eq!(token_file(&config), scratch.path().join("other/token"));
    let file = std::path::absolute(scratch.path().join("other/two")).unwrap();
    assert_eq!(config.source, format!("context \"c\" of {} in KUBECONFIG", file.display()));
}

#[test]
fn server_without_scheme_is_https_with_tls_else_an_error() {
    let scratch = Scratch::new();
    scratch.file("ca.pem", CA);
    let load = |cluster: &str, user: &str| {
        let text = with(&format!("{{ server: 'a:6443', {cluster} }}"), &format!("{{ {user} }}"));
        Kubeconfig::from_text(&text, scratch.path()).unwrap().client_config(None)
    };
    for cluster in ["certificate-authority: ca.pem", "insecure-skip-tls-verify: true"] {
        assert_eq!(load(cluster, "token: t").unwrap().server(), "https://a:6443", "{cluster}");
    }
    let error = load("", "client-certificate: missing.pem, client-key: missing.pem").unwrap_err().to_string();
    assert!(error.contains("client-certificate"), "the scheme is right, the file is missing: {error}");
    let error = load("", "token: t").unwrap_err().to_string();
    assert!(error.contains("clusters[k].server") && error.contains("https://"), "{error}");
}

#[test]
fn a_secret_for_a_server_without_tls_is_refused_by_its_field() {
    let load = |user: &str| load(&with("{ server: 'http://10.0.0.1' }", &format!("{{ {user} }}")));
    for (user, field) in [
        ("token: hunter2", "users[u].token"),
        ("tokenFile: /hunter2", "users[u].tokenFile"),
        ("username: me, password: hunter2", "users[u].password"),
        ("exec: {apiVersion: client.authentication.k8s.io/v1, command: hunter2}", "users[u].exec"),
    ] {
        let error = load(user).unwrap_err().to_string();
        assert!(error.contains(field) && error.contains("without TLS") && !error.contains("hunter2"), "{error}");
    }
    assert!(load("").is_ok());
}

#[test]
fn absent_kubeconfig_is_an_error_that_names_its_place() {
    let scratch = Scratch::new();
    let home = OsString::from(scratch.path());
    let env = move |name: &str| (name == "HOME").then(|| home.clone());
    let error = Kubeconfig::load_from(&env).unwrap_err().to_string();
    assert!(error.contains(".kube") && error.contains("set KUBECONFIG"), "{error}");
    assert!(Kubeconfig::load_from(&no_env).is_err());
}

#[test]
fn certificates_come_from_data_or_files_next_to_the_kubeconfig() {
    let scratch = Scratch::new();
    let (chain, key) = (include_str!("../../tests/p521_client.pem"), include_str!("../../tests/p521_client_key.pem"));
    let files = [("ca.pem", CA), ("tls.crt", chain), ("tls.key", key)].map(|(name, text)| scratch.file(name, text));
    // The files are read again when they change.
    let sources = |config: ClientConfig| {
        let (ca, identity) = (config.tls.ca.unwrap(), config.tls.identity.unwrap());
        assert_eq!([&ca, &identity.chain, &identity.key].map(|it| &*it.bytes), [CA, chain, key].map(str::as_bytes));
        [ca, identity.chain, identity.key].map(|source| source.name())
    };
    let cluster = "{ server: 'https://a', certificate-authority: ca.pem, tls-server-name: b, proxy-url: 'http://p:1' }";
    let user = "{ client-certificate: tls.crt, client-key: tls.key }";
    let kubeconfig = Kubeconfig::from_path(&scratch.file("config", with(cluster, user))).unwrap();
    let config = kubeconfig.client_config_from(None, &no_env).unwrap();
    assert_eq!(config.tls.server_name.as_deref(), Some("b"));
    assert!(config.proxy.is_some());
    assert_eq!(sources(config), files.map(|file| Some(file.display().to_string())));
    let [ca, chain, key] = [CA, chain, key].map(|text| BASE64_STANDARD.encode(text));
    let cluster = format!("{{ server: 'https://a', certificate-authority: no, certificate-authority-data: {ca} }}");
    let user = format!("{{ client-certificate-data: {chain}, client-key-data: {key} }}");
    assert_eq!(sources(load(&with(&cluster, &user)).unwrap()), [None, None, None]);
}

#[test]
fn a_credential_plugin_is_resolved() {
    let cluster = "{ server: 'https://a', extensions: \
        [{ name: client.authentication.k8s.io/exec, extension: { audience: x } }] }";
    let plugin = |command: &str| {
        let user = format!(
            "{{ exec: {{ apiVersion: client.authentication.k8s.io/v1beta1, command: {command}, args: [hunter2], \
             env: [{{ name: A, value: hunter2 }}], provideClusterInfo: true, interactiveMode: IfAvailable }} }}"
        );
        plugin(&with(cluster, &user))
    };
    assert_eq!(plugin("aws").api_version, "client.authentication.k8s.io/v1beta1");
    assert_eq!(plugin("aws").command, Path::new("aws"));
    assert_eq!(plugin("./aws").command, directory().join("./aws"));
    assert_eq!(plugin("bin/aws").command, directory().join("bin/aws"));
    assert_eq!(plugin("/bin/aws").command, std::path::absolute("/bin/aws").unwrap());
    let info = plugin("aws").cluster_info.unwrap();
    assert_eq!(info["config"]["audience"], "x");
    assert_eq!(info["server"], "https://a");
    assert!(!format!("{:?}", plugin("aws")).contains("hunter2"));
}

#[test]
fn credential_plugin_receives_all_cluster_fields() {
    let cluster_info = |cluster: &str| {
        let user = "{ exec: { apiVersion: client.authentication.k8s.io/v1, command: a, provideClusterInfo: true } }";
        plugin(&with(cluster, user)).cluster_info.unwrap()
    };
    let ca = BASE64_STANDARD.encode(CA);
    let cluster = format!(
        "{{ server: 'https://a/b', tls-server-name: c, proxy-url: 'http://me:hunter2@d:3128', \
         certificate-authority-data: {ca}, extensions: [{{ name: other, extension: 1 }}, \
         {{ name: client.authentication.k8s.io/exec, extension: {{ audience: x }} }}] }}"
    );
    let expected = serde_json::json!({
        "server": "https://a/b",
        "tls-server-name": "c",
        "proxy-url": "http://me:hunter2@d:3128",
        "certificate-authority-data": ca,
        "config": { "audience": "x" },
    });
    assert_eq!(cluster_info(&cluster), expected);
    let expected = serde_json::json!({ "server": "https://a", "insecure-skip-tls-verify": true });
    let cluster = "{ server: 'https://a', insecure-skip-tls-verify: true, tls-server-name: '', proxy-url: '' }";
    assert_eq!(cluster_info(cluster), expected);
}

#[test]
fn a_variable_of_a_plugin_without_a_value_is_empty() {
    let user = "{ exec: { apiVersion: client.authentication.k8s.io/v1, command: a, \
                env: [{ name: A, value: null }, { name: B }, { name: C, value: '' }, { name: D, value: d }] } }";
    let env = plugin(&with_user(user)).env;
    let env: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(env, [("A", ""), ("B", ""), ("C", ""), ("D", "d")]);
}

#[test]
fn broken_rules_name_file_field_and_remedy() {
    let server = |rest: &str| with(&format!("{{ server: 'https://a', {rest} }}"), "{}");
    let exec = |fields: &str| with_user(&format!("{{ exec: {{ {fields} }} }}"));
    let v1 = "apiVersion: client.authentication.k8s.io/v1";
    for (text, expected) in [
        (with("{}", "{}"), "clusters[k].server"),
        (with("{ server: 'https://me:hunter2@a' }", "{}"), "clusters[k].server"),
        (server("certificate-authority: /nonexistent"), "clusters[k].certificate-authority"),
        (server("certificate-authority-data: '!hunter2'"), "certificate-authority-data: is not base64"),
        (server("certificate-authority-data: aHVudGVyMg=="), "clusters[k].certificate-authority"),
        (server("proxy-url: 'socks4://hunter2@a'"), "clusters[k].proxy-url"),
        (with_user("{ auth-provider: { name: gcp } }"), "gke-gcloud-auth-plugin"),
        (with_user("{ token: hunter2, username: a }"), "users[u].username"),
        (with_user("{ client-key-data: aHVudGVyMg== }"), "users[u].client-certificate"),
        (with_user("{ as-groups: [a] }"), "users[].as"),
        (exec("command: a"), "users[u].exec.apiVersion"),
        (exec(v1), "users[u].exec.command"),
        (exec(&format!("{v1}, command: a, interactiveMode: Always")), "interactiveMode"),
        (exec(&format!("{v1}, command: a, env: [{{ name: 'A=', value: hunter2 }}]")), "users[u].exec.env"),
        (with_user("{}").replace("current-context: c", ""), "current-context"),
        (with_user("{}").replace("current-context: c", "current-context: z"), "\"z\""),
        (with_user("{}").replace("cluster: k,", "cluster: z,"), "contexts[c].cluster"),
        (with_user("{}").replace("user: u,", "user: z,"), "contexts[c].user"),
        (with_user("{}").replace("- name: u", "- name: u\n- name: u"), "twice"),
        (with_user("{ token: { hunter2: hunter2 } }"), "line"),
        ("clusters: [hunter2".to_owned(), "line"),
        ("hunter2".to_owned(), "line"),
    ] {
        let error = load(&text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert_eq!(error.kind(), &ErrorKind::Config, "{text}");
        assert!(shown.contains(expected) && shown.contains("kubeconfig"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn ambiguous_setting_is_refused() {
    let plain = with_user("{ token: hunter2 }");
    let broken = "-----BEGIN CERTIFICATE-----\nhunter2!\n-----END CERTIFICATE-----\n";
    let bundle = BASE64_STANDARD.encode(format!("{CA}{broken}"));
    for (text, expected) in [
        (
            plain.replace("token: hunter2", "token: hunter2, token: hunter3"),
            "line 13 column 27, where a key is repeated",
        ),
        (format!("{plain}current-context: z\n"), "line 14 column 1, where a key is repeated"),
        (format!("{plain}unknown: 1\nunknown: 2\n"), "line 15 column 1, where a key is repeated"),
        (format!("{plain}---\n{plain}"), "line 14 column 1, where a second document starts"),
        (with(&format!("{{ server: 'https://a', certificate-authority-data: {bundle} }}"), "{}"), "is not valid PEM"),
    ] {
        let error = load(&text).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("hunter"), "{error}");
    }
}

#[test]
fn unambiguous_setting_is_accepted_although_client_go_refuses() {
    let v1 = "apiVersion: client.authentication.k8s.io/v1";
    for text in [
        with_user("{ token: sesame }").replace("kind: Config", "kind: Other"),
        with_user("{ token: 12345678 }").replace("namespace: jobs", "namespace: 7"),
        with_user("{ token: sesame, password: hunter2 }"),
        with_user(&format!("{{ exec: {{ {v1}, command: a }} }}")),
        with("{ server: 'https://a', proxy-url: 'proxy.test:3128' }", "{}"),
    ] {
        load(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}

#[test]
fn authority_with_disabled_verification_is_a_contradiction() {
    let data = BASE64_STANDARD.encode(CA);
    let cluster = |insecure: bool| {
        let cluster = format!(
            "{{ server: 'https://a', insecure-skip-tls-verify: {insecure}, certificate-authority-data: {data} }}"
        );
        load(&with(&cluster, "{}"))
    };
    assert!(cluster(false).unwrap().tls.ca.is_some());
    let error = cluster(true).unwrap_err().to_string();
    assert!(error.contains("clusters[k].insecure-skip-tls-verify: contradicts certificate-authority"), "{error}");
}

#[test]
fn unusable_proxy_stops_only_clients_that_would_use_it() {
    let scratch = Scratch::new();
    let file = OsString::from(scratch.file("config", with_user("{}")));
    let infer = |no_proxy: &'static str| {
        let file = file.clone();
        let env = move |name: &str| match name {
            "KUBECONFIG" => Some(file.clone()),
            "HTTPS_PROXY" => Some("gopher://me:hunter2@p".into()),
            "NO_PROXY" => Some(no_proxy.into()),
            _ => None,
        };
        ClientConfig::infer_from(&env, Path::new("/nonexistent"))
    };
    assert!(infer("10.0.0.0/8").unwrap().proxy.is_none());
    let error = infer("10.0.0.2").unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Config);
    let error = error.to_string();
    assert!(error.contains("HTTPS_PROXY") && error.contains("socks5://") && !error.contains("hunter2"), "{error}");
}

#[test]
fn every_encoding_with_a_byte_order_mark_is_read() {
    let scratch = Scratch::new();
    let text = with_user("{ token: sesame, as: 'jané \u{1F600}' }");
    let units = || text.encode_utf16();
    for bytes in [
        text.as_bytes().to_vec(),
        [&[0xEF, 0xBB, 0xBF], text.as_bytes()].concat(),
        [0xFF, 0xFE].into_iter().chain(units().flat_map(u16::to_le_bytes)).collect(),
        [0xFE, 0xFF].into_iter().chain(units().flat_map(u16::to_be_bytes)).collect(),
    ] {
        let kubeconfig = Kubeconfig::from_path(&scratch.file("config", &bytes)).unwrap();
        let config = kubeconfig.client_config_from(None, &no_env).unwrap();
        assert_eq!(authorization(&config), "Bearer sesame");
        assert_eq!(config.impersonation.user.as_deref(), Some("jané \u{1F600}"));
    }
    assert!(Kubeconfig::from_text(&format!("\u{FEFF}{text}"), "/").is_ok());
    let empty = Kubeconfig::from_path(&scratch.file("config", [0xFF, 0xFE])).unwrap();
    assert_eq!(empty.context_names().count(), 0);
    for (broken, expected) in [
        (&[0xFF, 0xFE, b'a'][..], "UTF-16"),
        (&[0xFF, 0xFE, 0x00, 0xD8, b'a', 0], "UTF-16"),
        (&[0xFE, 0xFF, 0xDC, 0x00], "UTF-16"),
        (&[0xEF, 0xBB, 0xBF, 0xFF], "UTF-8"),
        (&[0x80], "UTF-8"),
    ] {
        let error = Kubeconfig::from_path(&scratch.file("config", broken)).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Config);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn the_files_that_were_looked_for_are_named() {
    let scratch = Scratch::new();
    let missing: Vec<_> = (0..12).map(|i| scratch.path().join(format!("missing-{i}"))).collect();
    let list = std::env::join_paths(&missing).unwrap();
    let error = Kubeconfig::load_from(&move |name| (name == "KUBECONFIG").then(|| list.clone())).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Config);
    let error = error.to_string();
    for named in &missing[..10] {
        assert!(error.contains(&format!("{named:?}")), "{error}");
    }
    assert!(
        error.starts_with("KUBECONFIG: ") && error.contains("and 2 more") && !error.contains("missing-10"),
        "{error}"
    );
    assert!(error.ends_with("correct or unset KUBECONFIG"), "KUBECONFIG comes before a pod's account: {error}");
    let nothing = std::env::join_paths(["", ""]).unwrap();
    let error = Kubeconfig::load_from(&move |name| (name == "KUBECONFIG").then(|| nothing.clone())).unwrap_err();
    assert!(error.to_string().contains("names no file"), "{error}");
}

#[test]
fn missing_current_context_error_explains_how_to_choose() {
    let contexts: Vec<_> = (0..13).map(|i| format!("{{ name: 'dev {i}', context: {{ cluster: k }} }}")).collect();
    let text = format!("contexts: [{}]", contexts.join(", "));
    let error = load(&text).unwrap_err().to_string();
    for expected in
        ["kubectl config use-context", "Kubeconfig::client_config(Some(", "\"dev 0\"", "\"dev 9\" and 3 more"]
    {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let error = load(&format!("current-context: prod\n{text}")).unwrap_err().to_string();
    assert!(error.contains("no context named \"prod\"") && error.contains("\"dev 0\""), "{error}");
    let error = load("clusters: []").unwrap_err().to_string();
    assert!(error.contains("no current-context") && error.contains("no contexts"), "{error}");
    assert!(!error.contains("kubectl"), "there is nothing to choose: {error}");
    let long = load(&format!("current-context: {}", "p".repeat(100_000))).unwrap_err().to_string();
    assert!(long.len() < 1_000, "{} bytes", long.len());
}

#[test]
fn ten_thousand_contexts_are_read_and_more_are_an_error() {
    let contexts = |count: usize| {
        let context =
            |i: usize| format!("- {{ name: n{i}/k/u, context: {{ cluster: k, user: u, namespace: n{i} }} }}\n");
        let contexts: String = (0..count).map(context).collect();
        with_user("{ token: sesame }").replace("contexts:\n", &format!("contexts:\n{contexts}"))
    };
    assert_eq!(load(&contexts(10_000)).unwrap().default_namespace, "jobs");
    let error = load(&contexts(30_000)).unwrap_err().to_string();
    assert!(
        error.contains("column") && error.ends_with("where the document exceeds the size or depth limit"),
        "{error}"
    );
}

#[test]
fn bombs_are_defused() {
    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (from, to) in "abcdefghi".chars().zip("bcdefghij".chars()) {
        let aliases = vec![format!("*{from}"); 10].join(", ");
        bomb.push_str(&format!("{to}: &{to} [{aliases}]\n"));
    }
    bomb.push_str("clusters: *j\n");
    let deep = format!("clusters: {}{}", "[".repeat(20_000), "]".repeat(20_000));
    let long = format!(
        "users: [{{ name: u, user: {{ as: &a '{}', as-groups: [{}] }} }}]",
        "x".repeat(20_000),
        "*a,".repeat(99)
    );
    for text in [bomb, deep, long] {
        // Parsing fails even though there is no context to resolve.
        assert_eq!(Kubeconfig::from_text(&text, "/").unwrap_err().kind(), &ErrorKind::Config);
    }
}

#[test]
fn no_secret_is_shown() {
    let extension = "{ server: 'https://a', extensions: \
        [{ name: client.authentication.k8s.io/exec, extension: { clientSecret: hunter2 } }] }";
    for (cluster, user) in [
        (
            "{ server: 'https://a', proxy-url: 'http://me:hunter2@p' }",
            "{ token: hunter2, password: hunter2, exec: { args: [hunter2], env: [{ name: A, value: hunter2 }] } }",
        ),
        (extension, "{ client-certificate-data: hunter2, client-key-data: hunter2 }"),
        ("{ server: 'https://me:hunter2@a' }", "{}"),
    ] {
        let kubeconfig = Kubeconfig::from_text(&with(cluster, user), "/etc/kube").unwrap();
        let shown = format!("{kubeconfig:?} {:?}", kubeconfig.client_config_from(None, &no_env));
        assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMg"), "{shown}");
    }
}
