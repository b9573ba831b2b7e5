//! The device plugin against a kubelet of our own: small, and as strict as the real one where it matters.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "deviceplugin/kubelet.rs"]
mod kubelet;

use std::sync::Arc;
use std::time::Duration;

use kubelet::{Kubelet, PATIENCE, Rig, device, resource, within};
use mirage_k8s::deviceplugin::generated::{
    AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest, Empty,
    PreferredAllocationRequest,
};
use mirage_k8s::deviceplugin::{Mischief, Resource, Standing};
use tonic::Code;

fn two() -> Resource {
    resource("nvidia.com/gpu", "nvidia-gpu.sock", &["GPU-a", "GPU-b"])
}

#[tokio::test]
async fn it_serves_first_and_registers_second() {
    let mut rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::start(rig.place()).await;
    let lists = kubelet
        .lists("nvidia.com/gpu", |list| list.len() == 1)
        .await;
    assert_eq!(
        lists[0],
        [
            ("GPU-a".into(), true, Some(0)),
            ("GPU-b".into(), true, Some(1))
        ]
    );
    let request = kubelet.requests()[0].clone();
    assert_eq!(request.version, "v1beta1");
    assert_eq!(request.endpoint, "nvidia-gpu.sock");
    assert!(request.options.unwrap().get_preferred_allocation_available);
    rig.standing("nvidia.com/gpu", |it| matches!(it, Standing::Registered(_)))
        .await;
    rig.end().await;
    assert!(!rig.socket("nvidia-gpu.sock").exists());
    kubelet.ended("nvidia.com/gpu", 1).await;
}

#[tokio::test]
async fn changes_are_told_and_sameness_is_not() {
    let mut rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::start(rig.place()).await;
    settled(&mut rig, &kubelet, 1).await;
    // The same devices, in offers that the plugin is seen to have taken one by one: two that come together count as one.
    rig.offer(with(Mischief {
        hangs: true,
        ..Mischief::default()
    }));
    rig.standing("nvidia.com/gpu", |it| matches!(it, Standing::Away(_)))
        .await;
    rig.offer(vec![two()]);
    rig.standing("nvidia.com/gpu", |it| matches!(it, Standing::Registered(_)))
        .await;
    let mut sick = two();
    sick.devices = Arc::from([
        device("GPU-a", true, Some(0)),
        device("GPU-b", false, Some(1)),
    ]);
    rig.offer(vec![sick]);
    let mut one = two();
    one.devices = Arc::from([device("GPU-a", true, None)]);
    kubelet
        .lists("nvidia.com/gpu", |lists| lists.len() == 2)
        .await;
    rig.offer(vec![one]);
    let lists = kubelet
        .lists("nvidia.com/gpu", |lists| lists.len() == 3)
        .await;
    assert_eq!(lists[1][1], ("GPU-b".into(), false, Some(1)));
    assert_eq!(lists[2], [("GPU-a".into(), true, None)]);
    assert_eq!(kubelet.requests().len(), 1);
}

#[tokio::test]
async fn resources_come_and_go() {
    let rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::start(rig.place()).await;
    kubelet
        .lists("nvidia.com/gpu", |lists| lists.len() == 1)
        .await;
    let slice = resource(
        "nvidia.com/mig-1g.5gb",
        "nvidia-mig-1g.5gb.sock",
        &["MIG-a"],
    );
    rig.offer(vec![slice]);
    kubelet
        .lists("nvidia.com/mig-1g.5gb", |lists| lists.len() == 1)
        .await;
    kubelet.ended("nvidia.com/gpu", 1).await;
    let old = rig.socket("nvidia-gpu.sock");
    within(|| !old.exists()).await;
    // Back again under the same name.
    rig.offer(vec![two()]);
    kubelet.registered("nvidia.com/gpu", 2).await;
    kubelet.ended("nvidia.com/mig-1g.5gb", 1).await;
}

#[tokio::test]
async fn a_kubelet_that_comes_back_is_told_again() {
    let mut rig = Rig::start(vec![two()]).await;
    rig.standing("nvidia.com/gpu", |it| matches!(it, Standing::Away(_)))
        .await;
    let kubelet = Kubelet::start(rig.place()).await;
    kubelet.registered("nvidia.com/gpu", 1).await;
    let standing = rig
        .standing("nvidia.com/gpu", |it| matches!(it, Standing::Registered(_)))
        .await;
    // For people who look at the log; how fast a loaded machine is proves nothing.
    println!("after the kubelet's socket appeared: {standing:?}");
    // It removes every socket there is, its own last, as the real one does when it starts.
    kubelet.stop().await;
    rig.clear();
    let kubelet = Kubelet::start(rig.place()).await;
    kubelet.registered("nvidia.com/gpu", 1).await;
    kubelet
        .lists("nvidia.com/gpu", |lists| lists.len() == 1)
        .await;
    // One that dies leaves its socket, and finds ours when it is back.
    kubelet.stop().await;
    let kubelet = Kubelet::start(rig.place()).await;
    kubelet.registered("nvidia.com/gpu", 1).await;
}

