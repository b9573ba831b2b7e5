//! `cargo xtask bench`: measures what docs/spec.md promises. Each benchmark prints lines of
//! `key<TAB>value`; the table here says what was promised for a key.

mod cluster;
mod driver;
mod library;
mod page;
mod start;
mod workloads;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell::{self, cargo, root};

pub(crate) use library::build as build_library;

/// One number we promise.
struct Promise {
    key: &'static str,
    what: &'static str,
    bound: Bound,
    unit: &'static str,
    kind: Kind,
}

enum Bound {
    Below(f64),
    AtLeast(f64),
}

/// Times vary with the machine: `--check` allows [`SLACK`] times the promise.
enum Kind {
    Time,
    /// What something adds to a time, in percent: the whole time has the slack.
    Added,
    /// Checked as it is.
    Size,
    /// Not reached everywhere yet, or up to a disk that others share: told, and holds nothing up.
    Goal,
}

use Bound::{AtLeast, Below};
use Kind::{Added, Goal, Size, Time};

const SLACK: f64 = 3.0;
/// Times that a benchmark is run at most when `--check` finds it far from its promise: a neighbour may have been busy.
const TRIES: usize = 3;

macro_rules! promises {
    ($( $key:literal, $what:literal, $bound:expr, $unit:literal, $kind:expr; )*) => {
        &[ $( Promise { key: $key, what: $what, bound: $bound, unit: $unit, kind: $kind } ),* ]
    };
}

const PROMISES: &[Promise] = promises! {
    "tick-80k", "One tick of 80,000 GPUs (10,000 nodes × 8), engine and state, on one core", Below(100.0), "ms", Time;
    "memory-per-gpu", "Memory per GPU of that fleet, all told", Below(2048.0), "B", Size;
    "hour-8", "An hour of 8 GPUs, CPU time", Below(1.0), "s", Time;
    "render-8", "Rendering 8 GPUs × the default set", Below(100.0), "µs", Time;
    "render-rate", "Rendering 10,000 nodes on one core", AtLeast(300.0), "MB/s", Time;
    "up-scrape", "`mirage up` to its first good scrape", Below(100.0), "ms", Time;
    "up-memory", "Resident memory of `mirage up` with 8 GPUs", Below(20.0), "MB", Size;
    "page-memory", "What a scrape of 10,000 nodes × 8 GPUs adds to the memory while it is sent", Below(50.0), "MB", Size;
    "workloads-scrape", "What 1,000 connected workloads add to a scrape of fakedev-exporter", Below(10.0), "%", Added;
    "driver-8", "`mirage driver all` for 8 GPUs", Below(100.0), "ms", Time;
    "driver-128", "`mirage driver all` for 128 GPUs", Below(1.0), "s", Time;
    "driver-size", "The whole driver root of 128 GPUs on disk", Below(20.0), "MB", Size;
    "nvml-dlopen", "`dlopen` of the library", Below(1000.0), "µs", Time;
    "nvml-init", "First `nvmlInit`", Below(1000.0), "µs", Time;
    "nvml-utilization", "`nvmlDeviceGetUtilizationRates`", Below(30.0), "ns", Time;
    "nvml-memory", "`nvmlDeviceGetMemoryInfo`", Below(30.0), "ns", Time;
    "nvml-temperature", "`nvmlDeviceGetTemperature`", Below(30.0), "ns", Time;
    "nvml-power", "`nvmlDeviceGetPowerUsage`", Below(30.0), "ns", Time;
    "nvml-fields", "Eight field values in one call", Below(300.0), "ns", Time;
    "nvml-sweep", "A monitoring sweep of 8 GPUs", Below(3.0), "µs", Time;
    "nvml-wake", "An injected Xid to the last of three waiting processes", Below(100.0), "ms", Time;
    "nvml-size", "The library's file", Below(1000.0), "KB", Size;
    "nvml-private", "Private memory after init", Below(1024.0), "KiB", Size;
    "cluster-nodes", "1,000 nodes without a kubelet, 8 GPUs each, ready on a real API server", Below(120.0), "s", Goal;
    "cluster-events", "Pods that come, started and in their nodes' documents", AtLeast(200.0), "/s", Goal;
    "cluster-steady", "Writes in 30 s while nothing changes, leases left out", Below(1.0), "writes", Size;
    "cluster-change", "API writes for a change of a node", Below(2.001), "writes", Size;
    "cluster-memory", "Resident memory of a controller of 10,000 nodes × 8 GPUs, their simulation included", Below(500.0), "MB", Size;
};

