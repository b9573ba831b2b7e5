//! Options that change GPUs: each is asked of NVML for every chosen GPU, and the engine decides.

use std::io::Write;

use nvidia_ml::client::{Code, Nvml};

use super::gpus::{self, Gpu};
use super::words::{Word, Words, unknown};
use super::{Stop, report};

/// One change, as asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Persistence(bool),
    Mig(bool),
    PowerLimit { milliwatts: u32 },
    LockClocks(u32, u32),
    ResetClocks,
    LockMemoryClocks(u32, u32),
    ResetMemoryClocks,
    ApplicationClocks { memory: u32, graphics: u32 },
    ResetApplicationClocks,
    ComputeMode(u32),
    Ecc(bool),
    ClearEcc { lifetime: bool },
    Accounting(bool),
    ClearAccounting,
    Reset,
}

/// Understands an option that changes something.
pub(super) fn parse(word: Word, words: &mut Words) -> Result<Change, Stop> {
    Ok(match word.name.as_str() {
        "-pm" | "--persistence-mode" => Change::Persistence(words.switch(word)?),
        "-mig" | "--multi-instance-gpu" => Change::Mig(words.switch(word)?),
        "-pl" | "--power-limit" => Change::PowerLimit {
            milliwatts: milliwatts(&words.value(word)?)?,
        },
        "-lgc" | "--lock-gpu-clocks" => {
            let (min, max) = range(&words.value(word)?)?;
            Change::LockClocks(min, max)
        }
        "-rgc" | "--reset-gpu-clocks" => Change::ResetClocks,
        "-lmc" | "--lock-memory-clocks" => {
            let (min, max) = range(&words.value(word)?)?;
            Change::LockMemoryClocks(min, max)
        }
        "-rmc" | "--reset-memory-clocks" => Change::ResetMemoryClocks,
        "-ac" | "--applications-clocks" => {
            let value = words.value(word)?;
            let pair = value.split_once(',');
            let pair = pair.and_then(|(memory, graphics)| Some((mhz(memory)?, mhz(graphics)?)));
            let (memory, graphics) = pair.ok_or_else(|| {
                Stop::usage(format!(
                    "\"{value}\" is not a pair of clocks: memory,graphics in MHz."
                ))
            })?;
            Change::ApplicationClocks { memory, graphics }
        }
        "-rac" | "--reset-applications-clocks" => Change::ResetApplicationClocks,
        "-c" | "--compute-mode" => Change::ComputeMode(compute_mode(&words.value(word)?)?),
        "-e" | "--ecc-config" => Change::Ecc(words.switch(word)?),
        "-p" | "--reset-ecc-errors" => {
            let value = words.value(word)?;
            let lifetime = match value.to_ascii_uppercase().as_str() {
                "0" | "VOLATILE" => false,
                "1" | "AGGREGATE" => true,
                _ => {
                    return Err(Stop::usage(format!(
                        "\"{value}\" is neither 0/VOLATILE nor 1/AGGREGATE."
                    )));
                }
            };
            Change::ClearEcc { lifetime }
        }
        "-am" | "--accounting-mode" => Change::Accounting(words.switch(word)?),
        "-caa" | "--clear-accounted-apps" => Change::ClearAccounting,
        "-r" | "--gpu-reset" => Change::Reset,
        _ => return Err(unknown(&word)),
    })
}

/// Watts, with a fraction if need be.
fn milliwatts(text: &str) -> Result<u32, Stop> {
    let watts = text.parse::<f64>().ok();
    let watts = watts.filter(|watts| (0.0..=1e6).contains(watts));
    let watts = watts.ok_or_else(|| Stop::usage(format!("\"{text}\" is not a power in watts.")))?;
    Ok((watts * 1000.0).round() as u32)
}