#[tokio::test]
async fn a_kubelet_that_watches_no_more_is_told_again_or_said_to_be_away() {
    let mut rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::start(rig.place()).await;
    settled(&mut rig, &kubelet, 1).await;
    kubelet.forget();
    rig.standing(
        "nvidia.com/gpu",
        |it| matches!(it, Standing::Away(why) if why.contains("watches")),
    )
    .await;
    settled(&mut rig, &kubelet, 2).await;
    // Killed: its socket file is there, and nobody behind it.
    kubelet.stop().await;
    rig.standing(
        "nvidia.com/gpu",
        |it| matches!(it, Standing::Away(why) if why.contains("registering")),
    )
    .await;
    let kubelet = Kubelet::start(rig.place()).await;
    settled(&mut rig, &kubelet, 1).await;
}

#[tokio::test]
async fn a_socket_that_vanished_is_made_again() {
    let rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::start(rig.place()).await;
    kubelet.registered("nvidia.com/gpu", 1).await;
    std::fs::remove_file(rig.socket("nvidia-gpu.sock")).unwrap();
    kubelet.registered("nvidia.com/gpu", 2).await;
    assert!(rig.socket("nvidia-gpu.sock").exists());
}

#[tokio::test]
async fn a_refusal_is_said_and_tried_again() {
    let mut rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::refusing(rig.place(), 3).await;
    let why = rig
        .standing(
            "nvidia.com/gpu",
            |it| matches!(it, Standing::Away(why) if why.contains("busy")),
        )
        .await;
    assert!(format!("{why:?}").contains("registering nvidia.com/gpu at"));
    kubelet.registered("nvidia.com/gpu", 4).await;
    rig.standing("nvidia.com/gpu", |it| matches!(it, Standing::Registered(_)))
        .await;
}

#[tokio::test]
async fn something_else_at_its_place_is_left_alone() {
    let mut rig = Rig::empty();
    std::fs::write(rig.socket("nvidia-gpu.sock"), "mine").unwrap();
    rig.run(vec![two()]);
    let _kubelet = Kubelet::start(rig.place()).await;
    rig.standing(
        "nvidia.com/gpu",
        |it| matches!(it, Standing::Away(why) if why.contains("no socket")),
    )
    .await;
    assert_eq!(
        std::fs::read(rig.socket("nvidia-gpu.sock")).unwrap(),
        b"mine"
    );
    std::fs::remove_file(rig.socket("nvidia-gpu.sock")).unwrap();
    rig.standing("nvidia.com/gpu", |it| matches!(it, Standing::Registered(_)))
        .await;
}

