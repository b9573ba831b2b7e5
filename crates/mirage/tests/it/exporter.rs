//! Exporters from outside: identities and their places, field lists that change, pods of pod lists
//! and kubelets, and the exporter alone.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mirage_k8s::podresources::generated as api;
use mirage_k8s::podresources::generated::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use serde_json::json;
use tempfile::TempDir;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use crate::api::Api;
use crate::support::{
    Answer, Background, STILL, Up, mirage, outcome, request, run, stderr, stdout, wait_for,
};

/// Replaces a file as a careful writer does.
fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).expect("written");
    fs::rename(&next, path).expect("renamed");
}

/// Names of the families on a page.
fn families(page: &str) -> BTreeSet<String> {
    page.lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|rest| rest.split(' ').next())
        .map(str::to_owned)
        .collect()
}

/// Everything on a page but its values.
fn series(page: &str) -> Vec<&str> {
    let lines = page.lines();
    lines
        .map(|line| line.rsplit_once(' ').map_or(line, |(series, _)| series))
        .collect()
}

/// `mirage dcgm-exporter`; ended when dropped.
pub(crate) struct Role {
    child: Child,
    pub(crate) address: String,
}

impl Role {
    pub(crate) fn start(args: &[&str], env: &[(&str, &str)]) -> Role {
        let mut child = mirage()
            .args(["dcgm-exporter", "-a", "127.0.0.1:0", "-c", "0"])
            .args(args)
            .envs(env.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut lines = stderr.lines();
        let address = lines.by_ref().find_map(|line| {
            let line = line.ok()?;
            let rest = line.strip_prefix("mirage: dcgm-exporter on http")?;
            let (_, rest) = rest.split_once("://")?;
            Some(rest.strip_suffix("/metrics")?.to_owned())
        });
        // Read on, or it would wait for us.
        std::thread::spawn(move || lines.for_each(drop));
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it did not say where it listens");
        };
        Role { child, address }
    }

