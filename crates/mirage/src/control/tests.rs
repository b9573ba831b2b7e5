//! Whatever arrives is answered: with a code, and with words when it is refused.

use mirage_model::config::{self, Defaults};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::*;
use crate::engine::Files;

fn core() -> Core {
    let text =
        "nodes:\n  a: { model: a100-sxm4-40gb, gpus: 2 }\n  b: { model: tesla-k80, gpus: 1 }\n";
    let plan = config::load(text, "test", &Defaults::default())
        .unwrap()
        .plan;
    Core::new(plan, 1.0, 0, 0, Files::default())
}

/// An answer, checked for what every answer must be.
fn ask(core: &mut Core, line: &[u8]) -> Value {
    let text = answer(core, line);
    assert!(text.starts_with("{\"code\":"), "{text}");
    assert!(!text.contains('\n'), "{text}");
    let value: Value = serde_json::from_str(&text).unwrap();
    let code = value["code"].as_u64().unwrap();
    assert_eq!(code == 0, value.get("error").is_none(), "{text}");
    if let Some(error) = value.get("error") {
        assert!(!error.as_str().unwrap().is_empty());
    }
    core.publish_changes();
    value
}

const OPS: &[&str] = &[
    "status",
    "pause",
    "resume",
    "step",
    "fault.list",
    "fault.inject",
    "fault.heal",
    "set",
    "workload.list",
    "workload.add",
    "workload.remove",
    "mig.list",
    "mig.enable",
    "mig.disable",
    "mig.create",
    "mig.destroy",
    "reset",
    "nvml",
];

const CALLS: &[&str] = &[
    "set_power_limit",
    "set_locked_clocks",
    "set_app_clocks",
    "set_fan",
    "set_compute_mode",
    "update_profiles",
    "set_auto_boost",
    "set_mig",
    "create_gi",
    "create_ci",
    "destroy_gi",
    "destroy_ci",
    "reset",
];

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        (0u32..9).prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        "(all|a/[0-9]|b/0|a/0:[0-9]|\\*|GPU-[0-9a-f]{4}|,|a/9-0)".prop_map(Value::from),
        "(xid|ecc|cooling|hang|lost|link-down|slow-api)(=[-0-9a-zA-Z.,]{0,12})? device=a/[0-2]"
            .prop_map(Value::from),
        "[0-9]g\\.[0-9]{1,2}gb(\\+me)?".prop_map(Value::from),
        "(on|off|auto|default|-?[0-9]{1,20}(W|mW|MHz|%)?|NaN|inf|1e300)".prop_map(Value::from),
        Just(json!({ "name": "x", "devices": "a/0", "activity": [{ "utilization": 50 }] })),
        Just(json!([])),
    ]
}

