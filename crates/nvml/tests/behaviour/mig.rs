//! A GPU cut into parts.

use mirage_state::layout::{fixed, text};
use nvidia_ml::abi::{
    ComputeInstanceInfo, DeviceAttributes, GpuInstanceInfo, GpuProfileInfo, GpuProfileInfoV2,
    Memory, Placement, Process, Uuid,
};
use nvidia_ml::arg::Versioned;

use super::*;

/// The id and number of a profile by its NVML index.
fn profile(gpu: Handle, index: u32) -> Result<GpuProfileInfo, u32> {
    let mut info = GpuProfileInfo::default();
    match nvmlDeviceGetGpuInstanceProfileInfo(gpu, index, &mut info) {
        0 => Ok(info),
        code => Err(code),
    }
}

fn cut_in_three() -> Image {
    let mut image = node::idle("a100-sxm4-40gb", 2);
    node::enable_mig(&mut image, 0);
    node::cut(&mut image, 0, "3g.20gb", 2, 0, 0);
    node::cut(&mut image, 0, "1g.5gb", 9, 4, 1);
    node::cut(&mut image, 0, "2g.10gb", 5, 6, 3);
    node::start(&mut image, 0, 77, "infer", Some((9, 0)));
    image
}

#[test]
fn mig_devices_are_found_named_and_measured() {
    let image = cut_in_three();
    let _client = Client::of(&image);
    let parent = gpu(0);
    assert_eq!(
        number(|to| nvmlDeviceGetMaxMigDeviceCount(parent, to)),
        Ok(7)
    );
    assert_eq!(
        number(|to| nvmlDeviceGetMaxMigDeviceCount(gpu(1), to)),
        Ok(0)
    );
    let mut names = Vec::new();
    for index in 0..7 {
        let mut device = handle();
        let code = nvmlDeviceGetMigDeviceHandleByIndex(parent, index, &mut device);
        if code != 0 {
            assert_eq!(code, 6, "an empty slot");
            continue;
        }
        names.push(words(|to, room| nvmlDeviceGetName(device, to, room)).expect("named"));
        assert_eq!(number(|to| nvmlDeviceGetIndex(device, to)), Ok(index));
        assert_eq!(number(|to| nvmlDeviceIsMigDeviceHandle(device, to)), Ok(1));
        let mut above = handle();
        assert_eq!(
            nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device, &mut above),
            0
        );
        assert_eq!(above, parent);
        let uuid = words(|to, room| nvmlDeviceGetUUID(device, to, room)).expect("a UUID");
        let uuid = std::ffi::CString::new(uuid).expect("no NUL");
        let mut same = handle();
        assert_eq!(nvmlDeviceGetHandleByUUID(uuid.as_ptr(), &mut same), 0);
        assert_eq!(same, device);
        let mut memory = Memory::default();
        assert_eq!(nvmlDeviceGetMemoryInfo(device, &mut memory), 0);
        assert_eq!(memory.used, 1 << 30);
        let mut attributes = DeviceAttributes::default();
        assert_eq!(nvmlDeviceGetAttributes_v2(device, &mut attributes), 0);
        assert_eq!(attributes.memory_mib << 20, memory.total);
        assert_eq!(
            attributes.gi_slices, attributes.ci_slices,
            "the compute instance fills it"
        );
        // What only a whole GPU has.
        assert_eq!(number(|to| nvmlDeviceGetTemperature(device, 0, to)), Err(3));
    }
    let name = text(&image.statics.boards[0].name);
    let wanted = ["3g.20gb", "1g.5gb", "2g.10gb"].map(|profile| format!("{name} MIG {profile}"));
    assert_eq!(names, wanted);
    assert_eq!(
        nvmlDeviceGetMigDeviceHandleByIndex(gpu(1), 0, &mut handle()),
        3
    );
    // Under MIG the whole GPU tells no utilisation, and who computes where.
    assert_eq!(
        nvmlDeviceGetUtilizationRates(parent, &mut Default::default()),
        3
    );
    let (mut count, mut process) = (1, Process::default());
    assert_eq!(
        nvmlDeviceGetComputeRunningProcesses_v3(parent, &mut count, &mut process),
        0
    );
    assert_eq!((count, process.pid, process.gi, process.ci), (1, 77, 9, 0));
}

