//! The controller's own lease, by which one of several acts.

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::{Shared, Tell};
use crate::controller::MANAGER;
use crate::controller::lease::{Candidate, DURATION, RENEW, Standing, Step};
use crate::error::chain;

/// How often a write is tried anew when another was faster.
const TRIES: u32 = 8;

/// Competes for the lease, for ever.
pub(super) async fn compete(client: Client, shared: Arc<Shared>, tell: Tell) {
    const PART: &str = "lease";
    let (namespace, name) = shared.look(|controller| {
        let settings = &controller.settings;
        (settings.namespace.clone(), settings.identity.clone())
    });
    let api: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let mut candidate = Candidate::new(&name);
    loop {
        tell(PART, once(&api, &name, &mut candidate).await);
        shared.reign(candidate.until());
        shared.stand_by(candidate.is_behind());
        tokio::time::sleep(RENEW.min(DURATION / 3)).await;
        // Whoever cannot renew must stop in time.
        shared.reign(candidate.until());
    }
}

/// Looks at the lease and does what is to be done about it, anew where another wrote to it in between.
async fn once(api: &Api<Lease>, me: &str, candidate: &mut Candidate) -> Result<(), String> {
    let trouble = |error: kube::Error| format!("leading: {}", chain(&error));
    let ask = async {
        for _ in 0..TRIES {
            let asked = Instant::now();
            let lease = api.get_opt(MANAGER).await.map_err(trouble)?;
            let step = candidate.step(lease.as_ref().map(standing), asked);
            match write(api, me, step, lease).await {
                Ok(true) => candidate.renewed(asked),
                Ok(false) => {}
                Err(kube::Error::Api(status))
                    if status.is_conflict() || status.is_already_exists() =>
                {
                    continue;
                }
                Err(error) => return Err(trouble(error)),
            }
            return Ok(());
        }
        Err(format!(
            "leading: others wrote to the lease in between, {TRIES} times"
        ))
    };
    match tokio::time::timeout(RENEW, ask).await {
        Ok(outcome) => outcome,
        Err(_) => Err("leading: the server does not answer in time".into()),
    }
}

fn standing(lease: &Lease) -> Standing {
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.clone());
    Standing {
        holder: holder.unwrap_or_default(),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// Takes a step; returns whether the lease is this controller's by it.
async fn write(
    api: &Api<Lease>,
    me: &str,
    step: Step,
    lease: Option<Lease>,
) -> Result<bool, kube::Error> {
    match (step, lease) {
        (Step::Wait, _) => return Ok(false),
        (Step::Create, _) | (_, None) => {
            let metadata = ObjectMeta {
                name: Some(MANAGER.into()),
                ..ObjectMeta::default()
            };
            let lease = Lease {
                metadata,
                spec: Some(spec(me, None, true)),
            };
            api.create(&PostParams::default(), &lease).await?
        }
        (step, Some(mut lease)) => {
            // With the version that was read: of two who write at once, one is refused.
            lease.spec = Some(spec(me, lease.spec.as_ref(), step == Step::Take));
            lease.metadata.managed_fields = None;
            api.replace(MANAGER, &PostParams::default(), &lease).await?
        }
    };
    Ok(true)
}

/// Gives the lease back, so that the next need not wait until it has run out. This controller acts no more.
pub async fn resign(client: &Client, shared: &Shared) -> Result<(), String> {
    let acted = shared.acts();
    shared.reign(None);
    if !acted {
        return Ok(());
    }
    let (namespace, me) = shared.look(|controller| {
        let settings = &controller.settings;
        (settings.namespace.clone(), settings.identity.clone())
    });
    let api: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let trouble = |error: kube::Error| format!("giving the lease back: {}", chain(&error));
    let Some(mut lease) = api.get_opt(MANAGER).await.map_err(trouble)? else {
        return Ok(());
    };
    let mut spec = lease.spec.take().unwrap_or_default();
    if spec.holder_identity.take().as_deref() != Some(&*me) {
        return Ok(());
    }
    lease.spec = Some(spec);
    lease.metadata.managed_fields = None;
    // With the version that was read: whoever has taken it since keeps it.
    let given = api.replace(MANAGER, &PostParams::default(), &lease).await;
    given.map(drop).map_err(trouble)
}

fn spec(me: &str, before: Option<&LeaseSpec>, is_new: bool) -> LeaseSpec {
    let now = MicroTime(Timestamp::now());
    let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
    let acquired = before.and_then(|spec| spec.acquire_time.clone());
    LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: if is_new { Some(now.clone()) } else { acquired },
        renew_time: Some(now),
        lease_transitions: Some(transitions + i32::from(is_new && before.is_some())),
        ..LeaseSpec::default()
    }
}
