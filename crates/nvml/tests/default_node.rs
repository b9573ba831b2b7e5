//! The node the library carries is the one the catalogue describes, made by the publisher that makes all others.

use std::time::Duration;

use mirage::publish::{self, Clock};
use mirage_model::config::{self, Defaults};
use mirage_sim::World;
use mirage_state::Image;

/// Eight A100s that nobody uses.
const CONFIG: &str = "\
pools:
  default: { model: a100-sxm4-40gb, gpus: 8 }
nodes:
  mirage: { pool: default }
";

fn build() -> Image {
    let loaded = config::load(CONFIG, "default node", &Defaults::default());
    let plan = loaded.unwrap_or_else(|problems| panic!("{problems}")).plan;
    let clock = Clock {
        start_unix_ms: 0,
        period: Duration::ZERO,
        epoch: 0,
    };
    let world = World::new(&plan);
    let mut image = (*publish::images(&plan, clock)[0]).clone();
    publish::refresh(&mut image, &plan, &world, 0, clock);
    // Nobody ticks it: it has no time of its own.
    image.header.unix_ms = 0;
    image
}

#[test]
fn the_built_in_node_is_the_catalogues() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../state/data/default.state");
    let wanted = build();
    if std::env::var_os("MIRAGE_BLESS").is_some() {
        let bytes = wanted.to_bytes().expect("eight GPUs fit");
        std::fs::write(path, bytes).expect("writing the built-in node");
    }
    let found = Image::from_bytes(&std::fs::read(path).expect("the built-in node is there"));
    let found = found.expect("the built-in node is well-formed");
    let bless = "run MIRAGE_BLESS=1 cargo test -p mirage-nvml --test default_node";
    assert_eq!(
        found.statics, wanted.statics,
        "boards or profiles moved on: {bless}"
    );
    assert_eq!(found.cards, wanted.cards, "identities moved on: {bless}");
    assert_eq!(found.lives.len(), 8);
    for (now, then) in found.lives.iter().zip(&wanted.lives) {
        assert_eq!(
            (now.valid, now.flags),
            (then.valid, then.flags),
            "what boards tell moved on: {bless}"
        );
    }
}
