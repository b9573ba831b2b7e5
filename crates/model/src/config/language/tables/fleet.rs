//! Pools, nodes, GPUs, MIG devices, drivers.

use crate::config::language::{Form, Kind, Rule, Table};
use crate::config::limits::{MAX_GPUS_PER_NODE, MAX_NODES};

use super::{ANY, NAME, field, needed};

const BOARD_MEMORY: Kind = Kind::Bytes {
    min: 64 << 20,
    max: 16 << 40,
};
const GPUS: Kind = Kind::Either(&[
    Kind::Integer {
        min: 0,
        max: MAX_GPUS_PER_NODE as u64,
    },
    Kind::List(&Kind::Table(&GPU), MAX_GPUS_PER_NODE),
]);
const MIG: Kind = Kind::List(
    &Kind::Either(&[Kind::Text(Form::Profile), Kind::Table(&INSTANCE)]),
    16,
);

pub(crate) static DRIVER: Table = Table {
    name: "driver",
    doc: "Versions a node reports.",
    fields: &[
        field(
            "version",
            Kind::Text(Form::Version),
            "the model's",
            "Driver version, `550.163.01`.",
        ),
        field(
            "cuda",
            Kind::Text(Form::Cuda),
            "the model's",
            "CUDA version, `12.4`.",
        ),
    ],
    rules: &[],
};

pub(crate) static POOL: Table = Table {
    name: "pool",
    doc: "What every node of a kind is like.",
    fields: &[
        field("model", Kind::Text(Form::Model), "`a100-sxm4-40gb`", MODEL),
        field("gpus", GPUS, "as many as such nodes usually have", GPUS_DOC),
        field("memory", BOARD_MEMORY, "the model's", MEMORY),
        field(
            "driver",
            Kind::Table(&DRIVER),
            "the config's",
            "Driver of these nodes.",
        ),
        field("mig", MIG, "MIG off", MIG_DOC),
        field("dynamic-mig", Kind::Flag, "`false`", DYNAMIC),
        field("virtual", Kind::Flag, "`false`", KUBELET),
        field(
            "virtual-nodes",
            Kind::Integer {
                min: 0,
                max: MAX_NODES as u64,
            },
            "none",
            "So many nodes of this pool without a kubelet, named `<pool>-0`, `<pool>-1`, …",
        ),
        field("flavour", Kind::Choice(FLAVOURS), "`none`", FLAVOUR),
        field("resources", RESOURCES, "none", RESOURCES_DOC),
    ],
    rules: &[],
};

pub(crate) static NODE: Table = Table {
    name: "node",
    doc: "One node, or with `count` many alike. Keys given here win over the pool's.",
    fields: &[
        field(
            "pool",
            NAME,
            "`default`, where there is one and no `model` is given",
            "The pool it belongs to.",
        ),
        field("model", Kind::Text(Form::Model), "the pool's", MODEL),
        field("gpus", GPUS, "the pool's", GPUS_DOC),
        field("memory", BOARD_MEMORY, "the pool's", MEMORY),
        field(
            "driver",
            Kind::Table(&DRIVER),
            "the pool's",
            "Driver of this node.",
        ),
        field("mig", MIG, "the pool's", MIG_DOC),
        field("dynamic-mig", Kind::Flag, "the pool's", DYNAMIC),
        field("virtual", Kind::Flag, "the pool's", KUBELET),
        field("resources", RESOURCES, "the pool's", RESOURCES_DOC),
        field(
            "count",
            Kind::Integer {
                min: 1,
                max: MAX_NODES as u64,
            },
            "one node of exactly this name",
            "So many nodes, named `<name>-0`, `<name>-1`, …",
        ),
    ],
    rules: &[Rule::AtMostOne(&["pool", "model"])],
};

const MODEL: &str =
    "GPU model, by catalogue key, NVML name or product label; `mirage models` lists them.";
const GPUS_DOC: &str = "How many GPUs, or a list that says something about each.";
const MEMORY: &str = "Memory of each GPU, where it is not the model's.";
const MIG_DOC: &str = "MIG on, with these instances on every GPU; `[]` for MIG on and none.";
const DYNAMIC: &str = "Export MIG series the way the dynamic-MIG design wants them.";
const KUBELET: &str = "The node has no kubelet; the controller keeps it alive.";
const FLAVOUR: &str =
    "The cloud whose GPU nodes its nodes without a kubelet look like, by labels and taints.";
/// Clouds whose nodes can be imitated.
pub(crate) const FLAVOURS: &[&str] = &["none", "eks", "gke", "aks"];
const RESOURCES_DOC: &str = "Further extended resources the node offers.";
const RESOURCES: Kind = Kind::List(&Kind::Table(&RESOURCE), 64);

pub(crate) static RESOURCE: Table = Table {
    name: "resource",
    doc: "An extended resource that is only counted.",
    fields: &[
        needed("name", ANY, "Resource name, `example.com/fpga`."),
        needed(
            "count",
            Kind::Integer {
                min: 1,
                max: 100_000,
            },
            "How many.",
        ),
    ],
    rules: &[],
};

pub(crate) static GPU: Table = Table {
    name: "gpu",
    doc: "One GPU, where it differs from its node's others.",
    fields: &[
        field(
            "id",
            Kind::Text(Form::Id),
            "derived from node and index",
            "Its UUID, `GPU-…`.",
        ),
        field("model", Kind::Text(Form::Model), "the node's", MODEL),
        field(
            "serial",
            Kind::Text(Form::Serial),
            "derived",
            "Serial number.",
        ),
        field("memory", BOARD_MEMORY, "the node's", "Its memory."),
        field("mig", MIG, "the node's", "MIG on, with these instances."),
    ],
    rules: &[],
};

pub(crate) static INSTANCE: Table = Table {
    name: "mig device",
    doc: "A MIG device there from the start.",
    fields: &[
        needed(
            "profile",
            Kind::Text(Form::Profile),
            "GPU-instance profile, `1g.5gb`.",
        ),
        field(
            "start",
            Kind::Integer { min: 0, max: 15 },
            "as the driver would choose",
            "First memory slice.",
        ),
        field("id", Kind::Text(Form::Id), "derived", "Its UUID, `MIG-…`."),
    ],
    rules: &[],
};