fn mhz(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

/// `1410`, or `900,1410`.
fn range(text: &str) -> Result<(u32, u32), Stop> {
    let (min, max) = text.split_once(',').unwrap_or((text, text));
    mhz(min).zip(mhz(max)).ok_or_else(|| {
        Stop::usage(format!(
            "\"{text}\" is not a clock or a range of clocks in MHz: min,max."
        ))
    })
}

fn compute_mode(text: &str) -> Result<u32, Stop> {
    let name = text.to_ascii_uppercase();
    let by_number = name.parse().ok().filter(|&mode: &u32| mode < 4);
    let by_name = report::COMPUTE_MODES
        .iter()
        .position(|mode| mode.to_ascii_uppercase() == name);
    by_number.or(by_name.map(|at| at as u32)).ok_or_else(|| {
        Stop::usage(format!(
            "\"{text}\" is no compute mode: take 0 (DEFAULT), 2 (PROHIBITED) or 3 (EXCLUSIVE_PROCESS)."
        ))
    })
}

/// Applies the changes, one after another, each to all chosen GPUs; the first refusal ends it.
pub(super) fn apply(
    nvml: &Nvml,
    wanted: &[String],
    changes: &[Change],
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    for &change in changes {
        if let Change::Reset = change {
            reset(nvml, wanted, out)?;
            continue;
        }
        for gpu in gpus::choose(nvml, wanted)? {
            match change.apply_to(&gpu) {
                Ok(told) => out.extend_from_slice(told.as_bytes()),
                Err(code) => {
                    let place = format!("for GPU {}", gpu.label.bus_id);
                    return Err(refused(&change.attempt(&gpu), &place, code));
                }
            }
        }
    }
    writeln!(out, "All done.")?;
    Ok(())
}

/// A reset also revives GPUs that have no handle.
fn reset(nvml: &Nvml, wanted: &[String], out: &mut Vec<u8>) -> Result<(), Stop> {
    for (index, label) in gpus::numbers(nvml, wanted)? {
        let bus_id = label.bus_id;
        let done = nvml.reset(index);
        done.map_err(|code| refused("reset", &format!("GPU {bus_id}"), code))?;
        writeln!(out, "GPU {bus_id} was successfully reset.")?;
    }
    Ok(())
}

fn refused(attempt: &str, place: &str, code: Code) -> Stop {
    let message =
        format!("Unable to {attempt} {place}: {code}\nTerminating early due to previous errors.");
    Stop::refused(code, message)
}

impl Change {
    /// What was tried, for a message.
    fn attempt(self, gpu: &Gpu) -> String {
        let on = |on: bool| if on { "enable" } else { "disable" };
        match self {
            Change::Persistence(to) => format!("{} persistence mode", on(to)),
            Change::Mig(to) => format!("{} MIG Mode", on(to)),
            Change::PowerLimit { milliwatts } => {
                let to = format!("set the power limit to {}", watts(milliwatts));
                match gpu.device.power_limits() {
                    Ok((min, max)) if !(min..=max).contains(&milliwatts) => {
                        format!("{to}, which is not from {} to {},", watts(min), watts(max))
                    }
                    _ => to,
                }
            }
            Change::LockClocks(min, max) => format!("lock GPU clocks to {min}-{max} MHz"),
            Change::ResetClocks => "reset GPU clocks".into(),
            Change::LockMemoryClocks(min, max) => format!("lock memory clocks to {min}-{max} MHz"),
            Change::ResetMemoryClocks => "reset memory clocks".into(),
            Change::ApplicationClocks { memory, graphics } => {
                format!("set applications clocks to memory {memory} MHz, graphics {graphics} MHz")
            }
            Change::ResetApplicationClocks => "reset applications clocks".into(),
            Change::ComputeMode(_) => "set compute mode".into(),
            Change::Ecc(to) => format!("{} ECC", on(to)),
            Change::ClearEcc { .. } => "reset ECC errors".into(),
            Change::Accounting(to) => format!("{} accounting mode", on(to)),
            Change::ClearAccounting => "clear accounted processes".into(),
            Change::Reset => "reset this GPU".into(),
        }
    }

    /// Does it, and tells in the words scripts look for.
    fn apply_to(self, gpu: &Gpu) -> Result<String, Code> {
        let device = gpu.device;
        let id = &gpu.label.bus_id;
        let name = |on: bool| if on { "Enabled" } else { "Disabled" };
        Ok(match self {
            Change::Persistence(on) => {
                if device.persistence_mode()? == u32::from(on) {
                    format!("Persistence mode is already {} for GPU {id}.\n", name(on))
                } else {
                    device.set_persistence(on.into())?;
                    format!("{} persistence mode for GPU {id}.\n", name(on))
                }
            }
            Change::Mig(on) => {
                let told = format!("{} MIG Mode for GPU {id}\n", name(on));
                match device.set_mig(on)? {
                    Ok(()) => told,
                    Err(code) => format!(
                        "Warning: MIG mode is in pending {} state for GPU {id}:{code}\n{told}",
                        if on { "enable" } else { "disable" },
                    ),
                }
            }
            Change::PowerLimit { milliwatts } => {
                let before = device.power_limit()?;
                if before == milliwatts {
                    let limit = watts(milliwatts);
                    return Ok(format!(
                        "Power limit for GPU {id} was already set to {limit}.\n"
                    ));
                }
                device.set_power_limit(milliwatts)?;
                let (now, before) = (watts(milliwatts), watts(before));
                format!("Power limit for GPU {id} was set to {now} from {before}.\n")
            }
            Change::LockClocks(min, max) => {
                device.lock_clocks(min, max)?;
                format!("GPU clocks set to \"(gpuClkMin {min}, gpuClkMax {max})\" for GPU {id}\n")
            }
            Change::ResetClocks => {
                device.reset_locked_clocks()?;
                format!("All GPU clocks reset for GPU {id}\n")
            }
            Change::LockMemoryClocks(min, max) => {
                device.lock_memory_clocks(min, max)?;
                format!(
                    "Memory clocks set to \"(memClkMin {min}, memClkMax {max})\" for GPU {id}\n"
                )
            }
            Change::ResetMemoryClocks => {
                device.reset_locked_memory_clocks()?;
                format!("All memory clocks reset for GPU {id}\n")
            }
            Change::ApplicationClocks { memory, graphics } => {
                device.set_application_clocks(memory, graphics)?;
                format!(
                    "Applications clocks set to \"(MEM {memory}, SM {graphics})\" for GPU {id}\n"
                )
            }
            Change::ResetApplicationClocks => {
                device.reset_application_clocks()?;
                format!("Applications clocks reset for GPU {id}\n")
            }
            Change::ComputeMode(mode) => {
                let before = report::COMPUTE_MODES[device.compute_mode()? as usize % 4];
                let now = report::COMPUTE_MODES[mode as usize % 4];
                let (before, now) = (before.to_ascii_uppercase(), now.to_ascii_uppercase());
                if before == now {
                    return Ok(format!(
                        "Compute mode is already set to {now} for GPU {id}.\n"
                    ));
                }
                device.set_compute_mode(mode)?;
                format!("Set compute mode to {now} for GPU {id}.\n")
            }
            Change::Ecc(on) => {
                let (_, pending) = device.ecc_mode()?;
                if pending == u32::from(on) {
                    return Ok(format!(
                        "ECC support is already {} for GPU {id}.\n",
                        name(on)
                    ));
                }
                device.set_ecc(on.into())?;
                let told = format!("{} ECC support for GPU {id}.\n", name(on));
                format!("{told}Reset the GPU for the change to come into force.\n")
            }
            Change::ClearEcc { lifetime } => {
                device.clear_ecc(lifetime.into())?;
                let kind = if lifetime { "aggregate" } else { "volatile" };
                format!("Reset {kind} ECC errors to zero for GPU {id}.\n")
            }
            Change::Accounting(on) => {
                device.set_accounting(on.into())?;
                format!("{} Accounting Mode for GPU {id}.\n", name(on))
            }
            Change::ClearAccounting => {
                device.clear_accounting()?;
                format!("Cleared Accounted PIDs for GPU {id}.\n")
            }
            // Done by number, not by handle.
            Change::Reset => String::new(),
        })
    }
}

fn watts(milliwatts: u32) -> String {
    format!("{:.2} W", f64::from(milliwatts) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watts_may_have_a_fraction() {
        assert_eq!(milliwatts("300").expect("fine"), 300_000);
        assert_eq!(milliwatts("93.42").expect("fine"), 93_420);
        for text in ["", "-1", "nan", "inf", "1e9", "W"] {
            assert!(milliwatts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn compute_modes_go_by_name_or_number() {
        assert_eq!(compute_mode("3").expect("fine"), 3);
        assert_eq!(compute_mode("exclusive_process").expect("fine"), 3);
        assert_eq!(compute_mode("DEFAULT").expect("fine"), 0);
        assert!(compute_mode("4").is_err());
    }
}
