//! What a thousand connected workloads cost a scrape of fakedev-exporter.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Figures;
use crate::shell::{self, cargo, root, target};

const WORKLOADS: usize = 1000;
/// Turns without and with workloads. A shared machine is now faster, now slower: both have to see all of it.
const ROUNDS: usize = 15;
/// Scrapes of a turn.
const SCRAPES: usize = 200;
const PATIENCE: Duration = Duration::from_secs(30);

/// By how much the usual scrape is slower with workloads than without, in percent.
pub(super) fn measure(figures: &mut Figures) -> Result<()> {
    shell::run(cargo().args(["build", "--locked", "--release", "-p", "mirage"]))?;
    let scratch = target().join("bench-workloads");
    fs::create_dir_all(&scratch)?;
    let socket = scratch.join("socket");
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let address = format!("127.0.0.1:{port}");
    let all = one_core()?;
    let mut child = start(&address, &socket)?;
    let measured = rounds(&address, &socket, &mut child);
    sched_setaffinity(None, &all).context("running on all cores again")?;
    child.kill().context("ending fakedev-exporter")?;
    child.wait()?;
    let _ = fs::remove_dir_all(&scratch);
    let (without, with) = measured?;
    let change = (with / without - 1.0) * 100.0;
    figures.insert("workloads-scrape".to_owned(), change.max(0.0));
    Ok(())
}

fn start(address: &str, socket: &Path) -> Result<Child> {
    let files = root().join("crates/mirage/tests/fakedev/files");
    let mut exporter = Command::new(target().join("release/mirage"));
    exporter
        .args(["fakedev-exporter", "-count", "8", "-address", address])
        .arg("-socket")
        .arg(socket)
        .arg("-devtype")
        .arg(files.join("dg1.json"))
        .arg("-devlist")
        .arg(files.join("devices.json"))
        .arg("-identity")
        .arg(files.join("collectd.json"));
    exporter
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting fakedev-exporter")
}

/// Keeps this thread, and what it starts, on one core: waking another one takes longer than a scrape, and never the
/// same time. Returns the cores it may run on else.
fn one_core() -> Result<CpuSet> {
    let all = sched_getaffinity(None).context("asking for the cores")?;
    let last = (0..CpuSet::MAX_CPU)
        .rev()
        .find(|core| all.is_set(*core))
        .context("no core to run on")?;
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one).context("staying on one core")?;
    Ok(all)
}

/// The usual scrapes without and with workloads, in seconds.
fn rounds(address: &str, socket: &Path, child: &mut Child) -> Result<(f64, f64)> {
    wait(child, || scrape(address).is_ok() && socket.exists())?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        times(address, &mut without)?;
        // The last one has a device of its own, so that it shows when it is there.
        let idle = last_device(address)?;
        let mut workloads = Vec::with_capacity(WORKLOADS);
        for number in 0..WORKLOADS {
            let device = if number + 1 < WORKLOADS {
                "card0"
            } else {
                "card7"
            };
            workloads.push(connect(socket, device)?);
        }
        wait(child, || last_device(address).is_ok_and(|now| now != idle))?;
        times(address, &mut with)?;
        drop(workloads);
        wait(child, || last_device(address).is_ok_and(|now| now == idle))?;
    }
    Ok((median(without), median(with)))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn connect(socket: &Path, device: &str) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(socket).context("connecting a workload")?;
    let load = r#""Repeat": 0, "Profile": [{"Load": 50}]"#;
    write!(
        stream,
        r#"{{"Name": "bench", "Devices": ["{device}"], {load}}}"#
    )?;
    Ok(stream)
}

/// The lines of the last device.
fn last_device(address: &str) -> Result<String> {
    let page = scrape(address)?;
    let lines = page.lines().filter(|line| line.contains("\"card7\""));
    Ok(lines.collect())
}

fn times(address: &str, all: &mut Vec<f64>) -> Result<()> {
    for _ in 0..SCRAPES {
        let begin = Instant::now();
        scrape(address)?;
        all.push(begin.elapsed().as_secs_f64());
    }
    Ok(())
}

fn scrape(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn wait(child: &mut Child, mut look: impl FnMut() -> bool) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            bail!("fakedev-exporter ended with {status}");
        }
        if look() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("fakedev-exporter did not come to the state awaited within {PATIENCE:?}")
}