    fn get(&self, path: &str) -> Answer {
        request(&self.address, "GET", path, "")
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.expect("kill runs").success());
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn identities_have_places_of_their_own() {
    let up = Up::start(&[
        "--model",
        "max-1550",
        "--gpus",
        "2",
        "--identity",
        "xpum",
        "--identity",
        "collectd=/collectd/metrics",
        "--identity",
        "xpumd:0",
    ]);
    assert!(up.page("/metrics").contains("\nxpum_power_watts{"));
    let collectd = up.page("/collectd/metrics");
    assert!(collectd.contains("collectd_gpu_sysman_power_watts"));
    let node = up.json("/api/v1/nodes")[0]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let of_node = up.page(&format!("/nodes/{node}/collectd/metrics"));
    assert_eq!(families(&of_node), families(&collectd));
    // The port was told before the start page was printed.
    up.wait_until_told("xpumd on http://");
    let told = up.told();
    let line = told.lines().find(|line| line.contains("xpumd on"));
    let address = line
        .and_then(|line| line.split("http://").nth(1))
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .expect("an address");
    let xpumd = request(address, "GET", "/metrics", "").text();
    assert!(xpumd.contains("hw_power_watts"), "{xpumd}");
    assert_eq!(request(address, "GET", "/health", "").text(), "OK");
}

#[test]
fn what_cannot_be_served_is_refused_at_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let list = dir.path().join("fields.csv");
    fs::write(
        &list,
        "DCGM_FI_DEV_GPU_TEMP, gauge, ok\nDCGM_FI_DEV_GPU_UTL, gauge, typo\n",
    )
    .expect("written");
    let list = list.to_str().expect("a plain path");
    let identity = dir.path().join("identity.json");
    fs::write(&identity, "{").expect("written");
    let identity = identity.to_str().expect("a plain path");
    for (args, words) in [
        (&["-f", list][..], "line 2"),
        (&["-f", "/nonexistent.csv"], "/nonexistent.csv"),
        (&["--identity", "nonsense"], "dcgm@4.8.2"),
        (&["--identity", "dcgm", "--identity", "xpum"], "xpum=/xpum"),
        (&["--identity", "xpum=/api"], "/api is taken"),
        (&["--identity", identity], "identity.json"),
        (&["-d", "x"], "write f, g"),
    ] {
        let output = mirage()
            .args(["up", "--listen", "127.0.0.1:0", "--state-dir"])
            .arg(dir.path().join("state"))
            .args(args)
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output);
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

/// Scrapes while the list changes; each page is the whole of the old list or the whole of the new one.
fn reload_is_seamless(scrape: impl Fn() -> Answer, list: &Path, hang_up: impl Fn()) {
    let old = "DCGM_FI_DEV_GPU_TEMP, gauge, a\nDCGM_FI_DEV_POWER_USAGE, gauge, b\n";
    let new = "DCGM_FI_DEV_FB_USED, gauge, c\nDCGM_FI_DEV_FB_FREE, gauge, d\n";
    let names = |list: &str| -> BTreeSet<String> {
        let lines = list.lines().filter_map(|line| line.split(',').next());
        lines.map(str::to_owned).collect()
    };
    let look = || {
        let answer = scrape();
        assert_eq!(answer.status, 200);
        families(&answer.text())
    };
    assert_eq!(look(), names(old));
    replace(list, new);
    let mut pages = 0;
    wait_for("the new list", || {
        let page = look();
        pages += 1;
        assert!(page == names(old) || page == names(new), "{page:?}");
        (page == names(new)).then_some(())
    });
    // A bad list changes nothing, asked for or not.
    replace(list, "DCGM_FI_DEV_GPU_TEMP\n");
    hang_up();
    assert!(pages > 0);
    assert_eq!(look(), names(new));
}

const LIST: &str = "DCGM_FI_DEV_GPU_TEMP, gauge, a\nDCGM_FI_DEV_POWER_USAGE, gauge, b\n";

#[test]
fn every_scrape_during_a_reload_is_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let list = dir.path().join("fields.csv");
    fs::write(&list, LIST).expect("written");
    let up = Up::with_config(STILL, &["-f", list.to_str().expect("plain")]);
    reload_is_seamless(|| up.get("/metrics"), &list, || up.signal("HUP"));
    wait_for("the bad list in /health", || {
        let health = up.page("/health");
        health.contains("keeps its old files").then_some(())
    });
    let page = up.page("/self/metrics");
    assert!(page.contains("outcome=\"refused\"} "), "{page}");
}

/// Where fakedev's files lie.
const FAKEDEV: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fakedev/files");

