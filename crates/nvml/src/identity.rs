//! Who a device is: names, numbers, versions, and the modes that say how it may be used.

use std::ffi::{c_char, c_ulong};

use mirage_state::layout::{board_flags, flags, text};

use crate::abi::{
    AddressingMode, DeviceCapabilities, GridFeatures, Pdi, PlatformInfo, PlatformInfoV1,
    RepairStatus, fixed,
};
use crate::arg::{Out, Text, Versioned};
use crate::code::{Answer, Fault};
use crate::device::{Gpu, Target, live};
use crate::handle::hash;

/// Turing, the first architecture with a GPU system processor.
const TURING: u32 = 6;

/// `nvmlDeviceGetName`: a MIG device adds its profile.
pub fn name(target: Target, out: Text) -> Answer {
    let name = text(&target.gpu().board().name);
    match target {
        Target::Gpu(_) => out.write(&[name]),
        Target::Mig(device) => {
            let whole = text(&device.profile()?.name);
            let compute = device.compute_profile()?;
            let part = if compute.whole != 0 {
                whole
            } else {
                text(&compute.name)
            };
            out.write(&[name, " MIG ", part])
        }
    }
}

/// `nvmlDeviceGetUUID`.
pub fn uuid(target: Target, out: Text) -> Answer {
    match target {
        Target::Gpu(gpu) => out.write(&[text(&gpu.card().uuid)]),
        Target::Mig(device) => out.write(&[text(&device.record()?.uuid)]),
    }
}

/// A text of the card or board that may be missing.
fn known(out: Text, field: &[u8]) -> Answer {
    match text(field) {
        "" => Err(Fault::NotSupported),
        value => out.write(&[value]),
    }
}

/// `nvmlDeviceGetSerial`.
pub fn serial(gpu: Gpu, out: Text) -> Answer {
    known(out, &gpu.card().serial)
}

/// `nvmlDeviceGetIndex`: of a MIG device, its index on its GPU.
pub fn index(target: Target, out: Out<u32>) -> Answer {
    out.set(match target {
        Target::Gpu(gpu) => gpu.visible_index(),
        Target::Mig(device) => crate::mig::visible_index(&device.gpu, device.instance.index),
    });
    Ok(())
}

/// `nvmlDeviceGetMinorNumber`.
pub fn minor_number(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.card().minor);
    Ok(())
}

/// `nvmlDeviceGetBoardId`.
pub fn board_id(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.card().board_id);
    Ok(())
}

/// `nvmlDeviceGetMultiGpuBoard`.
pub fn multi_gpu_board(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.board_has(board_flags::MULTI_GPU_BOARD).into());
    Ok(())
}

/// `nvmlDeviceOnSameBoard`.
pub fn on_same_board(one: Gpu, other: Gpu, out: Out<i32>) -> Answer {
    out.set((one.card().board_id == other.card().board_id).into());
    Ok(())
}

/// `nvmlDeviceGetBoardPartNumber`.
pub fn board_part_number(gpu: Gpu, out: Text) -> Answer {
    known(out, &gpu.board().part_number)
}

/// `nvmlDeviceGetModuleId`.
pub fn module_id(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.card().module_id);
    Ok(())
}

/// `nvmlDeviceGetBrand`.
pub fn brand(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.board().brand);
    Ok(())
}

/// `nvmlDeviceGetArchitecture`.
pub fn architecture(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.board().architecture);
    Ok(())
}

/// `nvmlDeviceGetCudaComputeCapability`.
pub fn cuda_compute_capability(target: Target, major: Out<i32>, minor: Out<i32>) -> Answer {
    let gpu = target.gpu();
    let board = gpu.board();
    major.set(board.cc_major as i32);
    minor.set(board.cc_minor as i32);
    Ok(())
}

/// `nvmlDeviceGetNumGpuCores`.
pub fn num_gpu_cores(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.board().core_count);
    Ok(())
}

/// `nvmlDeviceGetMemoryBusWidth`.
pub fn memory_bus_width(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.board().memory_bus_bits);
    Ok(())
}

/// `nvmlDeviceGetVbiosVersion`.
pub fn vbios_version(gpu: Gpu, out: Text) -> Answer {
    known(out, &gpu.board().vbios)
}

/// `nvmlDeviceGetInforomVersion`.
pub fn inforom_version(gpu: Gpu, object: u32, out: Text) -> Answer {
    let board = gpu.board();
    match object {
        0 => known(out, &board.inforom_oem),
        1 => known(out, &board.inforom_ecc),
        2 => known(out, &board.inforom_power),
        _ => Err(Fault::NotSupported),
    }
}