#[test]
fn an_instance_is_not_told_what_its_neighbours_do() {
    let mut image = node::idle("h100-sxm5-80gb", 2);
    node::enable_mig(&mut image, 1);
    node::cut(&mut image, 1, "1g.10gb", 1, 0, 0);
    for live in &mut image.lives {
        (live.int_ppm, live.decoder_percent) = (70_000, 25);
    }
    let _client = Client::of(&image);
    // Integer activity, and the first decoder's.
    let tells = |take: &dyn Fn(Handle) -> u32| {
        let mut sample = handle();
        assert_eq!(nvmlGpmSampleAlloc(&mut sample), 0);
        assert_eq!(take(sample), 0);
        [4, 30].map(|id| {
            let mut request = GpmOfOne::new(sample, id);
            assert_eq!(nvmlGpmMetricsGet(&mut request.head), 0);
            match request.metric.code {
                0 => Ok(request.metric.value),
                code => Err(code),
            }
        })
    };
    assert_eq!(
        tells(&|sample| nvmlGpmSampleGet(gpu(0), sample)),
        [Ok(7.0), Ok(25.0)]
    );
    assert_eq!(
        tells(&|sample| nvmlGpmMigSampleGet(gpu(1), 1, sample)),
        [Err(3), Err(3)]
    );
}

#[test]
fn compute_instances_of_one_gpu_instance_are_sampled_together() {
    let mut image = node::idle("h100-sxm5-80gb", 1);
    node::enable_mig(&mut image, 0);
    node::cut(&mut image, 0, "2g.20gb", 1, 0, 0);
    // Two halves, of which the second works.
    let mut half = image.instances[0];
    let profile = image.statics.gpu_profiles[half.gpu_profile as usize];
    half.compute_profile = profile.compute_first;
    let sms = image.statics.compute_profiles[half.compute_profile as usize].sm_count;
    image.instances[0] = half;
    (half.ci, half.index, half.compute_start) = (1, 1, 1);
    half.uuid = fixed("MIG-00000000-0000-4000-8000-000000000777");
    (half.sm_active_ppm, half.dram_ppm) = (800_000, 300_000);
    image.instances.push(half);
    let _client = Client::of(&image);
    let mut sample = handle();
    assert_eq!(nvmlGpmSampleAlloc(&mut sample), 0);
    assert_eq!(nvmlGpmMigSampleGet(gpu(0), 1, sample), 0);
    let tells = [2, 10].map(|id| {
        let mut request = GpmOfOne::new(sample, id);
        assert_eq!(nvmlGpmMetricsGet(&mut request.head), 0);
        request.metric.value
    });
    let busy = 800_000 * sms / profile.sm_count;
    assert!(busy > 300_000);
    assert_eq!(tells, [f64::from(busy) / 10_000.0, 30.0]);
}

#[test]
fn what_has_no_uuid_is_found_under_none() {
    let mut image = cut_in_three();
    // A GPU instance without a compute instance.
    let instance = &mut image.instances[0];
    (instance.ci, instance.index) = (u32::MAX, u32::MAX);
    instance.uuid = [0; 48];
    let _client = Client::of(&image);
    let mut zeros = Uuid {
        version: Uuid::WORD,
        kind: 2,
        ..Uuid::default()
    };
    assert_eq!(nvmlDeviceGetHandleByUUIDV(&mut zeros, &mut handle()), 6);
}

#[test]
fn profiles_placements_and_capacity_follow_the_geometry() {
    let image = cut_in_three();
    let _client = Client::of(&image);
    let parent = gpu(0);
    assert_eq!(profile(parent, 18).err(), Some(2));
    assert_eq!(
        profile(parent, 5).err(),
        Some(3),
        "an A100 has no 8-slice profile"
    );
    let one = profile(parent, 0).expect("1g.5gb");
    assert_eq!((one.id, one.instances, one.memory_mib), (19, 7, 4864));
    let mut named = GpuProfileInfoV2 {
        version: GpuProfileInfoV2::WORD,
        ..GpuProfileInfoV2::default()
    };
    assert_eq!(
        nvmlDeviceGetGpuInstanceProfileInfoV(parent, 0, (&raw mut named).cast()),
        0
    );
    assert_eq!(text(&named.name), "MIG 1g.5gb");
    let (mut places, mut count) = ([Placement::default(); 8], 0);
    let all = nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        parent,
        one.id,
        places.as_mut_ptr(),
        &mut count,
    );
    assert_eq!((all, count, places[6].start, places[6].size), (0, 7, 6, 1));
    // Taken: slices 0–3 by 3g, 4 by 1g, 6 and 7 by 2g.
    assert_eq!(
        number(|to| nvmlDeviceGetGpuInstanceRemainingCapacity(parent, one.id, to)),
        Ok(1)
    );
    let two = profile(parent, 1).expect("2g.10gb");
    assert_eq!(
        number(|to| nvmlDeviceGetGpuInstanceRemainingCapacity(parent, two.id, to)),
        Ok(0)
    );
    assert_eq!(
        number(|to| nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(1), one.id, to)),
        Err(3)
    );
}