#[test]
fn identities_of_fakedev_are_read_as_they_are() {
    let identity = format!("{FAKEDEV}/xpum.json");
    let fleet = ["simulate", "--model", "dg1", "--gpus", "2", "--for", "1m"];
    let page = run(&[&fleet[..], &["--print", "metrics", "--identity", &identity]].concat());
    assert!(page.status.success(), "{}", stderr(&page));
    let page = stdout(&page);
    assert!(page.starts_with("# fakedev-exporter v"), "{page}");
    let own = [
        ("xpum_frequency_mhz", r#", location="gpu", type="actual""#),
        ("xpum_memory_used_bytes", ""),
        ("xpum_power_watts", ""),
        ("xpum_temperature_celsius", r#", location="gpu""#),
    ];
    let mut wanted = Vec::new();
    for (name, more) in own {
        for (card, bus) in [("card0", "03"), ("card1", "07")] {
            wanted.push(format!(
                r#"{name}{{dev_file="{card}", pci_bdf="0000:{bus}:00.0", pci_dev="0x4905"{more}}}"#
            ));
        }
    }
    assert_eq!(series(&page)[1..], wanted, "{page}");
}

#[test]
fn an_identity_of_fakedev_is_followed_and_its_gaps_are_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("own.json");
    fs::copy(format!("{FAKEDEV}/two-tile-identity.json"), &file).expect("copied");
    let place = format!("{}=/own", file.to_str().expect("plain"));
    let up = Up::with_config(STILL, &["--identity", &place]);
    assert!(up.page("/own").contains("xpum_power_watts{"));
    // Beside it, /metrics is what it always is.
    assert!(up.page("/metrics").contains("DCGM_FI_DEV_GPU_TEMP{"));
    up.wait_until_told("no GPU has a metric \"hangs\"");
    replace(&file, r#"{"MetricMap": {"power": "watts"}}"#);
    wait_for("the new names", || {
        let page = up.page("/own");
        assert!(page.contains("watts"), "{page}");
        page.contains("\nwatts ").then_some(())
    });
    replace(&file, r#"{"MetricMap": {"power": 7}}"#);
    wait_for("the trouble", || {
        let health = up.page("/health");
        health.contains("MetricMap.power is not text").then_some(())
    });
    assert!(up.page("/own").contains("\nwatts "));
}

/// An API server with a ConfigMap in it, and a kubeconfig for it.
struct Cluster {
    api: Api,
    kubeconfig: String,
    _background: Background,
    _dir: TempDir,
}

impl Cluster {
    fn start() -> Cluster {
        let (background, api) = Background::new(Api::start("node-a"));
        let dir = tempfile::tempdir().expect("a directory");
        let kubeconfig = dir.path().join("kubeconfig");
        api.kubeconfig(&kubeconfig);
        Cluster {
            api,
            kubeconfig: kubeconfig.to_str().expect("plain").to_owned(),
            _background: background,
            _dir: dir,
        }
    }

    fn set(&self, data: serde_json::Value) {
        self.api.set_map("monitoring", "fields", data);
    }
}

#[test]
fn a_field_list_in_a_configmap_is_followed() {
    let cluster = Cluster::start();
    cluster.set(json!({ "metrics": LIST }));
    let map = [
        "-m",
        "monitoring:fields",
        "--kubeconfig",
        &cluster.kubeconfig,
    ];
    let role = Role::start(&map, &[]);
    let shown = || families(&role.get("/metrics").text());
    let names = |list: &[&str]| -> BTreeSet<String> { list.iter().map(|&s| s.into()).collect() };
    let old = names(&["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"]);
    let new = names(&["DCGM_FI_DEV_FB_USED"]);
    let health = |words: &str| {
        wait_for(words, || {
            let health = role.get("/health").text();
            (health == words || words != "OK" && health.contains(words)).then_some(())
        });
    };
    assert_eq!(shown(), old);

    // Gone: what it said last stands.
    cluster.set(json!(null));
    role.signal("HUP");
    health("there is no ConfigMap monitoring/fields");
    assert_eq!(shown(), old);

    // Back, with other fields. No page is of both.
    cluster.set(json!({ "metrics": "DCGM_FI_DEV_FB_USED, gauge, c" }));
    role.signal("HUP");
    wait_for("the new fields", || {
        let shown = shown();
        assert!(shown == old || shown == new, "{shown:?}");
        (shown == new).then_some(())
    });
    health("OK");

    cluster.set(json!({ "metrics": "DCGM_FI_DEV_GPU_TMP, gauge, d" }));
    role.signal("HUP");
    health("did you mean DCGM_FI_DEV_GPU_TEMP?");
    assert_eq!(shown(), new);
}

#[test]
fn a_configmap_that_cannot_be_read_at_the_start_ends_it() {
    let cluster = Cluster::start();
    cluster.set(json!({ "other": LIST, "third": "" }));
    let failed = |place: &str, more: &[&str]| {
        let mut role = mirage();
        role.args(["dcgm-exporter", "-a", "127.0.0.1:0", "-m", place])
            .args(more);
        let output = outcome(role);
        (output.status.code(), stderr(&output))
    };
    let access = ["--kubeconfig", cluster.kubeconfig.as_str()];
    for (place, more, code, words) in [
        ("fields", &access[..], 2, "write NAMESPACE:NAME"),
        ("a:../b", &access, 2, "write NAMESPACE:NAME"),
        ("a:b:c", &access, 2, "write NAMESPACE:NAME"),
        (
            "monitoring:none",
            &access,
            1,
            "there is no ConfigMap monitoring/none",
        ),
        (
            "monitoring:fields",
            &access,
            1,
            "has no key \"metrics\"; it has other, third",
        ),
        ("monitoring:fields", &[], 1, "--kubeconfig"),
    ] {
        let (status, said) = failed(place, more);
        assert_eq!(status, Some(code), "{place}: {said}");
        assert!(said.contains(words), "{place}: {said}");
    }
}

/// How long one of a thousand may take on a machine with other things to do.
const LONG: Duration = Duration::from_secs(300);

/// All of them are served: as many connections as that are open at a time, and more would wait to be accepted.
#[test]
fn a_thousand_scrapes_at_once_are_all_whole() {
    // Each is a file of this process, too.
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
    let up = Up::with_config(STILL, &[]);
    let first = up.page("/nodes/node-b/metrics");
    let expected = series(&first);
    let connect = |request: &str| {
        let mut stream = TcpStream::connect(&up.address).expect("connected");
        stream.set_read_timeout(Some(LONG)).expect("a timeout");
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    };
    // Clients that begin a request and never end it.
    let idle: Vec<_> = (0..100)
        .map(|_| connect("GET /metrics HTTP/1.1\r\nHo"))
        .collect();
    let whole = "GET /nodes/node-b/metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let scrapes: Vec<_> = (0..1000).map(|_| connect(whole)).collect();
    for mut scrape in scrapes {
        let mut bytes = Vec::new();
        scrape.read_to_end(&mut bytes).expect("an answer");
        let answer = Answer::parse(&bytes);
        assert_eq!(answer.status, 200);
        assert!(series(&answer.text()) == expected, "a page differs");
    }
    drop(idle);
}

/// Pods, labels, jobs and clock events, as the exporter alone tells them.
#[test]
fn the_exporter_alone_tells_labels_jobs_and_clock_events() {
    let up = Up::with_config(STILL, &[]);
    let state = up.state_dir().join("node-a");
    let dir = tempfile::tempdir().expect("a directory");
    let place = |name: &str| dir.path().join(name).to_str().expect("plain").to_owned();
    let (list, jobs, fields) = (place("podlist.json"), place("jobs"), place("fields.csv"));
    let pods = r#"[{"name": "p", "namespace": "n", "container": "c", "uid": "u-1", "gpu_list": [2],
                    "labels": {"app.kubernetes.io/name": "x", "secret": "y"}}]"#;
    fs::write(&list, pods).expect("written");
    fs::create_dir(&jobs).expect("made");
    fs::write(format!("{jobs}/3"), "4711\n").expect("written");
    let csv = "DCGM_FI_DEV_GPU_TEMP, gauge, t\nDCGM_EXP_CLOCK_EVENTS_COUNT, counter, c\n";
    fs::write(&fields, csv).expect("written");
    let state = state.to_str().expect("plain");
    let base = ["--state", state, "-f", &fields, "-k", "--pod-list", &list];
    let more = [
        "--kubernetes-enable-pod-labels",
        "--kubernetes-enable-pod-uid",
        "--kubernetes-pod-label-allowlist-regex",
        "^app",
        "--hpc-job-mapping-dir",
        &jobs,
    ];
    let role = Role::start(&[&base[..], &more].concat(), &[]);
    let page = wait_for("a look at the clocks", || {
        let page = role.get("/metrics").text();
        page.contains("clock_event=\"gpu_idle\"").then_some(page)
    });
    let temperature = |gpu: u32| {
        let start = format!("DCGM_FI_DEV_GPU_TEMP{{gpu=\"{gpu}\"");
        let found: Vec<_> = page.lines().filter(|l| l.starts_with(&start)).collect();
        assert_eq!(found.len(), 1, "{page}");
        found[0].to_owned()
    };
    let held = temperature(2);
    let wanted =
        "app_kubernetes_io_name=\"x\",container=\"c\",namespace=\"n\",pod=\"p\",pod_uid=\"u-1\"}";
    assert!(held.contains(wanted), "{held}");
    assert!(!held.contains("secret"), "{held}");
    assert!(temperature(3).contains(",hpc_job=\"4711\"}"), "{page}");
    assert!(role.get("/health").text().starts_with("OK"));
}

#[test]
fn a_pod_list_shows_on_every_surface_and_its_trouble_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().to_str().expect("plain");
    let up = Up::with_config(STILL, &["--pod-list", place, "--pod-node", "node-b"]);
    wait_for("the list to be missed", || {
        up.page("/health")
            .contains("is not there yet")
            .then_some(())
    });
    let list = dir.path().join("podlist.json");
    let entry =
        r#"{"name":"infer-0","namespace":"web","container":"srv","uid":"u-1","gpu_list":[1]}"#;
    replace(&list, &format!("[{entry}]"));
    let parts = [
        "DCGM_FI_DEV_GPU_TEMP{",
        "Hostname=\"node-b\"",
        "gpu=\"1\"",
        "container=\"srv\",namespace=\"web\",pod=\"infer-0\"",
    ];
    wait_for("the pod", || up.series("/metrics", &parts));
    assert!(up.series("/nodes/node-b/metrics", &parts).is_some());
    // A minor number means the node of the list, no other.
    assert!(!up.page("/nodes/node-a/metrics").contains("infer-0"));
    let gpu = &up.json("/api/v1/nodes/node-b")["gpus"][1];
    assert_eq!(gpu["holders"][0]["pod"], "infer-0");
    assert_eq!(gpu["holders"][0]["uid"], "u-1");
    assert_eq!(up.page("/health"), "OK");
    // What the engine knows itself is still there.
    assert!(up.page("/metrics").contains("pod=\"trainer\""));

    fs::write(&list, format!("[{entry}")).expect("cut short");
    wait_for("the trouble", || {
        up.page("/health").contains("cut short").then_some(())
    });
    // The last good answer stands, for a minute.
    assert!(up.series("/metrics", &parts).is_some());
    let parts_up = ["mirage_pod_source_up{source=\"pod-list\""];
    assert_eq!(up.series("/self/metrics", &parts_up), Some(0.0));
    assert!(
        up.series("/self/metrics", &["mirage_pod_source_age_seconds{"])
            .is_some()
    );
    replace(&list, "[]");
    wait_for("the pod to go", || {
        up.series("/metrics", &parts).is_none().then_some(())
    });
}