/// `nvmlDeviceGetInforomImageVersion`.
pub fn inforom_image_version(gpu: Gpu, out: Text) -> Answer {
    known(out, &gpu.board().inforom_image)
}

/// A board's black box is written for the first time after this long, and then as often. Captures show the last time some
/// hours back.
const FLUSH_EVERY_MS: u64 = 12 * 3_600_000;

/// `nvmlDeviceGetLastBBXFlushTime`: when (µs of the Unix clock, as all of NVML's times) the black box of the InfoROM was last written in this run, and for how
/// long (µs). Cards differ in both, and none has written before its time has come.
pub fn last_bbx_flush_time(gpu: Gpu, when: Out<u64>, micros: Out<c_ulong>) -> Answer {
    inforom(&gpu)?;
    let card = hash(&gpu.card().uuid);
    let reader = gpu.session.reader();
    let (run_ms, now_ms) = (reader.sim_ms(), reader.unix_ms());
    let first_ms = 60_000 + card % FLUSH_EVERY_MS;
    let Some(since_first) = run_ms.checked_sub(first_ms) else {
        return Err(Fault::NotReady);
    };
    let when_ms = now_ms.saturating_sub(since_first % FLUSH_EVERY_MS);
    when.set(when_ms.saturating_mul(1000));
    micros.set((40_000 + (card >> 32) % 100_000) as c_ulong);
    Ok(())
}

/// `nvmlDeviceGetBBXTimeData_v1`: seconds with the driver loaded; a simulated card's life begins with its node's.
pub fn bbx_time_data(gpu: Gpu, seconds: Out<u32>) -> Answer {
    inforom(&gpu)?;
    let run_s = gpu.session.reader().sim_ms() / 1000;
    seconds.set(u32::try_from(run_s).unwrap_or(u32::MAX));
    Ok(())
}

/// Refuses boards without an InfoROM.
fn inforom(gpu: &Gpu) -> Answer {
    if text(&gpu.board().inforom_image).is_empty() {
        return Err(Fault::NotSupported);
    }
    Ok(())
}

/// `nvmlDeviceGetInforomConfigurationChecksum`: a number that follows the configuration.
pub fn inforom_configuration_checksum(gpu: Gpu, out: Out<u32>) -> Answer {
    inforom(&gpu)?;
    let board = gpu.board();
    let ecc = u64::from(gpu.flag(flags::ECC_PENDING));
    out.set((hash(&board.inforom_image) ^ hash(&board.key) ^ ecc) as u32);
    Ok(())
}

/// `nvmlDeviceValidateInforom`: it is intact, whatever it holds.
pub fn validate_inforom(_: Gpu) -> Answer {
    Ok(())
}

/// `nvmlDeviceGetDisplayMode`, `nvmlDeviceGetDisplayActive`: no display is attached.
pub fn display(_: Gpu, out: Out<u32>) -> Answer {
    out.set(0);
    Ok(())
}

/// `nvmlDeviceGetPersistenceMode`.
pub fn persistence_mode(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.flag(flags::PERSISTENCE).into());
    Ok(())
}

/// `nvmlDeviceGetComputeMode`.
pub fn compute_mode(target: Target, out: Out<u32>) -> Answer {
    out.set(live!(target.gpu(), compute_mode));
    Ok(())
}

/// `nvmlDeviceGetVirtualizationMode`: bare metal.
pub fn virtualization_mode(_: Gpu, out: Out<u32>) -> Answer {
    out.set(0);
    Ok(())
}

/// `nvmlDeviceGetIrqNum`.
pub fn irq_num(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.card().irq());
    Ok(())
}

/// `nvmlDeviceGetBusType`: PCI Express.
pub fn bus_type(_: Gpu, out: Out<u32>) -> Answer {
    out.set(2);
    Ok(())
}

/// `nvmlDeviceGetGspFirmwareVersion`: the driver brings its firmware. The buffer has 64 bytes.
pub fn gsp_firmware_version(gpu: Gpu, out: Out<c_char>) -> Answer {
    if !gpu.board().has_firmware() {
        return Err(Fault::NotSupported);
    }
    Text::new(out.address(), 64)?.write(&[gpu.session.driver()])
}

/// `nvmlDeviceGetGspFirmwareMode`: on by default from Ampere on, off by choice on Turing.
pub fn gsp_firmware_mode(gpu: Gpu, enabled: Out<u32>, default: Out<u32>) -> Answer {
    let architecture = gpu.board().architecture;
    if !gpu.board().has_firmware() {
        return Err(Fault::NotSupported);
    }
    enabled.set((architecture > TURING).into());
    default.set((architecture > TURING).into());
    Ok(())
}

