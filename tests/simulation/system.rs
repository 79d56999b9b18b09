//! The build script of the crates that are compiled with the simulation's implementation of `sys`.

fn main() {
    println!("cargo::rerun-if-changed=../system.rs");
    println!("cargo::rustc-cfg=zoolock_simulation");
}
