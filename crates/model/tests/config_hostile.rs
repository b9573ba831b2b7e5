//! No document, however broken, may panic or take long: random bytes, and valid documents
//! with pieces cut out, doubled, swapped or replaced.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;

use mirage_model::config::{Defaults, load, parse_fault, parse_workload};
use mirage_model::plan::Plan;
use mirage_model::{quantity, select, yaml};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Reads the text every way there is; only a panic is a failure. What is refused must be
/// explained.
fn read_every_way(text: &str) {
    let plan = match load(text, "hostile", &Defaults::default()) {
        Ok(loaded) => {
            let _ = loaded.warnings.to_string();
            loaded.plan
        }
        Err(errors) => {
            assert!(!errors.is_empty() && !errors.to_string().contains('\u{1b}'));
            Plan::empty(0)
        }
    };
    for shown in [
        parse_workload(text, &plan).err().map(|e| e.to_string()),
        parse_fault(text, &plan).err().map(|e| e.to_string()),
        select::parse(text, &plan).err().map(|e| e.to_string()),
    ] {
        assert_ne!(shown.as_deref(), Some(""));
    }
    let _ = quantity::duration(text);
    let _ = quantity::bytes(text);
    let _ = quantity::amount(text);
    let _ = quantity::percent(text);
}

fn valid() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs/valid");
    let mut texts: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end != "txt"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .filter(|text| !text.contains("count: 10000"))
        .collect();
    texts.sort();
    texts
}

/// A piece of another document, or something nasty, put over a piece of this one.
fn mutate(texts: &[String], which: usize, cuts: &[(usize, usize, usize)]) -> String {
    const NASTY: [&str; 18] = [
        "-1",
        ".nan",
        "1e300",
        "999999999999999999999",
        "~",
        "{",
        "]",
        ": ",
        "- ",
        "\"",
        "&a",
        "*a",
        "!x ",
        "\u{1b}[0m",
        "\u{0}",
        "ä\u{301}𝄞",
        "\t",
        "<<",
    ];
    let mut letters: Vec<char> = texts[which % texts.len()].chars().collect();
    for &(at, length, with) in cuts {
        let from = at % (letters.len() + 1);
        let to = (from + length % 12).min(letters.len());
        let put: Vec<char> = match with % 3 {
            0 => Vec::new(),
            1 => NASTY[with % NASTY.len()].chars().collect(),
            _ => {
                let other: Vec<char> = texts[with % texts.len()].chars().collect();
                let start = at % (other.len() + 1);
                other[start..(start + 20).min(other.len())].to_vec()
            }
        };
        letters.splice(from..to, put);
    }
    letters.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        // The same documents on every run, so that a failure is everybody's failure.
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_every_way(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_yaml_like_text_is_refused_or_read(text in "[a-c0-9:{}\\[\\], \n\"'&*!|>#%~.-]{0,120}") {
        read_every_way(&text);
    }

    #[test]
    fn mutated_configs_are_refused_or_read(
        which in any::<prop::sample::Index>(),
        cuts in prop::collection::vec((any::<u16>(), any::<u8>(), any::<u16>()), 1..6),
    ) {
        let texts = valid();
        let cuts: Vec<_> = cuts
            .into_iter()
            .map(|(at, length, with)| (at as usize, length as usize, with as usize))
            .collect();
        read_every_way(&mutate(&texts, which.index(texts.len()), &cuts));
    }

    #[test]
    fn spans_stay_inside_the_text(text in "[a-cä:{}\\[\\], \n\"&*|-]{0,80}") {
        let inside = |span: yaml::Span| {
            span.start.offset as usize <= text.len()
                && text.is_char_boundary(span.start.offset as usize)
        };
        match yaml::parse(&text) {
            Ok(node) => prop_assert!(inside(node.span)),
            Err(problems) => prop_assert!(problems.iter().all(|problem| inside(problem.span))),
        }
    }
}
