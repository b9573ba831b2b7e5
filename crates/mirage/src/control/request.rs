//! Requests as they arrive, checked field by field.

use std::cell::RefCell;
use std::time::Duration;

use mirage_model::quantity;
use serde_json::{Map, Value};

use super::Problem;
use super::nvml::Call;

/// Longest text shown in a message.
const SHOWN: usize = 60;

/// A request, its shape checked; whom it is about is looked up when it is done.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// What is running, and how fast.
    Status,
    /// Make time stand still, or go on.
    Pause(bool),
    /// Let simulated time pass at once.
    Step(Duration),
    /// All faults that have struck, and those still to come.
    Faults,
    /// Inject a fault, in the config's words.
    Inject(String),
    /// Heal faults.
    Heal(Heal),
    /// Change a setting of devices.
    Set {
        /// Which devices.
        devices: String,
        /// Setting.
        name: String,
        /// Value as people write it.
        value: String,
    },
    /// All workloads.
    Workloads,
    /// Add a workload, in the config's words.
    AddWorkload(String),
    /// End and forget a workload.
    RemoveWorkload(String),
    /// MIG devices of GPUs.
    Mig {
        /// Which GPUs.
        devices: String,
    },
    /// Switch MIG mode.
    MigMode {
        /// Which GPUs.
        devices: String,
        /// On or off.
        on: bool,
    },
    /// Create a GPU instance and a compute instance that fills it.
    MigCreate {
        /// Which GPUs.
        devices: String,
        /// Profile name.
        profile: String,
        /// First memory slice.
        start: Option<u32>,
    },
    /// Destroy a GPU instance with its compute instances, or all of them.
    MigDestroy {
        /// Which GPUs.
        devices: String,
        /// Which GPU instance; all when absent.
        gpu_instance: Option<u32>,
    },
    /// Reset devices.
    Reset {
        /// Which.
        devices: String,
    },
    /// A setter of NVML.
    Nvml {
        /// The GPU's id.
        gpu: String,
        /// What it asks for.
        call: Call,
    },
}

/// Which faults to heal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Heal {
    Id(u64),
    Devices(String),
    All,
}

impl Request {
    /// Reads a line. Unknown operations and fields are refused by name.
    pub fn parse(line: &[u8]) -> Result<Self, Problem> {
        let value: Value = serde_json::from_slice(line)
            .map_err(|error| Problem::invalid(format!("reading a request: {error}")))?;
        let Value::Object(map) = value else {
            return Err(Problem::invalid(format!(
                "reading a request: expected an object with \"op\", found {}",
                kind(&value)
            )));
        };
        let Some(Value::String(op)) = map.get("op") else {
            return Err(Problem::invalid(
                "reading a request: \"op\" is missing or no text",
            ));
        };
        let form = Form {
            op,
            map: &map,
            used: RefCell::new(vec!["op"]),
        };
        let request = Self::from_form(&form)?;
        form.finish()?;
        Ok(request)
    }

    fn from_form(form: &Form<'_>) -> Result<Self, Problem> {
        let devices = || form.text("devices");
        Ok(match form.op {
            "status" => Self::Status,
            "pause" => Self::Pause(true),
            "resume" => Self::Pause(false),
            "step" => Self::Step(step(&form.text("time")?)?),
            "fault.list" => Self::Faults,
            "fault.inject" => Self::Inject(form.document("fault")?),
            "fault.heal" => Self::Heal(heal(form)?),
            "set" => Self::Set {
                devices: devices()?,
                name: form.text("name")?,
                value: form.text("value")?,
            },
            "workload.list" => Self::Workloads,
            "workload.add" => Self::AddWorkload(form.document("workload")?),
            "workload.remove" => Self::RemoveWorkload(form.text("name")?),
            "mig.list" => Self::Mig {
                devices: devices()?,
            },
            "mig.enable" => Self::MigMode {
                devices: devices()?,
                on: true,
            },
            "mig.disable" => Self::MigMode {
                devices: devices()?,
                on: false,
            },
            "mig.create" => Self::MigCreate {
                devices: devices()?,
                profile: form.text("profile")?,
                start: form.optional("start", Form::number)?,
            },
            "mig.destroy" => Self::MigDestroy {
                devices: devices()?,
                gpu_instance: form.optional("gpu_instance", Form::number)?,
            },
            "reset" => Self::Reset {
                devices: devices()?,
            },
            "nvml" => Self::Nvml {
                gpu: form.text("gpu")?,
                call: Call::from_form(form)?,
            },
            other => {
                return Err(Problem::invalid(format!(
                    "unknown operation \"{}\"; there are: status, pause, resume, step, fault.list, \
                     fault.inject, fault.heal, set, workload.list, workload.add, workload.remove, mig.list, \
                     mig.enable, mig.disable, mig.create, mig.destroy, reset, nvml",
                    shorten(other)
                )));
            }
        })
    }
}

