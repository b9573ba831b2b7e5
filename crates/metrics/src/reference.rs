//! The reference page of this crate, written from its tables so that it cannot be wrong.

use std::fmt::Write;

use crate::dcgm::fields::{FIELDS, Shipped, Source};
use crate::declared::fakedev;
use crate::identity::Identity;
use crate::quantity::QUANTITIES;
use crate::text::TEXTS;

/// The text of `docs/reference/metrics.md`.
pub fn reference() -> String {
    let mut out = String::from(HEAD);
    identities(&mut out);
    out.push_str(DCGM);
    fields(&mut out);
    out.push_str(FILE);
    fakedev(&mut out);
    out.push_str(QUANTITIES_HEAD);
    quantities(&mut out);
    texts(&mut out);
    out
}

const HEAD: &str = "\
# Metrics

<!-- Written by `MIRAGE_BLESS=1 cargo test -p mirage-metrics`; change the tables, not this page. -->

An exporter page is one *identity* over the state of one or many nodes. The same state gives the
same bytes; a quantity that a board does not have is left out, as a blank value is by the real
exporters. A GPU that fell off the bus keeps its Xid and health series and loses the rest.

## Identities

| Name | What it imitates |
|---|---|
";

const DCGM: &str = "
`dcgm` alone means `dcgm@4.8.2`, because that is the last release and the designs mirage follows spell
the label `Hostname`. Any version can be named (`dcgm@4.5.3-4.8.2`, `dcgm@4.8.3+`, `dcgm@4.9`, `dcgm@main`), as an image's tag
as well (`dcgm@4.5.3-4.8.2-distroless`).

The other identities are files of `crates/metrics/identities/`, and a file of your own works the same.
They always show who holds a device where their exporter does, and show boards of their exporter's maker
only, unless told to show any. Some have no label that names the node (`collectd`, `gaudi`, `xpumd`,
`nvidia-gpu-exporter`): their exporters run on each node, so scrape such an identity node by node.

## dcgm

Fields are chosen by dcgm-exporter's own list: `field, type, help` on each line, `#` comments, type one
of gauge, counter, histogram, summary, label. Every spelling of a field is accepted and printed as
written: the name of DCGM 4.5, the canonical one since 4.6, the one of 1.x. Families stand in the order of
their field ids.

| Option | Flag of dcgm-exporter | Effect |
|---|---|---|
| `hostname` | | host name to print instead of the node's name |
| `no_hostname` | `-n` | leaves the host name out |
| `old_namespace` | `-o` | labels `uuid`, `pod_name`, `pod_namespace`, `container_name` |
| `replace_blanks_in_model_name` | `--replace-blanks-in-model-name` | joins the words of a model name with `-` |
| `devices` | `-d` | `f`, `g`, `g:0-3`, `i`, `i:0,2`; the id of a GPU's n-th instance is 8 × gpu + n |
| `switches` | `-s` | the same of NVSwitches (`g`) and their ports (`i`) |
| `cpus` | `-p` | the same of CPUs (`g`) and their cores (`i`) |
| `pods` | `-k` | adds `container`, `namespace`, `pod` to held devices; the last holder wins |
| `pod_uid` | `--kubernetes-enable-pod-uid` | adds `pod_uid` |
| `virtual_gpus` | `--kubernetes-virtual-gpus` | one series for each pod that shares a device, with `vgpu` where the device's id names a share (`::2`, `/vgpu2`); GPU_UTIL and FB_USED are split among them and also kept whole |
| `xid_window_ms` | `-x` | window of `DCGM_EXP_XID_ERRORS_COUNT` and of the Xids that count for health |
| `clock_window_ms` | `--clock-events-count-window-size` | window of `DCGM_EXP_CLOCK_EVENTS_COUNT` |
| `xid_zero` | (`--xid-zero` of mirage) | prints Xid 0 for a GPU that never had one |
| `any_vendor` | (`--any-vendor` of mirage) | also shows boards that are not NVIDIA's |

What differs from the real exporter, on purpose:

- Label values are escaped (`\\\"`, `\\\\`, `\\n`). The real one escapes nothing, so such a name breaks its page.
- Help texts and Xid texts are our own words; a list of your own gives the help texts of your choice.
- Groups come in a fixed order, and what the real one prints in Go's random map order is sorted.
- A family stands once: the real one repeats a field that several groups have (CPUs and their cores).
- Of two labels of a pod that become the same name one stays, and no name begins with a digit.

Series are of GPUs and MIG instances; some fields are of other things, which have labels of their own:

| Field of | Labels | Where |
|---|---|---|
| a GPU's NVLink (580–592) | `nvlink`, `gpu`, `gpu_uuid`, `pci_bus_id`, `device`, `model_name`, `hostname` | links that are up, NVLink 5 |
| an NVSwitch (856–862) | `nvswitch` | baseboards with switches: six of A100, four of H100, two of B200; none in a rack's compute tray |
| an NVSwitch's port (780, 781) | `nvlink`, `nvswitch`, `hostname` | ports whose link is up |
| a Grace CPU (1100–1131) and its cores (1100–1104) | `cpu`; `cpucore`, `cpu` | superchips, one CPU for each module |

