//! What clients see of a node: identities and readings, MIG, events, settings, visibility, and what happens when the engine
//! goes away. Initialisation is of the whole process, so these run one after another.

#[path = "support/node.rs"]
mod node;

#[path = "behaviour/events.rs"]
mod events;
#[path = "behaviour/life.rs"]
mod life;
#[path = "behaviour/mig.rs"]
mod mig;
#[path = "behaviour/neighbours.rs"]
mod neighbours;
#[path = "behaviour/power.rs"]
mod power;
#[path = "behaviour/readings.rs"]
mod readings;
#[path = "behaviour/settings.rs"]
mod settings;
#[path = "behaviour/table.rs"]
mod table;
#[path = "behaviour/visibility.rs"]
mod visibility;

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mirage_state::{Image, NodeDir};
use nvidia_ml::abi::{GpmMetric, GpmRequest};
use nvidia_ml::handle::Handle;
use nvidia_ml::*;
use tempfile::TempDir;

static ALONE: Mutex<()> = Mutex::new(());

/// A node with this process as its only client, initialised; undone when dropped.
struct Client {
    dir: TempDir,
    writer: Option<NodeDir>,
    _alone: MutexGuard<'static, ()>,
}

impl Client {
    fn of(image: &Image) -> Client {
        let client = Client::without_init(image);
        client.init();
        client
    }

    fn without_init(image: &Image) -> Client {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().expect("a directory");
        let mut writer = NodeDir::open(dir.path()).expect("the directory is ours");
        writer.publish(image).expect("room for a state");
        node::see(&dir.path().join("state"));
        Client {
            dir,
            writer: Some(writer),
            _alone: alone,
        }
    }

    fn init(&self) {
        assert_eq!(nvmlInit_v2(), 0);
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(self.dir.path()).join(name)
    }

    fn update(&mut self, image: &Image) {
        self.writer
            .as_mut()
            .expect("an engine runs")
            .update(image)
            .expect("the state is ours");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A failed test may leave more than one init behind.
        for _ in 0..4 {
            nvmlShutdown();
        }
    }
}

fn handle() -> Handle {
    Handle(null_mut())
}

/// A request for one GPM metric.
#[repr(C)]
struct GpmOfOne {
    head: GpmRequest,
    metric: GpmMetric,
}

impl GpmOfOne {
    /// Of one sample: there is no growth in it.
    fn new(sample: Handle, id: u32) -> GpmOfOne {
        let head = GpmRequest {
            version: 1,
            count: 1,
            first: sample,
            second: sample,
        };
        let metric = GpmMetric {
            id,
            value: -1.0,
            ..GpmMetric::default()
        };
        GpmOfOne { head, metric }
    }
}

/// The handle of a visible GPU.
fn gpu(index: u32) -> Handle {
    let mut gpu = handle();
    assert_eq!(nvmlDeviceGetHandleByIndex_v2(index, &mut gpu), 0);
    gpu
}

/// What a call writes into a `u32`, or its code.
fn number(call: impl FnOnce(*mut u32) -> u32) -> Result<u32, u32> {
    let mut value = 0;
    match call(&mut value) {
        0 => Ok(value),
        code => Err(code),
    }
}

/// What a call writes into a text, or its code.
fn words(call: impl FnOnce(*mut std::ffi::c_char, u32) -> u32) -> Result<String, u32> {
    let mut text = [0_u8; 128];
    match call(text.as_mut_ptr().cast(), 128) {
        0 => Ok(CStr::from_bytes_until_nul(&text)
            .expect("ended")
            .to_string_lossy()
            .into_owned()),
        code => Err(code),
    }
}
