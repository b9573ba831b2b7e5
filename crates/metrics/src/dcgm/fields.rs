//! DCGM's fields: `data/dcgm-fields.csv`, read once.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::csv;
use crate::dcgm::entity::{CpuRead, SwitchRead};
use crate::expression::Expression;
use crate::text::{self, Text};

/// Fields below this id belong to no device.
const FIRST_OF_DEVICE: u16 = 50;

/// A field of DCGM.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) id: u16,
    pub(crate) name: String,
    /// Further names of it, the canonical one since DCGM 4.6 among them.
    pub(crate) also: Vec<String>,
    /// Its name in the 1.x namespace.
    pub(crate) old: Option<String>,
    pub(crate) kind: Kind,
    pub(crate) level: Level,
    /// Its Prometheus type in our lists.
    pub(crate) prometheus: String,
    pub(crate) shipped: Shipped,
    pub(crate) unit: String,
    pub(crate) source: Source,
    pub(crate) help: String,
}

impl Field {
    /// Whether it needs the profiling counters.
    pub(crate) fn is_profiling(&self) -> bool {
        (1000..1100).contains(&self.id)
    }

    /// Whether it belongs to no device: everything has it.
    pub(crate) fn is_global(&self) -> bool {
        self.id < FIRST_OF_DEVICE
    }

    /// Every name it goes by.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str())
            .chain(self.also.iter().map(String::as_str))
            .chain(self.old.as_deref())
    }
}

/// What a field is of. Pages go through these in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// A GPU, or an instance of one.
    Gpu,
    Switch,
    /// A link of a GPU.
    Link,
    /// A link of a switch.
    Port,
    Cpu,
    /// A CPU and each of its cores.
    Core,
}

impl Level {
    /// Links and ports are one group of the real exporter, and so are, here, CPUs and their cores.
    pub(crate) fn group(self) -> u8 {
        match self {
            Level::Gpu => 0,
            Level::Switch => 1,
            Level::Link | Level::Port => 2,
            Level::Cpu | Level::Core => 3,
        }
    }
}

/// DCGM's type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Double,
    Text,
}

/// Whether the real exporter's lists hold a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shipped {
    Default,
    CommentedOut,
    No,
}

/// Where a field's values come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// Nothing in the simulation answers it: always blank.
    Blank,
    Number(Expression),
    Text(&'static Text),
    /// The last Xid, with its text.
    Xid(Expression),
    XidWindow,
    ClockEvents,
    Health,
    PeerToPeer,
    /// Of a switch or one of its ports.
    Switch(SwitchRead),
    /// Of a CPU, or its share in one of its cores.
    Cpu(CpuRead),
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name)
    }
}

/// All fields by ascending id.
pub(crate) static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let table = include_str!("../../data/dcgm-fields.csv");
    table
        .lines()
        .skip(1)
        .map(|line| read(line).unwrap_or_else(|problem| panic!("field table: {line}: {problem}")))
        .collect()
});

static BY_NAME: LazyLock<HashMap<&'static str, &'static Field>> = LazyLock::new(|| {
    FIELDS
        .iter()
        .flat_map(|field| field.names().map(move |name| (name, field)))
        .collect()
});

/// The field of any of its names.
pub(crate) fn find(name: &str) -> Option<&'static Field> {
    BY_NAME.get(name).copied()
}

/// Every name of every field.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().flat_map(Field::names)
}

fn read(line: &str) -> Result<Field, String> {
    let columns = csv::columns(line)?;
    let [
        id,
        name,
        also,
        old,
        kind,
        level,
        prometheus,
        shipped,
        unit,
        from,
        help,
    ] = <[String; 11]>::try_from(columns).map_err(|c| format!("{} columns", c.len()))?;
    let kind = match kind.as_str() {
        "int" => Kind::Int,
        "double" => Kind::Double,
        "text" => Kind::Text,
        other => return Err(format!("kind {other}")),
    };
    let level = match level.as_str() {
        "gpu" => Level::Gpu,
        "switch" => Level::Switch,
        "link" => Level::Link,
        "port" => Level::Port,
        "cpu" => Level::Cpu,
        "core" => Level::Core,
        other => return Err(format!("level {other}")),
    };
    let source = match (from.as_str(), kind) {
        ("", _) => Source::Blank,
        ("@xid_window", _) => Source::XidWindow,
        ("@clock_events", _) => Source::ClockEvents,
        ("@switch_temperature", _) => Source::Switch(SwitchRead::Temperature),
        ("@switch_tx" | "@port_tx", _) => Source::Switch(SwitchRead::Sent),
        ("@switch_rx" | "@port_rx", _) => Source::Switch(SwitchRead::Received),
        ("@cpu_busy", _) => Source::Cpu(CpuRead::Busy),
        ("@cpu_user", _) => Source::Cpu(CpuRead::User),
        ("@cpu_nice", _) => Source::Cpu(CpuRead::Nice),
        ("@cpu_system", _) => Source::Cpu(CpuRead::System),
        ("@cpu_interrupts", _) => Source::Cpu(CpuRead::Interrupts),
        ("@cpu_temperature", _) => Source::Cpu(CpuRead::Temperature),
        ("@cpu_power", _) => Source::Cpu(CpuRead::Power),
        ("@health", _) => Source::Health,
        ("@p2p", _) => Source::PeerToPeer,
        ("xid", _) => Source::Xid(Expression::parse("xid")?),
        (name, Kind::Text) => Source::Text(text::find(name).ok_or_else(|| format!("text {name}"))?),
        (expression, _) => Source::Number(Expression::parse(expression)?),
    };
    Ok(Field {
        id: id.parse().map_err(|_| format!("id {id}"))?,
        name,
        also: also.split_whitespace().map(str::to_owned).collect(),
        old: (!old.is_empty()).then_some(old),
        kind,
        level,
        prometheus,
        shipped: match shipped.as_str() {
            "default" => Shipped::Default,
            "listed" => Shipped::CommentedOut,
            _ => Shipped::No,
        },
        unit,
        source,
        help,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_whole_in_order_and_without_double_names() {
        assert!(FIELDS.is_sorted_by_key(|f| f.id));
        assert_eq!(names().count(), BY_NAME.len());
        let default = FIELDS.iter().filter(|f| f.shipped == Shipped::Default);
        assert_eq!(default.count(), 26);
        let shipped = FIELDS.iter().filter(|f| f.shipped != Shipped::No);
        assert_eq!(shipped.count(), 61);
    }

    #[test]
    fn every_default_field_has_a_source() {
        for field in FIELDS.iter().filter(|f| f.shipped == Shipped::Default) {
            assert!(!matches!(field.source, Source::Blank), "{}", field.name);
        }
    }

    #[test]
    fn all_spellings_mean_one_field() {
        for name in [
            "DCGM_FI_DEV_GPU_UTIL",
            "DCGM_FI_DEV_GPU_UTIL_RATIO",
            "dcgm_gpu_utilization",
        ] {
            assert_eq!(find(name).unwrap().id, 203);
        }
        assert_eq!(find("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS").unwrap().id, 112);
    }
}
