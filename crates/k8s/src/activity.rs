//! What a pod does with its GPUs, as its author wrote it down. The first of these that says something counts:
//!
//! 1. a pod whose name begins with `runai-idle-gpu-`, or one that only reserves a GPU, does nothing;
//! 2. the annotation [`SCHEDULE`]: steps over time;
//! 3. the annotation [`UTILIZATION`]: a percentage, or a range of them;
//! 4. the label [`KIND`], or without it the priority class of the pod's group;
//! 5. otherwise whatever runs is fully busy.
//!
//! The annotation [`FRACTION`] says how much of a GPU's memory it takes: all of it when there is none. Every
//! annotation can be given to one container alone, by its name after a dot: `gpu-fraction.main`.
//!
//! A value that makes no sense is left out, with a [`Complaint`] for the pod; the next rule then counts.

mod schedule;

use mirage_model::plan::{ActivityStep, Amount, Function, Range};
use mirage_model::quantity;

use crate::cluster::pod::{MOST_ANNOTATION, Pod};
use crate::cluster::tell::Complaint;
use crate::error::printable;

/// Annotation with a schedule: JSON, see [`Activity`].
pub const SCHEDULE: &str = "mirage.dev/gpu-schedule";
/// Annotation with a percentage `N`, or a range `N-M`; fake-gpu-operator's.
pub const UTILIZATION: &str = "run.ai/simulated-gpu-utilization";
/// Annotation with a share of a GPU, above 0 and up to 1; Run:ai's.
pub const FRACTION: &str = "gpu-fraction";
/// Label with the kind of a workload; Run:ai's.
pub const KIND: &str = "workloadKind";
/// Annotation with the name of the pod's group, whose priority class tells the kind; Run:ai's.
pub const GROUP: &str = "pod-group-name";

/// Beginning of the names of pods that hold a GPU and do nothing with it.
const IDLE: &str = "runai-idle-gpu-";
/// Namespace of pods that hold a GPU for others.
pub const RESERVATIONS: &str = "runai-reservation";
/// What complaints about annotations are called.
const REASON: &str = "BadGpuAnnotation";

/// What a container does with each of its devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Activity {
    /// Steps; the last one never ends unless they repeat for ever.
    pub steps: Vec<ActivityStep>,
    /// Run again and again.
    pub is_endless: bool,
    /// Share of a device's memory for steps that name none, 0–1; `None` for what is there.
    pub fraction: Option<f64>,
}

impl Activity {
    /// The same for ever.
    pub fn constant(low: f64, high: f64) -> Activity {
        let step = ActivityStep {
            duration: None,
            utilization: Range { low, high },
            memory: None,
            bandwidth: None,
            interconnect: None,
            function: Function::Random,
        };
        Activity {
            steps: vec![step],
            is_endless: false,
            fraction: None,
        }
    }

    /// What a running container does when nobody says otherwise.
    pub fn usual() -> Activity {
        Activity::constant(100.0, 100.0)
    }

    /// Whether each step says how much memory it takes.
    pub fn names_memory(&self) -> bool {
        self.steps.iter().all(|step| step.memory.is_some())
    }

    /// Gives steps that name no memory this share of the device, 0–1.
    pub fn fill_memory(&mut self, share: f64) {
        let percent = (share * 100.0).clamp(0.0, 100.0);
        let all = Amount::Share(Range {
            low: percent,
            high: percent,
        });
        for step in &mut self.steps {
            step.memory = step.memory.or(Some(all));
        }
    }
}

/// What a pod's author says a container does, and what is wrong with how it is said; and whether requests keep it busy. `class` is the
/// priority class of the pod's group, where it is known.
pub fn of(pod: &Pod, container: &str, class: Option<&str>) -> (Activity, Vec<Complaint>, bool) {
    let mut complaints = Vec::new();
    let mut fraction = None;
    if let Some((key, text)) = annotation(pod, FRACTION, container) {
        match share(text) {
            Ok(share) => fraction = Some(share),
            Err(why) => complaints.push(complain(key, text, &why, "all of the memory is used")),
        }
    }
    let told = told(pod, container, &mut complaints);
    let by_kind = || match kind(pod, class) {
        Kind::Training => (Activity::constant(80.0, 100.0), false),
        Kind::Idle => (Activity::constant(0.0, 0.0), false),
        // Busy with requests, of which none are counted here.
        Kind::Inference => (Activity::constant(1.0, 1.0), true),
        Kind::Other => (Activity::usual(), false),
    };
    let (mut activity, by_requests) = told.map_or_else(by_kind, |activity| (activity, false));
    activity.fraction = fraction;
    (activity, complaints, by_requests)
}

/// What kind of workload a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Training,
    Idle,
    Inference,
    Other,
}

fn kind(pod: &Pod, class: Option<&str>) -> Kind {
    match pod.labels.get(KIND).map(String::as_str) {
        Some("TrainingWorkload") => return Kind::Training,
        Some("InteractiveWorkload") => return Kind::Idle,
        Some("InferenceWorkload" | "DistributedWorkload") => return Kind::Inference,
        // Other words are other people's.
        _ => {}
    }
    match class {
        Some("train") => Kind::Training,
        Some("build" | "interactive" | "interactive-preemptible" | "distributed") => Kind::Idle,
        Some("inference" | "distributed-inference") => Kind::Inference,
        _ => Kind::Other,
    }
}

/// What its name and its annotations say.
fn told(pod: &Pod, container: &str, complaints: &mut Vec<Complaint>) -> Option<Activity> {
    if pod.name.starts_with(IDLE) {
        return Some(Activity::constant(0.0, 0.0));
    }
    if pod.namespace == RESERVATIONS {
        let mut nothing = Activity::constant(0.0, 0.0);
        nothing.fill_memory(0.0);
        return Some(nothing);
    }
    if let Some((key, text)) = annotation(pod, SCHEDULE, container) {
        let read = match text.len() > MOST_ANNOTATION {
            true => Err(format!(
                "more than {} KiB are not read",
                MOST_ANNOTATION >> 10
            )),
            false => schedule::read(text),
        };
        match read {
            Ok(activity) => return Some(activity),
            Err(why) => complaints.push(complain(key, text, &why, "it is left out")),
        }
    }
    if let Some((key, text)) = annotation(pod, UTILIZATION, container) {
        match quantity::percent(text) {
            Ok(Range { low, high }) => return Some(Activity::constant(low, high)),
            Err(why) => complaints.push(complain(key, text, &why.to_string(), "it is left out")),
        }
    }
    None
}

/// The annotation for a container, or else for all of them; with its key.
fn annotation<'a>(pod: &'a Pod, key: &str, container: &str) -> Option<(&'a str, &'a str)> {
    let own = pod.annotations.get_key_value(&format!("{key}.{container}"));
    let found = own.or_else(|| pod.annotations.get_key_value(key));
    found.map(|(key, text)| (key.as_str(), text.as_str()))
}

fn share(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        Ok(_) => Err("a fraction is above 0 and at most 1".into()),
        Err(_) => Err("it is not a number; write for example 0.5".into()),
    }
}

/// Says what is wrong with an annotation, and what is done instead.
pub(crate) fn complain(key: &str, text: &str, why: &str, instead: &str) -> Complaint {
    let shown: String = printable(text).chars().take(80).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    Complaint {
        reason: REASON,
        message: format!("annotation {key}={shown}{more}: {why}; {instead}"),
    }
}

#[cfg(test)]
mod tests;
