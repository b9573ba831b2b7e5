use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn read(pod: &Pod, container: &str) -> (Activity, Vec<Complaint>) {
    let (activity, complaints, _) = of(pod, container, None);
    (activity, complaints)
}

fn pod(annotations: &[(&str, &str)], labels: &[(&str, &str)]) -> Pod {
    let map = |list: &[(&str, &str)]| {
        let pairs = list.iter().map(|&(k, v)| (k.to_owned(), v.to_owned()));
        pairs.collect()
    };
    Pod {
        uid: "u".into(),
        namespace: "team".into(),
        name: "train".into(),
        annotations: map(annotations),
        labels: map(labels),
        ..Pod::default()
    }
}

fn busy(activity: &Activity) -> (f64, f64) {
    let Range { low, high } = activity.steps[0].utilization;
    (low, high)
}

fn good(pod: &Pod) -> Activity {
    let (activity, complaints) = read(pod, "main");
    assert_eq!(complaints, []);
    activity
}

#[test]
fn a_running_container_is_fully_busy_unless_told_otherwise() {
    assert_eq!(good(&pod(&[], &[])), Activity::usual());
    for (text, range) in [
        ("50", (50.0, 50.0)),
        ("0", (0.0, 0.0)),
        ("20-80", (20.0, 80.0)),
        (" 7 ", (7.0, 7.0)),
    ] {
        let pod = pod(&[(UTILIZATION, text)], &[]);
        assert_eq!(busy(&good(&pod)), range, "{text}");
    }
}

#[test]
fn kinds_are_those_of_fake_gpu_operator() {
    for (kind, range) in [
        ("TrainingWorkload", (80.0, 100.0)),
        ("InteractiveWorkload", (0.0, 0.0)),
        ("InferenceWorkload", (1.0, 1.0)),
        ("DistributedWorkload", (1.0, 1.0)),
        ("SomethingElse", (100.0, 100.0)),
    ] {
        let kind_only = pod(&[], &[(KIND, kind)]);
        assert_eq!(busy(&good(&kind_only)), range, "{kind}");
        let both = pod(&[(UTILIZATION, "33")], &[(KIND, kind)]);
        assert_eq!(busy(&good(&both)), (33.0, 33.0), "{kind}");
    }
}

#[test]
fn idle_pods_and_reservations_do_nothing_whatever_they_say() {
    let mut idle = pod(&[(UTILIZATION, "90")], &[]);
    idle.name = "runai-idle-gpu-x".into();
    assert_eq!(busy(&good(&idle)), (0.0, 0.0));
    let mut reservation = pod(&[], &[]);
    reservation.namespace = RESERVATIONS.into();
    assert!(good(&reservation).names_memory());
}

