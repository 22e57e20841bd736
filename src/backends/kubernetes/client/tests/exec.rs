use std::thread;
use std::time::{Duration, Instant};

use super::server::{Server, accepts, ok, serve};
use super::{LONG, put};
use crate::backends::kubernetes::client::config::kubeconfig::Kubeconfig;
use crate::backends::kubernetes::client::{Client, ErrorKind};
use crate::net::calls::CallError;
use crate::net::tests::Scratch;
use crate::net::tests::certificates::authority;

/// Returns a kubeconfig whose plugin is the shell script `body`.
fn kubeconfig(scratch: &Scratch, server: &Server, body: &str, extra: &str) -> String {
    // Executing a file that was just written can fail with "text file busy" while another test forks. The plugin is
    // therefore a shell that reads the file.
    let body = scratch.file("body.sh", body);
    std::os::unix::fs::symlink("/bin/sh", scratch.path().join("plugin.sh")).unwrap();
    format!(
        "current-context: c\n\
         clusters: [{{ name: k, cluster: {{ server: 'http://127.0.0.1:{}' }} }}]\n\
         contexts: [{{ name: c, context: {{ cluster: k, user: u }} }}]\n\
         users: [{{ name: u, user: {{ exec: {{ apiVersion: client.authentication.k8s.io/v1, \
         command: ./plugin.sh, args: ['{}', one, 'two three'], env: [{{ name: GREETING, value: hello }}], {extra} }} }} }}]\n",
        server.port,
        body.display()
    )
}

/// Returns a client whose plugin is the shell script `body`.
fn client(scratch: &Scratch, server: &Server, body: &str, extra: &str) -> Client {
    let text = kubeconfig(scratch, server, body, extra);
    let kubeconfig = Kubeconfig::from_text(&text, scratch.path()).unwrap();
    Client::new(kubeconfig.client_config_from(None, &|_| None).unwrap()).unwrap()
}

/// Returns a shell command that prints an `ExecCredential` with this status.
fn print(status: &str) -> String {
    format!(
        "echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{status}}}'"
    )
}

/// Returns a plugin that counts its runs in `log`. In `rest`, `n` is the number of the run.
fn counted(scratch: &Scratch, rest: &str) -> String {
    let directory = scratch.path().display();
    format!("echo x >> {directory}/log; n=$(wc -l < {directory}/log | tr -d ' ')\n{rest}")
}

#[test]
fn plugin_runs_once_with_arguments_and_cluster() {
    let (scratch, server) = (Scratch::new(), serve(vec![ok("{}")]));
    let log = scratch.path().join("log");
    let body = format!(
        "echo \"$#|$1|$2|$GREETING|$KUBERNETES_EXEC_INFO\" >> {}\n{}",
        log.display(),
        print("{\"token\":\"sesame\",\"expirationTimestamp\":\"2999-01-01T00:00:00+05:30\"}")
    );
    let client = client(&scratch, &server, &body, "provideClusterInfo: true");
    put(&client, LONG).unwrap();
    put(&client, LONG).unwrap();
    assert!(server.next().to_ascii_lowercase().contains("authorization: bearer sesame"));
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
    let (arguments, info) = log.trim().rsplit_once('|').unwrap();
    assert_eq!(arguments, "2|one|two three|hello");
    let info: serde_json::Value = serde_json::from_str(info).unwrap();
    assert_eq!(info["spec"]["cluster"]["server"], format!("http://127.0.0.1:{}", server.port));
    assert_eq!(info["spec"]["interactive"], false);
}

#[test]
fn response_fields_that_client_go_ignores_are_ignored() {
    // A byte order mark, Go's zero time and empty fields are all valid.
    let (scratch, server) = (Scratch::new(), serve(vec![ok("{}")]));
    let status = "{\"token\":\"sesame\",\"expirationTimestamp\":\"0001-01-01T00:00:00Z\",\
                  \"clientCertificateData\":\"\",\"clientKeyData\":\"\"}";
    let body = counted(&scratch, &format!("printf '\\357\\273\\277'\n{}", print(status)));
    let client = client(&scratch, &server, &body, "");
    put(&client, LONG).unwrap();
    put(&client, LONG).unwrap();
    assert!(server.next().to_ascii_lowercase().contains("authorization: bearer sesame"));
    assert_eq!(starts(&scratch), 1, "Go's zero time is no expiry");
}

