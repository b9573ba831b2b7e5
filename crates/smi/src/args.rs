//! What a command line asks for.

use std::path::PathBuf;
use std::time::Duration;

use super::change::{self, Change};
use super::report::Sections;
use super::words::{Word, Words, unknown};
use super::{
    Stop, confidential, drain, mig, monitor, nvlink, policy, query, stats, topology, vgpu,
};

/// One call of the program.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) command: Command,
    /// GPUs by any of their names; none means all.
    pub(super) ids: Vec<String>,
    /// Where results go instead of standard output.
    pub(super) file: Option<PathBuf>,
    /// Pause between rounds, if there is more than one.
    pub(super) every: Option<Duration>,
    /// Rounds, if they end.
    pub(super) rounds: Option<u32>,
}

/// What to do.
#[derive(Debug)]
pub(super) enum Command {
    Help,
    Version,
    HelpQuery(query::Table),
    Summary,
    List,
    Report {
        xml: bool,
        sections: Sections,
    },
    Query {
        table: query::Table,
        fields: Vec<query::Column>,
        format: query::Format,
    },
    Change(Vec<Change>),
    Mig(mig::Action),
    Monitor(monitor::Monitor),
    Topology(topology::View),
    Nvlink(nvlink::What),
    Policy(policy::Action),
    Drain(drain::Action),
    Stats(stats::Stats),
    Confidential(confidential::Question),
    Vgpu,
}

impl Invocation {
    pub(super) fn new(command: Command) -> Invocation {
        Invocation {
            command,
            ids: Vec::new(),
            file: None,
            every: None,
            rounds: None,
        }
    }
}

/// Understands a command line, or says what is wrong with it.
pub(super) fn parse(words: Vec<String>) -> Result<Invocation, Stop> {
    let mut words = Words::new(words);
    let command = words.peek().unwrap_or_default().to_owned();
    if command.starts_with('-') || command.is_empty() {
        return plain(words);
    }
    let word = words.next();
    match command.as_str() {
        "dmon" | "pmon" => monitor::parse(&command, words),
        "topo" => topology::parse(words),
        "nvlink" => nvlink::parse(words),
        "mig" => mig::parse(words),
        "compute-policy" => policy::parse(words),
        "drain" => drain::parse(words),
        "stats" => stats::parse(words),
        "conf-compute" => confidential::parse(words),
        "vgpu" => vgpu::parse(words),
        _ => Err(word.map_or_else(Stop::no_devices, |word| unknown(&word))),
    }
}

