//! Chooses the simulation's side of the seam, for the crate that this is the build script of.

fn main() {
    println!("cargo::rerun-if-changed=../seam.rs");
    println!("cargo::rustc-cfg=zoolock_simulation");
}
