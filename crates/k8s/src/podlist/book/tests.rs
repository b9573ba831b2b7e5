//! Containers come and go as a runtime tells it.

use mirage_state::layout::{Card, fixed};

use super::*;
use crate::nri::generated::Mount;

fn node() -> Image {
    let cards = [("GPU-0", 0), ("GPU-1", 1)].map(|(uuid, minor)| Card {
        uuid: fixed(uuid),
        minor,
        ..Card::default()
    });
    Image {
        cards: cards.to_vec().into(),
        ..Image::default()
    }
}

fn pod(name: &str, gpu: Option<&str>) -> PodSandbox {
    let allocated = |gpu| {
        (
            ALLOCATED.to_owned(),
            format!(r#"{{"gpu":[{{"id":"{gpu}"}}]}}"#),
        )
    };
    PodSandbox {
        id: format!("sandbox-{name}"),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        namespace: "team".to_owned(),
        annotations: gpu.map(allocated).into_iter().collect(),
        ..PodSandbox::default()
    }
}

fn container(pod: &PodSandbox, name: &str) -> Container {
    Container {
        id: format!("{}-{name}", pod.name),
        pod_sandbox_id: pod.id.clone(),
        name: name.to_owned(),
        state: ContainerState::ContainerRunning as i32,
        ..Container::default()
    }
}

fn with_mark(mut container: Container, uuid: &str) -> Container {
    container.mounts.push(Mount {
        destination: format!("{VIEW}/{uuid}"),
        ..Mount::default()
    });
    container
}

fn lines(book: &Book) -> Vec<String> {
    lines_at(book, Instant::now())
}

fn lines_at(book: &Book, now: Instant) -> Vec<String> {
    let line = |entry: Entry| {
        format!(
            "{}/{} {}",
            entry.name,
            entry.container,
            entry.gpu_list.join("+")
        )
    };
    book.entries(now).into_iter().map(line).collect()
}

#[test]
fn a_container_is_listed_while_it_runs() {
    let (mut book, node) = (Book::default(), node());
    let (train, plain, lost) = (
        pod("train", Some("GPU-1")),
        pod("plain", None),
        pod("lost", Some("GPU-9")),
    );
    for pod in [&train, &plain, &lost] {
        book.started(pod, &container(pod, "main"), &node);
    }
    book.started(&train, &container(&train, "init"), &node);
    assert_eq!(lines(&book), ["train/init GPU-1", "train/main GPU-1"]);
    book.stopped("train-init");
    book.stopped("never-was");
    assert_eq!(lines(&book), ["train/main GPU-1"]);
    book.pod_stopped("sandbox-plain");
    assert_eq!(lines(&book).len(), 1);
    book.pod_stopped("sandbox-train");
    assert!(lines(&book).is_empty());
}

#[test]
fn a_container_that_starts_again_replaces_its_former_self() {
    let (mut book, node) = (Book::default(), node());
    let pod = pod("train", Some("GPU-0"));
    let first = container(&pod, "main");
    book.started(&pod, &first, &node);
    book.stopped(&first.id);
    let second = Container {
        id: "second".to_owned(),
        ..first.clone()
    };
    book.started(&pod, &second, &node);
    // The first is removed only now.
    book.stopped(&first.id);
    let entries = book.entries(Instant::now());
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].container_id, "second");
    assert_eq!(entries[0].pod_uid, "uid-train");
}