/// How long a step may be: a request is answered after it, and everybody else waits.
const LONGEST_STEP: Duration = Duration::from_hours(24);

fn step(text: &str) -> Result<Duration, Problem> {
    let time = quantity::duration(text)
        .map_err(|error| Problem::invalid(format!("step: \"{}\": {error}", shorten(text))))?;
    if time.is_zero() || time > LONGEST_STEP {
        return Err(Problem::invalid(format!(
            "step: \"{}\" is outside what one step may be, above nothing and up to 24h",
            shorten(text)
        )));
    }
    Ok(time)
}

fn heal(form: &Form<'_>) -> Result<Heal, Problem> {
    let id = form.optional("id", Form::large)?;
    let devices = form.optional("devices", Form::text)?;
    let all = form.optional("all", Form::flag)?.unwrap_or(false);
    match (id, devices, all) {
        (Some(id), None, false) => Ok(Heal::Id(id)),
        (None, Some(devices), false) => Ok(Heal::Devices(devices)),
        (None, None, true) => Ok(Heal::All),
        _ => Err(Problem::invalid(
            "fault.heal: give exactly one of \"id\", \"devices\" and \"all\": true",
        )),
    }
}

/// The fields of a request; every one must be asked for, or it is unknown.
pub(super) struct Form<'a> {
    pub(super) op: &'a str,
    map: &'a Map<String, Value>,
    used: RefCell<Vec<&'static str>>,
}

impl Form<'_> {
    fn get(&self, name: &'static str) -> Result<&Value, Problem> {
        self.used.borrow_mut().push(name);
        self.map
            .get(name)
            .ok_or_else(|| Problem::invalid(format!("{}: \"{name}\" is missing", self.op)))
    }

    fn wrong(&self, name: &str, expected: &str, found: &Value) -> Problem {
        Problem::invalid(format!(
            "{}: \"{name}\" must be {expected}, found {}",
            self.op,
            kind(found)
        ))
    }

    /// A field that may be absent or null.
    pub(super) fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Self, &'static str) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        match self.map.get(name) {
            None | Some(Value::Null) => {
                self.used.borrow_mut().push(name);
                Ok(None)
            }
            Some(_) => read(self, name).map(Some),
        }
    }

    pub(super) fn text(&self, name: &'static str) -> Result<String, Problem> {
        match self.get(name)? {
            Value::String(text) => Ok(text.clone()),
            other => Err(self.wrong(name, "a text", other)),
        }
    }

    pub(super) fn flag(&self, name: &'static str) -> Result<bool, Problem> {
        let value = self.get(name)?;
        value
            .as_bool()
            .ok_or_else(|| self.wrong(name, "true or false", value))
    }

    fn large(&self, name: &'static str) -> Result<u64, Problem> {
        let value = self.get(name)?;
        value
            .as_u64()
            .ok_or_else(|| self.wrong(name, "a whole number", value))
    }

    pub(super) fn number(&self, name: &'static str) -> Result<u32, Problem> {
        let value = self.get(name)?;
        value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| self.wrong(name, "a whole number from 0 to 4294967295", value))
    }

    /// A piece of config: text in its language, or the same as JSON.
    fn document(&self, name: &'static str) -> Result<String, Problem> {
        match self.get(name)? {
            Value::String(text) => Ok(text.clone()),
            object @ Value::Object(_) => Ok(object.to_string()),
            other => Err(self.wrong(name, "a text or an object", other)),
        }
    }

    fn finish(&self) -> Result<(), Problem> {
        let used = self.used.borrow();
        match self.map.keys().find(|key| !used.contains(&key.as_str())) {
            None => Ok(()),
            Some(unknown) => Err(Problem::invalid(format!(
                "{}: unknown field \"{}\"",
                self.op,
                shorten(unknown)
            ))),
        }
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text \"{}\"", shorten(text)),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// Foreign text made fit for a message.
pub(super) fn shorten(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(SHOWN)
        .flat_map(|letter| letter.escape_debug())
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}