#[test]
fn without_patience_a_broken_list_is_forgotten_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let list = dir.path().join("podlist.json");
    replace(
        &list,
        r#"[{"name":"p","namespace":"n","container":"c","gpu_list":["0"]}]"#,
    );
    let place = list.to_str().expect("plain");
    let up = Up::start(&[
        "--gpus",
        "1",
        "--pod-list",
        place,
        "--pod-source-patience",
        "0s",
    ]);
    wait_for("the pod", || up.series("/metrics", &["pod=\"p\""]));
    fs::remove_file(&list).expect("removed");
    wait_for("the pod to go", || {
        up.series("/metrics", &["pod=\"p\""])
            .is_none()
            .then_some(())
    });
}

struct Kubelet;

#[tonic::async_trait]
impl PodResourcesLister for Kubelet {
    async fn list(
        &self,
        _: Request<api::ListPodResourcesRequest>,
    ) -> Result<Response<api::ListPodResourcesResponse>, Status> {
        let container = api::ContainerResources {
            name: "main".into(),
            devices: vec![api::ContainerDevices {
                resource_name: "nvidia.com/gpu".into(),
                device_ids: vec!["nvidia2".into(), "nvidia9".into()],
                topology: None,
            }],
            ..Default::default()
        };
        let pod_resources = vec![api::PodResources {
            name: "train-7".into(),
            namespace: "team".into(),
            containers: vec![container],
            ..Default::default()
        }];
        Ok(Response::new(api::ListPodResourcesResponse {
            pod_resources,
        }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<api::AllocatableResourcesRequest>,
    ) -> Result<Response<api::AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn get(
        &self,
        _: Request<api::GetPodResourcesRequest>,
    ) -> Result<Response<api::GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

/// A kubelet that serves until it is told to end.
struct Serving {
    end: tokio::sync::oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Serving {
    fn begin(socket: &Path) -> Serving {
        let listener = std::os::unix::net::UnixListener::bind(socket).expect("bound");
        listener.set_nonblocking(true).expect("set");
        let (end, ended) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::UnixListener::from_std(listener).expect("a listener");
                let serving = tonic::transport::Server::builder()
                    .add_service(PodResourcesListerServer::new(Kubelet))
                    .serve_with_incoming(UnixListenerStream::new(listener));
                tokio::select! {
                    _ = serving => {}
                    _ = ended => {}
                }
            });
        });
        Serving { end, thread }
    }