impl Promise {
    fn promised(&self) -> String {
        match self.bound {
            Below(limit) => format!("< {limit} {}", self.unit),
            AtLeast(limit) => format!("≥ {limit} {}", self.unit),
        }
    }

    /// Whether a value is so far from the promise that CI should stop.
    fn broken_by(&self, value: f64) -> bool {
        match (&self.kind, &self.bound) {
            (Goal, _) => false,
            (Time, Below(limit)) => value >= limit * SLACK,
            (Time, AtLeast(limit)) => value < limit / SLACK,
            (Added, Below(limit)) => 100.0 + value >= (100.0 + limit) * SLACK,
            (Size, Below(limit)) => value >= *limit,
            (Size | Added, AtLeast(limit)) => value < *limit,
        }
    }

    /// The value that is nearer to the promise, or better.
    fn better(&self, one: f64, other: f64) -> f64 {
        match self.bound {
            Below(_) => one.min(other),
            AtLeast(_) => one.max(other),
        }
    }
}

type Figures = BTreeMap<String, f64>;

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// What the NVML library costs
    Nvml,
    /// The controller at scale, against a real API server; takes many minutes, and only runs when asked for
    Cluster,
}

/// Measures everything, or a part; then writes, checks, or just prints.
pub(crate) fn run(
    part: Option<Part>,
    write: bool,
    check: bool,
    against: Option<&Path>,
) -> Result<()> {
    if part == Some(Part::Nvml) && write {
        bail!(
            "--write takes a whole table: leave out the part, or name `cluster`, which has one of its own"
        );
    }
    // Before the minutes that the rest takes.
    let other = against.map(library::given).transpose()?;
    let mut figures = Figures::new();
    if part == Some(Part::Cluster) {
        cluster::measure(&mut figures)?;
        let table = table(part, &figures)?;
        println!("{table}");
        if write {
            write_spec("cluster", &table)?;
        }
        return held(part, check, &figures);
    }
    let mut tried =
        |measure: &dyn Fn(&mut Figures) -> Result<()>| tries(check, measure, &mut figures);
    if part.is_none() {
        tried(&|figures| bench(&["-p", "mirage", "--bench", "fleet"], figures))?;
        tried(&|figures| bench(&["-p", "mirage-metrics", "--bench", "render"], figures))?;
        tried(&start::measure)?;
        tried(&page::measure)?;
        tried(&workloads::measure)?;
        tried(&driver::measure)?;
    }
    let library = library::build()?;
    tried(&|figures| library::measure(&library, figures))?;
    tried(&|figures| library::wakes(&library, figures))?;
    let table = table(part, &figures)?;
    println!("{table}");
    if let Some(other) = other {
        println!("{}", library::compare(&figures, &other)?);
    }
    if write {
        write_spec("measured", &table)?;
    }
    if check {
        library::compare_with_a_copy(&library, &figures)?;
    }
    held(part, check, &figures)
}

/// Measures, and again while a promise that is to be checked is broken; the better value counts.
fn tries(
    check: bool,
    measure: &dyn Fn(&mut Figures) -> Result<()>,
    figures: &mut Figures,
) -> Result<()> {
    for _ in 0..TRIES {
        let mut now = Figures::new();
        measure(&mut now)?;
        let mut broken = false;
        for (key, value) in now {
            let Some(promise) = PROMISES.iter().find(|promise| promise.key == key) else {
                bail!("a benchmark printed {key}, of which nothing is promised");
            };
            let best = match figures.get(&key) {
                Some(before) => promise.better(*before, value),
                None => value,
            };
            broken |= promise.broken_by(best);
            figures.insert(key, best);
        }
        if !(check && broken) {
            break;
        }
    }
    Ok(())
}

