//! Build script of a crate that is compiled with the simulation's side of the seam.

fn main() {
    println!("cargo::rerun-if-changed=../seam.rs");
    println!("cargo::rustc-cfg=zoolock_simulation");
}
