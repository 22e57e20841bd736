use std::thread;
use std::time::{Duration, Instant};

use super::server::{Server, ok, script, serve};
use super::{LONG, Scratch, put};
use crate::kube::{Client, ErrorKind, Kubeconfig};

/// A client whose plugin is this shell script.
fn client(scratch: &Scratch, server: &Server, body: &str, extra: &str) -> Client {
    // Executing a file that was just written can fail with "text file busy" when another test forks meanwhile; a
    // shell that reads it cannot.
    let body = scratch.file("body.sh", body);
    std::os::unix::fs::symlink("/bin/sh", scratch.path().join("plugin.sh")).unwrap();
    let text = format!(
        "current-context: c\n\
         clusters: [{{ name: k, cluster: {{ server: 'http://127.0.0.1:{}' }} }}]\n\
         contexts: [{{ name: c, context: {{ cluster: k, user: u }} }}]\n\
         users: [{{ name: u, user: {{ exec: {{ apiVersion: client.authentication.k8s.io/v1, \
         command: ./plugin.sh, args: ['{}', one, 'two three'], env: [{{ name: GREETING, value: hello }}], {extra} }} }} }}]\n",
        server.port,
        body.display()
    );
    let kubeconfig = Kubeconfig::from_text(&text, scratch.path()).unwrap();
    Client::new(kubeconfig.client_config_from(None, &|_| None).unwrap()).unwrap()
}

/// A shell command that prints an `ExecCredential` with this status.
fn print(status: &str) -> String {
    format!(
        "echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{status}}}'"
    )
}

#[test]
fn the_plugin_is_run_once_with_its_arguments_and_told_about_the_cluster() {
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
fn expired_credentials_are_renewed() {
    let (scratch, server) = (Scratch::new(), serve(vec![ok("{}")]));
    let log = scratch.path().join("log");
    let body = format!(
        "echo x >> {0}; n=$(wc -l < {0} | tr -d ' ')\n{1}",
        log.display(),
        print("{\"token\":\"t'$n'\",\"expirationTimestamp\":\"2001-01-01T00:00:00-02:00\"}")
    );
    let client = client(&scratch, &server, &body, "");
    for n in ["t1", "t2"] {
        put(&client, LONG).unwrap();
        assert!(server.next().contains(&format!("Bearer {n}")));
    }
}

#[test]
fn a_401_runs_the_plugin_again() {
    let scratch = Scratch::new();
    let server = serve(vec![script(|c| {
        while let Some(request) = c.request() {
            match request.contains("Bearer t2") {
                true => c.answer("200 OK", "{}"),
                false => c.answer("401 Unauthorized", ""),
            }
        }
    })]);
    let log = scratch.path().join("log");
    let body =
        format!("echo x >> {0}; n=$(wc -l < {0} | tr -d ' ')\n{1}", log.display(), print("{\"token\":\"t'$n'\"}"));
    let client = client(&scratch, &server, &body, "");
    put(&client, LONG).unwrap();
    put(&client, LONG).unwrap();
    assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), 2);
}

#[test]
fn bad_plugins_are_told_apart_from_bad_servers_and_their_output_is_not_shown() {
    let v1beta1 = "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":\"ExecCredential\"}'";
    for (body, expected) in [
        ("echo hunter2; echo hunter2 >&2; exit 3".to_owned(), "exit status: 3"),
        ("echo hunter2".to_owned(), "as JSON"),
        ("echo '{\"status\":\"hunter2\"}'".to_owned(), "as JSON"),
        ("echo '{}'".to_owned(), "kind"),
        (v1beta1.to_owned(), "another apiVersion"),
        (print("null"), "without a status"),
        (print("{}"), "neither a token"),
        (print("{\"token\":\"hunter2\\u0001\"}"), "no header"),
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

#[test]
fn a_hanging_plugin_is_killed_in_time_or_when_interrupted() {
    let pid_of = |scratch: &Scratch| {
        let file = scratch.path().join("pid");
        let started = Instant::now();
        loop {
            match std::fs::read_to_string(&file) {
                Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
                _ if started.elapsed() > LONG => panic!("the plugin did not start"),
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
    };
    let gone = |pid: &str| {
        let started = Instant::now();
        while std::path::Path::new("/proc").join(pid).exists() {
            assert!(started.elapsed() < LONG, "{pid} is still there");
            thread::sleep(Duration::from_millis(10));
        }
    };
    let hanging = |scratch: &Scratch| {
        let body = format!("echo $$ > {}; exec sleep 600", scratch.path().join("pid").display());
        client(scratch, &serve(vec![]), &body, "")
    };

    let scratch = Scratch::new();
    let error = put(&hanging(&scratch), Duration::from_secs(3)).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Timeout);
    assert!(!error.maybe_sent());
    gone(&pid_of(&scratch));

    let scratch = Scratch::new();
    let client = hanging(&scratch);
    thread::scope(|scope| {
        let runs = scope.spawn(|| put(&client, LONG));
        let pid = pid_of(&scratch);
        // A second request waits for the plugin of the first.
        let waits = scope.spawn(|| put(&client, LONG));
        thread::sleep(Duration::from_millis(100));
        client.interrupt();
        for request in [runs, waits] {
            assert_eq!(request.join().unwrap().unwrap_err().kind(), &ErrorKind::Interrupted);
        }
        gone(&pid);
    });
}
