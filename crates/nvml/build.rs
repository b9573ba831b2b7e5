//! Gives the shared object the name programs look for, and keeps it mapped once loaded: a client may
//! `dlclose` it while its own threads still wait for events inside.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