#[tokio::test]
async fn containers_are_answered() {
    let rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::start(rig.place()).await;
    kubelet.registered("nvidia.com/gpu", 1).await;
    let mut plugin = rig.client("nvidia-gpu.sock").await;
    let ask = |ids: &[&str]| AllocateRequest {
        container_requests: vec![ContainerAllocateRequest {
            devices_ids: ids.iter().map(|id| (*id).into()).collect(),
        }],
    };
    let answer = plugin.allocate(ask(&["GPU-b"])).await.unwrap().into_inner();
    assert_eq!(answer.container_responses[0].envs["GIVEN"], "GPU-b");
    let refused = plugin.allocate(ask(&["GPU-x"])).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unknown);
    assert!(refused.message().contains("GPU-x"));
    let refused = plugin.allocate(ask(&["GPU-a", "GPU-b"])).await.unwrap_err();
    assert_eq!(refused.message(), "too many");
    let preferred = plugin
        .get_preferred_allocation(PreferredAllocationRequest {
            container_requests: vec![ContainerPreferredAllocationRequest {
                available_device_i_ds: vec!["GPU-a".into(), "GPU-b".into()],
                must_include_device_i_ds: vec![],
                allocation_size: 1,
            }],
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(preferred.container_responses[0].device_i_ds, ["GPU-a"]);
    // Asked by its path, as some Go clients do.
    assert!(rig.asks_by_path("nvidia-gpu.sock").await);
}

/// Waits until both sides know of the registration, and the kubelet has its first list.
async fn settled(rig: &mut Rig, kubelet: &Kubelet, times: usize) {
    kubelet.accepted("nvidia.com/gpu", times).await;
    kubelet
        .lists("nvidia.com/gpu", |lists| lists.len() >= times)
        .await;
    rig.standing("nvidia.com/gpu", |it| matches!(it, Standing::Registered(_)))
        .await;
}

fn with(mischief: Mischief) -> Vec<Resource> {
    vec![Resource { mischief, ..two() }]
}

#[tokio::test]
async fn one_that_dies_is_gone_until_it_heals() {
    let mut rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::start(rig.place()).await;
    settled(&mut rig, &kubelet, 1).await;
    rig.offer(with(Mischief {
        dies: true,
        ..Mischief::default()
    }));
    kubelet.ended("nvidia.com/gpu", 1).await;
    // As a dead process leaves it: the file is there, and nobody listens.
    let socket = rig.socket("nvidia-gpu.sock");
    within(|| std::os::unix::net::UnixStream::connect(&socket).is_err()).await;
    assert!(socket.exists());
    assert_eq!(kubelet.requests().len(), 1);
    rig.offer(vec![two()]);
    kubelet.registered("nvidia.com/gpu", 2).await;
}

#[tokio::test]
async fn one_that_hangs_answers_nothing() {
    let mut rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::start(rig.place()).await;
    settled(&mut rig, &kubelet, 1).await;
    let mut plugin = rig.client("nvidia-gpu.sock").await;
    plugin.get_device_plugin_options(Empty {}).await.unwrap();
    let mut sick = with(Mischief {
        hangs: true,
        ..Mischief::default()
    });
    sick[0].devices = Arc::from([device("GPU-a", false, None)]);
    rig.offer(sick);
    rig.standing(
        "nvidia.com/gpu",
        |it| matches!(it, Standing::Away(why) if why.contains("misbehaves")),
    )
    .await;
    let mut answer = tokio::spawn(async move { plugin.get_device_plugin_options(Empty {}).await });
    // Nothing but healing lets the answer come; the list that changed meanwhile was not told.
    assert!(
        tokio::time::timeout(Duration::from_millis(300), &mut answer)
            .await
            .is_err()
    );
    assert_eq!(kubelet.told("nvidia.com/gpu"), 1);
    let mut well = two();
    well.devices = Arc::from([device("GPU-b", true, None)]);
    rig.offer(vec![well]);
    let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap();
    answer.unwrap().unwrap();
    rig.standing("nvidia.com/gpu", |it| matches!(it, Standing::Registered(_)))
        .await;
    let lists = kubelet
        .lists("nvidia.com/gpu", |lists| lists.len() == 2)
        .await;
    assert_eq!(lists[1], [("GPU-b".into(), true, None)]);
}

#[tokio::test]
async fn one_that_is_late_or_of_another_age_comes_back_wrongly() {
    let mut rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::start(rig.place()).await;
    settled(&mut rig, &kubelet, 1).await;
    rig.offer(with(Mischief {
        wrong_version: true,
        ..Mischief::default()
    }));
    kubelet.ended("nvidia.com/gpu", 1).await;
    rig.standing(
        "nvidia.com/gpu",
        |it| matches!(it, Standing::Away(why) if why.contains("v1alpha1")),
    )
    .await;
    rig.offer(vec![two()]);
    settled(&mut rig, &kubelet, 2).await;
    // So late that it never comes, unless it heals.
    let late = Some(Duration::from_secs(86_400));
    rig.offer(with(Mischief {
        late,
        ..Mischief::default()
    }));
    kubelet.ended("nvidia.com/gpu", 2).await;
    rig.offer(vec![two()]);
    settled(&mut rig, &kubelet, 3).await;
    // Late, and then it comes by itself.
    let late = Some(Duration::from_millis(100));
    rig.offer(with(Mischief {
        late,
        ..Mischief::default()
    }));
    settled(&mut rig, &kubelet, 4).await;
    // Healing changes nothing about one that has come: a kubelet would refuse it a second time.
    let (asked, told) = (kubelet.requests().len(), kubelet.told("nvidia.com/gpu"));
    rig.offer(vec![two()]);
    rig.standing("nvidia.com/gpu", |it| matches!(it, Standing::Registered(_)))
        .await;
    let mut sick = vec![two()];
    sick[0].devices = Arc::from([device("GPU-a", false, None)]);
    rig.offer(sick);
    kubelet
        .lists("nvidia.com/gpu", |lists| lists.len() == told + 1)
        .await;
    assert_eq!(kubelet.requests().len(), asked);
}

#[tokio::test]
async fn one_that_disconnects_or_loses_its_socket_comes_back_when_it_heals() {
    let mut rig = Rig::start(vec![two()]).await;
    let kubelet = Kubelet::start(rig.place()).await;
    settled(&mut rig, &kubelet, 1).await;
    rig.offer(with(Mischief {
        disconnects: true,
        ..Mischief::default()
    }));
    kubelet.ended("nvidia.com/gpu", 1).await;
    rig.offer(vec![two()]);
    settled(&mut rig, &kubelet, 2).await;
    rig.offer(with(Mischief {
        unlinked: true,
        ..Mischief::default()
    }));
    let socket = rig.socket("nvidia-gpu.sock");
    within(|| !socket.exists()).await;
    // What is connected stays so.
    let mut sick = with(Mischief {
        unlinked: true,
        ..Mischief::default()
    });
    sick[0].devices = Arc::from([device("GPU-a", false, None)]);
    let told = kubelet.told("nvidia.com/gpu");
    rig.offer(sick);
    kubelet
        .lists("nvidia.com/gpu", |lists| lists.len() == told + 1)
        .await;
    rig.offer(vec![two()]);
    kubelet.accepted("nvidia.com/gpu", 3).await;
    assert!(socket.exists());
}
