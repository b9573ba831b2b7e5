//! Every model of the catalogue, read back through NVML.

use std::time::{SystemTime, UNIX_EPOCH};

use mirage_state::layout::{board_flags, flags, text, valid};
use nvidia_ml::abi::{
    FieldValue, Memory, MemoryV2, PciInfo, Process, ProcessUtilization, RemappedRows, Sample,
    Temperature,
};
use nvidia_ml::arg::Versioned;

use super::*;

const MODELS: [&str; 19] = [
    "a10",
    "a100-sxm4-40gb",
    "a100-sxm4-80gb",
    "a30",
    "b200-sxm6-180gb",
    "b300-sxm6",
    "gb200",
    "gb300",
    "gh200-480gb",
    "h100-nvl-94gb",
    "h100-pcie-80gb",
    "h100-sxm5-80gb",
    "h200-sxm5-141gb",
    "l4",
    "l40s",
    "rtx-pro-6000-bse",
    "t4",
    "tesla-k80",
    "v100-sxm2-32gb",
];

/// One field value, or its own code.
pub(super) fn field(gpu: Handle, id: u32, scope: u32) -> Result<u64, u32> {
    let mut value = FieldValue {
        id,
        scope,
        ..FieldValue::default()
    };
    assert_eq!(nvmlDeviceGetFieldValues(gpu, 1, &mut value), 0);
    if value.code == 0 {
        Ok(value.value)
    } else {
        Err(value.code)
    }
}

/// The counter sets of NVLink 2, as fields and by their own call.
#[test]
fn counter_sets_count_what_links_carried_until_ampere() {
    let mut image = node::idle("v100-sxm2-32gb", 2);
    image.lives[0].nvlink_tx_bytes = 6_000;
    image.lives[0].nvlink_rx_bytes = 602;
    let client = Client::of(&image);
    let (mut received, mut sent) = (0, 0);
    assert_eq!(
        nvmlDeviceGetNvLinkUtilizationCounter(gpu(0), 5, 0, &mut received, &mut sent),
        0
    );
    for (lane, sum) in [(60, 66), (67, 73)] {
        assert_eq!(field(gpu(0), sum, 0), Ok(6_602));
        assert_eq!(field(gpu(0), lane + 5, 0), Ok(received + sent));
        let lanes = (lane..lane + 6).map(|id| field(gpu(0), id, 0).expect("a count"));
        assert_eq!(lanes.sum::<u64>(), 6_602);
    }
    // Link 6 is one more than there are.
    assert_eq!(field(gpu(0), 120, 0), Err(2));
    drop(client);
    let _client = Client::of(&node::idle("a100-sxm4-40gb", 1));
    assert_eq!(field(gpu(0), 66, 0), Err(3));
}

/// A row that waits for a reset is remapped, and not active yet.
#[test]
fn a_pending_row_is_not_active() {
    let mut image = node::idle("a100-sxm4-40gb", 1);
    image.lives[0].remapped_correctable = 1;
    image.lives[0].remapped_uncorrectable = 2;
    let mut client = Client::of(&image);
    let rows = || {
        let mut rows = RemappedRows::default();
        assert_eq!(nvmlDeviceGetRemappedRows_v2(gpu(0), &mut rows), 0);
        let inactive = [301, 302].map(|id| field(gpu(0), id, 0));
        assert_eq!(
            inactive,
            [
                Ok(rows.corrected_inactive.into()),
                Ok(rows.uncorrected_inactive.into())
            ]
        );
        assert_eq!([142, 143].map(|id| field(gpu(0), id, 0)), [Ok(1), Ok(2)]);
        (
            rows.corrected_active,
            rows.uncorrected_active,
            rows.uncorrected_inactive,
            rows.pending,
        )
    };
    assert_eq!(rows(), (1, 2, 0, 0));
    image.lives[0].flags |= flags::REMAP_PENDING;
    client.update(&image);
    assert_eq!(rows(), (1, 1, 1, 1));
}

