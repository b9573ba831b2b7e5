//! `conf-compute`: what the machine says of confidential computing, which is that it is off.

use std::io::Write;

use nvidia_ml::client::Nvml;

use super::Stop;
use super::args::{Command, Invocation, shared};
use super::words::Words;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Cpu,
    Gpus,
    DevTools,
    Environment,
    Feature,
    Ready,
}

pub(super) fn parse(mut words: Words) -> Result<Invocation, Stop> {
    let mut call = Invocation::new(Command::Help);
    let mut question = None;
    while let Some(word) = words.next() {
        let asked = match word.name.as_str() {
            "-gc" | "--get-cpu-caps" => Question::Cpu,
            "-gg" | "--get-gpus-caps" => Question::Gpus,
            "-d" | "--get-devtools-mode" => Question::DevTools,
            "-e" | "--get-environment" => Question::Environment,
            "-f" | "--get-cc-feature" => Question::Feature,
            "-grs" | "--get-gpus-ready-state" => Question::Ready,
            "-h" | "--help" => return Ok(call),
            _ => {
                shared(&mut call, word, &mut words)?;
                continue;
            }
        };
        question = Some(asked);
    }
    let question = question.ok_or_else(|| {
        Stop::usage("Say what to tell: conf-compute -gc, -gg, -d, -e, -f or -grs.")
    })?;
    call.command = Command::Confidential(question);
    Ok(call)
}

pub(super) fn print(nvml: &Nvml, question: Question, out: &mut Vec<u8>) -> Result<(), Stop> {
    let on = |value: u32| if value == 0 { "OFF" } else { "ON" };
    let text = match question {
        Question::Cpu => {
            const NAMES: [&str; 5] = [
                "NONE",
                "AMD SEV",
                "INTEL TDX",
                "AMD SEV-SNP",
                "AMD SNP vTOM",
            ];
            let name = NAMES.get(nvml.confidential_caps()?.cpu as usize);
            format!("CC CPU capabilities: {}", name.unwrap_or(&"UNKNOWN"))
        }
        Question::Gpus => {
            let capable = nvml.confidential_caps()?.gpus != 0;
            let word = if capable {
                "CC CAPABLE"
            } else {
                "CC NOT CAPABLE"
            };
            format!("CC GPUs capabilities: {word}")
        }
        Question::DevTools => {
            format!(
                "DevTools Mode: {}",
                on(nvml.confidential_state()?.dev_tools)
            )
        }
        Question::Environment => {
            const NAMES: [&str; 3] = ["UNAVAILABLE", "SIMULATION", "PRODUCTION"];
            let name = NAMES.get(nvml.confidential_state()?.environment as usize);
            format!("CC Environment: {}", name.unwrap_or(&"UNKNOWN"))
        }
        Question::Feature => format!("CC status: {}", on(nvml.confidential_state()?.feature)),
        Question::Ready => {
            let ready = nvml.confidential_ready()?;
            let word = if ready { "ready" } else { "not-ready" };
            format!("Confidential Compute GPUs Ready state: {word}")
        }
    };
    writeln!(out, "{text}")?;
    Ok(())
}
