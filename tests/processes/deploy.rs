//! Tests of the manifests and the image in `deploy/base`, also on a real kube-apiserver.

use std::collections::BTreeSet;
use std::fs;

use crate::support::api::{Api, Method};
use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::manifests::{Manifests, apply, kubeconfig_of};
use crate::support::process::{example, mono};
use crate::support::run::Run;
use crate::support::wait_until;

#[test]
fn kustomizations_name_all_of_their_files() {
    for manifests in ["base", "group"].map(Manifests::of) {
        let files =
            fs::read_dir(manifests.path("")).expect("a directory").map(|file| file.expect("a file").file_name());
        let there: BTreeSet<_> = files.map(|file| file.into_string().expect("a name")).collect();
        assert_eq!(there, manifests.resources().into_iter().chain(["kustomization.yaml".to_owned()]).collect());
    }
}

#[test]
fn example_image_matches_the_user_of_the_manifests() {
    let pod = Manifests::of("base").read("deployment.yaml")[0]["spec"]["template"]["spec"].clone();
    let name = pod["containers"][0]["name"].as_str().expect("a name").replace('-', "_");
    let user = &pod["securityContext"]["runAsUser"];
    let image = fs::read_to_string(Manifests::of("").path("Dockerfile")).expect("a Dockerfile");
    let (build, last) = image.rsplit_once("\nFROM ").expect("stages");
    assert!(build.contains(&format!("--example {name} ")), "{build}");
    for line in ["scratch", &format!("USER {user}:{user}"), &format!("ENTRYPOINT [\"/{name}\"]")] {
        assert!(last.lines().any(|found| found == line), "{line} is not in {last}");
    }
}

#[test]
fn api_server_accepts_manifests_and_their_rights_suffice() {
    let Some(cluster) = Cluster::real("deploy") else { return };
    let admin = cluster.api("admin");
    for watches in [true, false] {
        let namespace = format!("deploy-{}", if watches { "base" } else { "polling" });
        let mut objects = Manifests::of("base").objects();
        for role in objects.iter_mut().filter(|object| object["kind"] == "Role" && !watches) {
            role["rules"][1]["verbs"] = json!(["get", "update"]);
        }
        apply(&admin, &namespace, objects);
        lead(&admin, &cluster, &namespace, watches);
    }
}

/// Runs the example as the service account until it has led and released the lease.
fn lead(admin: &Api, cluster: &Cluster, namespace: &str, watches: bool) {
    let kubeconfig = kubeconfig_of("threaded-service", cluster, admin, namespace);
    let mut command = example("threaded_service");
    let service = Run::of(command.env("KUBECONFIG", kubeconfig.path()).env("RUST_LOG", "debug"));
    let polls = || service.errors().contains("polling");
    let began = mono();
    service.wait_for_error("started leading");
    // If the API server rejected a watch, the elector would log `polling` within a retry period.
    wait_until("it watches, or says that it does not", || polls() || (watches && mono() - began > 3.0));
    assert_eq!(polls(), !watches, "{}", service.errors());
    service.terminates_with(0);
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/threaded-service");
    let lease = admin.request(Method::GET, &path, None).expect("the lease");
    assert_eq!(lease["spec"]["holderIdentity"], "", "it is released");
}