#[test]
fn every_model_reads_back_as_its_state_says() {
    for model in MODELS {
        let image = node::idle(model, 2);
        let _client = Client::of(&image);
        let (card, live) = (&image.cards[1], &image.lives[1]);
        let board = &image.statics.boards[card.board as usize];
        let gpu = gpu(1);
        assert_eq!(
            words(|to, room| nvmlDeviceGetName(gpu, to, room)).as_deref(),
            Ok(text(&board.name))
        );
        assert_eq!(
            words(|to, room| nvmlDeviceGetUUID(gpu, to, room)).as_deref(),
            Ok(text(&card.uuid))
        );
        let mut memory = Memory::default();
        assert_eq!(nvmlDeviceGetMemoryInfo(gpu, &mut memory), 0);
        assert_eq!(memory.total, card.memory_total, "{model}");
        assert_eq!(memory.used, live.memory_used + board.memory_reserved);
        assert_eq!(memory.total, memory.free + memory.used);
        let mut memory = MemoryV2 {
            version: MemoryV2::WORD,
            ..MemoryV2::default()
        };
        assert_eq!(nvmlDeviceGetMemoryInfo_v2(gpu, &mut memory), 0);
        assert_eq!(
            (memory.used, memory.reserved),
            (live.memory_used, board.memory_reserved)
        );
        // Boards without confidential computing protect nothing as well, and say so.
        let mut protected = Memory {
            used: 1,
            ..Memory::default()
        };
        assert_eq!(
            nvmlDeviceGetConfComputeProtectedMemoryUsage(gpu, &mut protected),
            0,
            "{model}"
        );
        assert_eq!((protected.total, protected.used, protected.free), (0, 0, 0));
        let mut heat = Temperature {
            version: Temperature::WORD,
            ..Temperature::default()
        };
        assert_eq!(nvmlDeviceGetTemperatureV(gpu, &mut heat), 0);
        assert_eq!(heat.temperature, live.temperature_c);
        assert_eq!(
            number(|to| nvmlDeviceGetTemperature(gpu, 0, to)),
            Ok(live.temperature_c as u32)
        );
        assert_eq!(
            number(|to| nvmlDeviceGetEnforcedPowerLimit(gpu, to)),
            Ok(live.enforced_limit_mw)
        );
        assert_eq!(
            number(|to| nvmlDeviceGetClockInfo(gpu, 1, to)),
            Ok(live.sm_mhz)
        );
        let fan = number(|to| nvmlDeviceGetFanSpeed(gpu, to));
        assert_eq!(
            fan.is_ok(),
            live.valid & valid::FAN != 0,
            "{model}: no fan, no speed"
        );
        let encoder = number(|to| nvmlDeviceGetEncoderUtilization(gpu, to, &mut 0));
        assert_eq!(encoder.is_ok(), live.valid & valid::ENCODER != 0, "{model}");
        // By bus id in both widths, and by serial.
        let mut pci = PciInfo::default();
        assert_eq!(nvmlDeviceGetPciInfo_v3(gpu, &mut pci), 0);
        for id in [&pci.bus_id[..], &pci.bus_id_legacy[..]] {
            let mut found = handle();
            assert_eq!(
                nvmlDeviceGetHandleByPciBusId_v2(id.as_ptr().cast(), &mut found),
                0
            );
            assert_eq!(found, gpu, "{model}");
        }
        // Limits are margins or absolute, never both by field.
        let margin = board.flags & board_flags::MARGIN_LIMITS != 0;
        assert_eq!(field(gpu, 194, 0).is_ok(), margin, "{model}");
        assert_eq!(
            field(gpu, 82, 0).is_ok(),
            live.valid & valid::MEMORY_TEMPERATURE != 0,
            "{model}"
        );
        assert_eq!(field(gpu, 91, 0), Ok(board.nvlink_links.into()));
        assert_eq!(field(gpu, 186, 0), Ok(live.power_mw.into()));
        assert_eq!(field(gpu, 0, 0), Err(2));
        assert_eq!(field(gpu, 100_000, 0), Err(2));
        let link = number(|to| nvmlDeviceGetNvLinkState(gpu, 0, to));
        assert_eq!(link.is_ok(), board.nvlink_links > 0, "{model}");
        if board.nvlink_links > 0 {
            let past = number(|to| nvmlDeviceGetNvLinkState(gpu, board.nvlink_links, to));
            assert_eq!(past, Err(2), "{model}: a link past the last");
        }
        let mode = number(|to| nvmlDeviceGetMigMode(gpu, to, &mut 0));
        assert_eq!(
            mode,
            if board.max_mig_instances > 0 {
                Ok(0)
            } else {
                Err(3)
            },
            "{model}"
        );
        let ecc = number(|to| nvmlDeviceGetEccMode(gpu, to, &mut 0));
        assert_eq!(ecc.is_ok(), board.flags & board_flags::ECC != 0, "{model}");
    }
}

#[test]
fn sixteen_and_seventy_two_gpus_are_all_there() {
    for count in [16, 72] {
        let image = node::idle("h100-sxm5-80gb", count);
        let _client = Client::of(&image);
        assert_eq!(number(|to| nvmlDeviceGetCount_v2(to)), Ok(count));
        for index in 0..count {
            assert_eq!(
                number(|to| nvmlDeviceGetMinorNumber(gpu(index), to)),
                Ok(index)
            );
        }
        let past = nvmlDeviceGetHandleByIndex_v2(count, &mut handle());
        assert_eq!(past, 2);
    }
}

