//! What pages are given of nodes, pods and jobs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mirage_state::layout::{Card, Container, Holding, Live, fixed};

use super::*;

/// A node of two GPUs, the first held by a pod that the engine knows.
fn node(name: &str) -> Arc<Image> {
    let card = |n: u32| Card {
        uuid: fixed(&format!("GPU-{name}-{n}")),
        minor: n,
        ..Card::default()
    };
    let mut image = Image {
        cards: Arc::from([card(0), card(1)]),
        lives: vec![Live::default(); 2],
        heap: b"nspodmain".to_vec(),
        containers: vec![Container {
            namespace: TextRef { offset: 0, len: 2 },
            pod: TextRef { offset: 2, len: 3 },
            name: TextRef { offset: 5, len: 4 },
            uid: TextRef::default(),
        }],
        holdings: vec![Holding {
            gi: u32::MAX,
            ..Holding::default()
        }],
        ..Image::default()
    };
    image.header.node = fixed(name);
    Arc::new(image)
}

fn facts(uid: &str, labels: &[(&str, &str)]) -> PodFacts {
    let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    PodFacts {
        uid: uid.to_owned(),
        labels: labels.iter().map(owned).collect::<BTreeMap<_, _>>(),
    }
}

fn with_labels(patterns: &[&str]) -> Settings {
    let patterns: Vec<_> = patterns.iter().map(|&p| p.to_owned()).collect();
    Settings {
        labels: Some(LabelFilter::new(&patterns).0),
        ..Settings::default()
    }
}

fn table(facts: PodFacts) -> PodTable {
    [(("ns".to_owned(), "pod".to_owned()), facts)].into()
}

/// The labels of the first container, as notes have them.
fn labels(seen: &Seen) -> Vec<(String, String)> {
    let notes = seen.notes.as_ref();
    notes.map_or(Vec::new(), |notes| notes.pods[0].labels.clone())
}

#[test]
fn what_is_told_of_pods_is_shown_and_can_be_taken_back() {
    let attribution = Attribution::new(with_labels(&["^app"]));
    let show = || attribution.show(vec![node("n")], 1).remove(0);
    let before = show();
    assert!(before.notes.is_none());
    attribution.tell_pods(table(facts("u-1", &[("app", "x"), ("team", "y")])));
    let seen = show();
    assert_eq!(labels(&seen), [("app".to_owned(), "x".to_owned())]);
    let at = seen.image.node();
    assert_eq!(at.text(at.containers[0].uid), "u-1");
    attribution.tell_pods(PodTable::new());
    assert_eq!(show().image, before.image);
}

#[test]
fn nobody_asked_for_labels() {
    let attribution = Attribution::new(Settings::default());
    attribution.tell_pods(table(facts("", &[("app", "x")])));
    let image = node("n");
    let seen = attribution.show(vec![image.clone()], 1).remove(0);
    assert!(seen.notes.is_none());
    assert!(Arc::ptr_eq(&seen.image, &image), "nothing to add, no copy");
}

/// Sources as files in a directory.
fn sources(directory: &Path) -> Settings {
    Settings {
        sources: vec![
            Source::PodList(directory.join("podlist.json")),
            Source::Jobs(directory.join("jobs")),
        ],
        ..with_labels(&[])
    }
}

