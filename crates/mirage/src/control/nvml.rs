//! NVML's setters, as the library sends them: `{"op":"nvml","call":"set_power_limit","gpu":"GPU-…","mw":250000}`.

use mirage_model::plan::DeviceRef;
use mirage_sim::{Answer, Change, EccScope, Input, MigOp, Profile, Setting};
use mirage_state::layout::text;
use serde_json::Value;

use super::execute::problem;
use super::request::{Form, shorten};
use super::{Fields, Problem, codes};
use crate::engine::Core;

/// A setter and its arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// A change of one setting.
    Set(Setting),
    /// `set_mig`.
    MigMode(bool),
    /// A change of the MIG layout.
    Mig(MigOp),
    /// `reset`.
    Reset,
}

impl Call {
    pub(super) fn from_form(form: &Form<'_>) -> Result<Self, Problem> {
        let number = |name| form.number(name);
        let range = || Ok((number("min")?, number("max")?));
        let call = form.text("call")?;
        Ok(match call.as_str() {
            "set_power_limit" => Self::Set(Setting::PowerLimit(Some(number("mw")?))),
            "set_persistence" => Self::Set(Setting::Persistence(form.flag("on")?)),
            "set_locked_clocks" => Self::Set(Setting::LockedClocks(Some(range()?))),
            "reset_locked_clocks" => Self::Set(Setting::LockedClocks(None)),
            "set_locked_mem_clocks" => Self::Set(Setting::LockedMemoryClocks(Some(range()?))),
            "reset_locked_mem_clocks" => Self::Set(Setting::LockedMemoryClocks(None)),
            "set_app_clocks" => Self::Set(Setting::ApplicationClocks(Some((
                number("mem")?,
                number("sm")?,
            )))),
            "reset_app_clocks" => Self::Set(Setting::ApplicationClocks(None)),
            "set_ecc" => Self::Set(Setting::EccMode(form.flag("on")?)),
            "clear_ecc" => Self::Set(Setting::EccClear(if form.flag("aggregate")? {
                EccScope::Aggregate
            } else {
                EccScope::Volatile
            })),
            "set_compute_mode" => Self::Set(Setting::ComputeMode(number("mode")?)),
            "set_fan" => Self::Set(Setting::FanSpeed {
                fan: number("fan")?,
                percent: number("percent")?,
            }),
            "default_fan" => Self::Set(Setting::FanDefault {
                fan: number("fan")?,
            }),
            "set_accounting" => Self::Set(Setting::Accounting(form.flag("on")?)),
            "clear_accounting" => Self::Set(Setting::AccountingClear),
            "update_profiles" => {
                let change = match number("change")? {
                    0 => Change::Remove,
                    1 => Change::Add,
                    2 => Change::Replace,
                    other => {
                        return Err(Problem::invalid(format!(
                            "nvml: \"change\" must be 0, 1 or 2, found {other}"
                        )));
                    }
                };
                Self::Set(Setting::WorkloadProfiles(change, number("mask")?))
            }
            "set_auto_boost" => Self::Set(Setting::AutoBoost(form.flag("on")?)),
            "set_default_auto_boost" => Self::Set(Setting::AutoBoostDefault(form.flag("on")?)),
            "set_mig" => Self::MigMode(form.flag("on")?),
            "create_gi" => Self::Mig(MigOp::CreateGi {
                profile: Profile::Index(number("profile")?),
                start: form.optional("start", Form::number)?,
            }),
            "destroy_gi" => Self::Mig(MigOp::DestroyGi { gi: number("gi")? }),
            "create_ci" => Self::Mig(MigOp::CreateCi {
                gi: number("gi")?,
                profile: Some(Profile::Index(number("profile")?)),
                start: form.optional("start", Form::number)?,
            }),
            "destroy_ci" => Self::Mig(MigOp::DestroyCi {
                gi: number("gi")?,
                ci: number("ci")?,
            }),
            "reset" => Self::Reset,
            other => {
                return Err(Problem {
                    code: codes::NOT_SUPPORTED,
                    message: format!("nvml: unknown call \"{}\"", shorten(other)),
                });
            }
        })
    }
}

/// Does what a setter asks, and answers as NVML would.
pub(super) fn execute(core: &mut Core, gpu: &str, call: Call) -> Result<(u32, Fields), Problem> {
    let device = find(core, gpu)?;
    let is_mode = matches!(call, Call::MigMode(_));
    let input = match call {
        Call::Set(setting) => Input::Set { device, setting },
        Call::MigMode(on) => Input::Mig {
            device,
            op: MigOp::Enable(on),
        },
        Call::Mig(op) => Input::Mig { device, op },
        Call::Reset => Input::Reset { device },
    };
    let answer = core.apply(&[input]).pop();
    let mut fields = Fields::new();
    match answer {
        Some(Ok(answer)) => {
            if is_mode {
                let activation = match answer {
                    Answer::AfterReset => codes::RESET_REQUIRED,
                    // NVML has two results here: the mode was taken, and why it is not in force.
                    Answer::InUse => codes::IN_USE,
                    _ => codes::SUCCESS,
                };
                fields.insert("activation".into(), activation.into());
            }
            for (name, id) in created(&answer) {
                fields.insert(name.into(), Value::from(id));
            }
            Ok((codes::SUCCESS, fields))
        }
        Some(Err(refusal)) => Err(problem(&refusal)),
        None => Err(Problem {
            code: codes::UNKNOWN,
            message: "nvml: the engine gave no answer".into(),
        }),
    }
}

fn created(answer: &Answer) -> Vec<(&'static str, u32)> {
    match *answer {
        Answer::GpuInstance { gi, start } => vec![("gi", gi), ("start", start)],
        Answer::ComputeInstance { gi, ci } => vec![("gi", gi), ("ci", ci)],
        _ => Vec::new(),
    }
}

/// The GPU with this id, as its surfaces show it.
fn find(core: &Core, uuid: &str) -> Result<DeviceRef, Problem> {
    let published = core.fleet().read();
    for (image, node) in published.nodes.iter().zip(0u32..) {
        for (card, gpu) in image.cards.iter().zip(0u32..) {
            if text(&card.uuid) == uuid {
                return Ok(DeviceRef {
                    node,
                    gpu,
                    instance: None,
                });
            }
        }
    }
    Err(Problem {
        code: codes::NOT_FOUND,
        message: format!("nvml: no GPU has the id \"{}\"", shorten(uuid)),
    })
}
