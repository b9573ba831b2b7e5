//! The generated code is committed, so that building mirage needs no protobuf compiler. This test makes
//! it again and compares; `MIRAGE_BLESS=1` writes it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

#[test]
fn generated_code_matches_the_protocols() {
    compare("podresources");
    compare("deviceplugin");
    compare("nri");
}

/// Makes the code of `proto/<name>.proto` and compares it with `src/<name>/generated.rs`.
fn compare(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let proto = root.join("proto").join(name).with_extension("proto");
    let files = protox::compile([&proto], [root.join("proto")]).unwrap();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .out_dir(out.path())
        .compile_fds(files)
        .unwrap();
    let mut made = fs::read_dir(out.path()).unwrap();
    let fresh = fs::read_to_string(made.next().unwrap().unwrap().path()).unwrap();
    assert!(made.next().is_none(), "{name} has several packages");
    let path = root.join("src").join(name).join("generated.rs");
    if std::env::var_os("MIRAGE_BLESS").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == fresh,
        "src/{name}/generated.rs is not what its protocol gives; \
         run MIRAGE_BLESS=1 cargo test -p mirage-k8s --test codegen"
    );
}
