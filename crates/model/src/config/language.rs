//! The kinds of value the config knows. With the tables in [`tables`] this is the one
//! declaration of the language: checking, the JSON Schema and the reference page read it.

pub(crate) mod tables;

use std::time::Duration;

use super::limits::{MAX_ID, MAX_SERIAL};

/// A mapping with fixed keys.
pub(crate) struct Table {
    /// What messages and the reference call it.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) doc: &'static str,
    /// Its keys.
    pub(crate) fields: &'static [Field],
    /// What must hold between its keys.
    pub(crate) rules: &'static [Rule],
}

/// A key of a table.
pub(crate) struct Field {
    /// As written.
    pub(crate) key: &'static str,
    /// Another spelling that is accepted.
    pub(crate) alias: Option<&'static str>,
    /// What its value may be.
    pub(crate) kind: Kind,
    /// What holds without it, in words; `None` where it is required.
    pub(crate) default: Option<&'static str>,
    /// What it does.
    pub(crate) doc: &'static str,
}

/// What must hold between keys of one table.
pub(crate) enum Rule {
    /// One of them, and only one.
    ExactlyOne(&'static [&'static str]),
    /// At most one of them.
    AtMostOne(&'static [&'static str]),
}

/// What a value may be.
pub(crate) enum Kind {
    /// A whole number.
    Integer { min: u64, max: u64 },
    /// A number.
    Number { min: f64, max: f64 },
    /// `true` or `false`.
    Flag,
    /// Only `true`: the key's presence says it all.
    Present,
    /// Text of a certain form.
    Text(Form),
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// One of a few words, each standing for a number.
    Coded(&'static [(&'static str, u64)]),
    /// A duration within limits.
    Duration { min: Duration, max: Duration },
    /// An amount of memory within limits, in bytes.
    Bytes { min: u64, max: u64 },
    /// A percentage or a range of them.
    Percent,
    /// Memory as bytes or share, or a range of either.
    Amount,
    /// A mapping with fixed keys.
    Table(&'static Table),
    /// A mapping from names to tables.
    Named(&'static Table),
    /// A list of at most so many.
    List(&'static Kind, usize),
    /// The first kind whose shape (scalar, list, mapping) fits and that accepts it.
    Either(&'static [Kind]),
}

/// What a text must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Anything printable, up to 253 characters.
    Any,
    /// A device id, as the published state can hold it.
    Id,
    /// A serial number, as the published state can hold it.
    Serial,
    /// A name of a node, pool or workload.
    Name,
    /// A name or product of a GPU model.
    Model,
    /// A device selector.
    Selector,
    /// A MIG profile.
    Profile,
    /// A driver version, `550.163.01`.
    Version,
    /// A CUDA version, `12.4`.
    Cuda,
    /// `namespace/pod`.
    Pod,
}

impl Form {
    /// What it is called, and an example.
    pub(crate) fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Any => ("text", "some text"),
            Self::Id => ("device id", "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1"),
            Self::Serial => ("serial number", "1320220000001"),
            Self::Name => ("name", "node-a"),
            Self::Model => ("GPU model", "a100-sxm4-40gb"),
            Self::Selector => ("device selector", "node-a/0-3"),
            Self::Profile => ("MIG profile", "1g.5gb"),
            Self::Version => ("driver version", "550.163.01"),
            Self::Cuda => ("CUDA version", "12.4"),
            Self::Pod => ("pod", "namespace/name"),
        }
    }

    /// A regular expression for the schema; `accepts` is the judge.
    pub(crate) fn pattern(self) -> Option<&'static str> {
        match self {
            Self::Id => Some("^[-A-Za-z0-9/._:]{1,47}$"),
            Self::Serial => Some("^[-A-Za-z0-9]{1,15}$"),
            Self::Any | Self::Model | Self::Selector | Self::Profile => None,
            Self::Name => Some("^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"),
            Self::Version => Some("^[0-9]+(\\.[0-9]+)+$"),
            Self::Cuda => Some("^[0-9]+\\.[0-9]+$"),
            Self::Pod => Some("^[^/]+/[^/]+$"),
        }
    }

    /// Whether the text has this form.
    pub(crate) fn accepts(self, text: &str) -> bool {
        const LONGEST: usize = 253;
        let numbers = |least: usize, most: usize| {
            let parts: Vec<&str> = text.split('.').collect();
            let number = |part: &&str| {
                (1..=6).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
            };
            (least..=most).contains(&parts.len()) && parts.iter().all(number)
        };
        match self {
            // Selectors may be long lists.
            Self::Selector => !text.is_empty() && text.len() <= 65_536,
            _ if text.is_empty() || text.len() > LONGEST => false,
            Self::Any => !text.chars().any(char::is_control),
            Self::Id => text.len() <= MAX_ID && made_of(text, b"-/._:"),
            Self::Serial => text.len() <= MAX_SERIAL && made_of(text, b"-"),
            Self::Name => is_name(text),
            Self::Model | Self::Profile => !text.chars().any(char::is_control),
            Self::Version => numbers(2, 4),
            Self::Cuda => numbers(2, 2),
            Self::Pod => text
                .split_once('/')
                .is_some_and(|(space, pod)| is_name(space) && is_name(pod)),
        }
    }
}

