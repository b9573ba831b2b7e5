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

/// What a role asks of the API server, and so exactly what it is given: in its own namespace, another, or the whole cluster; group, resource
/// (of one object only, where it is known by name); verbs.
const NODE: &[(&str, &str, &str, &str)] = &[
    ("cluster", "", "pods", "list watch"),
    ("cluster", "", "nodes", "get list watch patch"),
    // For `--condition`.
    ("cluster", "", "nodes/status", "get patch"),
    ("cluster", "", "events", "create"),
    ("cluster", "scheduling.run.ai", "podgroups", "get"),
    ("own", "apps", "daemonsets/AGENTS", "get"),
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
    ("cluster", "scheduling.run.ai", "podgroups", "list"),
    (
        "own",
        "",
        "configmaps",
        "get list watch create patch delete",
    ),
    ("own", "coordination.k8s.io", "leases", "create"),
    (
        "own",
        "coordination.k8s.io",
        "leases/mirage-controller",
        "get update",
    ),
    (
        "kube-node-lease",
        "coordination.k8s.io",
        "leases",
        "list create patch",
    ),
];
const UNINSTALL: &[(&str, &str, &str, &str)] = &[
    ("cluster", "", "nodes", "list patch delete"),
    ("cluster", "", "nodes/status", "patch"),
    ("cluster", "", "pods", "list patch"),
    ("own", "", "configmaps", "deletecollection"),
    (
        "own",
        "coordination.k8s.io",
        "leases/mirage-controller",
        "delete",
    ),
    ("own", "apps", "deployments", "deletecollection"),
    ("own", "apps", "daemonsets", "deletecollection"),
    (
        "kube-node-lease",
        "coordination.k8s.io",
        "leases",
        "list delete",
    ),
];
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
            let only = words(rule.get("resourceNames"));
            for group in words(rule.get("apiGroups")) {
                for resource in words(rule.get("resources")) {
                    let whole = only.is_empty().then(|| resource.clone());
                    let named = only.iter().map(|name| format!("{resource}/{name}"));
                    for resource in whole.into_iter().chain(named) {
                        for verb in words(rule.get("verbs")) {
                            let right = [place.to_owned(), group.clone(), resource.clone(), verb];
                            all.insert(right);
                        }
                    }
                }
            }
        }
    }
    all
}

#[test]
fn roles_may_do_what_they_do_and_nothing_else() {
    for (file, objects) in manifests() {
        let (own, agents) = match file.contains("gpu-operator") {
            true => ("gpu-operator", "nvidia-dcgm-exporter"),
            false => ("mirage", "mirage-node"),
        };
        let needs: &[(&str, &[_])] = match file.starts_with("uninstall") {
            true => &[("mirage-uninstall", UNINSTALL)],
            false => &[("mirage-node", NODE), ("mirage-controller", CONTROLLER)],
        };
        for (account, needed) in needs {
            let mut wanted = BTreeSet::new();
            for (place, group, resource, verbs) in *needed {
                let resource = resource.replace("AGENTS", agents);
                for verb in verbs.split(' ') {
                    let right = [*place, *group, &*resource, verb];
                    wanted.insert(right.map(str::to_owned));
                }
            }
            let has = rights(&objects, account, own);
            let lacks: Vec<_> = wanted.difference(&has).collect();
            let excess: Vec<_> = has.difference(&wanted).collect();
            assert!(lacks.is_empty(), "{file}: {account} lacks {lacks:?}");
            assert!(excess.is_empty(), "{file}: {account} never uses {excess:?}");
        }
        let roles = ["ClusterRole", "Role"].map(str::to_owned);
        let all = objects.iter().map(|one| {
            let part = |path| text(one, path).to_owned();
            (part("kind"), part("metadata.name"))
        });
        let others = all.filter(|(kind, name)| {
            roles.contains(kind) && needs.iter().all(|(account, _)| account != name)
        });
        assert_eq!(others.count(), 0, "{file} has roles of nobody known here");
    }
}

#[test]
fn nothing_is_privileged_or_unbounded_and_only_the_node_agent_is_root() {
    for (file, objects) in manifests() {
        for object in &objects {
            let Some(spec) = at(object, "spec.template.spec") else {
                continue;
            };
            let container = &spec.get("containers").unwrap().items().unwrap()[0];
            let args = words(container.get("args"));
            let own = |path: &str| at(container, &format!("securityContext.{path}"));
            // It only bears the name by which others find an operator; it never runs.
            if args == ["--version"] {
                continue;
            }
            // On a node that is only simulated it would only seem to run.
            let where_to = format!("{:?}", at(spec, "affinity.nodeAffinity"));
            assert!(where_to.contains("mirage.dev/virtual-node"), "{file}");
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
            for resource in ["requests.cpu", "requests.memory", "limits.memory"] {
                let path = format!("resources.{resource}");
                assert!(at(container, &path).is_some(), "{file}: {args:?}: {path}");
            }
            let serves = container.get("ports").is_some();
            for probe in ["livenessProbe", "readinessProbe"] {
                let path = text(container, &format!("{probe}.httpGet.path"));
                assert_eq!(path == "/health", serves, "{file}: {args:?}: {probe}");
            }
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
