//! Leaves debug information out of the shared library: tests copy it, and it would be nine tenths of it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,--strip-debug");
}
