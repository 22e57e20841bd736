//! Tests of the manifests whose image has the command, and of the image, also on a real kube-apiserver.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::api::Method;
use crate::support::cluster::Cluster;
use crate::support::command::{address, leasehold};
use crate::support::manifests::{Manifests, apply, kubeconfig_of};
use crate::support::run::Run;
use crate::support::scratch;

#[test]
fn command_deployment_works_with_its_rights() {
    let Some(cluster) = Cluster::real("deploy") else { return };
    let (admin, manifests) = (cluster.api("admin"), Manifests::of("command"));
    apply(&admin, "deploy-command", manifests.objects());
    let kubeconfig = kubeconfig_of("web-server", &cluster, &admin, "deploy-command");

    let container = manifests.read("deployment.yaml")[0]["spec"]["template"]["spec"]["containers"][0].clone();
    let arguments = container["args"].as_array().expect("arguments").iter().map(|it| it.as_str().expect("a word"));
    // The fixed ports may be in use, so the test replaces them with free ports.
    let arguments = arguments.map(|word| match word {
        "--http=:8081" => "--http=127.0.0.1:0",
        "8080" => "0",
        other => other,
    });
    let mut command = leasehold();
    command.args(arguments).env("KUBECONFIG", kubeconfig.path()).env("PYTHONUNBUFFERED", "1").stdin(Stdio::null());
    let run = Run::of(&mut command);
    run.wait_for_out("Serving HTTP on");
    let ended = run.terminates_with(143);
    let path = "/apis/coordination.k8s.io/v1/namespaces/deploy-command/leases/web-server";
    let lease = admin.request(Method::GET, path, None).expect("the lease");
    assert_eq!(lease["spec"]["holderIdentity"], "", "it is released");
    assert!(!ended.errors.contains("polling"), "its rights are enough to watch: {}", ended.errors);
}

#[test]
fn group_deployment_works_with_its_rights() {
    let Some(cluster) = Cluster::real("deploy-group") else { return };
    let (admin, manifests) = (cluster.api("admin"), Manifests::of("group"));
    apply(&admin, "deploy-group", manifests.objects());
    let kubeconfig = kubeconfig_of("shard-worker", &cluster, &admin, "deploy-group");
    let container = manifests.read("deployment.yaml")[0]["spec"]["template"]["spec"]["containers"][0].clone();
    let arguments = container["args"].as_array().expect("arguments").iter().map(|it| it.as_str().expect("a word"));
    // The commands start one lease duration after the first replica.
    let arguments =
        arguments.flat_map(|word| if word == "run" { vec![word, "--lease-duration=4s"] } else { vec![word] });
    let mut command = leasehold();
    command.args(arguments).env("KUBECONFIG", kubeconfig.path()).stdin(Stdio::null());
    let run = Run::of(&mut command);
    (0..16).for_each(|shard| run.wait_for_out(&format!("shard {shard}, token ")));
    let ended = run.terminates_with(143);
    let path = "/apis/coordination.k8s.io/v1/namespaces/deploy-group/leases";
    let leases = admin.request(Method::GET, path, None).expect("the leases");
    let leases = leases["items"].as_array().expect("leases").iter();
    let slots = leases.filter(|lease| lease["metadata"]["name"].as_str().expect("a name").contains("-member-"));
    let holders: Vec<_> = slots.map(|lease| lease["spec"]["holderIdentity"].clone()).collect();
    assert_eq!(holders, [""], "the slot is released");
    assert!(!ended.errors.contains("WARN"), "its rights are enough: {}", ended.errors);
}

#[test]
fn sidecar_deployment_works_with_its_rights() {
    let Some(cluster) = Cluster::real("deploy-sidecar") else { return };
    let (admin, manifests) = (cluster.api("admin"), Manifests::of("sidecar"));
    apply(&admin, "deploy-sidecar", manifests.objects());
    let kubeconfig = kubeconfig_of("report-sender", &cluster, &admin, "deploy-sidecar");
    let pod = manifests.read("deployment.yaml")[0]["spec"]["template"]["spec"].clone();
    // Kustomize adds a hash to this name, also in the `resourceNames` of a Role.
    let generated = manifests.read("kustomization.yaml")[0]["configMapGenerator"][0]["name"].clone();
    assert_ne!(generated, manifests.read("rbac.yaml")[1]["rules"][1]["resourceNames"][0]);
    assert_eq!(generated, pod["volumes"][1]["configMap"]["name"]);
    let words = |value: &Value| -> Vec<String> {
        let words = value.as_array().expect("words").iter();
        words.map(|word| word.as_str().expect("a word").to_owned()).collect()
    };
    let scratch = scratch();
    let token_file = scratch.path().join("done-token").display().to_string();
    let here = |word: String| word.replace("/run/leasehold/done-token", &token_file).replace("=:4040", "=127.0.0.1:0");

    let first = words(&pod["initContainers"][0]["command"]);
    let written = Command::new(&first[0]).args(first.into_iter().skip(1).map(here)).status().expect("it starts");
    assert!(written.success());
    let mut command = leasehold();
    command.args(words(&pod["initContainers"][1]["args"]).into_iter().map(here)).env("KUBECONFIG", kubeconfig.path());
    let sidecar = Run::of(command.stdin(Stdio::null()));
    let application = words(&pod["containers"][0]["command"]);
    let files = manifests.path("").display().to_string();
    let mut command = Command::new(&application[0]);
    command.arg(application[1].replace("/application/", &files)).env("DONE_TOKEN_FILE", &token_file);
    let application = Run::of(command.env("SIDECAR", format!("http://{}", address(&sidecar))).stdin(Stdio::null()));
    application.wait_for_out(" works until ");
    application.terminates_with(0);
    let ended = sidecar.terminates_with(0);
    let path = "/apis/coordination.k8s.io/v1/namespaces/deploy-sidecar/leases/report-sender";
    let lease = admin.request(Method::GET, path, None).expect("the lease");
    assert_eq!(lease["spec"]["holderIdentity"], "", "it is released");
    assert!(!ended.errors.contains("WARN"), "its rights are enough: {}", ended.errors);
}

#[test]
fn command_image_matches_the_user_of_the_manifests() {
    let manifests = Manifests::of("command");
    let user_of = |manifests: &Manifests| {
        manifests.read("deployment.yaml")[0]["spec"]["template"]["spec"]["securityContext"]["runAsUser"].clone()
    };
    let user = user_of(&manifests);
    for other in ["group", "sidecar"] {
        assert_eq!(user, user_of(&Manifests::of(other)));
    }
    let image = fs::read_to_string(manifests.path("Dockerfile")).expect("a Dockerfile");
    let (build, last) = image.rsplit_once("\nFROM ").expect("stages");
    assert!(build.contains("-p leasehold-cli --bin leasehold"), "{build}");
    for line in [&format!("USER {user}:{user}"), "ENTRYPOINT [\"leasehold\"]"] {
        assert!(last.lines().any(|found| found == line), "{line} is not in {last}");
    }
}
