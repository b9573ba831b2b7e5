//! `-L`: one line per GPU, and under it one per MIG device.

use std::io::Write;

use super::Stop;
use super::gpus::Gpu;

pub(super) fn print(gpus: &[Gpu], out: &mut Vec<u8>) -> Result<(), Stop> {
    for gpu in gpus {
        let name = gpu.device.name()?;
        writeln!(out, "GPU {}: {name} (UUID: {})", gpu.index, gpu.label.uuid)?;
        for device in gpu.device.mig_devices() {
            let name = device.name()?;
            let (profile, index, uuid) = (profile(&name), device.index()?, device.uuid()?);
            writeln!(out, "  {profile:<15} Device {index:>2}: (UUID: {uuid})")?;
        }
    }
    Ok(())
}

/// `MIG 1g.5gb` at the end of a MIG device's name.
fn profile(name: &str) -> &str {
    name.rfind("MIG ").map_or(name, |at| &name[at..])
}
