//! Event sets: who is told what, and when.

use mirage_state::layout::{Event, event_kinds};
use nvidia_ml::abi::{
    EventData, EventWaitV3, SystemEventData, SystemRegisterRequest, SystemSetRequest,
    SystemWaitRequest,
};
use nvidia_ml::arg::Versioned;

use super::*;

fn happen(image: &mut Image, gpu: u32, kind: u64, data: u64) {
    let number = image.header.event_head + 1;
    image.header.event_head = number;
    let (gi, ci) = (u32::MAX, u32::MAX);
    image.events.push(Event {
        number,
        kind,
        data,
        unix_ms: 1,
        gpu,
        gi,
        ci,
        reserved: 0,
    });
}

fn wait(set: Handle, timeout_ms: u32) -> Result<EventData, u32> {
    let mut data = EventData {
        device: handle(),
        kind: 0,
        data: 0,
        gi: 0,
        ci: 0,
    };
    match nvmlEventSetWait_v2(set, &mut data, timeout_ms) {
        0 => Ok(data),
        code => Err(code),
    }
}

#[test]
fn registered_kinds_of_registered_gpus_are_told_once() {
    let mut image = node::idle("a100-sxm4-40gb", 3);
    let mut client = Client::of(&image);
    let mut set = handle();
    assert_eq!(nvmlEventSetCreate(&mut set), 0);
    happen(&mut image, 0, event_kinds::XID, 13);
    client.update(&image);
    assert_eq!(nvmlDeviceRegisterEvents(gpu(0), event_kinds::XID, set), 0);
    assert_eq!(
        nvmlDeviceRegisterEvents(gpu(1), event_kinds::ECC_DOUBLE, set),
        0
    );
    assert_eq!(nvmlDeviceRegisterEvents(gpu(1), 1 << 50, set), 3);
    assert_eq!(
        wait(set, 0).err(),
        Some(10),
        "what was before registration is not told"
    );
    happen(&mut image, 2, event_kinds::XID, 31);
    happen(&mut image, 1, event_kinds::XID, 43);
    happen(&mut image, 0, event_kinds::XID, 79);
    happen(&mut image, 1, event_kinds::ECC_DOUBLE, 1);
    client.update(&image);
    let first = wait(set, 60_000).expect("told");
    assert_eq!(
        (first.device, first.kind, first.data),
        (gpu(0), event_kinds::XID, 79)
    );
    assert_eq!((first.gi, first.ci), (u32::MAX, u32::MAX));
    let second = wait(set, 60_000).expect("told");
    assert_eq!(
        (second.device, second.kind),
        (gpu(1), event_kinds::ECC_DOUBLE)
    );
    assert_eq!(wait(set, 0).err(), Some(10));
    assert_eq!(nvmlEventSetFree(set), 0);
    assert_eq!(wait(set, 0).err(), Some(2));
}

#[test]
fn a_waiter_is_told_while_it_waits() {
    let image = node::idle("a100-sxm4-40gb", 1);
    let mut client = Client::of(&image);
    let mut set = handle();
    assert_eq!(nvmlEventSetCreate(&mut set), 0);
    assert_eq!(nvmlDeviceRegisterEvents(gpu(0), event_kinds::XID, set), 0);
    let mut later = image.clone();
    happen(&mut later, 0, event_kinds::XID, 94);
    let mut writer = client.writer.take().expect("an engine runs");
    let engine = std::thread::spawn(move || {
        writer.update(&later).expect("the state is ours");
        writer
    });
    let told = wait(set, 60_000).expect("told");
    assert_eq!(told.data, 94);
    client.writer = Some(engine.join().expect("the engine ends"));
    assert_eq!(nvmlEventSetFree(set), 0);
}

#[test]
fn the_newest_wait_names_the_gpu_and_keeps_the_xid() {
    let mut image = node::idle("h100-sxm5-80gb", 2);
    let mut client = Client::of(&image);
    let mut set = handle();
    assert_eq!(nvmlEventSetCreate(&mut set), 0);
    let mut config = [0_u8; 104];
    assert_eq!(
        nvmlEventSetRegisterGpuOperationalEvents_v1(set, &mut config),
        0
    );
    happen(&mut image, 1, event_kinds::XID, 119);
    client.update(&image);
    let mut data = EventWaitV3 {
        timeout_ms: 60_000,
        ..EventWaitV3::default()
    };
    assert_eq!(nvmlEventSetWait_v3(set, &mut data), 0);
    let uuid = mirage_state::layout::text(&image.cards[1].uuid);
    assert_eq!(mirage_state::layout::text(&data.uuid), uuid);
    let mut context = [0, 0];
    assert_eq!(
        nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1(set, &mut context),
        0
    );
    assert_eq!(context[1], 119);
    assert_eq!(nvmlEventSetFree(set), 0);
}

