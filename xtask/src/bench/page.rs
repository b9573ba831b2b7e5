//! What a page of 10,000 nodes adds to the memory of `mirage up` while it is sent.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Figures;
use crate::exporter::programs::{Scratch, Server, get, get_and_drop, peak, resident, start_again};
use crate::shell::{self, cargo, target};

const NODES: &str = "10000";
/// What the first ticks need is no cost of a page.
const SETTLED: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(60);

/// From what is resident before the scrape to the most there was during it.
pub(super) fn measure(figures: &mut Figures) -> Result<()> {
    shell::run(cargo().args(["build", "--locked", "--release", "-p", "mirage"]))?;
    let scratch = Scratch::new("page")?;
    let mut up = Command::new(target().join("release/mirage"));
    up.args(["up", "--listen", "127.0.0.1:0", "--nodes", NODES])
        .arg("--state-dir")
        .arg(scratch.path())
        .stdin(Stdio::null());
    let up = Server::mirage(&mut up)?;
    let begin = Instant::now();
    while tick(&up)? < SETTLED {
        if begin.elapsed() > PATIENCE {
            bail!("{NODES} nodes had no {SETTLED} ticks within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    start_again(up.id())?;
    let before = resident(up.id())?;
    let bytes = get_and_drop(&up.address, "/metrics")?;
    let added = peak(up.id())? - before;
    // Smaller, and it would not be the page of all nodes.
    if bytes < 100_000_000 {
        bail!("the page of {NODES} nodes has {bytes} bytes only");
    }
    figures.insert("page-memory".to_owned(), added);
    Ok(())
}

fn tick(up: &Server) -> Result<u64> {
    let status: Value = serde_json::from_str(&get(&up.address, "/api/v1/status")?)?;
    status["tick"].as_u64().context("a status without tick")
}
