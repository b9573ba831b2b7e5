//! What nvml-wrapper reads, as JSON: one object with the node's versions and a list of GPUs under the API's names.

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use serde_json::{Value, json};

/// What a board cannot tell is null.
fn may<T: Into<Value>>(answer: Result<T, NvmlError>) -> Result<Value, NvmlError> {
    match answer {
        Ok(value) => Ok(value.into()),
        Err(NvmlError::NotSupported) => Ok(Value::Null),
        Err(error) => Err(error),
    }
}

fn read(nvml: &Nvml, index: u32) -> Result<Value, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let memory = device.memory_info()?;
    let rates = match device.utilization_rates() {
        Err(NvmlError::NotSupported) => None,
        rates => Some(rates?),
    };
    let pids: Vec<u32> = device
        .running_compute_processes()?
        .iter()
        .map(|process| process.pid)
        .collect();
    Ok(json!({
        "index": device.index()?,
        "uuid": device.uuid()?,
        "name": device.name()?,
        "serial": device.serial()?,
        "pci_bus_id": device.pci_info()?.bus_id,
        "minor": device.minor_number()?,
        "utilization_percent": rates.as_ref().map(|rates| rates.gpu),
        "memory_utilization_percent": rates.as_ref().map(|rates| rates.memory),
        "memory_total_bytes": memory.total,
        "memory_reserved_bytes": memory.reserved,
        "memory_used_bytes": memory.used,
        "temperature_c": device.temperature(TemperatureSensor::Gpu)?,
        "power_mw": device.power_usage()?,
        "power_limit_mw": device.enforced_power_limit()?,
        "energy_mj": may(device.total_energy_consumption())?,
        "sm_clock_mhz": device.clock_info(Clock::SM)?,
        "memory_clock_mhz": device.clock_info(Clock::Memory)?,
        "performance_state": device.performance_state()?.as_c(),
        "cores": device.num_cores()?,
        "architecture": device.architecture()?.to_string(),
        "pids": pids,
    }))
}

fn main() -> Result<(), NvmlError> {
    let nvml = Nvml::init()?;
    let gpus: Vec<Value> = (0..nvml.device_count()?)
        .map(|index| read(&nvml, index))
        .collect::<Result<_, _>>()?;
    let found = json!({
        "driver": nvml.sys_driver_version()?,
        "cuda": nvml.sys_cuda_driver_version()?,
        "gpus": gpus,
    });
    nvml.shutdown()?;
    println!("{found}");
    Ok(())
}
