//! Every value of the chart, with a setting of it and what that shows in what is rendered: a value that changes nothing is dead, and one
//! that the table does not know is untested.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// What a setting does to what is rendered.
enum Does {
    /// This appears, which was not there.
    Adds(&'static str),
    /// This goes, which was there.
    Takes(&'static str),
}
use Does::{Adds, Takes};

/// A setting as helm takes it, and what it does.
const SETTINGS: &[(&str, Does)] = &[
    ("image.repository=r.test/m", Adds("image: r.test/m:")),
    ("image.tag=t7", Adds("image: mirage.local/mirage:t7")),
    ("image.pullPolicy=Always", Adds("imagePullPolicy: Always")),
    ("image.pullSecrets[0].name=key", Adds("- name: key")),
    ("compat=fake-gpu-operator", Adds("name: status-updater")),
    (
        "compat=gpu-operator",
        Adds("name: nvidia-device-plugin-daemonset"),
    ),
    // What is written there is all there is.
    (
        "topology.pools.big.gpus=4",
        Adds("    pools:\n      big:\n        gpus: 4\n---"),
    ),
    ("topology.nodes.a.gpu-memory=11441", Takes("pools:")),
    ("topology.nodePools.a.gpuCount=2", Takes("pools:")),
    (
        "topology.pools.a.gpus=1,topology.pool-label=my/pool",
        Adds("--leave-without=my/pool"),
    ),
    ("namespace.create=true", Adds("kind: Namespace")),
    ("node.enabled=false", Takes("kind: DaemonSet")),
    ("node.options[0]=--condition", Adds("- --condition")),
    ("node.kubeletDir=/k", Adds("path: /k/device-plugins")),
    ("node.migManager=false", Takes("- --mig-manager")),
    ("node.nri=true", Adds("- --nri")),
    ("node.deviceNodes=false", Takes("add: [MKNOD]")),
    (
        "node.admissionPolicy=false",
        Takes("kind: ValidatingAdmissionPolicy"),
    ),
    ("node.tolerations[0].key=mine", Adds("key: mine")),
    ("node.nodeSelector.mine=yes", Adds("mine: \"yes\"")),
    (
        "node.priorityClassName=urgent",
        Adds("priorityClassName: urgent"),
    ),
    ("node.resources.limits.memory=77Mi", Adds("memory: 77Mi")),
    ("controller.enabled=false", Takes("kind: Deployment")),
    ("controller.replicas=3", Adds("replicas: 3")),
    ("controller.options[0]=--speed=2", Adds("- --speed=2")),
    ("controller.tolerations[0].key=mine", Adds("key: mine")),
    ("controller.nodeSelector.mine=yes", Adds("mine: \"yes\"")),
    (
        "controller.priorityClassName=urgent",
        Adds("priorityClassName: urgent"),
    ),
    (
        "controller.resources.limits.memory=77Mi",
        Adds("memory: 77Mi"),
    ),
    // The job that takes everything back runs where the controller may.
    (
        "controller.tolerations[0].key=mine,controller.enabled=false",
        Adds("key: mine"),
    ),
    (
        "controller.nodeSelector.mine=yes,controller.enabled=false",
        Adds("mine: \"yes\""),
    ),
    ("serviceMonitor.enabled=true", Adds("kind: ServiceMonitor")),
    (
        "serviceMonitor.interval=7s,serviceMonitor.enabled=true",
        Adds("interval: 7s"),
    ),
    (
        "serviceMonitor.labels.release=p,serviceMonitor.enabled=true",
        Adds("release: p"),
    ),
    ("networkPolicy.enabled=false", Takes("kind: NetworkPolicy")),
    (
        "networkPolicy.from[0].podSelector.matchLabels.a=b",
        Adds("- podSelector:"),
    ),
    ("runtimeClass.enabled=true", Adds("kind: RuntimeClass")),
    (
        "runtimeClass.handler=nv,runtimeClass.enabled=true",
        Adds("handler: nv"),
    ),
    ("uninstall.enabled=false", Takes("helm.sh/hook: pre-delete")),
];

/// Looks whether every value that the schema knows does what the table says; `render` is given settings. Returns how many settings there are.
pub(super) fn check(schema: &str, render: impl Fn(&str) -> Result<String>) -> Result<usize> {
    let schema: Value = serde_json::from_str(schema).context("reading the chart's schema")?;
    for path in paths(&schema) {
        ensure!(
            SETTINGS.iter().any(|(setting, _)| is_of(setting, &path)),
            "xtask/src/deploy/values.rs does not say what the value {path} does"
        );
    }
    let usual = render("")?;
    for (setting, does) in SETTINGS {
        let set = render(setting)?;
        let (there, text, had) = match does {
            Adds(text) => (set.contains(text), text, usual.contains(text)),
            Takes(text) => (!set.contains(text), text, !usual.contains(text)),
        };
        if had || !there {
            bail!("{setting} does not change whether the chart renders {text:?}");
        }
    }
    Ok(SETTINGS.len())
}

fn is_of(setting: &str, path: &str) -> bool {
    let rest = setting.strip_prefix(path);
    rest.is_some_and(|rest| rest.starts_with(['=', '.', '[']))
}

/// The paths of all values, but for those that helm itself gives every chart.
fn paths(schema: &Value) -> Vec<String> {
    let Some(properties) = schema["properties"].as_object() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (key, value) in properties.iter().filter(|(key, _)| *key != "global") {
        let below = paths(value);
        if below.is_empty() {
            all.push(key.clone());
        }
        all.extend(below.iter().map(|path| format!("{key}.{path}")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = include_str!("../../../deploy/chart/values.schema.json");

    #[test]
    fn every_value_has_a_setting_and_every_setting_a_value() {
        let schema = serde_json::from_str(SCHEMA).expect("JSON");
        let paths = paths(&schema);
        assert!(paths.contains(&"node.resources".to_owned()), "{paths:?}");
        for path in &paths {
            let mut settings = SETTINGS.iter().map(|(setting, _)| setting);
            assert!(settings.any(|setting| is_of(setting, path)), "{path}");
        }
        for (setting, _) in SETTINGS {
            assert!(paths.iter().any(|path| is_of(setting, path)), "{setting}");
        }
    }

    #[test]
    fn every_value_is_in_the_guide() {
        let guide = include_str!("../../../docs/guide/install.md");
        let schema = serde_json::from_str(SCHEMA).expect("JSON");
        for path in paths(&schema) {
            let (parent, last) = path.rsplit_once('.').unwrap_or((&*path, &*path));
            let names = [&*path, &format!(".{last}"), last, parent];
            let is_named = names
                .iter()
                .any(|name| guide.contains(&format!("`{name}`")));
            assert!(is_named, "{path}");
        }
    }

    #[test]
    fn a_value_that_changes_nothing_is_found() {
        let dead = check(SCHEMA, |_| Ok("always the same".into()));
        let dead = dead.expect_err("it changes nothing").to_string();
        assert!(dead.contains("does not change"), "{dead}");
    }
}
