//! What the pods of nodes without a kubelet do: the engine's workloads are made those that are wanted. What is there already goes on, with
//! its processes and what they have counted, also when it is to do something else.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime};

use mirage_k8s::controller::settle::Work;
use mirage_model::plan::{DeviceRef, Limits, WorkloadKind, WorkloadPlan};
use mirage_sim::{Input, Phase, WorkloadState};

use crate::engine::Core;

/// Workloads of containers are called so; names of others have no colon.
const PREFIX: &str = "pod:";
/// Power intensity of what pods run, as on nodes with a kubelet.
const INTENSITY: f64 = 0.7;

/// A container at work, as the engine is to have it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    plan: WorkloadPlan,
    /// Since when it runs, in seconds since 1970: its schedule counts from then.
    since: Option<i64>,
}

/// Those of a fleet, by name.
pub(super) type Jobs = BTreeMap<String, Job>;

impl Job {
    /// What runs on the node of this index.
    pub(super) fn new(node: u32, work: Work) -> Job {
        let owner = &work.owner;
        let name = format!(
            "{PREFIX}{}/{}/{}#{}",
            owner.namespace, owner.pod, owner.container, owner.pod_uid
        );
        let devices = work.devices.iter().map(|(gpu, instance)| DeviceRef {
            node,
            gpu: *gpu,
            instance: *instance,
        });
        Job {
            since: work.since,
            plan: WorkloadPlan {
                name,
                devices: devices.collect(),
                at: Duration::ZERO,
                repeat: (!work.activity.is_endless).then_some(1),
                activity: work.activity.steps,
                limits: Limits::default(),
                intensity: INTENSITY,
                tensor: 0.0,
                owner: Some(work.owner),
                process: "python3".into(),
                kind: WorkloadKind::Compute,
            },
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.plan.name
    }

    /// Whether a workload does this.
    fn is_done_by(&self, workload: &WorkloadState) -> bool {
        workload.activity() == self.plan.activity && workload.repeat() == self.plan.repeat
    }

    /// How far it is, in simulated time, whether it was simulated then or not.
    fn lead(&self, now: SystemTime, speed: f64) -> Duration {
        let since = self.since.and_then(|second| u64::try_from(second).ok());
        let begun = since
            .and_then(|second| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(second)));
        // One that begins in the future begins now; the past has an end too, so that time goes on after it.
        let wall = begun.and_then(|begun| now.duration_since(begun).ok());
        let simulated = wall.unwrap_or_default().as_secs_f64() * speed;
        let simulated = Duration::try_from_secs_f64(simulated);
        simulated.unwrap_or(Duration::MAX).min(Duration::MAX / 2)
    }
}

/// Makes the engine follow; returns what it refused.
pub(super) fn follow(core: &mut Core, jobs: &Jobs, now: SystemTime) -> Vec<String> {
    let mut inputs = Vec::new();
    let mut there: HashSet<&str> = HashSet::new();
    for workload in core.world().workloads() {
        let name = workload.name();
        if !name.starts_with(PREFIX) {
            continue;
        }
        let wanted = jobs.get_key_value(name);
        let here = wanted.filter(|(_, job)| workload.devices() == job.plan.devices);
        match here {
            Some((name, job)) if job.is_done_by(workload) => {
                there.insert(name);
            }
            Some((name, job)) if !matches!(workload.phase(), Phase::Ended(_)) => {
                there.insert(name);
                inputs.push(Input::ChangeWorkload(job.plan.clone()));
            }
            _ => inputs.push(Input::RemoveWorkload(name.to_owned())),
        }
    }
    for (name, job) in jobs {
        if !there.contains(&**name) {
            let lead = job.lead(now, core.speed());
            inputs.push(Input::ResumeWorkload(job.plan.clone(), lead));
        }
    }
    if inputs.is_empty() {
        return Vec::new();
    }
    let answers = core.apply(&inputs).into_iter();
    answers
        .filter_map(Result::err)
        .map(|refusal| refusal.to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use mirage_k8s::activity::Activity;
    use mirage_model::config::{self, Defaults};
    use mirage_model::plan::{ActivityStep, Owner};

    use super::*;
    use crate::engine::Files;

    fn core() -> Core {
        let config = "nodes:\n  gpu-0: { model: t4, gpus: 2 }\n  gpu-1: { model: t4, gpus: 2 }\n";
        let plan = config::load(config, "test", &Defaults::default())
            .unwrap()
            .plan;
        Core::new(plan, 1.0, 0, 0, Files::default())
    }

    fn job(uid: &str, gpu: u32, activity: Activity, since: Option<i64>) -> (String, Job) {
        let work = Work {
            owner: Owner {
                namespace: "team".into(),
                pod: "p".into(),
                container: "c".into(),
                pod_uid: uid.into(),
            },
            devices: vec![(gpu, None)],
            since,
            activity,
        };
        let job = Job::new(1, work);
        (job.name().to_owned(), job)
    }

    /// Names, identities and steps of what runs.
    fn running(core: &Core) -> Vec<(String, u64, usize)> {
        let mut all: Vec<_> = core
            .world()
            .workloads()
            .map(|one| (one.name().to_owned(), one.id(), one.step()))
            .collect();
        all.sort();
        all
    }

    fn play(core: &mut Core, jobs: Vec<(String, Job)>, now: u64) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        let refused = follow(core, &jobs.into_iter().collect(), now);
        assert_eq!(refused, Vec::<String>::new());
    }

    #[test]
    fn work_begins_changes_moves_and_ends() {
        let mut core = core();
        let at = |percent| Activity::constant(percent, percent);
        play(
            &mut core,
            vec![job("a", 0, at(10.0), None), job("b", 1, at(10.0), None)],
            0,
        );
        let first = running(&core);
        assert_eq!(first.len(), 2);
        // As busy as its requests make it, and still the same.
        play(
            &mut core,
            vec![job("a", 0, at(20.0), None), job("b", 1, at(10.0), None)],
            0,
        );
        assert_eq!(running(&core), first);
        let activity = |core: &Core| {
            core.world()
                .workload(&first[0].0)
                .unwrap()
                .activity()
                .to_vec()
        };
        assert_eq!(activity(&core), at(20.0).steps);
        // The fleet is laid anew: it stays where it is.
        let plan = (**core.plan()).clone();
        core.reconfigure(plan);
        play(&mut core, vec![job("a", 0, at(20.0), None)], 0);
        assert_eq!(running(&core), first[..1]);
        play(&mut core, vec![job("a", 1, at(20.0), None)], 0);
        let moved = running(&core);
        assert!(moved.len() == 1 && moved[0].1 != first[0].1, "{moved:?}");
        play(&mut core, Vec::new(), 0);
        assert!(running(&core).is_empty());
    }

    #[test]
    fn a_schedule_goes_on_where_it_would_be() {
        let hours: Vec<ActivityStep> = [80.0, 0.0, 50.0]
            .into_iter()
            .map(|percent| ActivityStep {
                duration: Some(Duration::from_secs(3600)),
                ..Activity::constant(percent, percent).steps.remove(0)
            })
            .collect();
        let schedule = Activity {
            steps: hours,
            is_endless: true,
            fraction: None,
        };
        // A controller that begins 90 minutes after the pod.
        for (begun, step) in [(1000, 1), (1000 + 5400, 0), (9_000_000, 0)] {
            let mut core = core();
            play(
                &mut core,
                vec![job("a", 0, schedule.clone(), Some(begun))],
                1000 + 5400,
            );
            assert_eq!(running(&core)[0].2, step, "{begun}");
        }
    }
}
