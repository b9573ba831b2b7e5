//! Workloads: what runs, where, how hard, until when.

use crate::config::language::{Field, Form, Kind, Rule, Table};
use crate::config::limits::{MAX_REPEAT, MAX_STEPS};
use crate::quantity::MAX_BYTES;

use super::{ANY, ANY_TIME, DEVICES, NAME, SOME_TIME, field, needed};

pub(crate) static WORKLOAD: Table = Table {
    name: "workload",
    doc: "Something that runs on devices, hard or gently, for a while or for ever.",
    fields: &[
        needed("name", NAME, "Unique name."),
        Field {
            key: "devices",
            alias: Some("device"),
            kind: DEVICES,
            default: None,
            doc: "Where it runs: `node-a/0-3`, `node-*/0,2`, a UUID, a MIG device `node-a/0:1`, `all`, or a list.",
        },
        field("at", ANY_TIME, "`0`", "When it begins."),
        field(
            "activity",
            Kind::Either(&[
                Kind::List(&Kind::Table(&STEP), MAX_STEPS),
                Kind::Table(&SCHEDULE),
            ]),
            "one step that never ends",
            "What it does, step after step.",
        ),
        field(
            "utilization",
            Kind::Percent,
            "`100`",
            "Busy share of a workload without `activity`, in percent.",
        ),
        field(
            "memory",
            Kind::Amount,
            "none",
            "Memory of a workload without `activity`.",
        ),
        field(
            "repeat",
            REPEAT,
            "`1`",
            "How often the activity is run, or `forever`.",
        ),
        field(
            "limits",
            Kind::Table(&LIMITS),
            "none",
            "What ends it early.",
        ),
        field(
            "intensity",
            Kind::Number {
                min: 0.01,
                max: 3.0,
            },
            "`0.7`",
            "How much power its kernels draw: 0.45 memory-bound, 0.95 burn test, 3 dense tensor work.",
        ),
        field(
            "tensor",
            Kind::Number { min: 0.0, max: 1.0 },
            "`0`",
            "Share of its busy time on the tensor pipe.",
        ),
        field(
            "pod",
            Kind::Text(Form::Pod),
            "none",
            "The pod it belongs to, `namespace/name`.",
        ),
        field(
            "container",
            NAME,
            "the pod's name",
            "The container in that pod.",
        ),
        field("pod-uid", ANY, "none", "The pod's UID."),
        field("process", ANY, "`python3`", "Process name NVML shows."),
        field(
            "kind",
            Kind::Choice(&["compute", "graphics", "mps"]),
            "`compute`",
            "In which of NVML's process lists it appears.",
        ),
    ],
    rules: &[
        Rule::AtMostOne(&["activity", "utilization"]),
        Rule::AtMostOne(&["activity", "memory"]),
    ],
};

const REPEAT: Kind = Kind::Either(&[
    Kind::Integer {
        min: 1,
        max: MAX_REPEAT,
    },
    Kind::Choice(&["forever"]),
]);

pub(crate) static SCHEDULE: Table = Table {
    name: "schedule",
    doc: "Steps together with how often they are run.",
    fields: &[
        Field {
            key: "steps",
            alias: Some("schedule"),
            kind: Kind::List(&Kind::Table(&STEP), MAX_STEPS),
            default: None,
            doc: "The steps.",
        },
        field(
            "repeat",
            REPEAT,
            "`1`",
            "How often they are run, or `forever`.",
        ),
    ],
    rules: &[],
};

pub(crate) static STEP: Table = Table {
    name: "step",
    doc: "One step of an activity.",
    fields: &[
        Field {
            key: "for",
            alias: Some("time"),
            kind: SOME_TIME,
            default: Some("until the workload ends; only the last step may"),
            doc: "How long.",
        },
        field(
            "utilization",
            Kind::Percent,
            "`0`",
            "Busy share in percent: `80`, or a range `80-100`.",
        ),
        field(
            "memory",
            Kind::Amount,
            "as before the step, else none",
            "Memory held: `30GiB`, `10-30GiB`, `50%`, `20-50%`.",
        ),
        field(
            "bandwidth",
            Kind::Percent,
            "from utilization",
            "Memory bandwidth, percent of the peak.",
        ),
        field(
            "interconnect",
            Kind::Percent,
            "from utilization",
            "NVLink and PCIe use, percent of the peak.",
        ),
        field(
            "function",
            Kind::Choice(&["random", "ramp", "increase"]),
            "`random`",
            "How values move inside a range: wandering, from low to high, or wandering but never falling.",
        ),
    ],
    rules: &[],
};

pub(crate) static LIMITS: Table = Table {
    name: "limits",
    doc: "A workload that reaches one of these is ended.",
    fields: &[
        field("runtime", SOME_TIME, "none", "Time it has run."),
        field(
            "memory",
            Kind::Bytes {
                min: 1,
                max: MAX_BYTES,
            },
            "none",
            "Memory on any one device.",
        ),
        field(
            "temperature",
            Kind::Number {
                min: 1.0,
                max: 200.0,
            },
            "none",
            "Degrees Celsius of any device.",
        ),
        field(
            "power",
            Kind::Number {
                min: 1.0,
                max: 10_000.0,
            },
            "none",
            "Watts of any device.",
        ),
    ],
    rules: &[],
};
