//! Workload power profiles: what a board offers, what was asked for, what of it is in force; and power smoothing, which
//! Blackwell boards have for others than the operating system's users.

use crate::abi::{
    CurrentProfiles, ProfilesInfo, RequestedProfiles, SmoothingProfile, SmoothingState,
    UpdateProfiles,
};
use crate::arg::{Out, limit};
use crate::code::{Answer, Fault};
use crate::control::{Value, request};
use crate::device::Gpu;

/// Words of a mask of 255 profiles; the state knows the first.
type Mask = [u32; 8];
/// Version word of one profile in the list of all.
const INFO_WORD: u32 = 1 << 24 | 44;
const CLEAR: u32 = 0;
const SET: u32 = 1;
/// Clear, set, overwrite.
const OPERATIONS: u32 = 3;
const SMOOTHING_PROFILES: u32 = 5;
const SMOOTHING_PARAMETERS: u32 = 8;

fn offered(gpu: &Gpu) -> Result<u32, Fault> {
    match gpu.board().workload_profiles {
        0 => Err(Fault::NotSupported),
        offered => Ok(offered),
    }
}

fn mask(profiles: u32) -> Mask {
    [profiles, 0, 0, 0, 0, 0, 0, 0]
}

/// `nvmlDeviceWorkloadPowerProfileGetProfilesInfo`: all 255 places are written, as callers do not clear them.
pub fn profiles_info(gpu: Gpu, out: Out<ProfilesInfo>) -> Answer {
    let board = gpu.board();
    let offered = offered(&gpu)?;
    let mut info = out.get();
    info.offered = mask(offered);
    for (id, place) in info.profiles.iter_mut().enumerate() {
        *place = [0; 11];
        if id < 32 && offered >> id & 1 != 0 {
            place[0] = INFO_WORD;
            place[1] = id as u32;
            place[2] = board.workload_priority[id].into();
            place[3] = board.workload_conflicts[id];
        }
    }
    out.set(info);
    Ok(())
}

/// `nvmlDeviceWorkloadPowerProfileGetCurrentProfiles`.
pub fn current_profiles(gpu: Gpu, out: Out<CurrentProfiles>) -> Answer {
    let offered = offered(&gpu)?;
    let live = gpu.live();
    let mut profiles = out.get();
    profiles.offered = mask(offered);
    profiles.requested = mask(live.profiles_requested);
    profiles.enforced = mask(live.profiles_enforced);
    out.set(profiles);
    Ok(())
}

fn update(gpu: &Gpu, operation: u32, mask: Mask) -> Answer {
    let offered = offered(gpu)?;
    let [first, rest @ ..] = mask;
    if first & !offered != 0 || rest != [0; 7] {
        return Err(Fault::InvalidArgument);
    }
    let args = [
        ("change", Value::Number(operation)),
        ("mask", Value::Number(first)),
    ];
    request(gpu, "update_profiles", &args).map(drop)
}

/// `nvmlDeviceWorkloadPowerProfileSetRequestedProfiles`: added to what is asked for already.
pub fn set_requested_profiles(gpu: Gpu, asked: Out<RequestedProfiles>) -> Answer {
    update(&gpu, SET, asked.get().mask)
}

/// `nvmlDeviceWorkloadPowerProfileClearRequestedProfiles`.
pub fn clear_requested_profiles(gpu: Gpu, asked: Out<RequestedProfiles>) -> Answer {
    update(&gpu, CLEAR, asked.get().mask)
}

/// `nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1`, whose struct has no version.
pub fn update_profiles(gpu: Gpu, asked: Out<UpdateProfiles>) -> Answer {
    let UpdateProfiles { operation, mask } = asked.get();
    update(&gpu, limit(operation, OPERATIONS)?, mask)
}

/// Refuses power smoothing: captured boards that offer workload profiles answer even root so, as it is the baseboard's to
/// change; others do not have it.
fn smoothing(gpu: &Gpu) -> Answer {
    offered(gpu)?;
    Err(Fault::NoPermission)
}

/// `nvmlDevicePowerSmoothingSetState`.
pub fn smoothing_set_state(gpu: Gpu, state: Out<SmoothingState>) -> Answer {
    limit(state.get().on, 2)?;
    smoothing(&gpu)
}

/// `nvmlDevicePowerSmoothingActivatePresetProfile`.
pub fn smoothing_activate(gpu: Gpu, preset: Out<SmoothingProfile>) -> Answer {
    limit(preset.get().profile, SMOOTHING_PROFILES)?;
    smoothing(&gpu)
}

/// `nvmlDevicePowerSmoothingUpdatePresetProfileParam`.
pub fn smoothing_update(gpu: Gpu, preset: Out<SmoothingProfile>) -> Answer {
    let preset = preset.get();
    limit(preset.profile, SMOOTHING_PROFILES)?;
    limit(preset.parameter, SMOOTHING_PARAMETERS)?;
    smoothing(&gpu)
}
