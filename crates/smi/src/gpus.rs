//! Which GPUs a command is about.

use nvidia_ml::client::{Code, Device, Label, Nvml};

use super::Stop;

/// A GPU that answers, and what it is known by.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    pub(super) index: u32,
    pub(super) label: Label,
    pub(super) device: Device,
}

/// The GPUs named by `-i`, all if none is. One that is asked for and has no handle ends the program, as with the
/// real one.
pub(super) fn choose(nvml: &Nvml, wanted: &[String]) -> Result<Vec<Gpu>, Stop> {
    let found = numbers(nvml, wanted)?;
    let gpus = found.into_iter().map(|(index, label)| {
        let device = nvml.device(index).map_err(|code| unreachable(&label, code));
        Ok(Gpu {
            index,
            label,
            device: device?,
        })
    });
    gpus.collect()
}

/// Numbers and labels of the same GPUs, whether they answer or not.
pub(super) fn numbers(nvml: &Nvml, wanted: &[String]) -> Result<Vec<(u32, Label)>, Stop> {
    let mut all = Vec::new();
    for index in 0..nvml.count()? {
        all.push((index, nvml.label(index)?));
    }
    if !wanted.is_empty() {
        // In the order of the machine, each once, whatever the order and number of their names.
        all.retain(|(index, label)| wanted.iter().any(|name| is_named(name, *index, label)));
    }
    if all.is_empty() {
        return Err(Stop::no_devices());
    }
    Ok(all)
}

/// By number, UUID, bus id (the domain with four or eight digits, or left out) or serial number.
fn is_named(name: &str, index: u32, label: &Label) -> bool {
    let bus_id = label.bus_id.to_ascii_uppercase();
    let asked = name.to_ascii_uppercase();
    let tail = |digits: usize| bus_id.get(digits..).is_some_and(|tail| tail == asked);
    name.parse() == Ok(index)
        || label.uuid.eq_ignore_ascii_case(name)
        || (!label.serial.is_empty() && label.serial == name)
        || bus_id == asked
        || tail(4)
        || tail("00000000:".len())
}

fn unreachable(label: &Label, code: Code) -> Stop {
    let bus_id = &label.bus_id;
    let way_out = match code {
        Code::GPU_IS_LOST => ".  Heal the fault (mirage ctl fault heal) to recover this GPU",
        _ => "",
    };
    let message = format!("Unable to determine the device handle for GPU{bus_id}: {code}{way_out}");
    Stop::refused(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_answers_to_all_its_names() {
        let label = Label {
            bus_id: "00000000:0F:00.0".into(),
            uuid: "GPU-ab".into(),
            serial: "123".into(),
        };
        let names = [
            "2",
            "GPU-AB",
            "123",
            "00000000:0f:00.0",
            "0000:0F:00.0",
            "0F:00.0",
        ];
        for name in names {
            assert!(is_named(name, 2, &label), "{name}");
        }
        for name in ["3", "", "GPU", "00.0", "1", "000000000:0F:00.0"] {
            assert!(!is_named(name, 2, &label), "{name}");
        }
    }
}
