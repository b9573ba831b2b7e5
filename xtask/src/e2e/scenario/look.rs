//! What the scenarios look at again and again: NVML inside a container, and the exporter's names for who holds a device.

use anyhow::{Context, Result, ensure};

use super::Stage;
use crate::e2e::cluster::Cluster;
use crate::e2e::mirage::{Sample, Shows};
use crate::e2e::process::until;

/// The metric that tells how busy a device is.
pub(super) const BUSY: &str = "DCGM_FI_DEV_GPU_UTIL";

/// What NVML says inside a container.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// UUIDs of GPUs.
    pub(super) gpus: Vec<String>,
    /// UUIDs of MIG devices.
    pub(super) migs: Vec<String>,
}

impl Seen {
    fn parse(text: &str) -> Option<Seen> {
        let mut lines = text.lines();
        let count: usize = lines.next()?.strip_prefix("devices ")?.parse().ok()?;
        let (mut gpus, mut migs) = (Vec::new(), Vec::new());
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["device", _, uuid, "minor", ..] => gpus.push((*uuid).to_owned()),
                ["mig", _, uuid] => migs.push((*uuid).to_owned()),
                _ => return None,
            }
        }
        (gpus.len() == count).then_some(Seen { gpus, migs })
    }
}

/// Asks NVML inside a container.
pub(super) fn nvml(stage: &Stage, pod: &str, container: &str) -> Result<Seen> {
    let text = stage.cluster.exec(pod, container, &["probe"])?;
    Seen::parse(&text).with_context(|| format!("the probe in {pod}/{container} says {text:?}"))
}

/// The only GPU that a container sees, which must also be the only one its environment and its nvidia-smi name.
pub(super) fn only_gpu(stage: &Stage, pod: &str, container: &str) -> Result<String> {
    let seen = nvml(stage, pod, container)?;
    let [uuid] = seen.gpus.as_slice() else {
        anyhow::bail!("{pod}/{container} should see one GPU, and sees {seen:?}");
    };
    let listed = stage.cluster.exec(pod, container, &["nvidia-smi", "-L"])?;
    ensure!(
        listed.lines().count() == 1 && listed.contains(uuid.as_str()),
        "nvidia-smi -L in {pod}/{container} does not show {uuid} alone: {listed}"
    );
    Ok(uuid.clone())
}

/// Whether a sample is of this container.
fn is_of(sample: &Sample, pod: &str, container: &str) -> bool {
    sample.label("namespace") == "default"
        && sample.label("pod") == pod
        && sample.label("container") == container
}

/// Waits until the exporter names a container on exactly these GPUs.
pub(super) fn attributed(
    exporter: &impl Shows,
    pod: &str,
    container: &str,
    uuids: &[String],
) -> Result<()> {
    let mut wanted: Vec<&str> = uuids.iter().map(String::as_str).collect();
    wanted.sort_unstable();
    exporter.until(&format!("{pod}/{container} on {wanted:?}"), BUSY, |all| {
        let of = all.iter().filter(|sample| is_of(sample, pod, container));
        let mut found: Vec<&str> = of.map(|sample| sample.label("UUID")).collect();
        found.sort_unstable();
        (found == wanted).then_some(())
    })
}

/// Waits until the exporter shows a container's device so busy.
pub(super) fn busy(exporter: &impl Shows, pod: &str, low: f64, high: f64) -> Result<()> {
    let what = format!("{pod} busy from {low} to {high}");
    exporter.until(&what, BUSY, |all| {
        let mut of = all.iter().filter(|sample| sample.label("pod") == pod);
        of.any(|sample| (low..=high).contains(&sample.value))
            .then_some(())
    })
}

/// Waits until the node has these labels.
pub(super) fn labelled(cluster: &Cluster, wanted: &[(&str, &str)]) -> Result<()> {
    until(&format!("labels {wanted:?}"), || {
        let labels = &cluster.node()?["metadata"]["labels"];
        let all = wanted.iter().all(|(key, value)| labels[*key] == *value);
        Ok(if all { Ok(()) } else { Err(labels.to_string()) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_probe_says_is_read() {
        let text = "devices 1\ndevice 0 GPU-a minor 3 utilization 97 memory 12\nmig 0/1 MIG-b\n";
        let seen = Seen::parse(text).expect("what a probe says");
        assert_eq!(seen.gpus, ["GPU-a"]);
        assert_eq!(seen.migs, ["MIG-b"]);
        assert_eq!(Seen::parse("devices 2\n"), None);
        assert_eq!(Seen::parse("devices 1\ndevice 0 lost 15\n"), None);
        assert_eq!(Seen::parse(""), None);
    }
}