#[test]
fn plugin_runs_and_failures_are_counted() {
    let (scratch, server) = (Scratch::new(), serve(vec![ok("{}")]));
    let expired = print("{\"token\":\"sesame\",\"expirationTimestamp\":\"2001-01-01T00:00:00Z\"}");
    let body = counted(&scratch, &format!("[ $n -lt 3 ] || exit 7\n{expired}"));
    let client = client(&scratch, &server, &body, "");
    let counted = || (client.counters().plugin_runs, client.counters().plugin_failures);
    assert_eq!(counted(), (0, 0));
    for runs in 1..=2 {
        put(&client, LONG).unwrap();
        assert_eq!(counted(), (runs, 0));
    }
    // The second request ends before the plugin's pause does, so the request gets the failure of the last run.
    for time in [LONG, Duration::from_millis(1)] {
        put(&client, time).unwrap_err();
        assert_eq!(counted(), (3, 1));
    }
    assert_eq!(client.clone().counters(), client.counters(), "a clone is the same client");
}

#[test]
fn a_401_runs_the_plugin_again() {
    let scratch = Scratch::new();
    let server = serve(vec![accepts("Bearer t2")]);
    let client = client(&scratch, &server, &counted(&scratch, &print("{\"token\":\"t'$n'\"}")), "");
    put(&client, LONG).unwrap();
    put(&client, LONG).unwrap();
    assert_eq!(starts(&scratch), 2);
}

#[test]
fn plugin_errors_differ_from_server_errors_and_hide_output() {
    let v1beta1 = "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":\"ExecCredential\"}'";
    for (body, expected) in [
        ("echo hunter2; echo hunter2 >&2; exit 3".to_owned(), "exit status: 3"),
        ("echo hunter2".to_owned(), "as JSON"),
        ("echo '{\"status\":\"hunter2\"}'".to_owned(), "as JSON"),
        ("echo '{}'".to_owned(), "kind"),
        (v1beta1.to_owned(), "another apiVersion"),
        (print("null"), "without a status"),
        (print("{}"), "neither a token"),
        (print("{\"token\":\"hunter2\\u0001\"}"), "invalid in a header"),
        (print("{\"token\":\"hunter2\",\"expirationTimestamp\":\"hunter2\"}"), "RFC 3339"),
        (print("{\"clientCertificateData\":\"hunter2\"}"), "without its key"),
        (print("{\"clientCertificateData\":\"hunter2\",\"clientKeyData\":\"hunter2\"}"), "unusable certificate"),
        ("head -c 2000000 /dev/zero".to_owned(), "1 MiB"),
    ] {
        let (scratch, server) = (Scratch::new(), serve(vec![]));
        let error = put(&client(&scratch, &server, &body, ""), LONG).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Credentials, "{error}");
        assert!(!error.maybe_sent());
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(expected) && shown.contains("plugin.sh"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn a_missing_plugin_comes_with_its_hint() {
    let (scratch, server) = (Scratch::new(), serve(vec![]));
    let client = client(&scratch, &server, "", "installHint: get it from example.com");
    std::fs::remove_file(scratch.path().join("plugin.sh")).unwrap();
    let error = put(&client, LONG).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Credentials);
    assert!(error.to_string().contains("get it from example.com"), "{error}");
}

/// Returns a plugin that logs its start to `log` and continues when the file `go` exists.
fn gated(scratch: &Scratch, rest: &str) -> String {
    let directory = scratch.path().display();
    counted(scratch, &format!("while [ ! -e {directory}/go ]; do sleep 0.05; done\n{rest}"))
}

fn starts(scratch: &Scratch) -> usize {
    scratch.lines("log")
}

#[test]
fn all_requests_share_one_run() {
    let scratch = Scratch::new();
    let server = serve((0..6).map(|_| ok("{}")).collect());
    let client = client(&scratch, &server, &gated(&scratch, &print("{\"token\":\"sesame\"}")), "");
    let error = put(&client, Duration::from_millis(200)).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Timeout);
    assert!(!error.maybe_sent() && error.to_string().contains("the run continues"), "{error}");
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| put(&client, LONG))).collect();
        thread::sleep(Duration::from_millis(200));
        scratch.file("go", "");
        waiting.into_iter().for_each(|request| drop(request.join().unwrap().unwrap()));
    });
    put(&client, LONG).unwrap();
    assert_eq!(starts(&scratch), 1, "the first run serves all requests");
}

