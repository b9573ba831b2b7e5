use crate::fakedev::device::DeviceType;

use super::*;

const STOCK: &str = r#"{"MetricLimits": {"power": {"Min": 10, "Max": 110},
                                         "clock": {"Min": 300, "Max": 1300}}}"#;
const STOCK_IDENTITY: &str = r#"{"DeviceLabelMap": {"file": "dev"},
                                 "MetricMap": {"power": "power", "clock": "clock"}}"#;
const LIST: &str = r#"{"DeviceLabels": [{"file": "card0"}, {"file": "card1"}, {"file": "card2"}]}"#;

/// A world, and the files it was made from.
struct Bench {
    world: World,
    fleet: Arc<Fleet>,
    identity: Identity,
    next: u64,
}

impl Bench {
    fn new(kind: &str, identity: &str, seed: u64) -> Bench {
        let kind = DeviceType::parse(kind.as_bytes()).unwrap();
        let fleet = Arc::new(Fleet::new(kind, LIST.as_bytes(), 3).unwrap());
        let identity = Identity::parse(identity.as_bytes()).unwrap();
        let mut world = World::new(fleet.clone(), &identity, seed, Duration::from_secs(1)).unwrap();
        assert_eq!(world.settle(), []);
        Bench {
            world,
            fleet,
            identity,
            next: 0,
        }
    }

    fn stock() -> Bench {
        Bench::new(STOCK, STOCK_IDENTITY, 7)
    }