    fn end(self) {
        let _ = self.end.send(());
        self.thread.join().expect("it ends");
    }
}

#[test]
fn pods_of_a_kubelet_show_and_its_death_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("kubelet.sock");
    let serving = Serving::begin(&socket);
    let place = socket.to_str().expect("plain");
    let up = Up::start(&["--gpus", "4", "--pod-resources", place]);
    let parts = ["DCGM_FI_DEV_FB_USED{gpu=\"2\"", "pod=\"train-7\""];
    wait_for("the pod", || up.series("/metrics", &parts));
    serving.end();
    fs::remove_file(&socket).expect("removed");
    wait_for("the trouble", || {
        up.page("/health")
            .contains("pod source pod-resources")
            .then_some(())
    });
    assert!(up.series("/metrics", &parts).is_some());
}

#[test]
fn the_exporter_alone_shows_what_up_shows() {
    let up = Up::with_config(STILL, &[]);
    let state = up.state_dir().join("node-a");
    let state = state.to_str().expect("plain");
    let role = Role::start(&["--state", state, "-k", "--pod-list", "/nonexistent"], &[]);
    let answer = role.get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(
        answer
            .head
            .contains("content-type: text/plain; charset=utf-8")
    );
    assert!(answer.head.contains("x-content-type-options: nosniff"));
    // The fleet stands still, but for one tick a minute.
    wait_for("the same page", || {
        let page = role.get("/metrics").text();
        (page == up.page("/nodes/node-a/metrics")).then_some(())
    });
    let health = role.get("/health");
    assert!(health.head.contains("x-registry-available: true"));
    assert!(health.text().starts_with("OK\npod source pod-list"));
    assert!(role.get("/").text().contains("href=\"/metrics\""));
    assert_eq!(role.get("/nothing").status, 404);
    assert_eq!(request(&role.address, "POST", "/metrics", "").status, 405);

    // Both nodes of the directory; without -k no pods, and NODE_NAME is the host's name.
    let all = up.state_dir();
    let all = all.to_str().expect("plain");
    let role = Role::start(&["--state", all, "-n"], &[]);
    let page = role.get("/metrics").text();
    assert!(
        page.contains("Tesla K80") && page.contains("A100"),
        "{page}"
    );
    assert!(
        !page.contains("pod=") && !page.contains("Hostname="),
        "{page}"
    );
    assert_eq!(role.get("/health").text(), "OK");
    let role = Role::start(&["--state", all], &[("NODE_NAME", "node-b")]);
    let page = role.get("/metrics").text();
    assert!(
        page.contains("Hostname=\"node-b\"") && !page.contains("A100"),
        "{page}"
    );
}

