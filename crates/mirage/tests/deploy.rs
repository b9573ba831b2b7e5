//! The manifests of `deploy/manifests` as far as they can be checked without helm and without a cluster: mirage takes every word they
//! give it, reads the topology they carry, and has the rights for what it does.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use mirage::cli::Cli;
use mirage_model::config::{self, Defaults};
use mirage_model::yaml::{self, Node};

/// What a role asks of the API server: group, resource, verb; in its own namespace, another, or the whole cluster.
const NODE: &[(&str, &str, &str, &str)] = &[
    ("cluster", "", "pods", "list watch"),
    ("cluster", "", "nodes", "get list watch patch"),
    ("cluster", "", "nodes/status", "get patch"),
    ("cluster", "", "events", "create"),
    ("cluster", "scheduling.run.ai", "podgroups", "get"),
    ("own", "apps", "daemonsets", "get"),
    (
        "own",
        "",
        "configmaps",
        "get list watch create patch delete",
    ),
];
const CONTROLLER: &[(&str, &str, &str, &str)] = &[
    ("cluster", "", "nodes", "list watch create patch delete"),
    ("cluster", "", "nodes/status", "patch"),
    ("cluster", "", "pods", "list watch patch delete"),
    ("cluster", "", "pods/status", "patch"),
    ("cluster", "", "events", "create"),
    ("own", "", "configmaps", "list watch create patch delete"),
    ("own", "coordination.k8s.io", "leases", "get create update"),
    (
        "kube-node-lease",
        "coordination.k8s.io",
        "leases",
        "create patch",
    ),
];
const UNINSTALL: &[(&str, &str, &str, &str)] = &[
    ("cluster", "", "nodes", "list patch delete"),
    ("cluster", "", "nodes/status", "patch"),
    ("own", "", "configmaps", "deletecollection"),
    ("own", "coordination.k8s.io", "leases", "delete"),
    ("own", "apps", "deployments", "deletecollection"),
    ("own", "apps", "daemonsets", "deletecollection"),
    ("own", "", "pods", "list"),
];
/// What nobody is given, whatever it is for.
const NEVER: &[&str] = &["*", "secrets", "escalate", "bind", "impersonate"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The objects of a manifest.
fn objects(file: &str) -> Vec<Node> {
    let path = root().join("deploy/manifests").join(file);
    let text = fs::read_to_string(&path).unwrap();
    let parts = text.split("\n---\n").filter(|part| !part.trim().is_empty());
    let parts = parts.map(|part| part.trim_start_matches("---\n"));
    let parse =
        |part: &str| yaml::parse(part).unwrap_or_else(|why| panic!("{file}: {why:?}\n{part}"));
    parts.map(parse).collect()
}

fn manifests() -> Vec<(String, Vec<Node>)> {
    let files = fs::read_dir(root().join("deploy/manifests")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut all: Vec<_> = names.map(|name| (name.clone(), objects(&name))).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(all.len(), 5);
    all
}

/// What lies at a path of keys.
fn at<'a>(node: &'a Node, path: &str) -> Option<&'a Node> {
    path.split('.').try_fold(node, |node, key| node.get(key))
}

fn text<'a>(node: &'a Node, path: &str) -> &'a str {
    at(node, path).and_then(Node::text).unwrap_or_default()
}

fn words(node: Option<&Node>) -> Vec<String> {
    let items = node.and_then(Node::items).unwrap_or_default();
    let all = items.iter().map(|item| item.text().unwrap_or_default());
    all.map(str::to_owned).collect()
}

/// The containers of everything that runs.
fn containers(objects: &[Node]) -> Vec<&Node> {
    let specs = objects
        .iter()
        .filter_map(|one| at(one, "spec.template.spec.containers"));
    specs.flat_map(|spec| spec.items().unwrap()).collect()
}

#[test]
fn every_object_has_a_kind_and_a_name() {
    for (file, objects) in manifests() {
        assert!(!objects.is_empty(), "{file}");
        let mut seen = BTreeSet::new();
        for object in &objects {
            let name = (
                text(object, "kind").to_owned(),
                text(object, "metadata.namespace").to_owned(),
                text(object, "metadata.name").to_owned(),
            );
            assert!(!name.0.is_empty() && !name.2.is_empty(), "{file}: {name:?}");
            assert!(!text(object, "apiVersion").is_empty(), "{file}: {name:?}");
            assert!(seen.insert(name.clone()), "{file}: {name:?} twice");
        }
    }
}

#[test]
fn mirage_takes_every_word_it_is_given() {
    let image = format!("mirage.local/mirage:{}", env!("CARGO_PKG_VERSION"));
    let mut roles = BTreeSet::new();
    for (file, objects) in manifests() {
        for container in containers(&objects) {
            assert_eq!(text(container, "image"), image, "{file}");
            let args = words(container.get("args"));
            roles.insert(args[0].clone());
            let typed = std::iter::once("mirage".to_owned()).chain(args.clone());
            match Cli::try_parse_from(typed) {
                Ok(_) => {}
                // A placeholder's; it never runs.
                Err(shown) if args == ["--version"] => assert!(!shown.use_stderr()),
                Err(error) => panic!("{file}: {args:?}: {error}"),
            }
        }
    }
    assert!(roles.contains("node") && roles.contains("controller"));
}

