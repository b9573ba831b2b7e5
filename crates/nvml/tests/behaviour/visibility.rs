//! Which GPUs a process sees, numbered anew.

use mirage_state::layout::{text, vendors};

use super::*;

fn with(name: &str, value: &str) {
    // SAFETY: tests of this process run one after another, and none reads the environment in a thread.
    unsafe { std::env::set_var(name, value) };
}

#[test]
fn visible_gpus_are_numbered_from_zero() {
    let image = node::idle("a100-sxm4-40gb", 4);
    let client = Client::without_init(&image);
    with("MIRAGE_VISIBLE_DEVICES", "1,3");
    client.init();
    assert_eq!(number(|to| nvmlDeviceGetCount_v2(to)), Ok(2));
    let uuid = words(|to, room| nvmlDeviceGetUUID(gpu(1), to, room));
    assert_eq!(uuid.as_deref(), Ok(text(&image.cards[3].uuid)));
    assert_eq!(number(|to| nvmlDeviceGetIndex(gpu(1), to)), Ok(1));
    assert_eq!(number(|to| nvmlDeviceGetMinorNumber(gpu(1), to)), Ok(3));
    // What is hidden is not found by name either.
    assert_eq!(
        nvmlDeviceGetHandleByUUID(image.cards[0].uuid.as_ptr().cast(), &mut handle()),
        6
    );
}

#[test]
fn no_visible_gpu_is_no_error() {
    let client = Client::without_init(&node::idle("a100-sxm4-40gb", 4));
    with("NVIDIA_VISIBLE_DEVICES", "void");
    client.init();
    assert_eq!(number(|to| nvmlDeviceGetCount_v2(to)), Ok(0));
}

#[test]
fn boards_of_other_makers_are_not_shown() {
    let client = Client::without_init(&node::idle("mi300x", 2));
    assert_eq!(nvmlInit_v2(), 9, "their machine has another driver");
    drop(client);
    let mut image = node::idle("a100-sxm4-40gb", 3);
    let mut statics = (*image.statics).clone();
    let mut other = statics.boards[0];
    other.vendor = vendors::AMD;
    statics.boards.push(other);
    image.statics = statics.into();
    let mut cards = image.cards.to_vec();
    cards[1].board = 1;
    image.cards = cards.into();
    let _client = Client::of(&image);
    assert_eq!(number(|to| nvmlDeviceGetCount_v2(to)), Ok(2));
    assert_eq!(number(|to| nvmlDeviceGetMinorNumber(gpu(1), to)), Ok(2));
    let uuid = image.cards[1].uuid.as_ptr().cast();
    assert_eq!(nvmlDeviceGetHandleByUUID(uuid, &mut handle()), 6);
}

#[test]
fn a_mig_device_can_be_all_there_is() {
    let mut image = node::idle("a100-sxm4-40gb", 2);
    node::enable_mig(&mut image, 1);
    node::cut(&mut image, 1, "1g.5gb", 7, 0, 0);
    node::cut(&mut image, 1, "1g.5gb", 8, 1, 1);
    let client = Client::without_init(&image);
    with("NVIDIA_VISIBLE_DEVICES", text(&image.instances[1].uuid));
    client.init();
    assert_eq!(number(|to| nvmlDeviceGetCount_v2(to)), Ok(1));
    let mut device = handle();
    assert_eq!(
        nvmlDeviceGetMigDeviceHandleByIndex(gpu(0), 0, &mut device),
        0
    );
    assert_eq!(number(|to| nvmlDeviceGetGpuInstanceId(device, to)), Ok(8));
    assert_eq!(
        nvmlDeviceGetMigDeviceHandleByIndex(gpu(0), 1, &mut handle()),
        6
    );
}