/// GPUs from the value of `-i`.
pub(super) fn ids(value: &str) -> Vec<String> {
    let names = value.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// What has been said so far, without a subcommand.
#[derive(Debug, Default)]
struct Said {
    list: bool,
    report: bool,
    xml: bool,
    sections: Option<Sections>,
    query: Option<(query::Table, String)>,
    format: Option<String>,
    changes: Vec<Change>,
}

fn plain(mut words: Words) -> Result<Invocation, Stop> {
    let mut said = Said::default();
    let mut call = Invocation::new(Command::Summary);
    while let Some(word) = words.next() {
        if let Some(table) = query_table(&word.name, "--query-") {
            said.query = Some((table, words.value(word)?));
            continue;
        }
        if let Some(table) = query_table(&word.name, "--help-query-") {
            call.command = Command::HelpQuery(table);
            return Ok(call);
        }
        match word.name.as_str() {
            "-h" | "--help" => return Ok(Invocation::new(Command::Help)),
            "--version" => call.command = Command::Version,
            "-L" | "--list-gpus" => said.list = true,
            "-q" | "--query" | "-a" => said.report = true,
            "-x" | "--xml-format" => said.xml = true,
            // With the document type inside the document; ours needs none.
            "--dtd" => {}
            "-d" | "--display" => said.sections = Some(Sections::parse(&words.value(word)?)?),
            "-i" | "--id" => call.ids = ids(&words.value(word)?),
            "-f" | "--filename" => call.file = Some(words.value(word)?.into()),
            "-l" | "--loop" => call.every = Some(pause(words.optional(word), 5, 1000)?),
            "-lms" | "--loop-ms" => call.every = Some(pause(words.optional(word), 1000, 1)?),
            "--format" => said.format = Some(words.value(word)?),
            _ => said.changes.push(change::parse(word, &mut words)?),
        }
    }
    if matches!(call.command, Command::Summary) {
        call.command = said.command()?;
    }
    Ok(call)
}

impl Said {
    fn command(self) -> Result<Command, Stop> {
        let asked = [
            self.list,
            self.report,
            self.query.is_some(),
            !self.changes.is_empty(),
        ];
        if asked.iter().filter(|&&asked| asked).count() > 1 {
            return Err(Stop::usage(
                "Invalid combination of input arguments. Please run 'nvidia-smi -h'.",
            ));
        }
        let only = |said: bool, option: &str, with: &str| {
            let message = format!("{option} only goes with {with}. Please run 'nvidia-smi -h'.");
            if said {
                Err(Stop::usage(message))
            } else {
                Ok(())
            }
        };
        if let Some((table, fields)) = self.query {
            let format = self.format.ok_or_else(|| {
                Stop::usage("A query needs its format: add --format=csv[,noheader][,nounits].")
            })?;
            return Ok(Command::Query {
                table,
                fields: query::columns(table, &fields)?,
                format: query::Format::parse(&format)?,
            });
        }
        only(self.format.is_some(), "--format", "a query")?;
        if self.report {
            return Ok(Command::Report {
                xml: self.xml,
                sections: self.sections.unwrap_or_default(),
            });
        }
        only(self.xml, "-x", "-q")?;
        only(self.sections.is_some(), "-d", "-q")?;
        if self.list {
            return Ok(Command::List);
        }
        if !self.changes.is_empty() {
            return Ok(Command::Change(self.changes));
        }
        Ok(Command::Summary)
    }
}

fn query_table(name: &str, prefix: &str) -> Option<query::Table> {
    query::Table::named(name.strip_prefix(prefix)?)
}

/// A pause: `value` times `unit` milliseconds.
fn pause(value: Option<String>, default: u64, unit: u64) -> Result<Duration, Stop> {
    let count = match value {
        None => default,
        Some(text) => {
            let count = text.parse().ok().filter(|&count| count > 0);
            count.ok_or_else(|| Stop::usage(format!("\"{text}\" is not a time to wait.")))?
        }
    };
    Ok(Duration::from_millis(count.saturating_mul(unit)))
}

/// Options that subcommands share: which GPUs, how often, how long, where to.
pub(super) fn shared(call: &mut Invocation, word: Word, words: &mut Words) -> Result<(), Stop> {
    match word.name.as_str() {
        "-i" | "--id" => call.ids = ids(&words.value(word)?),
        "-f" | "--filename" => call.file = Some(words.value(word)?.into()),
        "-h" | "--help" => call.command = Command::Help,
        _ => return Err(unknown(&word)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Invocation, Stop> {
        parse(line.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn options_come_in_any_order() {
        let call =
            read("--format=csv,noheader -i 0,1 --query-gpu=name,uuid -lms 20").expect("fine");
        assert_eq!(call.ids, ["0", "1"]);
        assert_eq!(call.every, Some(Duration::from_millis(20)));
        let Command::Query { fields, .. } = call.command else {
            panic!("a query");
        };
        assert_eq!(fields.len(), 2);
    }

    #[test]
    fn nonsense_is_a_usage_error() {
        for line in [
            "--frobnicate",
            "frobnicate",
            "-i",
            "--query-gpu=name",
            "--query-gpu= --format=csv",
            "--query-gpu=name,nonsense --format=csv",
            "--query-gpu=name --format=json",
            "--query-nonsense=name --format=csv",
            "--format=csv",
            "-x",
            "-d MEMORY",
            "-q -d NONSENSE",
            "-q -L",
            "-l 0",
            "-l soon",
            "-pm 2",
            "-pl watts",
            "-lgc 1,2,3",
            "-c 9",
            "mig",
            "mig -cgi",
            "topo",
            "topo -z",
            "nvlink",
            "dmon -s z",
            "dmon -c none",
            "compute-policy",
            "drain",
            "drain -q",
            "drain -p 0",
            "drain -p 0 -m 2",
            "stats -d nonsense",
            "conf-compute",
            "vgpu --nonsense",
        ] {
            let stop = read(line).expect_err(line);
            assert_eq!(stop.code, 2, "{line}");
            assert!(!stop.message.is_empty(), "{line}");
        }
    }
}