#[test]
fn instances_know_their_place() {
    let image = cut_in_three();
    let _client = Client::of(&image);
    let parent = gpu(0);
    let three = profile(parent, 2).expect("3g.20gb");
    let (mut found, mut count) = ([handle(); 2], 9);
    assert_eq!(
        nvmlDeviceGetGpuInstances(parent, three.id, found.as_mut_ptr(), &mut count),
        0
    );
    assert_eq!(count, 1, "the count is output only");
    let mut info = GpuInstanceInfo {
        device: handle(),
        id: 0,
        profile_id: 0,
        placement: Placement::default(),
    };
    assert_eq!(nvmlGpuInstanceGetInfo(found[0], &mut info), 0);
    assert_eq!(
        (info.device, info.id, info.profile_id),
        (parent, 2, three.id)
    );
    assert_eq!((info.placement.start, info.placement.size), (0, 4));
    let mut compute = handle();
    assert_eq!(
        nvmlGpuInstanceGetComputeInstanceById(found[0], 0, &mut compute),
        0
    );
    assert_eq!(
        nvmlGpuInstanceGetComputeInstanceById(found[0], 1, &mut handle()),
        6
    );
    let instance = found[0];
    let (mut places, mut placed) = ([Placement::default(); 8], 0);
    // The profile's places, though the compute instance takes them all.
    for (id, starts) in [(0, &[0, 1, 2][..]), (2, &[0][..])] {
        let to = places.as_mut_ptr();
        assert_eq!(
            nvmlGpuInstanceGetComputeInstancePossiblePlacements(instance, id, to, &mut placed),
            0
        );
        let found: Vec<u32> = places[..placed as usize].iter().map(|p| p.start).collect();
        assert_eq!(found, starts);
        let left = |to| nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, id, to);
        assert_eq!(number(left), Ok(0));
    }
    let mut info = ComputeInstanceInfo::default();
    assert_eq!(nvmlComputeInstanceGetInfo_v2(compute, &mut info), 0);
    assert_eq!(
        (info.device, info.gpu_instance, info.id),
        (parent, found[0], 0)
    );
    assert_eq!(nvmlDeviceGetGpuInstanceById(parent, 3, &mut handle()), 6);
    assert_eq!(
        nvmlGpuInstanceDestroy(found[0]),
        19,
        "it still has a compute instance"
    );
}

#[test]
fn what_a_whole_gpu_tells_is_not_told_under_mig() {
    let mut image = node::idle("a100-sxm4-40gb", 3);
    node::enable_mig(&mut image, 1);
    node::enable_mig(&mut image, 2);
    node::cut(&mut image, 2, "1g.5gb", 7, 0, 0);
    let _client = Client::of(&image);
    let codes = |gpu: Handle| {
        let (mut a, mut b, mut c, mut d) = (0, 0, 0, 0);
        [
            nvmlDeviceGetEncoderUtilization(gpu, &mut a, &mut b),
            nvmlDeviceGetDecoderUtilization(gpu, &mut a, &mut b),
            nvmlDeviceGetJpgUtilization(gpu, &mut a, &mut b),
            nvmlDeviceGetOfaUtilization(gpu, &mut a, &mut b),
            nvmlDeviceGetNvLinkState(gpu, 0, &mut a),
            nvmlDeviceGetRemappedRows(gpu, &mut a, &mut b, &mut c, &mut d),
        ]
    };
    // An A100 has no encoder, and tells that it is idle.
    assert_eq!(codes(gpu(0)), [0; 6]);
    assert_eq!(codes(gpu(1)), [3, 3, 3, 3, 3, 0], "no instance yet");
    assert_eq!(codes(gpu(2)), [3, 3, 3, 3, 3, 3]);
}