/// Charts and scripts set variables to nothing, and mean the default.
#[test]
fn empty_variables_count_as_not_set() {
    let up = Up::with_config(STILL, &[]);
    let state = up.state_dir().join("node-a");
    let empty = [
        "DCGM_EXPORTER_COLLECTORS",
        "DCGM_EXPORTER_LISTEN",
        "DCGM_EXPORTER_INTERVAL",
        "DCGM_EXPORTER_KUBERNETES",
        "DCGM_EXPORTER_DEVICES_STR",
        "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE",
        "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE",
        "DCGM_EXPORTER_DEBUG",
        "DCGM_HPC_JOB_MAPPING_DIR",
        "DCGM_POD_RESOURCES_KUBELET_SOCKET",
        "KUBECONFIG",
        "NODE_NAME",
    ];
    let empty = empty.map(|name| (name, ""));
    let role = Role::start(&["--state", state.to_str().expect("plain")], &empty);
    let page = role.get("/metrics").text();
    assert!(page.contains("Hostname=\"node-a\""), "{page}");
    assert_eq!(role.get("/health").text(), "OK");
    // Of a subcommand as well.
    let mut simulate = mirage();
    simulate
        .args(["simulate", "--for", "1s"])
        .envs(empty.iter().copied());
    let output = outcome(simulate);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn the_exporter_alone_tells_its_version_and_which_flag_is_wrong() {
    for flag in ["-v", "--version", "-version"] {
        let mut role = mirage();
        role.args(["dcgm-exporter", flag]);
        let output = outcome(role);
        assert!(output.status.success(), "{flag}: {}", stderr(&output));
        let version = concat!("dcgm-exporter ", env!("CARGO_PKG_VERSION"));
        assert_eq!(stdout(&output).trim(), version);
    }
    let mut role = mirage();
    role.args(["dcgm-exporter", "-a", "9400"]);
    let output = outcome(role);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("--address 9400: "), "{said}");
}

