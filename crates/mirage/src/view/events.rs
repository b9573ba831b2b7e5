//! Events with their kernel-log lines.

use mirage_model::plan::Plan;
use mirage_sim::{Event, EventKind};
use serde::Serialize;

use crate::publish::Clock;

/// One event of the fleet.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct EventView {
    pub time_s: f64,
    pub unix_ms: u64,
    pub node: String,
    pub gpu: u32,
    pub kind: &'static str,
    pub data: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_instance: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_instance: Option<u32>,
    /// As a kernel log would have it; empty where it would have nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl EventView {
    /// The view of an event.
    pub fn new(event: &Event, plan: &Plan, clock: Clock) -> Self {
        let Event {
            time,
            node,
            gpu,
            kind,
            data,
            gi,
            ci,
            message,
        } = event;
        let name = plan.nodes.get(*node as usize).map(|node| &*node.name);
        Self {
            time_s: time.as_secs_f64(),
            unix_ms: clock.unix_ms(*time),
            node: name.unwrap_or("?").into(),
            gpu: *gpu,
            kind: kind_name(*kind),
            data: *data,
            gpu_instance: *gi,
            compute_instance: *ci,
            message: message.clone(),
        }
    }
}

fn kind_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::EccSingle => "ecc-single",
        EventKind::EccDouble => "ecc-double",
        EventKind::Pstate => "pstate",
        EventKind::Xid => "xid",
        EventKind::Clock => "clock",
        EventKind::EccStorm => "ecc-storm",
        EventKind::Retirement => "retirement",
        EventKind::RetirementFailed => "retirement-failed",
        EventKind::ContainedError => "contained-error",
        EventKind::UncontainedError => "uncontained-error",
        EventKind::Unavailable => "unavailable",
        EventKind::Recovery => "recovery",
        EventKind::Mig => "mig",
    }
}