#[test]
fn lists_are_negotiated_by_size() {
    let mut image = node::idle("a100-sxm4-40gb", 1);
    for pid in 1..=3 {
        node::start(&mut image, 0, pid, "train", None);
    }
    let _client = Client::of(&image);
    let gpu = gpu(0);
    let mut count = 0;
    assert_eq!(
        nvmlDeviceGetComputeRunningProcesses_v3(gpu, &mut count, null_mut()),
        7
    );
    assert_eq!(count, 3);
    let mut room = [Process::default(); 4];
    count = 2;
    assert_eq!(
        nvmlDeviceGetComputeRunningProcesses_v3(gpu, &mut count, room.as_mut_ptr()),
        7
    );
    assert_eq!(count, 3);
    count = 4;
    assert_eq!(
        nvmlDeviceGetComputeRunningProcesses_v3(gpu, &mut count, room.as_mut_ptr()),
        0
    );
    assert_eq!((count, room[2].pid, room[2].gi), (3, 3, u32::MAX));
    // None of the other kinds: an empty list is no error.
    count = 0;
    assert_eq!(
        nvmlDeviceGetGraphicsRunningProcesses_v3(gpu, &mut count, null_mut()),
        0
    );
    assert_eq!(count, 0);
    assert_eq!(
        words(|to, room| nvmlSystemGetProcessName(2, to, room)).as_deref(),
        Ok("train")
    );
    assert_eq!(
        nvmlDeviceGetProcessUtilization(gpu, null_mut(), &mut count, 0),
        7
    );
    assert_eq!(count, 3);
    assert_eq!(
        nvmlDeviceGetProcessUtilization(gpu, null_mut(), &mut count, u64::MAX),
        6
    );
}

#[test]
fn a_lost_gpu_says_so_and_keeps_its_name() {
    let mut image = node::idle("a100-sxm4-40gb", 2);
    let mut client = Client::of(&image);
    let lost = gpu(0);
    image.lives[0].flags |= flags::LOST;
    client.update(&image);
    assert_eq!(number(|to| nvmlDeviceGetTemperature(lost, 0, to)), Err(15));
    assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, &mut handle()), 15);
    assert!(words(|to, room| nvmlDeviceGetUUID(lost, to, room)).is_ok());
    assert!(number(|to| nvmlDeviceGetTemperature(gpu(1), 0, to)).is_ok());
    // It heals.
    image.lives[0].flags &= !flags::LOST;
    client.update(&image);
    assert!(number(|to| nvmlDeviceGetTemperature(lost, 0, to)).is_ok());
    // An injected failure of the interface.
    image.lives[0].api_code = 999;
    client.update(&image);
    assert_eq!(number(|to| nvmlDeviceGetTemperature(lost, 0, to)), Err(999));
}

/// Unix time of the machine, ms.
fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_millis() as u64
}

#[test]
fn samples_go_on_between_ticks() {
    let mut image = node::idle("a100-sxm4-40gb", 1);
    node::start(&mut image, 0, 4242, "train", None);
    let newest = |image: &Image, seen_us: u64| {
        let _client = Client::of(image);
        let (mut busy, mut one, mut count) = (ProcessUtilization::default(), Sample::default(), 1);
        let device = gpu(0);
        let code = nvmlDeviceGetProcessUtilization(device, &mut busy, &mut count, seen_us);
        let (mut kind, mut count) = (0, 1);
        let same = nvmlDeviceGetSamples(device, 1, seen_us, &mut kind, &mut count, &mut one);
        assert_eq!(same, code);
        if code == 0 {
            Ok((busy.time_us, one.time_us))
        } else {
            Err(code)
        }
    };
    // Its last tick is a minute old, the next one not due: clients that ask for the last second get it.
    let now_ms = wall_ms();
    image.header.unix_ms = now_ms - 60_000;
    let (process, device) = newest(&image, now_ms * 1000 - 1_000_000).expect("it is news");
    let since = (now_ms - 1000) * 1000..=wall_ms() * 1000 + 999;
    assert!(since.contains(&process), "{process} in {since:?}");
    assert!(since.contains(&device), "{device} in {since:?}");
    // Where time stands still, or goes by another clock, samples do not go past the next tick.
    image.header.period_ms = 1000;
    let last = (now_ms - 60_000) * 1000 + 5 * 167_000;
    assert_eq!(newest(&image, 0), Ok((last, last)));
    assert_eq!(newest(&image, last), Err(6));
    image.header.unix_ms = now_ms + 3_600_000;
    let tick = image.header.unix_ms * 1000;
    assert_eq!(newest(&image, 0), Ok((tick, tick)));
}