#[test]
fn the_topology_is_one_mirage_reads_and_a_labelled_node_finds_its_pool() {
    for (file, objects) in manifests() {
        let Some(map) = objects
            .iter()
            .find(|one| text(one, "metadata.name") == "topology")
        else {
            assert!(file.starts_with("uninstall"), "{file} has no topology");
            continue;
        };
        let data = at(map, "data").unwrap().get("topology.yml").unwrap();
        let loaded = config::load(data.text().unwrap(), &file, &Defaults::default()).unwrap();
        assert!(loaded.warnings.is_empty(), "{file}: {}", loaded.warnings);
        loaded
            .plan
            .clone()
            .alone("node-a", Some("default"))
            .unwrap();
        // Whom the agents are for, what they leave by and what they read is one label.
        let label = format!("--leave-without={}", loaded.plan.pool_label);
        let is_agent = |args: &Vec<String>| args.first().is_some_and(|word| word == "node");
        let agents = containers(&objects).into_iter();
        let mut agents = agents.map(|one| words(one.get("args"))).filter(is_agent);
        assert!(agents.all(|args| args.contains(&label)), "{file}");
        let selected = objects
            .iter()
            .find_map(|one| at(one, "spec.template.spec.affinity.nodeAffinity"));
        assert!(
            format!("{selected:?}").contains(&*loaded.plan.pool_label),
            "{file}"
        );
    }
}

/// Every right a role has in a manifest: where, group, resource, verb.
fn rights(objects: &[Node], account: &str, own: &str) -> BTreeSet<[String; 4]> {
    let mut all = BTreeSet::new();
    for object in objects {
        let place = match text(object, "kind") {
            "ClusterRole" => "cluster",
            "Role" if text(object, "metadata.namespace") == own => "own",
            "Role" => text(object, "metadata.namespace"),
            _ => continue,
        };
        if text(object, "metadata.name") != account {
            continue;
        }
        for rule in object.get("rules").and_then(Node::items).unwrap() {
            for group in words(rule.get("apiGroups")) {
                for resource in words(rule.get("resources")) {
                    for verb in words(rule.get("verbs")) {
                        let right = [place.to_owned(), group.clone(), resource.clone(), verb];
                        all.insert(right);
                    }
                }
            }
        }
    }
    all
}

#[test]
fn roles_may_do_what_they_do_and_nobody_may_do_everything() {
    for (file, objects) in manifests() {
        let own = match file.contains("gpu-operator") {
            true => "gpu-operator",
            false => "mirage",
        };
        let needs: &[(&str, &[_])] = match file.starts_with("uninstall") {
            true => &[("mirage-uninstall", UNINSTALL)],
            false => &[("mirage-node", NODE), ("mirage-controller", CONTROLLER)],
        };
        for (account, needed) in needs {
            let rights = rights(&objects, account, own);
            for (place, group, resource, verbs) in *needed {
                for verb in verbs.split(' ') {
                    let right = [place, group, resource, &verb].map(|part| (*part).to_owned());
                    assert!(rights.contains(&right), "{file}: {account} lacks {right:?}");
                }
            }
            for right in &rights {
                let excess = right.iter().find(|part| NEVER.contains(&part.as_str()));
                assert!(excess.is_none(), "{file}: {account} has {right:?}");
            }
        }
    }
}

#[test]
fn nothing_is_privileged_and_only_the_node_agent_is_root() {
    for (file, objects) in manifests() {
        for object in &objects {
            let Some(spec) = at(object, "spec.template.spec") else {
                continue;
            };
            if text(object, "metadata.labels.app.kubernetes.io/component") == "placeholder" {
                continue;
            }
            let container = &spec.get("containers").unwrap().items().unwrap()[0];
            let args = words(container.get("args"));
            let own = |path: &str| at(container, &format!("securityContext.{path}"));
            if args == ["--version"] {
                continue;
            }
            assert!(own("privileged").is_none(), "{file}");
            assert_eq!(
                own("allowPrivilegeEscalation").unwrap().bool(),
                Some(false),
                "{file}"
            );
            assert_eq!(
                own("readOnlyRootFilesystem").unwrap().bool(),
                Some(true),
                "{file}"
            );
            assert_eq!(words(own("capabilities.drop")), ["ALL"], "{file}");
            let is_root = at(spec, "securityContext.runAsNonRoot").is_none();
            assert_eq!(is_root, args[0] == "node", "{file}: {args:?}");
            assert!(at(container, "resources.limits.memory").is_some(), "{file}");
        }
    }
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = fs::read_to_string(root().join("deploy/chart/Chart.yaml")).unwrap();
    let chart = yaml::parse(&chart).unwrap();
    for key in ["version", "appVersion"] {
        assert_eq!(text(&chart, key), env!("CARGO_PKG_VERSION"));
    }
}
