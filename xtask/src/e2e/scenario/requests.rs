//! Inference pods, which are as busy as the requests they serve make them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};

use super::look::busy;
use super::{GPU, Stage};
use crate::e2e::cluster::Pod;

/// A pod serves 42 requests a second, then 7; one that no request was counted for does nothing.
pub(super) fn inference(stage: &mut Stage) -> Result<()> {
    let rate = Arc::new(AtomicU32::new(42));
    let url = prometheus(rate.clone())?;
    let mirage = stage.mirage(&["--prometheus", &url])?;
    let cluster = &stage.cluster;
    cluster.allocatable(GPU, 8)?;
    for name in ["server", "unasked"] {
        cluster.run(&Pod::with(name, GPU, 1).label("workloadKind", "InferenceWorkload"))?;
    }
    busy(&mirage, "server", 41.0, 43.0)?;
    busy(&mirage, "unasked", 0.0, 0.5)?;
    rate.store(7, Relaxed);
    busy(&mirage, "server", 6.0, 8.0)?;
    mirage.works("prometheus")?;
    mirage.stop()
}

/// Answers every question as a Prometheus would that counts requests of the pod `server`; for as long as this process lives.
fn prometheus(rate: Arc<AtomicU32>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listening as Prometheus")?;
    let url = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever asked and left hears nothing.
            let _ = answer(stream, rate.load(Relaxed));
        }
    });
    Ok(url)
}

fn answer(mut stream: TcpStream, rate: u32) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut asked = [0; 4096];
    let _ = stream.read(&mut asked)?;
    let body = format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{"namespace":"default","pod":"server"}},"value":[1700000000.5,"{rate}.2"]}}]}}}}"#
    );
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
