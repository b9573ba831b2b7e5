//! `--query-…`: comma-separated values of the columns asked for. One data file, `fields.csv`, says which columns
//! there are, what else they are called, their unit and their help.

mod gpu;
mod value;

use std::io::Write;
use std::sync::LazyLock;

use nvidia_ml::client::{AccountingStats, Nvml, Running};

use super::Stop;
use super::gpus::Gpu;
use super::stamp::Stamp;
use super::summary::process_name;
pub(super) use value::Value;

/// What a query lists, one per line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Gpu,
    ComputeApps,
    AccountedApps,
    RetiredPages,
    SupportedClocks,
    RemappedRows,
}

const TABLES: [(&str, Table); 6] = [
    ("gpu", Table::Gpu),
    ("compute-apps", Table::ComputeApps),
    ("accounted-apps", Table::AccountedApps),
    ("retired-pages", Table::RetiredPages),
    ("supported-clocks", Table::SupportedClocks),
    ("remapped-rows", Table::RemappedRows),
];

impl Table {
    /// The table with this name, as in `--query-<name>`.
    pub(super) fn named(name: &str) -> Option<Table> {
        let found = TABLES.iter().find(|(known, _)| *known == name);
        found.map(|(_, table)| *table)
    }

    /// The option that asks for it.
    pub(super) fn switch(self) -> String {
        let found = TABLES.iter().find(|(_, table)| *table == self);
        format!("--query-{}=", found.map_or("", |(name, _)| name))
    }
}

/// A line of the data file.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) table: Table,
    pub(super) name: &'static str,
    pub(super) aliases: Vec<&'static str>,
    pub(super) unit: &'static str,
    pub(super) help: &'static str,
}

/// A column: a field that was asked for.
pub(super) type Column = &'static Field;

/// All fields, in the order in which they are listed.
static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let lines = include_str!("query/fields.csv").lines().skip(1);
    lines.filter_map(field).collect()
});

fn field(line: &'static str) -> Option<Field> {
    let mut cells = line.split(';');
    let mut next = || cells.next();
    Some(Field {
        table: Table::named(next()?)?,
        name: next()?,
        aliases: next()?.split('|').filter(|name| !name.is_empty()).collect(),
        unit: next()?,
        help: next()?,
    })
}

/// The fields of a table.
pub(super) fn fields(table: Table) -> impl Iterator<Item = Column> {
    FIELDS.iter().filter(move |field| field.table == table)
}

/// The columns named in a list, or which name is none.
pub(super) fn columns(table: Table, list: &str) -> Result<Vec<Column>, Stop> {
    let find = |name: &str| {
        let name = name.trim();
        fields(table)
            .find(|field| field.name == name || field.aliases.contains(&name))
            .ok_or_else(|| {
                Stop::usage(format!("Field \"{name}\" is not a valid field to query.\n"))
            })
    };
    list.split(',').map(find).collect()
}

/// How values are written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Format {
    no_header: bool,
    no_units: bool,
}

impl Format {
    pub(super) fn parse(text: &str) -> Result<Format, Stop> {
        let mut format = Format::default();
        let mut csv = false;
        for part in text.split(',') {
            match part.trim() {
                "csv" => csv = true,
                "noheader" => format.no_header = true,
                "nounits" => format.no_units = true,
                _ => {
                    return Err(Stop::usage(format!(
                        "\"{part}\" is no format: take csv[,noheader][,nounits]."
                    )));
                }
            }
        }
        if csv {
            Ok(format)
        } else {
            Err(Stop::usage(
                "The one format there is is csv: --format=csv[,noheader][,nounits].",
            ))
        }
    }
}

/// What all rows of a sample share.
pub(super) struct Sample<'a> {
    pub(super) nvml: &'a Nvml,
    pub(super) now: Stamp,
    /// First part of the driver's version: what a driver says changes with it.
    pub(super) branch: u32,
}

/// One sample of all chosen GPUs.
#[allow(clippy::too_many_arguments, reason = "the parts of one command line")]
pub(super) fn print(
    nvml: &Nvml,
    gpus: &[Gpu],
    now: Stamp,
    table: Table,
    columns: &[Column],
    format: Format,
    first: bool,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let branch = branch(&nvml.driver_version()?);
    let sample = Sample { nvml, now, branch };
    if first && !format.no_header {
        let heads: Vec<String> = columns.iter().map(|column| heading(column)).collect();
        writeln!(out, "{}", heads.join(", "))?;
    }
    for gpu in gpus {
        for row in rows(&sample, gpu, table, columns) {
            let cells = row.iter().zip(columns);
            let unit = |column: &Column| if format.no_units { "" } else { column.unit };
            let cells: Vec<String> = cells
                .map(|(value, column)| value.show(unit(column), branch))
                .collect();
            writeln!(out, "{}", cells.join(", "))?;
        }
    }
    Ok(())
}

