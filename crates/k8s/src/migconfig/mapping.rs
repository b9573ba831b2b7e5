//! The `run.ai/mig-mapping` annotation, and the device a pod names.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Device;
use crate::allocate::Place;
use crate::{Error, Result};

/// Longest annotation that is looked at.
const LONGEST: usize = 256 << 10;

/// Which number stands for a device in the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ids {
    /// The GPU instance's own id, as real nodes have it.
    #[default]
    Instance,
    /// The profile's id, as fake-gpu-operator has it; equal devices then share one.
    Profile,
}

/// One device of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// First memory slice.
    pub position: u32,
    /// `MIG-…`.
    pub uuid: String,
    /// Id of the GPU instance, where the mapping tells it.
    pub instance: Option<u32>,
}

/// The devices of a node, by GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping(pub BTreeMap<u32, Vec<Mapped>>);

impl Mapping {
    /// Adds a GPU's devices.
    pub fn add(&mut self, gpu: u32, uuid: &str, devices: &[Device], ids: Ids) {
        let mapped = devices.iter().map(|device| Mapped {
            position: device.start,
            uuid: device.uuid(uuid),
            instance: Some(match ids {
                Ids::Instance => device.instance,
                Ids::Profile => device.profile_id,
            }),
        });
        self.0.insert(gpu, mapped.collect());
    }

    /// The annotation's value.
    pub fn write(&self) -> String {
        let gpu = |mapped: &Mapped| {
            json!({
                "position": mapped.position,
                "device_uuid": mapped.uuid,
                "gpu_instance_id": mapped.instance,
            })
        };
        let gpus = self.0.iter().map(|(number, devices)| {
            let devices: Vec<Value> = devices.iter().map(gpu).collect();
            (number.to_string(), Value::from(devices))
        });
        let document = Value::Object(gpus.collect());
        STANDARD.encode(document.to_string())
    }

    /// Reads an annotation's value, also in the older form `{"<gpu>": {"<position>": "<uuid>"}}`.
    pub fn read(text: &str) -> Result<Mapping> {
        let bad = |problem: &str| Error::MigMapping {
            problem: problem.to_owned(),
        };
        if text.len() > LONGEST {
            return Err(bad("it is too long"));
        }
        // Annotations made by hand may hold the JSON itself, and broken lines.
        let joined: String = text.split_ascii_whitespace().collect();
        let json = STANDARD
            .decode(&joined)
            .unwrap_or_else(|_| text.as_bytes().to_vec());
        let value: Value = serde_json::from_slice(&json)
            .map_err(|error| bad(&format!("it is no JSON: {error}")))?;
        let gpus = value
            .as_object()
            .ok_or_else(|| bad("it is no mapping of GPUs"))?;
        let mut mapping = Mapping::default();
        for (gpu, devices) in gpus {
            let gpu = gpu.parse().map_err(|_| bad("a GPU's index is no number"))?;
            let devices = match devices {
                Value::Array(list) => list.iter().map(listed).collect::<Option<Vec<_>>>(),
                Value::Object(old) => {
                    let old = old.iter().map(|(position, uuid)| {
                        Some(Mapped {
                            position: position.parse().ok()?,
                            uuid: uuid.as_str()?.to_owned(),
                            instance: None,
                        })
                    });
                    old.collect()
                }
                _ => None,
            };
            let devices = devices.ok_or_else(|| bad("a device has no position or no id"))?;
            mapping.0.insert(gpu, devices);
        }
        Ok(mapping)
    }
}

fn listed(device: &Value) -> Option<Mapped> {
    Some(Mapped {
        position: u32::try_from(device.get("position")?.as_u64()?).ok()?,
        uuid: device.get("device_uuid")?.as_str()?.to_owned(),
        instance: device
            .get("gpu_instance_id")
            .and_then(Value::as_u64)
            .and_then(|id| u32::try_from(id).ok()),
    })
}

/// The device that a pod's `runai-mig-device` names: JSON with `gpuindex` and `position`, either as number or as text.
pub fn pin(text: &str) -> Result<Place> {
    let bad = |problem: String| Error::MigDevice { problem };
    if text.len() > LONGEST {
        return Err(bad("it is too long".into()));
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| bad(format!("it is no JSON: {error}")))?;
    let number = |key: &str| {
        let found = value.as_object().into_iter().flatten();
        let mut found = found.filter(|(name, _)| name.eq_ignore_ascii_case(key));
        let (_, value) = found
            .next()
            .ok_or_else(|| bad(format!("it has no `{key}`")))?;
        let number = match value {
            Value::String(text) => text.parse().ok(),
            value => value.as_u64().and_then(|number| u32::try_from(number).ok()),
        };
        number.ok_or_else(|| bad(format!("`{key}` is no whole number")))
    };
    Ok(Place {
        gpu: number("gpuindex")?,
        start: Some(number("position")?),
    })
}
