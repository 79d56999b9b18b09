//! What this client sends is what Java's own client sends, byte for byte.
//!
//! Both do the same script, `tests/peers/SayEverything.java` and `bytes/script.rs`, each at a new
//! server and through a relay that keeps the frames.

mod diff;
mod java;
mod mask;
mod recording;
mod relay;
mod script;

use std::fmt::Write;
use std::panic;

use zoolock_test_support::Server;

use java::Java;
use mask::Sent;

/// Where the script makes its nodes.
const ROOT: &str = "/root";

#[test]
fn every_operation_is_sent_byte_for_byte_as_by_java() {
    let Some(java) = Java::find() else {
        return;
    };
    let theirs = mask::sent("Java", &java.run(new_server().address(), ROOT));
    let (ours, outcome) = script::run(new_server().address(), ROOT);
    let ours = mask::sent("this client", &ours);

    let mut differences = String::new();
    for (theirs, ours) in theirs.iter().zip(&ours) {
        let kinds: Vec<&str> = ours.frames.iter().map(|frame| frame.kind).collect();
        let bytes: usize = ours.frames.iter().map(|frame| frame.bytes.len()).sum();
        let (name, kinds, is_equal) =
            (&theirs.name, kinds.join(", "), theirs.frames == ours.frames);
        let verdict = if is_equal { "equal" } else { "DIFFERENT" };
        println!("{name}: {kinds} ({bytes} bytes): {verdict}");
        if !is_equal {
            let _ = writeln!(differences, "{name}:\n{}", diff::of(theirs, ours));
        }
    }
    let frames: usize = ours.iter().map(|step| step.frames.len()).sum();
    println!("{} steps, {frames} frames", ours.len());
    assert!(differences.is_empty(), "{differences}");
    if let Err(panic) = outcome {
        panic::resume_unwind(panic);
    }
    let names = |steps: &[Sent]| steps.iter().map(|step| step.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&theirs), names(&ours), "the two scripts differ");
}

/// One for each client, so that numbers of sequential nodes and of versions are the same.
fn new_server() -> Server {
    let with_ttl = Server::builder().jvm_flag("-Dzookeeper.extendedTypesEnabled=true");
    with_ttl.start().expect("a server")
}
