//! What is served: the exact bytes, to whom, and that they hold still within a tick.

use std::io::Write;
use std::net::TcpStream;

use crate::bench::{file, kind, request, stock, value};

#[test]
fn a_stock_page_is_what_it_always_was() {
    let server = stock()
        .with(&["-count", "2", "-wl-all", &file("base-10.json")])
        .start();
    let page = server.scrape();
    let (title, body) = page.split_once('\n').unwrap();
    assert_eq!(
        title,
        concat!("# fakedev-exporter v", env!("CARGO_PKG_VERSION"))
    );
    let device = |number: usize| {
        let labels = format!(
            r#"dev_file="card{number}", pci_bdf="0000:0{}:00.0", pci_dev="0x4905""#,
            number + 3
        );
        format!(
            "collectd_gpu_sysman_frequency_mhz{{{labels}, function=\"max\", location=\"gpu\", type=\"actual\"}} 435\n\
             collectd_gpu_sysman_memory_used_bytes{{{labels}, function=\"max\", location=\"device\"}} 4.017094656e+08\n\
             collectd_gpu_sysman_power_watts{{{labels}}} 6.2\n\
             collectd_gpu_sysman_temperature_celsius{{{labels}, location=\"gpu-max\"}} 27\n"
        )
    };
    assert_eq!(body, device(0) + &device(1));
    // Renaming a label is no reason for a warning; not mapping one is.
    let warnings: Vec<&str> = server
        .said
        .lines()
        .filter(|line| line.starts_with("WARN"))
        .collect();
    assert_eq!(
        warnings,
        ["WARN: no identity mapping for device label \"name\""]
    );
}

#[test]
fn another_identity_shows_the_same_devices() {
    let server = kind("dg1.json", "xpum.json").start();
    let labels = r#"dev_file="card0", pci_bdf="0000:03:00.0", pci_dev="0x4905""#;
    let page = server.scrape();
    assert!(
        page.contains(&format!("xpum_power_watts{{{labels}}} 3\n")),
        "{page}"
    );
    assert!(page.contains(&format!(
        "xpum_frequency_mhz{{{labels}, location=\"gpu\", type=\"actual\"}} 300\n"
    )));
}

#[test]
fn base_workloads_run_on_all_odd_and_even_devices() {
    let server = stock()
        .with(&["-count", "3", "-wl-even", &file("base-10.json")])
        .with(&[
            "-wl-odd",
            &file("base-50.json"),
            "-wl-all",
            &file("base-10.json"),
        ])
        .start();
    let page = server.scrape();
    let power = |device: usize| {
        value(
            &page,
            &format!("collectd_gpu_sysman_power_watts{{dev_file=\"card{device}\""),
        )
    };
    assert_eq!([power(0), power(1), power(2)], [9.4, 22.2, 9.4]);
}

#[test]
fn only_a_get_of_the_page_without_a_body_is_answered() {
    let server = stock().start();
    let status = |request: &str| server.request(request).0;
    assert_eq!(status(&request("GET", "/metrics", "")), 200);
    assert_eq!(status(&request("GET", "/metrics?x=1", "")), 200);
    assert_eq!(
        status(&request("GET", "/metrics", "Content-Length: 0\r\n")),
        200
    );
    for path in ["/metrics/foobar", "/metrics/", "/", "/metric", "//metrics"] {
        assert_eq!(status(&request("GET", path, "")), 404, "{path}");
    }
    for method in ["HEAD", "DELETE", "FOOBAR", "PUT", "OPTIONS"] {
        assert_eq!(status(&request(method, "/metrics", "")), 405, "{method}");
    }
    let post = request("POST", "/metrics", "Content-Length: 9\r\n") + "user=test";
    assert_eq!(status(&post), 405);
    let body = request("GET", "/metrics", "Content-Length: 9\r\n") + "user=test";
    assert_eq!(status(&body), 400);
    let chunked =
        request("GET", "/metrics", "Transfer-Encoding: chunked\r\n") + "1\r\nx\r\n0\r\n\r\n";
    assert_eq!(status(&chunked), 400);
    // One who never finishes asking is nobody else's trouble.
    let mut slow = TcpStream::connect(&server.address).unwrap();
    slow.write_all(b"GET /metrics HT").unwrap();
    assert_eq!(status(&request("GET", "/metrics", "")), 200);
}