#[test]
fn a_schedule_that_was_cut_off_says_so() {
    let long = format!("[{}]", r#"{"utilization":10},"#.repeat(4000));
    let (activity, complaints) = read(&pod(&[(SCHEDULE, &long), (UTILIZATION, "30")], &[]), "main");
    assert_eq!(busy(&activity), (30.0, 30.0));
    assert!(complaints[0].message.contains("more than 64 KiB"));
}

#[test]
fn a_container_may_have_annotations_of_its_own() {
    let pod = pod(
        &[
            (UTILIZATION, "10"),
            ("run.ai/simulated-gpu-utilization.main", "60"),
            ("gpu-fraction.other", "0.5"),
        ],
        &[],
    );
    assert_eq!(busy(&read(&pod, "main").0), (60.0, 60.0));
    assert_eq!(busy(&read(&pod, "other").0), (10.0, 10.0));
    assert_eq!(read(&pod, "main").0.fraction, None);
    assert_eq!(read(&pod, "other").0.fraction, Some(0.5));
}

#[test]
fn a_bad_value_is_complained_of_and_the_next_rule_counts() {
    for (annotations, labels, range, word) in [
        (
            &[(UTILIZATION, "lots")][..],
            &[][..],
            (100.0, 100.0),
            "lots",
        ),
        (&[(UTILIZATION, "80-20")], &[], (100.0, 100.0), "80-20"),
        (&[(UTILIZATION, "101")], &[], (100.0, 100.0), "101"),
        (&[(UTILIZATION, "")], &[], (100.0, 100.0), UTILIZATION),
        (
            &[(UTILIZATION, "-5")],
            &[(KIND, "TrainingWorkload")],
            (80.0, 100.0),
            "-5",
        ),
        (
            &[(SCHEDULE, "[]"), (UTILIZATION, "40")],
            &[],
            (40.0, 40.0),
            "no steps",
        ),
        (&[(FRACTION, "1.5")], &[], (100.0, 100.0), "at most 1"),
        (&[(FRACTION, "NaN")], &[], (100.0, 100.0), "NaN"),
    ] {
        let (activity, complaints) = read(&pod(annotations, labels), "main");
        assert_eq!(busy(&activity), range, "{annotations:?}");
        assert_eq!(complaints.len(), 1, "{annotations:?}");
        let said = &complaints[0].message;
        assert!(said.contains(word), "{said}");
        assert_eq!(activity.fraction, None);
    }
}

fn scheduled(text: &str) -> Result<Activity, String> {
    let (activity, complaints) = read(&pod(&[(SCHEDULE, text)], &[]), "main");
    match complaints.into_iter().next() {
        None => Ok(activity),
        Some(complaint) => Err(complaint.message),
    }
}

#[test]
fn a_schedule_runs_as_often_as_it_says_and_then_is_quiet() {
    let hour = Some(Duration::from_secs(3600));
    let steps = r#"{"time":"1h","utilization":80,"memory":"10GiB"},{"time":"1h","utilization":0}"#;
    for text in [
        format!(r#"[{steps},{{"repeat":5}}]"#),
        format!(r#"{{"steps":[{steps}],"repeat":5}}"#),
        format!(r#"{{"schedule":[{steps}],"repeat":5}}"#),
    ] {
        let activity = scheduled(&text).expect("it is good");
        assert_eq!(activity.steps.len(), 11);
        assert!(!activity.is_endless && activity.names_memory());
        for (at, step) in activity.steps[..10].iter().enumerate() {
            let busy = if at % 2 == 0 { 80.0 } else { 0.0 };
            assert_eq!((step.duration, step.utilization.low), (hour, busy));
        }
        let last = &activity.steps[10];
        assert_eq!((last.duration, last.utilization.high), (None, 0.0));
        assert_eq!(last.memory, activity.steps[0].memory);
    }
    let endless = scheduled(&format!(r#"{{"steps":[{steps}],"repeat":"forever"}}"#));
    let endless = endless.expect("it is good");
    assert!(endless.is_endless && endless.steps.len() == 2);
    // A last step without end is the quiet itself.
    let open = scheduled(r#"[{"time":"10s","utilization":"20-30"},{"utilization":5}]"#);
    assert_eq!(open.expect("it is good").steps.len(), 2);
}

#[test]
fn a_schedule_knows_memory_bandwidth_and_functions() {
    let text = r#"[{"for":"90s","utilization":"10-90","memory":"50%","bandwidth":30,"interconnect":"5-6","function":"ramp"}]"#;
    let activity = scheduled(text).expect("it is good");
    let step = &activity.steps[0];
    assert_eq!(step.function, Function::Ramp);
    assert_eq!(step.bandwidth.map(|range| range.low), Some(30.0));
    assert_eq!(step.interconnect.map(|range| range.high), Some(6.0));
    let half = Range {
        low: 50.0,
        high: 50.0,
    };
    assert_eq!(step.memory, Some(Amount::Share(half)));
}

#[test]
fn a_bad_schedule_says_which_step_and_why() {
    for (text, words) in [
        ("{", "no JSON"),
        ("7", "neither a list"),
        ("{}", "no list of steps"),
        ("[7]", "step 1"),
        (r#"{"steps":[{"time":"1h"}],"rounds":5}"#, "rounds"),
        (r#"[{"utilization":1},{"time":"1h"}]"#, "others follow"),
        (r#"[{"time":"1h"},{"time":"soon"}]"#, "step 2: time"),
        (r#"[{"time":"0"}]"#, "some time"),
        (r#"[{"time":3600,"utilization":5}]"#, "3600s"),
        (r#"[{"time":"1h","utilization":[5]}]"#, "neither text"),
        (r#"[{"time":"1h","power":5}]"#, "power"),
        (r#"[{"time":"1h","function":"saw"}]"#, "random, ramp"),
        (r#"[{"time":"1h"},{"repeat":0}]"#, "from 1"),
        (r#"[{"utilization":9},{"repeat":2}]"#, "nothing repeats"),
        (r#"[{"time":"1h"},{"repeat":99999}]"#, "forever"),
    ] {
        let said = scheduled(text).expect_err(text);
        assert!(said.contains(words), "{text}: {said}");
    }
}

proptest! {
    #[test]
    fn no_value_of_an_annotation_does_harm(
        text in ".{0,64}",
        json in "[\\[\\]{}\",:0-9a-z% -]{0,80}",
        name in "[a-z-]{0,16}",
    ) {
        for value in [&text, &json] {
            for key in [SCHEDULE, UTILIZATION, FRACTION] {
                let mut pod = pod(&[(key, value)], &[(KIND, value)]);
                pod.name = name.clone();
                let (activity, complaints) = read(&pod, "main");
                prop_assert!(!activity.steps.is_empty());
                let sound = |step: &ActivityStep| {
                    let Range { low, high } = step.utilization;
                    (0.0..=100.0).contains(&low) && low <= high && high <= 100.0
                };
                prop_assert!(activity.steps.iter().all(sound));
                prop_assert!(complaints.iter().all(|complaint| complaint.message.len() < 2000));
            }
        }
    }

    #[test]
    fn steps_of_any_shape_are_read_or_refused(
        steps in proptest::collection::vec((0u64..100_000, -50i64..200, 0u64..5), 0..20),
        repeat in 0u64..300,
    ) {
        let list: Vec<_> = steps.iter().map(|(time, busy, gib)| serde_json::json!({
            "time": format!("{time}s"), "utilization": busy, "memory": format!("{gib}GiB"),
        })).collect();
        let text = serde_json::json!({ "steps": list, "repeat": repeat }).to_string();
        if let Ok(activity) = scheduled(&text) {
            let good = steps.iter().all(|(time, busy, _)| *time > 0 && (0..=100).contains(busy));
            prop_assert!(good && repeat > 0);
            prop_assert_eq!(activity.steps.len(), steps.len() * repeat as usize + 1);
        }
    }
}
