//! Lists the identity files, so that adding one needs no code.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    let directory = Path::new(&root).join("identities");
    println!("cargo::rerun-if-changed=identities");
    let mut files: Vec<_> = fs::read_dir(&directory)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "json"));
    files.sort_by_key(|path| path.file_stem().map(ToOwned::to_owned));
    let mut code = String::from("&[\n");
    for path in files {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        code.push_str(&format!("({stem:?}, include_str!({path:?})),\n"));
    }
    code.push_str("]\n");
    fs::write(Path::new(&out).join("identities.rs"), code)
}