#[tokio::test]
async fn files_tell_of_pods_shares_and_jobs() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("jobs")).unwrap();
    fs::write(dir.path().join("jobs/1"), "4711\n").unwrap();
    let list = r#"[{"name": "pod", "namespace": "ns", "container": "main", "uid": "u-2",
                    "labels": {"app": "z"}, "gpu_list": ["GPU-n-0::2", "GPU-n-1"]}]"#;
    fs::write(dir.path().join("podlist.json"), list).unwrap();
    let attribution = Attribution::new(sources(dir.path()));
    attribution.refresh().await;
    let seen = attribution.show(vec![node("n")], 1).remove(0);
    assert_eq!(labels(&seen), [("app".to_owned(), "z".to_owned())]);
    let notes = seen.notes.unwrap();
    // The container that the engine knew holds what it held, once.
    assert_eq!(seen.image.holdings.len(), 2);
    assert_eq!(notes.grants.len(), 1);
    assert_eq!(notes.grants[0].shares, ["2"]);
    assert_eq!(notes.jobs.len(), 1);
    assert_eq!((notes.jobs[0].gpu, notes.jobs[0].names.len()), (1, 1));
    assert!(attribution.reports().iter().all(|r| r.trouble.is_none()));

    // Who follows pods knows better than a list.
    attribution.tell_pods(table(facts("u-3", &[("app", "w")])));
    let seen = attribution.show(vec![node("n")], 1).remove(0);
    assert_eq!(labels(&seen), [("app".to_owned(), "w".to_owned())]);

    // In a fleet, jobs are of the node that was named, here none.
    let seen = attribution.show(vec![node("n"), node("m")], 2);
    let jobs = |seen: &Seen| seen.notes.as_ref().map_or(0, |notes| notes.jobs.len());
    assert_eq!((jobs(&seen[0]), jobs(&seen[1])), (0, 0));
}

#[tokio::test]
async fn a_directory_of_jobs_that_is_not_there_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let attribution = Attribution::new(Settings {
        sources: vec![Source::Jobs(dir.path().join("nowhere"))],
        ..Settings::default()
    });
    attribution.refresh().await;
    let report = attribution.reports().remove(0);
    assert_eq!((report.kind, report.stands), ("hpc-jobs", false));
    assert!(report.trouble.unwrap().contains("nowhere"));
}

/// Waits for a page that shows `pods` devices in hands, for less time than a source may take.
async fn wait_for(attribution: &Attribution, pods: usize) {
    let seen = async {
        while attribution.claims().len() != pods {
            tokio::task::yield_now().await;
        }
    };
    let seen = tokio::time::timeout(LIMIT / 2, seen).await;
    seen.unwrap_or_else(|_| panic!("not {pods}: {:?}", attribution.reports()));
}

#[tokio::test]
async fn a_kubelet_that_hangs_delays_no_other_source() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    // Whoever connects waits for ever.
    let _hung = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let path = dir.path().join("podlist.json");
    let write = |gpus: &str| {
        let list = format!(
            r#"[{{"name": "pod", "namespace": "ns", "container": "main", "gpu_list": [{gpus}]}}]"#
        );
        fs::write(dir.path().join("new"), list).unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
    };
    write(r#""GPU-n-0""#);
    let attribution = Attribution::new(Settings {
        sources: vec![Source::PodResources(socket), Source::PodList(path.clone())],
        ..Settings::default()
    });
    let running = tokio::spawn(attribution.clone().run());
    wait_for(&attribution, 1).await;
    // And not only once.
    write(r#""GPU-n-0", "GPU-n-1""#);
    wait_for(&attribution, 2).await;
    running.abort();
}

/// A disk that does not answer cannot be had in a test; a turn that is not given back can.
#[tokio::test]
async fn a_read_that_hangs_is_trouble_and_not_one_more_thread() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("podlist.json");
    fs::write(&path, "[]").unwrap();
    let mut attribution = Attribution::new(Settings {
        sources: vec![Source::PodList(path)],
        ..Settings::default()
    });
    Arc::get_mut(&mut attribution).unwrap().limit = Duration::from_millis(10);
    let hung = attribution.turns[0].clone().lock_owned().await;
    attribution.refresh().await;
    let trouble = attribution.reports().remove(0).trouble.unwrap();
    assert!(trouble.ends_with("no answer within 10ms"), "{trouble}");
    drop(hung);
    while attribution.reports()[0].trouble.is_some() {
        attribution.refresh().await;
    }
}