    /// A workload with these members besides its name; how it ended if it did at once.
    fn join(&mut self, members: &str) -> (u64, Vec<(u64, Ending)>) {
        let text = format!(r#"{{"Name": "wl", {members}}}"#);
        let spec = Spec::parse(text.as_bytes(), &self.fleet, &self.identity).unwrap();
        let id = self.next;
        self.next += 1;
        self.world.join(id, spec);
        (id, self.world.settle())
    }

    fn load(&mut self, device: &str, step: &str) -> u64 {
        let (id, ended) = self.join(&format!(r#""Devices": ["{device}"], "Profile": [{step}]"#));
        assert_eq!(ended, []);
        id
    }

    fn leave(&mut self, id: u64) {
        assert!(self.world.leave(id));
        assert_eq!(self.world.settle(), []);
    }

    /// The value of the one series that begins with this.
    fn value(&self, head: &str) -> f64 {
        let text = self.world.text();
        let mut found = text.lines().filter(|line| line.starts_with(head));
        let line = found
            .next()
            .unwrap_or_else(|| panic!("no {head} in {text}"));
        assert_eq!(found.next(), None, "{head} in {text}");
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    }

    fn power(&self, device: usize) -> f64 {
        self.value(&format!("power{{dev=\"card{device}\""))
    }
}

#[test]
fn loads_add_up_per_device_and_stop_at_the_limits() {
    let mut bench = Bench::stock();
    assert_eq!(bench.power(0), 10.0);
    let first = bench.load("card0", r#"{"Load": 50}"#);
    bench.load("card0", r#"{"Load": 25}"#);
    assert_eq!((bench.power(0), bench.power(1)), (85.0, 10.0));
    assert_eq!(bench.value("clock{dev=\"card0\""), 1050.0);
    let third = bench.load("card0", r#"{"Load": 100}"#);
    assert_eq!(bench.power(0), 110.0);
    bench.leave(third);
    bench.leave(first);
    assert_eq!(bench.power(0), 35.0, "a share is free at once");
    assert!(!bench.world.leave(first));
    assert_eq!(bench.world.workloads(), 1);
}

#[test]
fn fluctuation_swings_the_whole_way_to_both_sides() {
    let mut bench = Bench::stock();
    bench.load("card0", r#"{"Load": 50, "Fluctuation": 20}"#);
    let mut seen = Vec::new();
    for _ in 0..400 {
        bench.world.step();
        seen.push(bench.power(0));
        assert!((40.0..=80.0).contains(&bench.power(0)));
    }
    // Half the swing, as in the original, would stay within 50..=70.
    assert!(seen.iter().any(|power| *power < 43.0));
    assert!(seen.iter().any(|power| *power > 77.0));
}

#[test]
fn one_load_drives_all_metrics_together() {
    let mut bench = Bench::stock();
    bench.load("card0", r#"{"Load": 50, "Fluctuation": 20}"#);
    for _ in 0..50 {
        bench.world.step();
        let power = (bench.power(0) - 10.0) / 100.0;
        let clock = (bench.value("clock{dev=\"card0\"") - 300.0) / 1000.0;
        assert!((power - clock).abs() < 1e-9);
    }
}

#[test]
fn a_finished_workload_does_not_count_in_its_last_page() {
    let mut bench = Bench::stock();
    let members = r#""Devices": ["card0"], "Repeat": 1,
                     "Profile": [{"Load": 20, "Seconds": 2}, {"Load": 60, "Seconds": 1}]"#;
    let (id, _) = bench.join(members);
    let mut seen = vec![bench.power(0)];
    let ending = loop {
        let ended = bench.world.step();
        seen.push(bench.power(0));
        if let [(ended, ending)] = ended.as_slice() {
            assert_eq!(*ended, id);
            break ending.clone();
        }
    };
    assert_eq!(seen, [30.0, 30.0, 70.0, 10.0]);
    assert_eq!(ending, Ending::Finished);
    assert_eq!(
        (ending.code(), ending.to_string().as_str()),
        (0, "Workload finished")
    );
}

#[test]
fn a_workload_that_comes_between_two_ticks_is_not_cut_short() {
    let mut bench = Bench::stock();
    bench.world.step();
    let text = br#"{"Name": "wl", "Devices": ["card0"], "Repeat": 1, "Limits": {"runtime": 9},
                    "Profile": [{"Load": 20, "Seconds": 1}, {"Load": 60, "Seconds": 1}]}"#;
    let spec = Spec::parse(text, &bench.fleet, &bench.identity).unwrap();
    bench.world.join_between(0, spec);
    assert_eq!(bench.world.settle(), []);
    let mut seen = vec![bench.power(0)];
    while bench.world.step().is_empty() {
        seen.push(bench.power(0));
    }
    // What is left of the first tick, and two whole ones.
    assert_eq!(seen, [30.0, 30.0, 70.0]);
}

#[test]
fn laps_do_not_drift_from_ticks_that_are_too_coarse() {
    let kind = DeviceType::parse(STOCK.as_bytes()).unwrap();
    let fleet = Arc::new(Fleet::new(kind, LIST.as_bytes(), 1).unwrap());
    let identity = Identity::parse(STOCK_IDENTITY.as_bytes()).unwrap();
    let pace = Duration::from_millis(2500);
    let mut world = World::new(fleet.clone(), &identity, 1, pace).unwrap();
    let text = br#"{"Name": "wl", "Devices": ["card0"], "Repeat": 10,
                    "Profile": [{"Load": 20, "Seconds": 1}, {"Load": 60, "Seconds": 1}]}"#;
    world.join(0, Spec::parse(text, &fleet, &identity).unwrap());
    let mut ticks = 1;
    while world.step().is_empty() {
        ticks += 1;
    }
    assert_eq!(ticks, 8, "20 seconds in ticks of 2.5");
}

#[test]
fn repeat_zero_is_for_ever() {
    let mut bench = Bench::stock();
    bench.load("card0", r#"{"Load": 20, "Seconds": 1}"#);
    for _ in 0..1000 {
        assert_eq!(bench.world.step(), []);
    }
    assert_eq!(bench.power(0), 30.0);
}

#[test]
fn comings_and_goings_leave_everything_else_as_it_was() {
    let mut bench = Bench::stock();
    bench.load("card0", r#"{"Load": 50, "Fluctuation": 50}"#);
    bench.world.step();
    let text = bench.world.text();
    let idle = bench.load("card0", r#"{"Load": 0}"#);
    assert_eq!(bench.world.text(), text);
    let busy = bench.load("card0", r#"{"Load": 10}"#);
    assert_ne!(bench.world.text(), text);
    bench.leave(busy);
    bench.leave(idle);
    assert_eq!(bench.world.text(), text);
}

#[test]
fn a_seed_decides_everything() {
    let run = |seed| {
        let mut bench = Bench::new(STOCK, STOCK_IDENTITY, seed);
        bench.load("card0", r#"{"Load": 50, "Fluctuation": 50}"#);
        bench.load("card1", r#"{"Load": 50, "Fluctuation": 10}"#);
        let mut pages = Vec::new();
        for _ in 0..20 {
            bench.world.step();
            pages.push(bench.world.text());
        }
        pages
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
    let pages = run(3);
    assert!(pages.windows(2).all(|pair| pair[0] != pair[1]));
}

const RICH: &str = r#"{
    "SubDevices": 2,
    "Capability": 10,
    "MetricLimits": {
        "usage": {"Max": 1, "Scope": "subdevice"},
        "memory": {"Max": 1000, "Scope": "subdevice"},
        "total": {"Min": 5, "Max": 1005, "Terminate": 905},
        "bandwidth": {"Max": 1000, "Rate": true},
        "heat": {"Max": 100, "Terminate": 80},
        "hangs": {"Counter": true, "Terminate": 20}
    },
    "MetricDimensions": {"bandwidth": {"direction": {"read": 0.75, "write": 0.25}}},
    "Relations": [{"From": "usage", "To": "heat"}]
}"#;
const RICH_IDENTITY: &str = r#"{
    "DeviceLabelMap": {"file": "dev", "subdevice": "sub"},
    "MetricMap": {"usage": "", "memory": "", "total": "", "bandwidth": "", "heat": "", "hangs": ""},
    "WorkloadMetricMap": {"memory": "wl_memory", "hangs": "wl_hangs"},
    "WorkloadLabelMap": {"workload": "wl", "pod": "pod"}
}"#;

fn rich() -> Bench {
    Bench::new(RICH, RICH_IDENTITY, 7)
}

fn members(device: &str, metrics: &str, more: &str) -> String {
    format!(r#""Devices": ["{device}"], "Profile": [{{"Metrics": {{{metrics}}}}}]{more}"#)
}

#[test]
fn shares_hold_for_every_sub_device_and_amounts_are_split() {
    let mut bench = rich();
    bench.join(&members(
        "card0",
        r#""usage": {"Min": 0.5, "Unit": "share"}, "memory": 100"#,
        "",
    ));
    assert_eq!(bench.value("usage{dev=\"card0\", sub=\"1\""), 0.5);
    assert_eq!(bench.value("memory{dev=\"card0\", sub=\"0\""), 50.0);
    assert_eq!(bench.value("heat{dev=\"card0\""), 50.0);
    let half = r#""usage": {"Min": 0.5, "Unit": "share"}, "memory": 100, "total": {"Min": 0.5, "Unit": "share"}"#;
    bench.join(&members("card1.1", half, ""));
    assert_eq!(bench.value("usage{dev=\"card1\", sub=\"0\""), 0.0);
    assert_eq!(bench.value("memory{dev=\"card1\", sub=\"1\""), 100.0);
    assert_eq!(bench.value("heat{dev=\"card1\""), 25.0);
    assert_eq!(bench.value("total{dev=\"card1\""), 255.0);
}

#[test]
fn dimensions_show_their_share() {
    let mut bench = rich();
    bench.join(&members("card0", r#""bandwidth": 400"#, ""));
    assert_eq!(
        bench.value("bandwidth{dev=\"card0\", direction=\"read\""),
        300.0
    );
    assert_eq!(
        bench.value("bandwidth{dev=\"card0\", direction=\"write\""),
        100.0
    );
}

#[test]
fn a_faster_device_does_more_per_second_for_a_shorter_time() {
    let mut bench = rich();
    let spec = r#""Devices": ["card0"], "Capability": 5, "Repeat": 1,
                  "Profile": [{"Seconds": 6, "Metrics": {"bandwidth": 200, "total": 100}}]"#;
    bench.join(spec);
    assert_eq!(
        bench.value("bandwidth{dev=\"card0\", direction=\"read\""),
        300.0
    );
    assert_eq!(bench.value("total{dev=\"card0\""), 105.0);
    assert_eq!(bench.world.step(), []);
    assert_eq!(bench.world.step(), []);
    assert_eq!(bench.world.step(), [(0, Ending::Finished)]);
}

#[test]
fn counters_grow_with_time_and_never_fall() {
    let mut bench = rich();
    let (id, _) = bench.join(&members("card0", r#""hangs": 2"#, ""));
    assert_eq!(bench.value("hangs{dev=\"card0\""), 0.0);
    bench.world.step();
    bench.world.step();
    assert_eq!(bench.value("hangs{dev=\"card0\""), 4.0);
    assert_eq!(bench.value("wl_hangs{dev=\"card0\""), 4.0);
    bench.load("card0", r#"{"Load": 0}"#);
    assert_eq!(bench.value("hangs{dev=\"card0\""), 4.0);
    bench.leave(id);
    assert_eq!(bench.value("hangs{dev=\"card0\""), 4.0);
    bench.world.step();
    assert_eq!(bench.value("hangs{dev=\"card0\""), 4.0);
}

#[test]
fn functions_rise_or_wander_as_they_should() {
    let mut bench = rich();
    let spec = r#""Devices": ["card0"], "Profile": [{"Seconds": 20, "Metrics": {
        "total": {"Min": 0, "Max": 400, "Function": "random-increase"},
        "bandwidth": {"Min": 0, "Max": 1, "Unit": "share", "Function": "ramp"}}}]"#;
    bench.join(spec);
    let mut last = 0.0;
    for second in 1..20 {
        bench.world.step();
        let total = bench.value("total{dev=\"card0\"");
        assert!(total >= last);
        last = total;
        let read = bench.value("bandwidth{dev=\"card0\", direction=\"read\"");
        assert!((read - 750.0 * f64::from(second) / 20.0).abs() < 1e-9);
    }
    assert!((300.0..=405.0).contains(&last), "{last}");
}

#[test]
fn a_workload_past_a_limit_of_its_own_is_terminated() {
    let mut bench = rich();
    let ramp = r#""Devices": ["card0"], "Limits": {"total": 250, "runtime": 900},
        "Profile": [{"Seconds": 10, "Metrics": {"total": {"Max": 500, "Function": "ramp"}}}]"#;
    bench.join(ramp);
    for _ in 0..5 {
        assert_eq!(bench.world.step(), [], "up to the limit is fine");
    }
    assert_eq!(bench.value("total{dev=\"card0\""), 255.0);
    let ended = bench.world.step();
    assert_eq!(ended, [(0, Ending::Limit("total".to_owned()))]);
    assert_eq!(ended[0].1.to_string(), "Limit total reached, terminated");
    assert_eq!(ended[0].1.code(), 1);
    assert_eq!(bench.value("total{dev=\"card0\""), 5.0);
}

#[test]
fn a_workload_ends_when_its_run_time_is_over() {
    let mut bench = rich();
    bench.join(r#""Devices": ["card0"], "Profile": [{"Load": 1}], "Limits": {"runtime": 2}"#);
    assert_eq!(bench.world.step(), []);
    assert_eq!(
        bench.world.step(),
        [(0, Ending::Limit("runtime".to_owned()))]
    );
}

#[test]
fn a_workload_may_limit_what_it_counts_and_what_follows() {
    let mut bench = rich();
    bench.join(&members(
        "card0",
        r#""hangs": 2"#,
        r#", "Limits": {"hangs": 3}"#,
    ));
    assert_eq!(bench.world.step(), []);
    assert_eq!(bench.world.step(), [(0, Ending::Limit("hangs".to_owned()))]);
    let mild = r#""usage": {"Min": 0.3, "Unit": "share"}"#;
    assert_eq!(
        bench
            .join(&members("card1", mild, r#", "Limits": {"heat": 50}"#))
            .1,
        []
    );
    let (newer, ended) = bench.join(&members("card1", mild, ""));
    assert_eq!(
        ended,
        [(1, Ending::Limit("heat".to_owned()))],
        "60 is more than 50"
    );
    assert_eq!(bench.value("heat{dev=\"card1\""), 30.0);
    bench.leave(newer);
}

#[test]
fn a_device_s_limit_ends_whoever_crosses_it() {
    let mut bench = rich();
    assert_eq!(bench.join(&members("card0", r#""total": 600"#, "")).1, []);
    let (id, ended) = bench.join(&members("card0", r#""total": 400"#, ""));
    assert_eq!(ended, [(id, Ending::Limit("total".to_owned()))]);
    assert_eq!(
        bench.value("total{dev=\"card0\""),
        605.0,
        "the first one stays"
    );
    assert_eq!(
        bench.join(&members("card0", r#""total": 300"#, "")).1,
        [],
        "900 is not past it"
    );
    // What follows from the whole is the newest one's fault.
    let warm = r#""usage": {"Min": 0.5, "Unit": "share"}"#;
    assert_eq!(bench.join(&members("card1", warm, "")).1, []);
    let (id, ended) = bench.join(&members("card1", warm, ""));
    assert_eq!(ended, [(id, Ending::Limit("heat".to_owned()))]);
    // A counter past its limit stays there.
    assert_eq!(bench.join(&members("card2", r#""hangs": 15"#, "")).1, []);
    assert_eq!(bench.world.step(), []);
    let ended = bench.world.step();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].1, Ending::Limit("hangs".to_owned()));
}

#[test]
fn one_workload_on_two_devices_ends_on_both() {
    let mut bench = rich();
    bench.join(&members("card1", r#""total": 600"#, ""));
    let spec = r#""Devices": ["card0", "card1"], "Profile": [{"Metrics": {"total": 400}}]"#;
    let (_, ended) = bench.join(spec);
    assert_eq!(ended.len(), 1);
    assert_eq!(bench.value("total{dev=\"card0\""), 5.0);
}

#[test]
fn workloads_have_series_of_their_own() {
    let mut bench = rich();
    let pod = |pod: &str| {
        members(
            "card0.0",
            r#""memory": 100"#,
            &format!(r#", "Labels": {{"pod": "{pod}", "x": "y"}}"#),
        )
    };
    bench.join(&pod("a"));
    bench.join(&pod("b"));
    bench.join(&pod("b"));
    let text = bench.world.text();
    assert!(text.contains("wl_memory{dev=\"card0\", sub=\"0\", pod=\"a\", wl=\"wl\"} 100\n"));
    assert!(text.contains("wl_memory{dev=\"card0\", sub=\"0\", pod=\"b\", wl=\"wl\"} 200\n"));
    assert_eq!(bench.value("memory{dev=\"card0\", sub=\"0\""), 300.0);
    assert!(!text.contains("wl_memory{dev=\"card1\""));
    assert!(
        !text.contains("x="),
        "labels nobody asked for are not shown"
    );
}

#[test]
fn a_label_cannot_break_out() {
    let mut bench = rich();
    let evil = r#"x\"} 1\nfake{a=\""#;
    bench.join(&members(
        "card0",
        "",
        &format!(r#", "Labels": {{"pod": "{evil}"}}"#),
    ));
    assert!(
        bench
            .world
            .text()
            .lines()
            .all(|line| !line.starts_with("fake"))
    );
}