#[test]
fn the_whole_list_replaces_what_was_known_once_all_parts_are_there() {
    let (mut book, node) = (Book::default(), node());
    let (old, a, b) = (
        pod("old", Some("GPU-0")),
        pod("a", Some("GPU-0")),
        pod("b", Some("GPU-1")),
    );
    book.started(&old, &container(&old, "main"), &node);
    let part = |pods: &[&PodSandbox], containers: Vec<Container>, more| SynchronizeRequest {
        pods: pods.iter().map(|&pod| pod.clone()).collect(),
        containers,
        more,
    };
    // A container may come before its pod, and some are not running.
    let mut created = container(&a, "created");
    created.state = ContainerState::ContainerCreated as i32;
    let seen = with_mark(container(&b, "main"), "GPU-1");
    let missed = book.synchronize(part(&[&a], vec![seen, created], true), &node);
    assert!(missed.is_empty());
    assert_eq!(lines(&book), ["old/main GPU-0"], "not before the last part");
    let gone = Container {
        pod_sandbox_id: "unknown".to_owned(),
        ..container(&a, "gone")
    };
    let missed = book.synchronize(part(&[&b], vec![container(&a, "main"), gone], false), &node);
    assert_eq!(lines(&book), ["a/main GPU-0", "b/main GPU-1"]);
    let missed: Vec<&str> = missed.iter().map(|missed| &*missed.container).collect();
    assert_eq!(missed, ["team/a/main"], "made while nobody adjusted it");

    // A connection that broke off half-way leaves nothing behind.
    book.synchronize(part(&[&old], vec![container(&old, "main")], true), &node);
    book.forget_parts();
    book.synchronize(part(&[], vec![], false), &node);
    assert!(lines(&book).is_empty());
}

#[test]
fn containers_of_the_device_plugin_are_listed_if_asked_for() {
    let node = node();
    let pod = pod("own", None);
    let env = |value: &str| {
        let mut container = container(&pod, "env");
        container.env = vec![
            "PATH=/bin".to_owned(),
            format!("NVIDIA_VISIBLE_DEVICES={value}"),
        ];
        container
    };
    for (container, expected) in [
        (
            with_mark(container(&pod, "mark"), "gpu-1"),
            "own/mark GPU-1",
        ),
        (env("GPU-0,GPU-1,GPU-0"), "own/env GPU-0+GPU-1"),
        // What images bring along.
        (env("all"), ""),
        (env("void"), ""),
        (env("0,1"), ""),
        (container(&pod, "none"), ""),
    ] {
        for (scope, expected) in [(Scope::Central, ""), (Scope::All, expected)] {
            let mut book = Book::new(scope);
            book.started(&pod, &container, &node);
            assert_eq!(lines(&book).join(" "), expected);
        }
    }
}

#[test]
fn pods_that_the_api_server_no_longer_has_are_hidden_after_a_while() {
    let (mut book, node) = (Book::new(Scope::All), node());
    let (a, b) = (pod("a", Some("GPU-0")), pod("b", Some("GPU-1")));
    let mut fixed = pod("static", Some("GPU-0"));
    fixed
        .annotations
        .insert(SOURCE.to_owned(), "file".to_owned());
    for pod in [&a, &b, &fixed] {
        book.started(pod, &container(pod, "main"), &node);
    }
    let start = Instant::now();
    let alive =
        |uids: &[&str]| -> HashSet<String> { uids.iter().map(|&uid| uid.to_owned()).collect() };
    assert_eq!(
        book.reconcile(Some(&alive(&["uid-a", "uid-b"])), start),
        None
    );
    let only_b = alive(&["uid-b"]);
    assert_eq!(book.reconcile(Some(&only_b), start), Some(start + GRACE));
    assert_eq!(lines_at(&book, start).len(), 3, "a watch may be behind");
    let later = start + GRACE;
    assert_eq!(
        lines_at(&book, later),
        ["b/main GPU-1", "static/main GPU-0"]
    );
    // Asking again does not begin the time anew.
    assert_eq!(book.reconcile(Some(&only_b), later), None);
    assert_eq!(lines_at(&book, later).len(), 2);
    // A watch that broke says nothing.
    assert_eq!(book.reconcile(None, later), None);
    assert_eq!(lines_at(&book, later).len(), 3);
    book.reconcile(Some(&only_b), start);
    assert_eq!(lines_at(&book, later).len(), 2);
    // It was only late.
    book.reconcile(Some(&alive(&["uid-a", "uid-b"])), later);
    assert_eq!(lines_at(&book, later).len(), 3);
}
