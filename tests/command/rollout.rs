//! Rollouts of a Deployment whose readiness is leadership, by the Deployment controller of Kubernetes.
//!
//! The test plays the scheduler, the kubelets and the probes. Each pod is a process of `leasehold run`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::support::api::{Api, Method};
use crate::support::cluster::Cluster;
use crate::support::command::{address, get, leasehold};
use crate::support::manifests::{Manifests, apply, kubeconfig_of};
use crate::support::real::LAUNCHER;
use crate::support::run::Run;
use crate::support::{SOON, in_target, skip};

/// A Deployment in its own namespace, and the processes of its pods.
struct Rollout {
    admin: Api,
    namespace: &'static str,
    kubeconfig: NamedTempFile,
    /// By name: the process, the address of its probes, and the revision of the image.
    pods: BTreeMap<String, (Run, String, String)>,
}

/// Merges a patch as kustomize does. Lists are merged by the names of their elements.
fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(fields), Value::Object(changes)) => {
            changes.iter().for_each(|(name, change)| merge(fields.entry(name).or_insert(Value::Null), change));
        }
        (Value::Array(elements), Value::Array(changes)) => {
            for change in changes {
                let element = elements.iter_mut().find(|element| element["name"] == change["name"]);
                merge(element.expect("an element with this name"), change);
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

/// Returns the Deployment of `deploy/leader-only`.
fn deployment() -> Value {
    let mut deployment = Manifests::of("command").read("deployment.yaml").remove(0);
    merge(&mut deployment, &Manifests::of("leader-only").read("readiness.yaml")[0]);
    deployment
}

impl Rollout {
    fn start(namespace: &'static str, cluster: &Cluster, deployment: &Value) -> Self {
        let (admin, command) = (cluster.api("admin"), Manifests::of("command"));
        let objects = [command.objects(), Manifests::of("leader-only").read("service.yaml")].concat();
        apply(&admin, namespace, objects);
        let kubeconfig = kubeconfig_of("web-server", cluster, &admin, namespace);
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
        admin.request(Method::POST, &path, Some(deployment)).expect("a deployment");
        Self { admin, namespace, kubeconfig, pods: BTreeMap::new() }
    }

    /// Changes the image, which starts a rollout.
    fn roll(&self, image: &str) {
        let path = format!("/apis/apps/v1/namespaces/{}/deployments/web-server", self.namespace);
        loop {
            let mut deployment = self.admin.request(Method::GET, &path, None).expect("the deployment");
            deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
            match self.admin.request(Method::PUT, &path, Some(&deployment)) {
                Ok(_) => return,
                Err(error) if error.code() == Some(409) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Starts, probes and ends pods as the controllers ask, until `is_reached` of the images of all pods and of ready ones.
    fn run_until(&mut self, what: &str, is_reached: impl Fn(&[String], &[String]) -> bool) {
        let until = Instant::now() + SOON;
        loop {
            let (images, ready) = self.step();
            if is_reached(&images, &ready) {
                return;
            }
            assert!(Instant::now() < until, "{what}: {images:?}, ready: {ready:?}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the images of all pods, and of those that are ready.
    fn step(&mut self) -> (Vec<String>, Vec<String>) {
        let collection = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let list = self.admin.request(Method::GET, &collection, None).expect("pods");
        let (mut images, mut ready) = (Vec::new(), Vec::new());
        for pod in list["items"].as_array().expect("a list") {
            let (name, spec) = (pod["metadata"]["name"].as_str().expect("a name"), &pod["spec"]);
            let path = format!("{collection}/{name}");
            let is_ending = !pod["metadata"]["deletionTimestamp"].is_null();
            if !self.pods.contains_key(name) && !is_ending {
                let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
                    "target": { "apiVersion": "v1", "kind": "Node", "name": "node" } });
                // A controller may have deleted the pod in the meantime.
                if self.admin.request(Method::POST, &format!("{path}/binding"), Some(&binding)).is_err() {
                    continue;
                }
                let mut command = leasehold();
                command.args(["run", "--lease=web-server", "--http=127.0.0.1:0", "--restart", "--", "sleep", "1000"]);
                let run = Run::of(command.env("KUBECONFIG", self.kubeconfig.path()).stdin(Stdio::null()));
                let image = spec["containers"][0]["image"].as_str().expect("an image").to_owned();
                let address = address(&run);
                self.pods.insert(name.to_owned(), (run, address, image));
            }
            if is_ending {
                if let Some((run, _, _)) = self.pods.remove(name) {
                    run.terminate();
                }
                let at_once = json!({ "gracePeriodSeconds": 0 });
                self.admin.request(Method::DELETE, &path, Some(&at_once)).expect("a pod");
                continue;
            }
            let (_, address, image) = &self.pods[name];
            let is_ready = get(address, "/leader").0 == 200;
            let status = if is_ready { "True" } else { "False" };
            let conditions: Vec<_> =
                ["Ready", "ContainersReady"].map(|kind| json!({ "type": kind, "status": status })).into();
            let mut pod = pod.clone();
            pod["status"] = json!({ "phase": "Running", "conditions": conditions });
            // A conflict is repaired by the next step.
            let _ = self.admin.request(Method::PUT, &format!("{path}/status"), Some(&pod));
            images.push(image.clone());
            ready.extend(is_ready.then(|| image.clone()));
        }
        (images, ready)
    }
}

/// Starts the controllers of the Deployments in all namespaces.
fn controllers(cluster: &Cluster) -> Run {
    let mut command = Command::new(in_target(LAUNCHER));
    command.args(["kube-controller-manager", "--leader-elect=false", "--secure-port=0"]);
    command.arg("--controllers=deployment-controller,replicaset-controller");
    command.arg(format!("--kubeconfig={}", cluster.kubeconfig("admin").display()));
    Run::of(command.stdin(Stdio::null()))
}

#[test]
fn leader_only_deployment_rolls_by_its_strategy_alone() {
    let Some(cluster) = Cluster::real("rollout") else { return };
    if env::var_os("KUBEBUILDER_ASSETS").is_some() {
        return skip(
            "KUBEBUILDER_ASSETS has no kube-controller-manager",
            "a test of rollouts",
            "unset it and build again",
        );
    }
    let _controllers = controllers(&cluster);
    let [old, new, newest] = ["0.1.0", "0.2.0", "0.3.0"].map(|version| format!("web-server:{version}"));
    let mut rollout = Rollout::start("rollout", &cluster, &deployment());
    rollout.run_until("one leader of two pods", |images, ready| images.len() == 2 && *ready == [&*old]);
    for image in [&new, &newest] {
        rollout.roll(image);
        rollout.run_until(image, |images, ready| *images == [&**image; 2] && *ready == [&**image]);
    }

    let mut deployment = deployment();
    deployment["spec"].as_object_mut().expect("a spec").remove("strategy");
    let mut rollout = Rollout::start("rollout-default", &cluster, &deployment);
    rollout.run_until("one leader of two pods", |images, ready| images.len() == 2 && *ready == [&*old]);
    rollout.roll(&new);
    rollout.run_until("a new pod", |images, _| images.contains(&new));
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert_eq!(rollout.step().1, [&*old], "the default strategy would be enough");
    }
}
