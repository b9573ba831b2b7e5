//! MIG: profiles, instances, and cutting a GPU.

use super::{Device, Result, check};
use crate::abi::{
    ComputeInstanceInfo, ComputeProfileInfoV2, GpuInstanceInfo, GpuProfileInfoV2, Placement,
};
use crate::arg::Versioned;
use crate::exports;
use crate::handle::Handle;

/// Profiles NVML numbers, of GPU instances and of compute instances.
const GPU_PROFILES: u32 = 18;
const COMPUTE_PROFILES: u32 = 9;
/// No GPU holds more instances.
const MOST: usize = 64;

const NOWHERE: Handle = Handle(std::ptr::null_mut());

/// A part of a GPU with its own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuInstance(Handle);

/// A part of a GPU instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComputeInstance(Handle);

impl Device {
    /// The MIG device with this number, if there is one.
    pub fn mig_device(self, index: u32) -> Result<Device> {
        let mut handle = NOWHERE;
        check(exports::nvmlDeviceGetMigDeviceHandleByIndex(
            self.0,
            index,
            &raw mut handle,
        ))?;
        Ok(Device(handle))
    }

    /// The MIG devices of a GPU; none while MIG is off.
    pub fn mig_devices(self) -> Vec<Device> {
        let most = self.max_mig_devices().unwrap_or(0);
        (0..most)
            .filter_map(|index| self.mig_device(index).ok())
            .collect()
    }

    /// What a GPU can be cut into.
    pub fn gpu_profiles(self) -> Vec<GpuProfileInfoV2> {
        let info = |index| {
            let mut info = GpuProfileInfoV2 {
                version: GpuProfileInfoV2::WORD,
                ..GpuProfileInfoV2::default()
            };
            let to = (&raw mut info).cast();
            check(exports::nvmlDeviceGetGpuInstanceProfileInfoV(
                self.0, index, to,
            ))
            .ok()?;
            Some(info)
        };
        (0..GPU_PROFILES).filter_map(info).collect()
    }

    /// How many more instances of a profile fit.
    pub fn remaining(self, profile: u32) -> Result<u32> {
        let mut count = 0;
        check(exports::nvmlDeviceGetGpuInstanceRemainingCapacity(
            self.0,
            profile,
            &raw mut count,
        ))?;
        Ok(count)
    }

    /// Where instances of a profile may lie.
    pub fn placements(self, profile: u32) -> Result<Vec<Placement>> {
        let mut list = [Placement::default(); MOST];
        let mut count = 0;
        check(exports::nvmlDeviceGetGpuInstancePossiblePlacements_v2(
            self.0,
            profile,
            list.as_mut_ptr(),
            &raw mut count,
        ))?;
        Ok(list.into_iter().take(count as usize).collect())
    }

    /// The GPU instances of a profile.
    pub fn gpu_instances(self, profile: u32) -> Result<Vec<GpuInstance>> {
        let mut list = [NOWHERE; MOST];
        let mut count = 0;
        check(exports::nvmlDeviceGetGpuInstances(
            self.0,
            profile,
            list.as_mut_ptr(),
            &raw mut count,
        ))?;
        Ok(list
            .into_iter()
            .take(count as usize)
            .map(GpuInstance)
            .collect())
    }

    /// The GPU instance with this number.
    pub fn gpu_instance(self, id: u32) -> Result<GpuInstance> {
        let mut handle = NOWHERE;
        check(exports::nvmlDeviceGetGpuInstanceById(
            self.0,
            id,
            &raw mut handle,
        ))?;
        Ok(GpuInstance(handle))
    }

    /// Cuts off an instance of a profile, at a place if one is given.
    pub fn create_gpu_instance(self, profile: u32, at: Option<Placement>) -> Result<GpuInstance> {
        let mut handle = NOWHERE;
        check(match at {
            None => exports::nvmlDeviceCreateGpuInstance(self.0, profile, &raw mut handle),
            Some(mut place) => exports::nvmlDeviceCreateGpuInstanceWithPlacement(
                self.0,
                profile,
                &raw mut place,
                &raw mut handle,
            ),
        })?;
        Ok(GpuInstance(handle))
    }
}

impl GpuInstance {
    /// Number, profile and place.
    pub fn info(self) -> Result<GpuInstanceInfo> {
        let mut info = GpuInstanceInfo::default();
        check(exports::nvmlGpuInstanceGetInfo(self.0, &raw mut info))?;
        Ok(info)
    }

    /// Gives the instance back.
    pub fn destroy(self) -> Result<()> {
        check(exports::nvmlGpuInstanceDestroy(self.0))
    }

    /// What the instance can be cut into.
    pub fn compute_profiles(self) -> Vec<ComputeProfileInfoV2> {
        let info = |index| {
            let mut info = ComputeProfileInfoV2 {
                version: ComputeProfileInfoV2::WORD,
                ..ComputeProfileInfoV2::default()
            };
            let to = (&raw mut info).cast();
            check(exports::nvmlGpuInstanceGetComputeInstanceProfileInfoV(
                self.0, index, 0, to,
            ))
            .ok()?;
            Some(info)
        };
        (0..COMPUTE_PROFILES).filter_map(info).collect()
    }

    /// How many more compute instances of a profile fit.
    pub fn remaining(self, profile: u32) -> Result<u32> {
        let mut count = 0;
        check(exports::nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
            self.0,
            profile,
            &raw mut count,
        ))?;
        Ok(count)
    }

    /// The compute instances of a profile.
    pub fn compute_instances(self, profile: u32) -> Result<Vec<ComputeInstance>> {
        let mut list = [NOWHERE; MOST];
        let mut count = 0;
        check(exports::nvmlGpuInstanceGetComputeInstances(
            self.0,
            profile,
            list.as_mut_ptr(),
            &raw mut count,
        ))?;
        Ok(list
            .into_iter()
            .take(count as usize)
            .map(ComputeInstance)
            .collect())
    }

    /// Makes a compute instance of a profile.
    pub fn create_compute_instance(self, profile: u32) -> Result<ComputeInstance> {
        let mut handle = NOWHERE;
        check(exports::nvmlGpuInstanceCreateComputeInstance(
            self.0,
            profile,
            &raw mut handle,
        ))?;
        Ok(ComputeInstance(handle))
    }
}

impl ComputeInstance {
    /// Number, profile and place.
    pub fn info(self) -> Result<ComputeInstanceInfo> {
        let mut info = ComputeInstanceInfo::default();
        check(exports::nvmlComputeInstanceGetInfo_v2(
            self.0,
            &raw mut info,
        ))?;
        Ok(info)
    }

    /// Gives the instance back.
    pub fn destroy(self) -> Result<()> {
        check(exports::nvmlComputeInstanceDestroy(self.0))
    }
}
