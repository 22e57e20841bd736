//! What is in `deploy/`, also on a real kube-apiserver: it is taken as it is, and its rights are enough for the example.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use leasehold::kube::{Client, Method, Request};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::cluster::{Cluster, request};
use crate::support::process::{example, mono};
use crate::support::{SOON, wait_until};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/base")
}

fn read(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(directory().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let documents = text.split("\n---\n").map(|document| serde_saphyr::from_str(document).expect("YAML"));
    documents.collect()
}

/// All objects of the base, in the order in which they are applied.
fn objects() -> Vec<Value> {
    let kustomization = read("kustomization.yaml").remove(0);
    let files = kustomization["resources"].as_array().expect("resources").clone();
    files.iter().flat_map(|file| read(file.as_str().expect("a name"))).collect()
}

/// Where objects of this kind are created.
fn collection(object: &Value, namespace: &str) -> String {
    let group = match object["apiVersion"].as_str().expect("a version") {
        "v1" => "/api/v1".to_owned(),
        version => format!("/apis/{version}"),
    };
    let plural = format!("{}s", object["kind"].as_str().expect("a kind").to_lowercase());
    format!("{group}/namespaces/{namespace}/{plural}")
}

#[test]
fn the_base_names_all_of_its_files() {
    let named: BTreeSet<_> = read("kustomization.yaml")[0]["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .map(|file| file.as_str().expect("a name").to_owned())
        .collect();
    let files = fs::read_dir(directory()).expect("a directory").map(|file| file.expect("a file").file_name());
    let there: BTreeSet<_> = files.map(|file| file.into_string().expect("a name")).collect();
    assert_eq!(there, named.into_iter().chain(["kustomization.yaml".to_owned()]).collect());
}

#[test]
fn the_image_is_of_the_example_and_the_user_that_the_manifests_run() {
    let pod = read("deployment.yaml")[0]["spec"]["template"]["spec"].clone();
    let name = pod["containers"][0]["name"].as_str().expect("a name").replace('-', "_");
    let user = &pod["securityContext"]["runAsUser"];
    let image = fs::read_to_string(directory().with_file_name("Dockerfile")).expect("a Dockerfile");
    let (build, last) = image.rsplit_once("\nFROM ").expect("stages");
    assert!(build.contains(&format!("--example {name} ")), "{build}");
    for line in ["scratch", &format!("USER {user}:{user}"), &format!("ENTRYPOINT [\"/{name}\"]")] {
        assert!(last.lines().any(|found| found == line), "{line} is not in {last}");
    }
}

#[test]
fn the_api_server_takes_the_manifests_and_their_rights_are_enough() {
    let Some(cluster) = Cluster::real("deploy") else { return };
    let admin = cluster.client("admin");
    for watches in [true, false] {
        let namespace = format!("deploy-{}", if watches { "base" } else { "polling" });
        let new = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        request(&admin, Method::Post, "/api/v1/namespaces", Some(&new)).expect("a namespace");
        apply(&admin, &namespace, watches);
        lead(&admin, &cluster, &namespace, watches);
    }
}

/// Without a kubelet the rest is only tried; `fieldValidation` finds what is misspelt.
fn apply(admin: &Client, namespace: &str, watches: bool) {
    for mut object in objects() {
        let is_of_rights = ["ServiceAccount", "Role", "RoleBinding"].iter().any(|kind| object["kind"] == **kind);
        if object["kind"] == "Role" && !watches {
            object["rules"][1]["verbs"] = json!(["get", "update"]);
        }
        if object["kind"] == "RoleBinding" {
            object["subjects"][0]["namespace"] = json!(namespace);
        }
        let path = collection(&object, namespace);
        let mut query = vec![("fieldValidation", "Strict")];
        query.extend((!is_of_rights).then_some(("dryRun", "All")));
        let request = Request { method: Method::Post, path: &path, query: &query, body: Some(&object), timeout: SOON };
        admin.request(request).unwrap_or_else(|error| panic!("{}: {error}", object["kind"]));
    }
}

/// The example as the service account, from the beginning of its work to the release.
fn lead(admin: &Client, cluster: &Cluster, namespace: &str, watches: bool) {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/threaded-service/token");
    let asked =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": [] } });
    let token = request(admin, Method::Post, &path, Some(&asked)).expect("a token");
    let token = token["status"]["token"].as_str().expect("a token").to_owned();
    let mut config: Value =
        serde_saphyr::from_str(&fs::read_to_string(cluster.kubeconfig("admin")).expect("a kubeconfig")).expect("YAML");
    config["users"][0]["user"] = json!({ "token": token });
    config["contexts"][0]["context"]["namespace"] = json!(namespace);
    let kubeconfig = tempfile::NamedTempFile::new().expect("a file");
    fs::write(kubeconfig.path(), config.to_string()).expect("it is written");

    let log = tempfile::NamedTempFile::new().expect("a file");
    let mut command = example("threaded_service");
    command.env("KUBECONFIG", kubeconfig.path()).env("RUST_LOG", "debug");
    command.stdout(std::process::Stdio::null()).stderr(log.reopen().expect("the log"));
    let mut service = crate::examples::Ended(command.spawn().expect("the example runs"));
    let said = || fs::read_to_string(log.path()).expect("the log");
    let began = mono();
    wait_until("it leads", || said().contains("started leading"));
    // The second watch would be asked for within a retry period, were the first refused.
    wait_until("it watches, or says that it does not", || {
        said().contains("polling") || (watches && mono() - began > 3.0)
    });
    assert_eq!(said().contains("polling"), !watches, "{}", said());
    rustix::process::kill_process(rustix::process::Pid::from_child(&service.0), Signal::TERM).expect("it runs");
    assert!(service.0.wait().expect("it ends").success(), "{}", said());
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/threaded-service");
    let lease = request(admin, Method::Get, &path, None).expect("the lease");
    assert_eq!(lease["spec"]["holderIdentity"], "", "it is released");
}
