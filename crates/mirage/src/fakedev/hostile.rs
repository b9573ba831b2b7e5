//! Whatever the files and the workloads say: nobody panics, every number shown lies within its
//! limits, and counters never fall.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;

use super::{DeviceType, Fleet, Identity, Spec, World};

const TYPE: &str = include_str!("../../tests/fakedev/files/two-tile.json");
const LIST: &str = include_str!("../../tests/fakedev/files/devices.json");
const IDENTITY: &str = include_str!("../../tests/fakedev/files/two-tile-identity.json");
const WORKLOAD: &str = include_str!("../../tests/fakedev/files/training.json");

/// What somebody might write in place of something sensible.
fn odd_value() -> impl Strategy<Value = Value> {
    let numbers = prop::sample::select(vec![
        "0",
        "-1",
        "1",
        "0.5",
        "100",
        "1e-320",
        "1e308",
        "-1e308",
        "18446744073709551615",
        "null",
        "true",
        "[]",
        "{}",
        "\"\"",
        "\"card0\"",
        "\"usage\"",
        "\"power\"",
        "\"a\\\"b\\n\"",
    ]);
    numbers.prop_map(|text| serde_json::from_str(text).expect("it is JSON"))
}

/// Every value of a document, in the order they stand, the document itself first.
fn walk(value: &mut Value, left: &mut usize, odd: &Value) {
    if *left == 0 {
        *left = usize::MAX;
        *value = odd.clone();
        return;
    }
    *left = left.saturating_sub(1);
    match value {
        Value::Array(list) => list.iter_mut().for_each(|next| walk(next, left, odd)),
        Value::Object(map) => map.values_mut().for_each(|next| walk(next, left, odd)),
        _ => {}
    }
}

/// A document with some of its values replaced.
fn bent(text: &'static str) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((1usize..120, odd_value()), 0..3).prop_map(move |changes| {
        let mut document: Value = serde_json::from_str(text).expect("a sample is JSON");
        for (place, odd) in changes {
            walk(&mut document, &mut { place }, &odd);
        }
        document.to_string().into_bytes()
    })
}

/// Every series of a page and its value.
fn series(page: &str) -> Vec<(&str, f64)> {
    page.lines()
        .skip(1)
        .map(|line| {
            let (head, value) = line.rsplit_once(' ').expect("a series has a value");
            (head, value.parse().expect("a value is a number"))
        })
        .collect()
}

proptest! {
    // The same cases on every run: a change that breaks one is the change that broke it.
    #![proptest_config(ProptestConfig {
        cases: 150,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_that_is_written_breaks_the_world(
        kind in bent(TYPE),
        identity in bent(IDENTITY),
        workloads in prop::collection::vec(bent(WORKLOAD), 1..4),
        seed in any::<u64>(),
    ) {
        let (Ok(kind), Ok(identity)) = (DeviceType::parse(&kind), Identity::parse(&identity)) else {
            return Ok(());
        };
        let Ok(fleet) = Fleet::new(kind, LIST.as_bytes(), 3) else {
            return Ok(());
        };
        let fleet = Arc::new(fleet);
        let Ok(mut world) = World::new(fleet.clone(), &identity, seed, Duration::from_secs(7)) else {
            return Ok(());
        };
        world.settle();
        for (id, text) in (0..).zip(&workloads) {
            if let Ok(spec) = Spec::parse_for(text, &fleet, &identity, vec![0, 2]) {
                world.join(id, spec);
            }
        }
        world.settle();
        let mut last = world.text();
        for tick in 0..40 {
            if tick == 20 {
                world.leave(0);
                world.settle();
            } else {
                world.step();
            }
            let page = world.text();
            for (head, value) in series(&page) {
                prop_assert!(value.is_finite(), "{head} {value}");
                let counter = head.starts_with("xpum_") && head.contains("_total{");
                if counter {
                    let before = series(&last).into_iter().find(|(earlier, _)| *earlier == head);
                    let before = before.map_or(value, |(_, before)| before);
                    prop_assert!(value >= before, "{head} fell from {before} to {value}");
                }
                if head.starts_with("xpum_temperature") {
                    let limits = &fleet.metrics[fleet.metric("temperature").unwrap()];
                    prop_assert!((limits.min..=limits.max).contains(&value));
                }
            }
            last = page;
        }
    }

    #[test]
    fn noise_is_refused_in_words(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let fleet = Fleet::new(
            DeviceType::parse(TYPE.as_bytes()).unwrap(),
            LIST.as_bytes(),
            1,
        ).unwrap();
        let identity = Identity::parse(IDENTITY.as_bytes()).unwrap();
        let refusal = Spec::parse(&text, &fleet, &identity).unwrap_err().to_string();
        prop_assert!(!refusal.is_empty() && !refusal.contains('\n'));
        prop_assert!(DeviceType::parse(&text).is_err());
        prop_assert!(Identity::parse(&text).is_err());
    }
}