#[test]
fn the_oldest_wait_leaves_what_is_behind_its_struct_alone() {
    const CANARY: u64 = 0x5EED_5EED_5EED_5EED;
    let mut image = node::idle("a100-sxm4-40gb", 1);
    let mut client = Client::of(&image);
    let mut set = handle();
    assert_eq!(nvmlEventSetCreate(&mut set), 0);
    assert_eq!(nvmlDeviceRegisterEvents(gpu(0), event_kinds::XID, set), 0);
    happen(&mut image, 0, event_kinds::XID, 48);
    client.update(&image);
    // Device, kind and data; the struct had no instance ids yet.
    let mut words = [CANARY; 4];
    assert_eq!(nvmlEventSetWait(set, words.as_mut_ptr().cast(), 60_000), 0);
    assert_eq!(words, [gpu(0).0 as u64, event_kinds::XID, 48, CANARY]);
    assert_eq!(nvmlEventSetFree(set), 0);
}

#[test]
fn a_system_set_misses_nothing_of_a_restarted_engine() {
    let mut image = node::idle("a100-sxm4-40gb", 1);
    // The engine before had told more than the new one has yet.
    for _ in 0..5 {
        happen(&mut image, 0, event_kinds::XID, 13);
    }
    let mut client = Client::of(&image);
    let mut made = SystemSetRequest {
        version: SystemSetRequest::WORD,
        ..SystemSetRequest::default()
    };
    assert_eq!(nvmlSystemEventSetCreate(&mut made), 0);
    let mut wish = SystemRegisterRequest {
        version: SystemRegisterRequest::WORD,
        kinds: 1,
        set: made.set,
        ..SystemRegisterRequest::default()
    };
    assert_eq!(nvmlSystemRegisterEvents(&mut wish), 0);
    let old = client.writer.take().expect("an engine runs");
    old.remove().expect("it leaves nothing");
    image.events.clear();
    image.header.event_head = 0;
    happen(&mut image, 0, event_kinds::UNAVAILABLE, 0);
    let mut writer = NodeDir::open(client.dir.path()).expect("the directory is free again");
    writer.publish(&image).expect("room for a state");
    client.writer = Some(writer);
    let mut told = SystemEventData::default();
    let mut ask = SystemWaitRequest {
        version: SystemWaitRequest::WORD,
        timeout_ms: 60_000,
        set: made.set,
        data: &raw mut told,
        room: 1,
        count: 0,
    };
    assert_eq!(nvmlSystemEventSetWait(&mut ask), 0);
    assert_eq!((ask.count, told.kind), (1, 1));
    assert_eq!(nvmlSystemEventSetFree(&mut made), 0);
}

#[test]
fn memory_errors_are_told_in_detail_by_newer_drivers() {
    let mut image = node::idle("a100-sxm4-40gb", 1);
    let detail = event_kinds::ECC_STORM
        | event_kinds::RETIREMENT_FAILED
        | event_kinds::CONTAINED
        | event_kinds::UNCONTAINED;
    for (driver, code) in [("550.163.01", 3), ("580.95.05", 0)] {
        image.header.driver = mirage_state::layout::fixed(driver);
        let mut client = Client::of(&image);
        let mut set = handle();
        assert_eq!(nvmlEventSetCreate(&mut set), 0);
        assert_eq!(nvmlDeviceRegisterEvents(gpu(0), detail, set), code);
        if code == 0 {
            let mut later = image.clone();
            happen(&mut later, 0, event_kinds::UNCONTAINED, 0);
            client.update(&later);
            let told = wait(set, 60_000).expect("told");
            assert_eq!(told.kind, event_kinds::UNCONTAINED);
        }
        assert_eq!(nvmlEventSetFree(set), 0);
    }
}