#[test]
fn parallel_scrapes_are_the_same_while_idle_workloads_join() {
    let server = stock().with(&["-count", "2", "-seed", "5"]).start();
    let spec = |load: &str| {
        format!(r#"{{"Name": "x", "Devices": ["card0", "card1"], "Profile": [{{{load}}}]}}"#)
    };
    let idle_page = server.scrape();
    let mut held = vec![server.connect(&spec(r#""Load": 50, "Fluctuation": 50"#))];
    let mut pages = Vec::new();
    crate::bench::eventually(|| {
        if server.scrape() == idle_page {
            return Err("the busy workload did not join".to_owned());
        }
        Ok(())
    });
    std::thread::scope(|scope| {
        let scrapes: Vec<_> = (0..16).map(|_| scope.spawn(|| server.scrape())).collect();
        for _ in 0..8 {
            held.push(server.connect(&spec(r#""Load": 0"#)));
        }
        for scrape in scrapes {
            pages.push(scrape.join().unwrap());
        }
    });
    pages.push(server.scrape());
    assert!(pages.iter().all(|page| *page == pages[0]));
    assert_ne!(pages[0], idle_page);
}

#[test]
fn the_same_seed_gives_the_same_page() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.json");
    std::fs::write(
        &base,
        r#"{"Name": "base", "Profile": [{"Load": 50, "Fluctuation": 50}]}"#,
    )
    .unwrap();
    let page = |seed: &str| {
        stock()
            .with(&[
                "-count",
                "4",
                "-wl-all",
                base.to_str().unwrap(),
                "-seed",
                seed,
            ])
            .start()
            .scrape()
    };
    let first = page("11");
    assert_eq!(first, page("11"));
    assert_ne!(first, page("12"));
}

#[test]
fn the_world_goes_on_without_scrapes() {
    let server = stock().fast().start();
    let spec = r#"{"Name": "x", "Repeat": 2, "Devices": ["card0"],
                   "Profile": [{"Load": 50, "Seconds": 2}]}"#;
    // Nobody asks for the page, and yet the profile ends.
    assert_eq!(crate::bench::reply(server.connect(spec)), "0");
    assert_eq!(server.value("collectd_gpu_sysman_power_watts"), 3.0);
}

#[test]
fn everything_a_device_type_can_say_shows_on_the_page() {
    let server = kind("two-tile.json", "two-tile-identity.json")
        .with(&["-count", "4"])
        .start();
    let page = server.scrape();
    for series in [
        "xpum_engine_group_ratio{dev_file=\"card0\", pci_bdf=\"0000:03:00.0\", sub_dev=\"1\", engine=\"copy\"} 0\n",
        "xpum_fabric_bytes{dev_file=\"card0\", dst_dev=\"card2\", pci_bdf=\"0000:03:00.0\"} 0\n",
        "xpum_cache_errors_total{dev_file=\"card3\", pci_bdf=\"0000:06:00.0\", type=\"uncorrectable\"} 0\n",
        "xpum_frequency_mhz{dev_file=\"card1\", pci_bdf=\"0000:04:00.0\", location=\"gpu\", type=\"actual\"} 300\n",
        "xpum_temperature_celsius{dev_file=\"card1\", pci_bdf=\"0000:04:00.0\"} 25\n",
    ] {
        assert!(page.contains(series), "no {series} in\n{page}");
    }
    assert!(!page.contains("xpum_fabric_bytes{dev_file=\"card0\", dst_dev=\"card3\""));
    assert!(!page.contains("workload_"));
    let spec = std::fs::read_to_string(file("training.json")).unwrap();
    let spec = spec.replacen('{', r#"{"Devices": ["card1"],"#, 1);
    let _held = server.connect(&spec);
    let labels = r#"dev_file="card1", pci_bdf="0000:04:00.0", sub_dev="0", kube_container="main", kube_namespace="ml", kube_pod="train-0", workload="training""#;
    crate::bench::eventually(|| {
        let page = server.scrape();
        if page.contains(&format!("workload_memory_bytes{{{labels}}} 0\n")) {
            Ok(())
        } else {
            Err(format!("no series of the workload in\n{page}"))
        }
    });
    // Busy, so clocked up: what follows from others is there in the same tick.
    let page = server.scrape();
    assert!(value(&page, "xpum_frequency_mhz{dev_file=\"card1\"") > 400.0);
    assert!(value(&page, "xpum_power_watts{dev_file=\"card1\"") > 100.0);
}

#[test]
fn a_busy_device_warms_up_and_throttles() {
    let server = kind("two-tile.json", "two-tile-identity.json")
        .fast()
        .start();
    let spec = r#"{"Name": "busy", "Devices": ["card0"],
                   "Profile": [{"Load": 100, "Metrics": {"memory": 1e9}}]}"#;
    let _held = server.connect(spec);
    crate::bench::eventually(|| {
        let page = server.scrape();
        let throttled = value(&page, "xpum_throttled_seconds_total");
        let frequency = value(&page, "xpum_frequency_mhz");
        let temperature = value(&page, "xpum_temperature_celsius");
        if throttled > 0.0 && frequency < 1600.0 && temperature > 80.0 {
            Ok(())
        } else {
            Err(format!("not throttled:\n{page}"))
        }
    });
}
