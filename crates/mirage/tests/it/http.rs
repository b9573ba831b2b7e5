//! The network surface.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{PATIENCE, STILL, Up};

#[test]
fn every_page_answers_and_says_what_it_is() {
    let up = Up::with_config(STILL, &[]);
    let pages = [
        ("/", "text/html"),
        ("/metrics", "text/plain"),
        ("/nodes/node-a/metrics", "text/plain"),
        ("/health", "text/plain"),
        ("/sd", "application/json"),
        ("/api/v1/status", "application/json"),
        ("/api/v1/nodes", "application/json"),
        ("/api/v1/nodes/node-a", "application/json"),
        ("/api/v1/gpus", "application/json"),
        ("/api/v1/workloads", "application/json"),
        ("/api/v1/faults", "application/json"),
        ("/api/v1/events", "application/json"),
    ];
    for (path, kind) in pages {
        let answer = up.get(path);
        assert_eq!(answer.status, 200, "{path}");
        let is_kind = answer.head.contains(&format!("content-type: {kind}"));
        assert!(is_kind, "{path}: {}", answer.head);
        assert!(answer.head.contains("x-content-type-options: nosniff"));
        if kind == "application/json" {
            up.json(path);
        }
        let head = up.request("HEAD", path, "");
        assert_eq!((head.status, head.body.len()), (200, 0), "HEAD {path}");
    }
    // Each page it links to exists.
    let index = up.page("/");
    assert!(
        index.contains("<p>6 simulated GPUs on 2 nodes.</p>"),
        "{index}"
    );
    let links: Vec<_> = index
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(links.len() > 8, "{index}");
    for link in links {
        assert_eq!(up.get(link).status, 200, "{link}");
    }
}

#[test]
fn one_is_not_counted_as_many() {
    let up = Up::start(&["--gpus", "1"]);
    let index = up.page("/");
    assert!(
        index.contains("<p>1 simulated GPU on 1 node.</p>"),
        "{index}"
    );
}

#[test]
fn what_is_not_there_is_said_so() {
    let up = Up::with_config(STILL, &[]);
    let cases = [
        ("GET", "/nowhere", 404, "there is no /nowhere"),
        ("GET", "/nodes/node-z/metrics", 404, "no node \"node-z\""),
        ("GET", "/api/v1/nodes/node-z", 404, "no node \"node-z\""),
        ("GET", "/nodes/..%2f..%2fetc/metrics", 404, "no node"),
        ("POST", "/metrics", 405, "only reads"),
        ("DELETE", "/api/v1/gpus", 405, "mirage ctl"),
    ];
    for (method, path, status, wanted) in cases {
        let answer = up.request(method, path, "");
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(answer.text().contains(wanted), "{}", answer.text());
        assert!(answer.head.contains("x-content-type-options: nosniff"));
    }
}

#[test]
fn answers_are_compressed_when_asked() {
    let up = Up::with_config(STILL, &[]);
    for path in ["/metrics", "/api/v1/gpus", "/api/v1/workloads"] {
        let plain = up.get(path);
        assert!(!plain.head.contains("content-encoding"));
        let packed = up.request("GET", path, "Accept-Encoding: gzip\r\n");
        assert!(packed.head.contains("content-encoding: gzip"), "{path}");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*packed.body)
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, plain.text(), "{path}");
    }
}

#[test]
fn prometheus_discovers_one_target_per_node() {
    let up = Up::with_config(STILL, &[]);
    let targets = up.json("/sd");
    let targets = targets.as_array().unwrap();
    assert_eq!(targets.len(), 2);
    assert_eq!(targets[0]["targets"][0], up.address.as_str());
    for target in targets {
        let path = target["labels"]["__metrics_path__"].as_str().unwrap();
        assert!(up.page(path).contains("DCGM_FI_DEV_GPU_TEMP"), "{path}");
    }
}

#[test]
fn the_whole_fleet_is_the_sum_of_its_nodes() {
    let up = Up::with_config(STILL, &[]);
    let count = |path: &str| {
        let page = up.page(path);
        page.lines().filter(|line| !line.starts_with('#')).count()
    };
    let nodes = count("/nodes/node-a/metrics") + count("/nodes/node-b/metrics");
    assert_eq!(count("/metrics"), nodes);
    let page = up.page("/metrics");
    let helps = page
        .lines()
        .filter(|line| line.starts_with("# HELP DCGM_FI_DEV_GPU_TEMP "));
    assert_eq!(helps.count(), 1);
}

#[test]
fn a_large_fleet_is_streamed_and_shows_one_tick() {
    // Ticks as fast as they come, and pages large enough to be made while they are sent.
    let config = "tick: 10ms\nnodes:\n  fleet: { model: t4, gpus: 2, count: 300 }\n";
    let up = Up::with_config(config, &[]);
    for _ in 0..5 {
        let nodes = up.json("/api/v1/nodes");
        let nodes = nodes.as_array().unwrap();
        assert_eq!(nodes.len(), 300);
        assert!(nodes.iter().all(|node| node["tick"] == nodes[0]["tick"]));
    }
    let answer = up.get("/metrics");
    assert!(answer.head.contains("transfer-encoding: chunked"));
    let text = answer.text();
    let temperatures = text
        .lines()
        .filter(|l| l.starts_with("DCGM_FI_DEV_GPU_TEMP{"));
    assert_eq!(temperatures.count(), 600);
    // More nodes than wish for files get none.
    assert!(!up.state_dir().join("fleet-0").exists());
    assert!(up.page.contains("--state-files"), "{}", up.page);
}

#[test]
fn hostile_clients_do_not_stop_it() {
    let up = Up::with_config(STILL, &[]);
    let hostile: &[&[u8]] = &[
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /%ff%fe/../.. HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ];
    for bytes in hostile {
        let mut stream = TcpStream::connect(&up.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // A head without end is cut off, by size here and by time when it trickles.
    let mut stream = TcpStream::connect(&up.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(200_000));
    let _ = stream.write_all(endless.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.contains(" 4"), "{answer}");
    assert_eq!(up.page("/health"), "OK");
}
