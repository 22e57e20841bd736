//! The manifests of `deploy/`, on a real kube-apiserver.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::api::{Api, Method};
use super::cluster::Cluster;
use super::repository;

/// The manifests in a directory of `deploy/`.
pub struct Manifests(&'static str);

impl Manifests {
    pub fn of(directory: &'static str) -> Self {
        Self(directory)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        repository().join("deploy").join(self.0).join(file)
    }

    pub fn read(&self, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let documents = text.split("\n---\n").map(|document| serde_saphyr::from_str(document).expect("YAML"));
        documents.collect()
    }

    /// Returns the names of the files that the kustomization lists.
    pub fn resources(&self) -> Vec<String> {
        let kustomization = self.read("kustomization.yaml").remove(0);
        let files = kustomization["resources"].as_array().expect("resources").iter();
        files.map(|file| file.as_str().expect("a name").to_owned()).collect()
    }

    /// Returns the objects of all listed files, in the order in which `apply` creates them.
    pub fn objects(&self) -> Vec<Value> {
        self.resources().iter().flat_map(|file| self.read(file)).collect()
    }
}

/// Returns the URL path of a request that creates an object.
fn collection(object: &Value, namespace: &str) -> String {
    let group = match object["apiVersion"].as_str().expect("a version") {
        "v1" => "/api/v1".to_owned(),
        version => format!("/apis/{version}"),
    };
    let kind = object["kind"].as_str().expect("a kind").to_lowercase();
    let plural = kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"));
    format!("{group}/namespaces/{namespace}/{plural}")
}

/// Creates a namespace, and applies the objects to the namespace.
///
/// Only service accounts, roles and role bindings are stored. Other objects are sent as a dry run, because there is no
/// kubelet. `fieldValidation` makes the server reject misspelled fields.
pub fn apply(admin: &Api, namespace: &str, objects: Vec<Value>) {
    let new = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    admin.request(Method::POST, "/api/v1/namespaces", Some(&new)).expect("a namespace");
    for mut object in objects {
        let is_of_rights = ["ServiceAccount", "Role", "RoleBinding"].iter().any(|kind| object["kind"] == **kind);
        if object["kind"] == "RoleBinding" {
            object["subjects"][0]["namespace"] = json!(namespace);
        }
        let dry_run = if is_of_rights { "" } else { "&dryRun=All" };
        let path = format!("{}?fieldValidation=Strict{dry_run}", collection(&object, namespace));
        admin.request(Method::POST, &path, Some(&object)).unwrap_or_else(|error| panic!("{}: {error}", object["kind"]));
    }
}

/// Creates a kubeconfig with a token of a service account.
pub fn kubeconfig_of(account: &str, cluster: &Cluster, admin: &Api, namespace: &str) -> NamedTempFile {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let asked =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": [] } });
    let token = admin.request(Method::POST, &path, Some(&asked)).expect("a token");
    let token = token["status"]["token"].as_str().expect("a token").to_owned();
    let mut config: Value =
        serde_saphyr::from_str(&fs::read_to_string(cluster.kubeconfig("admin")).expect("a kubeconfig")).expect("YAML");
    config["users"][0]["user"] = json!({ "token": token });
    config["contexts"][0]["context"]["namespace"] = json!(namespace);
    let kubeconfig = NamedTempFile::new().expect("a file");
    fs::write(kubeconfig.path(), config.to_string()).expect("it is written");
    kubeconfig
}
