//! How long `mirage up` takes to answer its first scrape, and how much memory it then holds.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Figures;
use crate::exporter::programs::resident;
use crate::shell::{self, cargo, root, target};

const RUNS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(20);

/// The best of a few starts; memory of the last.
pub(super) fn measure(figures: &mut Figures) -> Result<()> {
    shell::run(cargo().args(["build", "--locked", "--release", "-p", "mirage"]))?;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let (time, memory) = once()?;
        best = best.min(time.as_secs_f64() * 1e3);
        figures.insert("up-memory".to_owned(), memory);
    }
    figures.insert("up-scrape".to_owned(), best);
    Ok(())
}

fn once() -> Result<(Duration, f64)> {
    let scratch = target().join("bench-state");
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let address = format!("127.0.0.1:{port}");
    let mut up = Command::new(target().join("release/mirage"));
    up.current_dir(root())
        .args(["up", "--listen", &address, "--state-dir"])
        .arg(&scratch);
    let begin = Instant::now();
    let mut child = up
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("starting mirage up")?;
    let result = wait_for_scrape(&address, &mut child, begin);
    let memory = resident(child.id());
    child.kill().context("ending mirage up")?;
    child.wait()?;
    let _ = std::fs::remove_dir_all(&scratch);
    Ok((result?, memory?))
}

fn wait_for_scrape(address: &str, child: &mut Child, begin: Instant) -> Result<Duration> {
    while begin.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            bail!("mirage up ended with {status}");
        }
        if let Ok(text) = get(address, "/metrics")
            && text.contains("DCGM_FI_DEV_GPU_TEMP{gpu=\"7\"")
        {
            return Ok(begin.elapsed());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    bail!("mirage up gave no good scrape on {address} within {PATIENCE:?}")
}

fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