/// `nvmlDeviceGetPdi`: an identifier that stays with the board.
pub fn pdi(gpu: Gpu, out: Out<Pdi>) -> Answer {
    let mut info = out.get();
    info.value = hash(&gpu.card().uuid);
    out.set(info);
    Ok(())
}

/// `nvmlDeviceGetAddressingMode`: superchips translate addresses with their CPU.
pub fn addressing_mode(gpu: Gpu, out: Out<AddressingMode>) -> Answer {
    let mut info = out.get();
    info.mode = addressing(&gpu);
    out.set(info);
    Ok(())
}

/// 0 none, 2 address translation services.
pub fn addressing(gpu: &Gpu) -> u32 {
    if gpu.board_has(board_flags::C2C_ENABLED) {
        2
    } else {
        0
    }
}

/// `nvmlDeviceGetAPIRestriction`: root alone sets application clocks; auto boost is no longer a setting.
pub fn api_restriction(gpu: Gpu, api: u32, out: Out<u32>) -> Answer {
    if api == 1 && gpu.board().architecture > 3 {
        return Err(Fault::NotSupported);
    }
    out.set(1);
    Ok(())
}

/// `nvmlDeviceGetCapabilities`: bit 0, extended GPU memory, on superchips.
pub fn capabilities(gpu: Gpu, out: Out<DeviceCapabilities>) -> Answer {
    let mut info = out.get();
    info.mask = gpu.board_has(board_flags::C2C_ENABLED).into();
    out.set(info);
    Ok(())
}

/// `nvmlDeviceGetC2cModeInfoV`: the struct has a version constant but no version field.
pub fn c2c_mode_info(gpu: Gpu, out: Out<u32>) -> Answer {
    if !gpu.board_has(board_flags::C2C) {
        return Err(Fault::NotSupported);
    }
    out.set(gpu.board_has(board_flags::C2C_ENABLED).into());
    Ok(())
}

/// `nvmlDeviceGetPlatformInfo`, both versions: rack systems only.
pub fn platform_info(gpu: Gpu, out: Out<u32>) -> Answer {
    let word = out.get();
    if word != PlatformInfo::WORD && word != PlatformInfoV1::WORD {
        return Err(Fault::VersionMismatch);
    }
    if !gpu.board_has(board_flags::PLATFORM) {
        return Err(Fault::NotSupported);
    }
    let card = gpu.card();
    let mut ib_guid = [0; 16];
    ib_guid[..8].copy_from_slice(&hash(&card.uuid).to_be_bytes());
    let peer_type = u8::from(gpu.board_has(board_flags::SWITCHED));
    let (slot, tray, module) = (card.slot as u8, card.tray as u8, card.module_id as u8);
    if word == PlatformInfo::WORD {
        out.cast().set(PlatformInfo {
            version: word,
            ib_guid,
            chassis_serial: fixed(text(&card.chassis)),
            slot,
            tray,
            host: tray,
            peer_type,
            module,
            pad: [0; 3],
        });
    } else {
        out.cast().set(PlatformInfoV1 {
            version: word,
            ib_guid,
            rack_guid: fixed(text(&card.chassis)),
            slot,
            compute_slot: tray,
            node: tray,
            peer_type,
            module,
            pad: [0; 3],
        });
    }
    Ok(())
}

/// `nvmlDeviceGetGridLicensableFeatures` and its later forms: nothing to license on bare metal. Only the two
/// leading words are written, as the rest differs between the forms.
pub fn grid_licensable_features(_: Gpu, out: Out<GridFeatures>) -> Answer {
    out.field::<u32>(0).set(0);
    out.field::<u32>(4).set(0);
    Ok(())
}

/// `nvmlDeviceGetRepairStatus`: repairs wait for a reset, as remapped rows do.
pub fn repair_status(gpu: Gpu, out: Out<RepairStatus>) -> Answer {
    if gpu.board().architecture < 10 {
        return Err(Fault::NotSupported);
    }
    let mut info = out.get();
    info.channel = gpu.flag(flags::REMAP_PENDING).into();
    info.tpc = 0;
    out.set(info);
    Ok(())
}

/// `nvmlDeviceGetUnrepairableMemoryFlag_v1`.
pub fn unrepairable_memory_flag(gpu: Gpu, out: Out<u32>) -> Answer {
    if !gpu.board_has(board_flags::ROW_REMAP) {
        return Err(Fault::NotSupported);
    }
    out.set(gpu.flag(flags::REMAP_FAILED).into());
    Ok(())
}