#[test]
fn the_exporter_alone_follows_its_list_and_ends_on_signals() {
    let up = Up::with_config(STILL, &[]);
    let dir = tempfile::tempdir().expect("a directory");
    let list = dir.path().join("fields.csv");
    fs::write(&list, LIST).expect("written");
    let state = up.state_dir().join("node-a");
    let mut role = Role::start(
        &["-state", state.to_str().expect("plain")],
        &[("DCGM_EXPORTER_COLLECTORS", list.to_str().expect("plain"))],
    );
    reload_is_seamless(|| role.get("/metrics"), &list, || role.signal("HUP"));
    role.signal("QUIT");
    let status = wait_for("the end", || role.child.try_wait().expect("a child"));
    assert_eq!(status.code(), Some(0));
}

#[test]
fn the_exporter_alone_finds_its_engine_again() {
    let root = tempfile::tempdir().expect("a directory");
    let config = root.path().join("mirage.yaml");
    fs::write(&config, STILL).expect("written");
    let state = root.path().join("state");
    let start = || -> Engine {
        let mut child = mirage()
            .args(["up", "--listen", "127.0.0.1:0", "--config"])
            .arg(&config)
            .arg("--state-dir")
            .arg(&state)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let stdout = child.stdout.take().expect("piped");
        let engine = Engine(child);
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("a start page");
        engine
    };
    let engine = start();
    let place = state.join("node-a");
    let role = Role::start(&["--state", place.to_str().expect("plain")], &[]);
    assert!(role.get("/metrics").text().contains("A100"));
    // Killed, so that it leaves everything as it stands.
    drop(engine);
    assert!(role.get("/metrics").text().contains("A100"));
    fs::write(&config, STILL.replace("a100-sxm4-40gb", "h100-sxm5-80gb")).expect("written");
    let _engine = start();
    wait_for("the new engine's node", || {
        role.get("/metrics").text().contains("H100").then_some(())
    });
}

/// A `mirage up` that is killed when dropped.
struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
