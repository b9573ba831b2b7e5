//! A schedule: what a container does, step after step.
//!
//! JSON, either a list of steps, or `{"steps": […], "repeat": 5}`. `repeat` is a number or `"forever"`; a list may
//! carry it as a last entry of its own. A step has `time` (or `for`), `utilization`, `memory`, `bandwidth`,
//! `interconnect` and `function`, as in the config. After the last step nothing is done any more, and the memory stays.

use std::time::Duration;

use mirage_model::plan::{ActivityStep, Amount, Function, Range};
use mirage_model::quantity;
use serde_json::{Map, Value};

use super::Activity;

/// Most steps, repetitions included: a list that is longer costs more than it shows.
const MOST_STEPS: usize = 4096;

/// Reads a schedule; what is wrong with it otherwise.
pub(super) fn read(text: &str) -> Result<Activity, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let (list, repeat) = match value {
        Value::Array(mut list) => {
            let last = list.last().and_then(Value::as_object);
            let repeat = last
                .filter(|last| last.len() == 1)
                .and_then(|last| last.get("repeat").cloned());
            if repeat.is_some() {
                list.pop();
            }
            (list, repeat)
        }
        Value::Object(mut whole) => {
            let list = whole.remove("steps").or_else(|| whole.remove("schedule"));
            let repeat = whole.remove("repeat");
            if let Some(key) = whole.keys().next() {
                return Err(format!("unknown key {key:?}; it has steps and repeat"));
            }
            match list {
                Some(Value::Array(list)) => (list, repeat),
                _ => return Err("it has no list of steps".into()),
            }
        }
        _ => return Err("it is neither a list of steps nor {\"steps\": […]}".into()),
    };
    let times = times(repeat.as_ref())?;
    let steps = steps(&list)?;
    laid_out(steps, times)
}

/// How often; `None` for ever.
fn times(repeat: Option<&Value>) -> Result<Option<usize>, String> {
    let bad = || "repeat is a whole number from 1, or \"forever\"".to_owned();
    match repeat {
        None => Ok(Some(1)),
        Some(Value::String(word)) if word == "forever" => Ok(None),
        Some(value) => {
            let times = value.as_u64().filter(|&times| times > 0).ok_or_else(bad)?;
            usize::try_from(times).map(Some).map_err(|_| bad())
        }
    }
}

fn steps(list: &[Value]) -> Result<Vec<ActivityStep>, String> {
    if list.is_empty() {
        return Err("it has no steps".into());
    }
    if list.len() > MOST_STEPS {
        return Err(format!("more than {MOST_STEPS} steps"));
    }
    let mut steps: Vec<ActivityStep> = Vec::with_capacity(list.len());
    for (at, value) in list.iter().enumerate() {
        let wrong = |why: String| format!("step {}: {why}", at + 1);
        let map = value.as_object().ok_or_else(|| {
            wrong("it is not like {\"time\": \"1h\", \"utilization\": 80}".into())
        })?;
        let mut next = step(map).map_err(wrong)?;
        // Memory stays until a step says otherwise.
        let before = steps.last().and_then(|before| before.memory);
        next.memory = next.memory.or(before);
        if next.duration.is_none() && at + 1 < list.len() {
            return Err(wrong("it has no time, but others follow".into()));
        }
        steps.push(next);
    }
    Ok(steps)
}

fn step(map: &Map<String, Value>) -> Result<ActivityStep, String> {
    let mut step = ActivityStep {
        duration: None,
        utilization: Range {
            low: 0.0,
            high: 0.0,
        },
        memory: None,
        bandwidth: None,
        interconnect: None,
        function: Function::Random,
    };
    for (key, value) in map {
        let text = written(value).ok_or_else(|| format!("{key} is neither text nor a number"))?;
        let wrong = |why: quantity::Error| format!("{key}: {why}");
        match key.as_str() {
            "time" | "for" => {
                let time = quantity::duration(&text).map_err(wrong)?;
                if time == Duration::ZERO {
                    return Err(format!("{key}: a step takes some time"));
                }
                step.duration = Some(time);
            }
            "utilization" => step.utilization = quantity::percent(&text).map_err(wrong)?,
            "memory" => step.memory = Some(quantity::amount(&text).map_err(wrong)?),
            "bandwidth" => step.bandwidth = Some(quantity::percent(&text).map_err(wrong)?),
            "interconnect" => step.interconnect = Some(quantity::percent(&text).map_err(wrong)?),
            "function" => {
                step.function = match text.as_str() {
                    "random" => Function::Random,
                    "ramp" => Function::Ramp,
                    "increase" => Function::Increase,
                    _ => return Err("function is random, ramp or increase".into()),
                }
            }
            _ => {
                return Err(format!(
                    "unknown key {key:?}; a step has time, utilization, memory, bandwidth, interconnect and function"
                ));
            }
        }
    }
    Ok(step)
}

/// A scalar as it is written.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The steps with their repetitions, and the quiet after them.
fn laid_out(steps: Vec<ActivityStep>, times: Option<usize>) -> Result<Activity, String> {
    let ends = steps.last().is_some_and(|step| step.duration.is_some());
    if !ends && times != Some(1) {
        return Err("the last step has no time, so nothing repeats".into());
    }
    let activity = |steps, is_endless| Activity {
        steps,
        is_endless,
        fraction: None,
    };
    let Some(times) = times else {
        return Ok(activity(steps, true));
    };
    if steps.len().saturating_mul(times) > MOST_STEPS {
        return Err(format!(
            "more than {MOST_STEPS} steps with their repetitions; write \"repeat\": \"forever\""
        ));
    }
    let memory = steps.last().and_then(|last| last.memory).map(settled);
    let mut all: Vec<ActivityStep> = Vec::with_capacity(steps.len() * times + 1);
    for _ in 0..times {
        all.extend(steps.iter().cloned());
    }
    if ends {
        let mut quiet = Activity::constant(0.0, 0.0).steps;
        quiet[0].memory = memory;
        all.append(&mut quiet);
    }
    Ok(activity(all, false))
}

/// What remains of an amount that moves.
fn settled(amount: Amount) -> Amount {
    let low = |range: Range| Range {
        low: range.low,
        high: range.low,
    };
    match amount {
        Amount::Bytes(range) => Amount::Bytes(low(range)),
        Amount::Share(range) => Amount::Share(low(range)),
    }
}