/// Whether it has only letters, digits and these marks.
fn made_of(text: &str, marks: &[u8]) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte))
}

/// Whether Kubernetes would take it as the name of a node or pod.
pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|first| allowed(*first))
            && bytes.last().is_some_and(|last| allowed(*last))
            && bytes.iter().all(|byte| allowed(*byte) || *byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

impl Table {
    /// The field a key means.
    pub(crate) fn field(&self, key: &str) -> Option<&'static Field> {
        self.fields
            .iter()
            .find(|field| field.key == key || field.alias == Some(key))
    }
}

#[cfg(test)]
mod tests {
    use super::tables::{ALL, fault, workload};
    use super::*;
    use crate::config::{Defaults, load};
    use crate::plan::When;

    /// A default as the tables word it, without its quotes.
    fn stated(table: &Table, key: &str) -> String {
        let field = table.field(key).unwrap();
        field.default.unwrap().trim_matches('`').into()
    }

    #[test]
    fn stated_defaults_are_the_real_ones() {
        let text = "nodes: { n: { model: t4 } }\nworkloads: [ { name: w, devices: n/0 } ]\nfaults: [ { device: n/0, ecc: {} } ]\n";
        let plan = load(text, "f", &Defaults::default()).unwrap().plan;
        let root = &tables::ROOT;
        assert_eq!(stated(root, "seed"), plan.seed.to_string());
        assert_eq!(
            stated(root, "tick"),
            crate::quantity::show_duration(plan.tick)
        );
        assert_eq!(stated(root, "pool-label"), plan.pool_label);
        assert_eq!(
            stated(&tables::fleet::POOL, "model"),
            Defaults::default().model
        );
        let (run, table) = (&plan.workloads[0], &workload::WORKLOAD);
        assert_eq!(stated(table, "intensity"), run.intensity.to_string());
        assert_eq!(stated(table, "tensor"), run.tensor.to_string());
        assert_eq!(stated(table, "process"), run.process);
        assert_eq!(stated(table, "repeat"), run.repeat.unwrap().to_string());
        assert_eq!(
            stated(table, "utilization"),
            run.activity[0].utilization.to_string()
        );
        assert_eq!(plan.faults[0].when, When::At(Duration::ZERO));
        let ecc = crate::plan::Fault::Ecc {
            uncorrected: stated(&fault::ECC_TABLE, "kind") != "corrected",
            sram: stated(&fault::ECC_TABLE, "location") != "dram",
            count: stated(&fault::ECC_TABLE, "count").parse().unwrap(),
        };
        assert_eq!(plan.faults[0].fault, ecc);
    }

    #[test]
    fn the_schema_has_the_same_limits() {
        for (form, most) in [(Form::Id, MAX_ID), (Form::Serial, MAX_SERIAL)] {
            let pattern = form.pattern().unwrap();
            assert!(pattern.ends_with(&format!("{{1,{most}}}$")), "{pattern}");
            assert!(form.accepts(&"a".repeat(most)));
            assert!(!form.accepts(&"a".repeat(most + 1)));
        }
    }

    #[test]
    fn every_key_is_named_once_and_every_rule_names_keys() {
        for table in ALL {
            let mut names: Vec<&str> = table
                .fields
                .iter()
                .flat_map(|field| [Some(field.key), field.alias])
                .flatten()
                .collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", table.name);
            for rule in table.rules {
                let (Rule::ExactlyOne(keys) | Rule::AtMostOne(keys)) = rule;
                assert!(keys.iter().all(|key| names.contains(key)), "{}", table.name);
            }
        }
    }
}