/// Whether the promises are held, if that is to be checked.
fn held(part: Option<Part>, check: bool, figures: &Figures) -> Result<()> {
    let broken: Vec<_> = promises(part)
        .filter(|promise| check && promise.broken_by(figures[promise.key]))
        .collect();
    if !broken.is_empty() {
        let names: Vec<_> = broken.iter().map(|promise| promise.what).collect();
        bail!("far from what was promised: {}", names.join("; "));
    }
    Ok(())
}

/// The promises about a part, or all of them but those about a cluster.
fn promises(part: Option<Part>) -> impl Iterator<Item = &'static Promise> {
    let of = move |promise: &&Promise| match part {
        None => !promise.key.starts_with("cluster-"),
        Some(Part::Nvml) => promise.key.starts_with("nvml-"),
        Some(Part::Cluster) => promise.key.starts_with("cluster-"),
    };
    PROMISES.iter().filter(of)
}

fn bench(which: &[&str], figures: &mut Figures) -> Result<()> {
    let output = shell::output(cargo().args(["bench", "--locked", "--quiet"]).args(which))?;
    read(&output, figures)
}

/// Takes the figures out of what a benchmark printed.
fn read(output: &str, figures: &mut Figures) -> Result<()> {
    for line in output.lines() {
        if let Some((key, value)) = line.split_once('\t') {
            let value = value
                .trim()
                .parse()
                .with_context(|| format!("a benchmark printed {line:?}"))?;
            figures.insert(key.to_owned(), value);
        }
    }
    Ok(())
}

fn table(part: Option<Part>, figures: &Figures) -> Result<String> {
    let mut table = String::from("| What | Promise | Measured |\n|---|---|---|\n");
    for promise in promises(part) {
        let value = figures
            .get(promise.key)
            .with_context(|| format!("no benchmark printed {}", promise.key))?;
        let digits = if *value < 10.0 { 2 } else { 0 };
        writeln!(
            table,
            "| {} | {} | {value:.digits$} {} |",
            promise.what,
            promise.promised(),
            promise.unit
        )?;
    }
    Ok(table)
}

/// Puts a table between its marks in docs/spec.md.
fn write_spec(mark: &str, table: &str) -> Result<()> {
    let path = root().join("docs/spec.md");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let (begin, end) = (
        format!("<!-- {mark}: begin -->\n"),
        format!("<!-- {mark}: end -->"),
    );
    let (before, rest) = text
        .split_once(&begin)
        .with_context(|| format!("docs/spec.md has no {begin}"))?;
    let (_, after) = rest
        .split_once(&end)
        .with_context(|| format!("docs/spec.md has no {end}"))?;
    std::fs::write(&path, format!("{before}{begin}{table}{end}{after}"))
        .context("writing docs/spec.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_slack_and_sizes_have_none() {
        let time = PROMISES
            .iter()
            .find(|promise| promise.key == "tick-80k")
            .unwrap();
        assert!(!time.broken_by(250.0));
        assert!(time.broken_by(300.0));
        let size = PROMISES
            .iter()
            .find(|promise| promise.key == "nvml-size")
            .unwrap();
        assert!(size.broken_by(1000.0));
        let rate = PROMISES
            .iter()
            .find(|promise| promise.key == "render-rate")
            .unwrap();
        assert!(rate.broken_by(99.0));
        assert!(!rate.broken_by(101.0));
        let added = PROMISES
            .iter()
            .find(|promise| promise.key == "workloads-scrape")
            .unwrap();
        assert!(!added.broken_by(100.0));
        assert!(added.broken_by(231.0));
    }

    #[test]
    fn what_is_far_from_its_promise_is_measured_again() {
        let slow_once = std::cell::Cell::new(0);
        let measure = |figures: &mut Figures| {
            let value = if slow_once.replace(1) == 0 {
                900.0
            } else {
                90.0
            };
            figures.insert("tick-80k".to_owned(), value);
            Ok(())
        };
        let mut figures = Figures::new();
        tries(false, &measure, &mut figures).unwrap();
        assert_eq!(figures["tick-80k"], 900.0);
        slow_once.set(0);
        figures.clear();
        tries(true, &measure, &mut figures).unwrap();
        assert_eq!(figures["tick-80k"], 90.0);
    }
}