fn request() -> impl Strategy<Value = Value> {
    let key = proptest::sample::select(
        &[
            "devices",
            "time",
            "fault",
            "id",
            "all",
            "name",
            "value",
            "workload",
            "profile",
            "start",
            "gpu_instance",
            "gpu",
            "call",
            "mw",
            "on",
            "min",
            "max",
            "mem",
            "sm",
            "mode",
            "fan",
            "percent",
            "gi",
            "ci",
            "aggregate",
            "change",
            "mask",
            "other",
        ][..],
    );
    let fields = proptest::collection::vec((key, value()), 0..8);
    let op = proptest::sample::select(OPS);
    let call = proptest::sample::select(CALLS);
    (op, call, fields).prop_map(|(op, call, fields)| {
        let mut request = json!({ "op": op });
        if op == "nvml" {
            request["call"] = call.into();
            request["gpu"] = mirage_model::identity::Identity::of(
                "a",
                0,
                2,
                &mirage_model::catalogue::board("a100-sxm4-40gb").unwrap(),
                None,
            )
            .uuid
            .into();
        }
        for (key, value) in fields {
            request[key] = value;
        }
        request
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_refused(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        thread_local! { static CORE: std::cell::RefCell<Core> = core().into(); }
        CORE.with_borrow_mut(|core| { ask(core, &line); });
    }

    #[test]
    fn random_requests_are_answered(requests in proptest::collection::vec(request(), 1..6)) {
        let mut core = core();
        for request in requests {
            ask(&mut core, request.to_string().as_bytes());
        }
        core.tick();
    }

    #[test]
    fn cut_requests_are_refused(request in request(), at in 0usize..200) {
        let text = request.to_string();
        let cut = &text.as_bytes()[..at.min(text.len() - 1)];
        prop_assert!(Request::parse(cut).is_err());
    }
}

#[test]
fn time_stands_still_and_moves_by_hand() {
    let mut core = core();
    let time = |core: &Core| core.fleet().all().sim_ms;
    assert_eq!(ask(&mut core, br#"{"op":"pause"}"#)["paused"], true);
    core.beat();
    core.beat();
    assert_eq!(time(&core), 0);
    let limit = br#"{"op":"set","devices":"a/0","name":"power-limit","value":"200W"}"#;
    assert_eq!(ask(&mut core, limit)["code"], 0);
    assert_eq!(core.fleet().all().nodes[0].lives[0].power_limit_mw, 200_000);
    assert_eq!(time(&core), 0);
    let answer = ask(&mut core, br#"{"op":"step","time":"1m30s"}"#);
    assert_eq!(
        (&answer["paused"], &answer["time_s"]),
        (&true.into(), &90.0.into())
    );
    assert_eq!(time(&core), 90_000);
    core.beat();
    assert_eq!(time(&core), 90_000);
    assert_eq!(ask(&mut core, br#"{"op":"status"}"#)["paused"], true);
    assert_eq!(ask(&mut core, br#"{"op":"resume"}"#)["paused"], false);
    core.beat();
    assert_eq!(time(&core), 91_000);
    for wrong in ["0s", "25h", "-1s", "soon", ""] {
        let line = json!({ "op": "step", "time": wrong }).to_string();
        assert_eq!(
            ask(&mut core, line.as_bytes())["code"],
            codes::INVALID_ARGUMENT
        );
        assert_eq!(time(&core), 91_000, "{wrong}");
    }
}

#[test]
fn a_change_of_many_devices_tells_what_was_refused() {
    let mut core = core();
    let answer = ask(&mut core, br#"{"op":"mig.enable","devices":"all"}"#);
    assert_eq!(
        (&answer["done"], &answer["refused"]),
        (&2.into(), &1.into())
    );
    assert_eq!(answer["code"], codes::NOT_SUPPORTED);
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("b/0"), "{error}");
}

#[test]
fn settings_of_one_age_are_refused_on_boards_of_another() {
    let mut core = core();
    let set = |devices: &str, name: &str, value: &str| {
        json!({ "op": "set", "devices": devices, "name": name, "value": value }).to_string()
    };
    let mut code = |line: String| ask(&mut core, line.as_bytes())["code"].as_u64();
    let refused = Some(u64::from(codes::NOT_SUPPORTED));
    assert_eq!(code(set("b/0", "auto-boost", "off")), Some(0));
    assert_eq!(code(set("a/0", "auto-boost", "off")), refused);
    assert_eq!(code(set("a/0", "workload-profiles", "max-q")), refused);
    let flags = core.fleet().all().nodes[1].lives[0].flags;
    assert_eq!(flags & mirage_state::layout::flags::AUTO_BOOST, 0);
}

#[test]
fn mig_devices_made_at_run_time_are_named_by_id_position_and_star() {
    let mut core = core();
    let list = |core: &mut Core| ask(core, br#"{"op":"mig.list","devices":"a/1"}"#);
    ask(&mut core, br#"{"op":"mig.enable","devices":"a/1"}"#);
    for _ in 0..2 {
        let create = br#"{"op":"mig.create","devices":"a/1","profile":"3g.20gb"}"#;
        assert_eq!(ask(&mut core, create)["code"], 0);
    }
    let made = list(&mut core)["gpus"][0]["instances"].clone();
    let uuid = made[1]["uuid"].as_str().unwrap();
    let add = |core: &mut Core, name: &str, devices: &str| {
        let workload = format!("name={name} devices={devices} utilization=50");
        let line = json!({ "op": "workload.add", "workload": workload }).to_string();
        ask(core, line.as_bytes())
    };
    let used = |core: &mut Core, name: &str| {
        let all = ask(core, br#"{"op":"workload.list"}"#)["workloads"].clone();
        let found = all.as_array().unwrap().iter().find(|w| w["name"] == name);
        found.unwrap()["devices"].clone()
    };
    let names = [
        ("by-id", uuid.to_owned(), json!(["a/1:1"])),
        ("shouted", uuid.to_uppercase(), json!(["a/1:1"])),
        ("by-place", "a/1:0".into(), json!(["a/1:0"])),
        ("starred", "a/*:*".into(), json!(["a/1:0", "a/1:1"])),
    ];
    for (name, devices, means) in names {
        assert_eq!(add(&mut core, name, &devices)["code"], 0, "{name}");
        assert_eq!(used(&mut core, name), means, "{name}");
    }
    let fault = json!({ "op": "fault.inject", "fault": format!("xid=13 device={uuid}") });
    assert_eq!(ask(&mut core, fault.to_string().as_bytes())["code"], 0);
    for gone in ["a/1:2", "a/0:*", "MIG-none"] {
        let answer = add(&mut core, "gone", gone);
        assert_eq!(answer["code"], codes::INVALID_ARGUMENT, "{gone}");
    }
}