Switches and CPUs are not simulated by themselves: their traffic is what the GPUs' links carry, their heat and load
follow the GPUs beside them, and what does not follow (voltages, SXids, thresholds, clocks) is absent.

`DCGM_EXP_CLOCK_EVENTS_COUNT` counts samples of a GPU's clock-event reasons, taken once a second of simulated time
(every `-c` by `mirage dcgm-exporter`) and kept for the window.

`DCGM_EXP_GPU_HEALTH_STATUS` shows what DCGM's own checks would find: Xids in the window, a lost GPU, links down,
uncorrected errors, row remaps and page retirements, clocks held for heat or power, the advised recovery.

On MIG instances `UUID` stays the GPU's, memory and profiling series are the instance's own,
GPU_UTIL and MEM_COPY_UTIL are absent, and the rest repeats the GPU's. On a dynamic-MIG node pod labels
are absent too, and `DCGM_FI_DRIVER_VERSION` is a label whatever the list says.

### Fields

*default*: in the list the real exporter ships; *listed*: there, commented out. Fields without a source
are known and stay absent.

| Id | Field | Other names | Type | Unit | Shipped | Source |
|---|---|---|---|---|---|---|
";

const FILE: &str = "
## Identity files

A JSON object. Unknown keys are errors.

| Key | Meaning | Default |
|---|---|---|
| `about`, `version` | one sentence; the version after `@` | none |
| `vendors` | makers shown: `nvidia`, `amd`, `intel` | all |
| `comments` | `# HELP` and `# TYPE`: `before` each family, all `first`, or `none` | `before` |
| `preamble` | comment lines at the top | none |
| `separator` | between labels: `,` or `, ` | `,` |
| `numbers` | `int`, `fixed6` (C's `%f`), `go` (Go's client), `python` (Python's client), `c15` (C's `%.15g`) | `go` |
| `families`, `samples`, `label_order` | `given` or `sorted` | `given` |
| `labels` | labels of every series: text, `$name` for a text of the device, `$name?` to leave it out when empty, `$link` for the number of a link | none |
| `metrics` | the families | at least one |

A metric has `name`, `type` (`gauge`, `counter`, `untyped`), `help`, and either `from` or several `series`,
each with its own `from` and `labels`. `of` says what a series is about: `gpu`, `instance` (MIG),
`device` (instances where there are some, else the GPU), `link`, `node`. `on` says which nodes have it:
`all`, `dynamic-mig`, `others`. `numbers` and `labels` add to those of the file; `base_labels: false`
leaves the file's labels out. Of series with equal labels on one node the last counts.

`from` is a quantity and its unit: `power_w`, `energy_j*1000`, `memory_used/1048576`, `link_bps:3`.

### fakedev-exporter's files

A file with a `MetricMap` is one of fakedev-exporter's and is read as it is: labels sorted, comma and space between them, no
`# TYPE`; the samples of a metric stand together. Its names for metrics and labels mean:

| Name there | Here |
|---|---|
";

const QUANTITIES_HEAD: &str = "
Any quantity or text below may be named, too. What no GPU has is left out, and told at the start. Such files have no label for the
node: scrape them node by node.

### Quantities

| Name | Meaning |
|---|---|
";

fn fakedev(out: &mut String) {
    for (theirs, ours) in fakedev::METRICS {
        let _ = writeln!(out, "| metric `{theirs}` | `{ours}` |");
    }
    for (theirs, ours) in fakedev::LABELS {
        let _ = writeln!(out, "| label `{theirs}` | `${ours}` |");
    }
}

fn identities(out: &mut String) {
    for name in Identity::names() {
        let Ok(identity) = Identity::by_name(name) else {
            continue;
        };
        let _ = writeln!(out, "| `{name}` | {} |", identity.about());
    }
}

fn fields(out: &mut String) {
    for field in FIELDS.iter() {
        let others: Vec<String> = field.names().skip(1).map(|n| format!("`{n}`")).collect();
        let shipped = match field.shipped {
            Shipped::Default => "default",
            Shipped::CommentedOut => "listed",
            Shipped::No => "",
        };
        let source = match field.source {
            Source::Blank => String::new(),
            Source::Number(expression) | Source::Xid(expression) => format!("`{expression}`"),
            Source::Text(text) => format!("`${}`", text.name),
            Source::XidWindow => "events".to_owned(),
            Source::Health => "events and health".to_owned(),
            Source::ClockEvents => "reasons of the last minutes".to_owned(),
            Source::PeerToPeer => "links".to_owned(),
            Source::Switch(_) => "links of the GPUs".to_owned(),
            Source::Cpu(_) => "load of the GPUs".to_owned(),
        };
        let _ = writeln!(
            out,
            "| {} | `{}` | {} | {} | {} | {shipped} | {source} |",
            field.id,
            field.name,
            others.join(" "),
            field.prometheus,
            field.unit
        );
    }
}

fn quantities(out: &mut String) {
    for quantity in QUANTITIES {
        let _ = writeln!(out, "| `{}` | {} |", quantity.name, quantity.about);
    }
}

fn texts(out: &mut String) {
    out.push_str("\n### Texts\n\n| Name | Meaning |\n|---|---|\n");
    for text in TEXTS {
        let _ = writeln!(out, "| `${}` | {} |", text.name, text.about);
    }
}
