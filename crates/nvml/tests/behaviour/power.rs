//! What only some boards have: workload power profiles, the power of a module, a bridge, a black box.

use std::os::unix::net::UnixListener;

use nvidia_ml::abi::{
    BridgeChips, CurrentProfiles, ProfilesInfo, RequestedProfiles, SmoothingState, UpdateProfiles,
};
use nvidia_ml::arg::Versioned;

use super::readings::field;
use super::settings::engine;
use super::*;

const MAX_P: u32 = 1;
const MAX_Q: u32 = 1 << 1;
const BALANCED: u32 = 1 << 5;
/// NVML's number for the power scope of a module.
const MODULE: u32 = 1;

fn requested(mask: u32) -> RequestedProfiles {
    RequestedProfiles {
        version: RequestedProfiles::WORD,
        mask: [mask, 0, 0, 0, 0, 0, 0, 0],
    }
}

#[test]
fn workload_profiles_are_told_with_their_conflicts() {
    let mut image = node::idle("b200-sxm6-180gb", 1);
    image.lives[0].profiles_requested = MAX_P | MAX_Q;
    image.lives[0].profiles_enforced = MAX_P;
    let _client = Client::of(&image);
    // A caller that does not clear what it passes.
    let mut info = ProfilesInfo {
        version: ProfilesInfo::WORD,
        offered: [u32::MAX; 8],
        profiles: [[u32::MAX; 11]; 255],
    };
    assert_eq!(
        nvmlDeviceWorkloadPowerProfileGetProfilesInfo(gpu(0), &mut info),
        0
    );
    let [offered, rest @ ..] = info.offered;
    assert_eq!(
        (offered & (MAX_P | MAX_Q | BALANCED), rest),
        (MAX_P | MAX_Q | BALANCED, [0; 7])
    );
    let [word, id, priority, conflicts, ..] = info.profiles[1];
    assert_eq!((word, id, conflicts), (0x0100_002c, 1, MAX_P | BALANCED));
    assert!(info.profiles[0][2] < priority && priority < info.profiles[5][2]);
    let absent = (0..255).filter(|id| *id >= 32 || offered >> id & 1 == 0);
    assert!(absent.into_iter().all(|id| info.profiles[id] == [0; 11]));

    let mut now = CurrentProfiles {
        version: CurrentProfiles::WORD,
        ..CurrentProfiles::default()
    };
    assert_eq!(
        nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(gpu(0), &mut now),
        0
    );
    assert_eq!(
        (now.offered[0], now.requested[0], now.enforced[0]),
        (offered, MAX_P | MAX_Q, MAX_P)
    );
}

#[test]
fn workload_profiles_are_asked_of_the_engine() {
    let image = node::idle("b200-sxm6-180gb", 1);
    let client = Client::of(&image);
    let gpu = gpu(0);
    let set = |mask| nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(gpu, &mut requested(mask));
    assert_eq!(set(MAX_Q), 4, "no engine, no permission");
    assert_eq!(set(1 << 31), 2, "not offered");
    let listener = UnixListener::bind(client.path("control.sock")).expect("a socket");
    let engine = engine(listener, vec!["{\"code\":0}"; 3]);
    assert_eq!(set(MAX_Q), 0);
    assert_eq!(
        nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(gpu, &mut requested(MAX_P)),
        0
    );
    let mut update = UpdateProfiles {
        operation: 2,
        mask: [BALANCED, 0, 0, 0, 0, 0, 0, 0],
    };
    assert_eq!(
        nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(gpu, &mut update),
        0
    );
    update.operation = 3;
    assert_eq!(
        nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(gpu, &mut update),
        2
    );
    let asked = engine.join().expect("the engine ends");
    let wanted = [(1, MAX_Q), (0, MAX_P), (2, BALANCED)];
    for (line, (change, mask)) in asked.iter().zip(wanted) {
        assert!(
            line.ends_with(&format!("\"change\":{change},\"mask\":{mask}}}\n")),
            "{line}"
        );
    }
}

#[test]
fn power_smoothing_is_the_baseboards_to_change() {
    for (model, code) in [("gb200", 4), ("h100-sxm5-80gb", 3)] {
        let _client = Client::of(&node::idle(model, 1));
        let mut state = SmoothingState {
            version: SmoothingState::WORD,
            on: 1,
        };
        assert_eq!(
            nvmlDevicePowerSmoothingSetState(gpu(0), &mut state),
            code,
            "{model}"
        );
        let profiles = &mut requested(MAX_Q);
        let set = nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(gpu(0), profiles);
        assert_eq!(set, code, "{model}: without an engine");
    }
}

#[test]
fn a_module_draws_what_its_gpus_and_the_rest_of_it_draw() {
    let image = node::idle("gb200", 4);
    let _client = Client::of(&image);
    for (module, mates) in [(0, [0, 1]), (1, [2, 3])] {
        let gpus: u64 = mates
            .iter()
            .map(|&at| field(gpu(at), 186, 0).expect("power"))
            .sum();
        for at in mates {
            let drawn = field(gpu(at), 186, MODULE).expect("module power");
            assert_eq!(drawn, gpus + 135_000, "module {module}");
            assert_eq!(field(gpu(at), 187, MODULE), Ok(500_000));
            assert_eq!(field(gpu(at), 190, MODULE), Ok(2_500_000));
        }
    }
}

#[test]
fn two_gpus_of_a_board_share_a_bridge() {
    let mut chips = BridgeChips::default();
    let client = Client::of(&node::idle("tesla-k80", 2));
    assert_eq!(nvmlDeviceGetBridgeChipInfo(gpu(1), &mut chips), 0);
    assert_eq!((chips.count, chips.chips[0]), (1, [0, 0xF047_2900]));
    drop(client);
    let _client = Client::of(&node::idle("t4", 1));
    assert_eq!(nvmlDeviceGetBridgeChipInfo(gpu(0), &mut chips), 3);
}

#[test]
fn a_black_box_is_written_in_its_time() {
    let mut image = node::idle("h100-sxm5-80gb", 1);
    let mut client = Client::of(&image);
    let flushed = || {
        let (mut when, mut micros) = (0, 0);
        match nvmlDeviceGetLastBBXFlushTime(gpu(0), &mut when, &mut micros) {
            0 => Ok((when, micros)),
            code => Err(code),
        }
    };
    assert_eq!(flushed(), Err(27), "not yet");
    let mut run_for = |hours: u64| {
        image.header.sim_ms += hours * 3_600_000;
        image.header.unix_ms += hours * 3_600_000;
        client.update(&image);
        image.header.unix_ms * 1000
    };
    let now = run_for(24);
    let (first, micros) = flushed().expect("a day is enough");
    assert!(first <= now && micros > 0);
    run_for(24);
    let (second, _) = flushed().expect("still");
    assert_eq!((second - first) % (12 * 3_600_000_000), 0);
    assert!(second > first);
    let mut seconds = 0;
    assert_eq!(nvmlDeviceGetBBXTimeData_v1(gpu(0), &mut seconds), 0);
    assert_eq!(seconds, 48 * 3600);
}

#[test]
fn time_lost_to_heat_is_told_by_reason() {
    let mut image = node::idle("h100-sxm5-80gb", 1);
    let live = &mut image.lives[0];
    live.violations.thermal_ns = 9;
    (live.sw_thermal_ns, live.hw_thermal_ns) = (5, 7);
    let _client = Client::of(&image);
    let times = [75, 269, 270].map(|id| field(gpu(0), id, 0));
    assert_eq!(times, [Ok(9), Ok(5), Ok(7)]);
}