/// The first part of a driver's version.
pub(super) fn branch(driver: &str) -> u32 {
    let first = driver.split('.').next().unwrap_or_default();
    first.parse().unwrap_or(u32::MAX)
}

fn heading(column: &Field) -> String {
    if column.unit.is_empty() {
        return column.name.into();
    }
    format!("{} [{}]", column.name, column.unit)
}

/// The rows a GPU has in a table.
fn rows(sample: &Sample, gpu: &Gpu, table: Table, columns: &[Column]) -> Vec<Vec<Value>> {
    let row = |read: &dyn Fn(&str) -> Option<Value>| -> Vec<Value> {
        let of_gpu = |name: &str| match name {
            "gpu_name" => gpu::read(sample, gpu, "name"),
            "gpu_bus_id" => gpu::read(sample, gpu, "pci.bus_id"),
            "gpu_serial" => gpu::read(sample, gpu, "serial"),
            "gpu_uuid" => gpu::read(sample, gpu, "uuid"),
            name => gpu::read(sample, gpu, name),
        };
        let cell = |column: &Column| {
            let value = read(column.name).or_else(|| of_gpu(column.name));
            value.unwrap_or(Value::MISSING)
        };
        columns.iter().map(cell).collect()
    };
    match table {
        Table::Gpu | Table::RemappedRows => vec![row(&|_| None)],
        Table::ComputeApps => {
            let processes = gpu.device.processes().unwrap_or_default();
            let computing = processes
                .iter()
                .filter(|process| process.compute || process.mps);
            computing
                .map(|process| row(&|name| application(sample, process, name)))
                .collect()
        }
        Table::AccountedApps => {
            let accounted = gpu.device.accounted().unwrap_or_default();
            accounted
                .iter()
                .map(|(pid, stats)| row(&|name| account(*pid, stats, name)))
                .collect()
        }
        Table::RetiredPages => {
            let mut rows = Vec::new();
            for (number, cause) in (0..).zip(["Single Bit ECC", "Double Bit ECC"]) {
                for address in gpu.device.retired_pages(number).unwrap_or_default() {
                    rows.push(row(&|name| match name {
                        "retired_pages.address" => Some(Value::text(format!("{address:#018x}"))),
                        "retired_pages.cause" => Some(Value::text(cause)),
                        _ => None,
                    }));
                }
            }
            rows
        }
        Table::SupportedClocks => {
            let mut rows = Vec::new();
            for memory in gpu.device.supported_memory_clocks().unwrap_or_default() {
                let clocks = gpu.device.supported_graphics_clocks(memory);
                for graphics in clocks.unwrap_or_default() {
                    rows.push(row(&|name| match name {
                        "memory" => Some(Value::amount(memory)),
                        "graphics" => Some(Value::amount(graphics)),
                        _ => None,
                    }));
                }
            }
            rows
        }
    }
}

fn application(sample: &Sample, process: &Running, name: &str) -> Option<Value> {
    Some(match name {
        "pid" => Value::text(process.pid),
        "process_name" => Value::text(process_name(sample.nvml, process.pid)),
        "used_gpu_memory" => Value::amount(process.memory >> 20),
        _ => return None,
    })
}

fn account(pid: u32, stats: &AccountingStats, name: &str) -> Option<Value> {
    Some(match name {
        "pid" => Value::text(pid),
        "gpu_utilization" => Value::amount(stats.gpu_percent),
        "mem_utilization" => Value::amount(stats.memory_percent),
        "max_memory_usage" => Value::amount(stats.max_memory >> 20),
        "time" => Value::amount(stats.time_ms),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_is_whole() {
        let lines = include_str!("query/fields.csv").lines().count();
        assert_eq!(FIELDS.len(), lines - 1, "a line was not understood");
        for field in FIELDS.iter() {
            assert!(
                !field.name.is_empty() && !field.help.is_empty(),
                "{field:?}"
            );
            let names = [&[field.name], field.aliases.as_slice()].concat();
            for name in names {
                let known = columns(field.table, name).expect("its own name");
                assert_eq!(known[0].name, field.name, "{name} means two fields");
            }
        }
    }

    #[test]
    fn headings_carry_units() {
        let all = columns(
            Table::Gpu,
            "memory.used, clocks.sm,gpu_name,temperature.gpu",
        );
        let all = all.expect("known");
        let heads: Vec<String> = all.iter().map(|c| heading(c)).collect();
        assert_eq!(
            heads,
            [
                "memory.used [MiB]",
                "clocks.current.sm [MHz]",
                "name",
                "temperature.gpu"
            ]
        );
    }

    #[test]
    fn an_unknown_field_is_named() {
        let stop = columns(Table::Gpu, "name,nonsense").expect_err("unknown");
        assert_eq!(stop.code, 2);
        let told = "Field \"nonsense\" is not a valid field to query.";
        assert!(stop.message.starts_with(told), "{}", stop.message);
    }
}
