//! The language itself: every key, what it may hold, its default, its limit, its meaning.

pub(crate) mod fault;
pub(crate) mod fleet;
pub(crate) mod workload;

use std::time::Duration;

use super::{Field, Form, Kind, Table};
use crate::config::limits::{MAX_FAULTS, MAX_WORKLOADS};
use crate::quantity::MAX_DURATION;
use fault::{ECC_TABLE, FAULT};
use fleet::{DRIVER, GPU, INSTANCE, NODE, POOL, RESOURCE};
use workload::{LIMITS, SCHEDULE, STEP, WORKLOAD};

const ANY_TIME: Kind = Kind::Duration {
    min: Duration::ZERO,
    max: MAX_DURATION,
};
const SOME_TIME: Kind = Kind::Duration {
    min: Duration::from_millis(1),
    max: MAX_DURATION,
};
const NAME: Kind = Kind::Text(Form::Name);
const ANY: Kind = Kind::Text(Form::Any);
const DEVICES: Kind = Kind::Either(&[
    Kind::Text(Form::Selector),
    Kind::List(&Kind::Text(Form::Selector), 10_000),
]);
/// A key that must be there.
const fn needed(key: &'static str, kind: Kind, doc: &'static str) -> Field {
    Field {
        key,
        alias: None,
        kind,
        default: None,
        doc,
    }
}

/// A key that may be left out.
const fn field(key: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Field {
    Field {
        key,
        alias: None,
        kind,
        default: Some(default),
        doc,
    }
}

pub(crate) static ROOT: Table = Table {
    name: "the config",
    doc: "A fleet: which nodes exist, what runs on them, what goes wrong.",
    fields: &[
        field(
            "seed",
            Kind::Integer {
                min: 0,
                max: u64::MAX,
            },
            "`0`",
            "Seed of every random stream; the same config and seed give the same bytes.",
        ),
        field(
            "tick",
            Kind::Duration {
                min: Duration::from_millis(10),
                max: Duration::from_secs(60),
            },
            "`1s`",
            "Simulated time per step.",
        ),
        field(
            "driver",
            Kind::Table(&DRIVER),
            "the model's",
            "Driver of nodes and pools that name none.",
        ),
        field(
            "mig-strategy",
            Kind::Choice(&["none", "single", "mixed"]),
            "`none`",
            "How MIG devices are offered and labelled.",
        ),
        field(
            "pools",
            Kind::Named(&POOL),
            "none",
            "Kinds of node, by name.",
        ),
        field(
            "pool-label",
            ANY,
            "`run.ai/simulated-gpu-node-pool`",
            "The node label that names a cluster node's pool.",
        ),
        field(
            "nodes",
            Kind::Named(&NODE),
            "this machine, of the pool `default`",
            "Nodes, by name.",
        ),
        field(
            "workloads",
            Kind::List(&Kind::Table(&WORKLOAD), MAX_WORKLOADS),
            "none",
            "What runs.",
        ),
        field(
            "faults",
            Kind::List(&Kind::Table(&FAULT), MAX_FAULTS),
            "none",
            "What goes wrong, and when.",
        ),
    ],
    rules: &[],
};

/// Every table, in the order the reference shows them.
pub(crate) static ALL: &[&Table] = &[
    &ROOT, &DRIVER, &POOL, &NODE, &GPU, &INSTANCE, &RESOURCE, &WORKLOAD, &SCHEDULE, &STEP, &LIMITS,
    &FAULT, &ECC_TABLE,
];