#[test]
fn a_plugin_that_fails_is_left_alone_for_a_moment() {
    let (scratch, server) = (Scratch::new(), serve(vec![ok("{}")]));
    let (directory, token) = (scratch.path().display(), print("{\"token\":\"sesame\"}"));
    let body = counted(&scratch, &format!("[ -e {directory}/go ] || exit 7\n{token}"));
    let client = client(&scratch, &server, &body, "");
    let began = Instant::now();
    let first = put(&client, LONG).unwrap_err();
    assert!(first.to_string().contains("exit status: 7"), "{first}");
    // The timeout is shorter than the pause. The request therefore fails at once with the same error, and the plugin
    // does not run.
    let second = put(&client, Duration::from_millis(300)).unwrap_err();
    assert_eq!((second.kind(), second.to_string()), (first.kind(), first.to_string()));
    // If the machine was suspended for more than two seconds, the pause may be over, and the plugin may have run again.
    assert!(starts(&scratch) == 1 || began.elapsed() > Duration::from_secs(2));
    let before = starts(&scratch);
    scratch.file("go", "");
    put(&client, LONG).unwrap();
    assert_eq!(starts(&scratch), before + 1);
    assert!(began.elapsed() > Duration::from_millis(1900), "{:?}", began.elapsed());
}

#[test]
fn a_plugin_that_fails_does_not_hide_a_401() {
    let scratch = Scratch::new();
    let server = serve(vec![accepts("Bearer t2")]);
    let body = counted(&scratch, &format!("[ $n = 1 ] || exit 7\n{}", print("{\"token\":\"t1\"}")));
    let client = client(&scratch, &server, &body, "");
    // The second request arrives during the plugin's pause.
    for _ in 0..2 {
        let error = put(&client, LONG).unwrap_err();
        assert_eq!(error.status().map(|status| status.code), Some(401), "{error}");
    }
    assert!(starts(&scratch) >= 2, "the plugin ran again");
    assert!(server.next().contains("Bearer t1") && server.next().contains("Bearer t1"), "the old token stays in use");
}

#[test]
fn a_401_is_waited_out_up_to_the_deadline_of_the_request() {
    let scratch = Scratch::new();
    let server = serve(vec![accepts("Bearer t2")]);
    let (directory, token) = (scratch.path().display(), print("{\"token\":\"t'$n'\"}"));
    let waits = format!("while [ $n = 2 ] && [ ! -e {directory}/go ]; do sleep 0.05; done\n{token}");
    let body = counted(&scratch, &waits);
    let client = client(&scratch, &server, &body, "");
    let error = put(&client, Duration::from_secs(3)).unwrap_err();
    assert_eq!(error.status().map(|status| status.code), Some(401), "{error}");
    scratch.file("go", "");
    put(&client, LONG).unwrap();
    assert_eq!(starts(&scratch), 2, "the first request's run serves the second");
}

#[test]
fn a_plugin_is_not_run_beside_a_client_certificate() {
    let (scratch, server) = (Scratch::new(), serve(vec![ok("{}")]));
    let leaf = authority().leaf("jane");
    scratch.file("chain.pem", leaf.pem);
    scratch.file("key.pem", leaf.key.serialize_pem());
    let body = counted(&scratch, &print("{\"token\":\"sesame\"}"));
    let text = kubeconfig(&scratch, &server, &body, "")
        .replace("user: { exec:", "user: { client-certificate: chain.pem, client-key: key.pem, exec:");
    let kubeconfig = Kubeconfig::from_text(&text, scratch.path()).unwrap();
    let client = Client::new(kubeconfig.client_config_from(None, &|_| None).unwrap()).unwrap();
    put(&client, LONG).unwrap();
    assert!(!server.next().to_ascii_lowercase().contains("authorization"));
    assert_eq!(starts(&scratch), 0);
}

#[test]
fn certificate_with_a_foreign_key_is_a_plugin_failure() {
    let (scratch, server) = (Scratch::new(), serve(vec![ok("{}")]));
    let (leaf, other) = (authority().leaf("jane"), authority().leaf("jane"));
    for (run, key) in [("1", &other.key), ("2", &leaf.key)] {
        let status = serde_json::json!({ "clientCertificateData": leaf.pem, "clientKeyData": key.serialize_pem() });
        let credential = serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status,
        });
        scratch.file(run, credential.to_string());
    }
    let directory = scratch.path().display();
    let client = client(&scratch, &server, &counted(&scratch, &format!("cat {directory}/$n")), "");
    let error = put(&client, Duration::from_secs(1)).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Credentials, "{error}");
    assert!(error.to_string().contains("do not work together"), "{error}");
    // The plugin runs again after the pause.
    put(&client, LONG).unwrap();
    assert_eq!(starts(&scratch), 2);
}
