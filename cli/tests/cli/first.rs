//! As the first process of a container. It gets no signal without a handler, and all orphans become its
//! children.

use std::process::Command;

use nix::sys::signal::Signal;
use zoolock_test_support::{connect_string, fresh_path, wait_until};

use crate::util::{Beside, RUN, SOON, UNTIL_TOLD, await_nodes, children_of, client, lock_of, send};

/// `zoolock` in a new PID namespace. Returns `None` where that is not allowed.
fn first(arguments: &[&str]) -> Option<Command> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    let mut asks = Command::new("unshare");
    asks.args(unshare.get_args()).arg("true");
    match asks.output() {
        Ok(output) if output.status.success() => {
            unshare.arg(env!("CARGO_BIN_EXE_zoolock")).args(arguments);
            unshare.env("ZOOKEEPER_CONNECT", connect_string());
            Some(unshare)
        }
        other => {
            println!("skipped: no process namespace: {other:?}");
            None
        }
    }
}

/// The id of `unshare`'s child, seen from here.
#[track_caller]
fn zoolock_of(unshare: &Beside) -> u32 {
    let children = format!("/proc/{0}/task/{0}/children", unshare.id());
    let mut zoolock = None;
    wait_until("zoolock is there", SOON, || {
        let children = std::fs::read_to_string(&children).unwrap_or_default();
        zoolock = children.split_whitespace().next().and_then(|child| child.parse().ok());
        zoolock.is_some_and(|zoolock: u32| {
            let name = std::fs::read_to_string(format!("/proc/{zoolock}/comm"));
            name.is_ok_and(|name| name.trim() == "zoolock")
        })
    });
    zoolock.expect("it is there")
}

#[test]
fn pid_1_forwards_signals_and_releases_the_lock_at_its_end() {
    let path = fresh_path("first-run");
    let script =
        "trap 'echo caught TERM; exit 7' TERM; echo inside $$; while :; do sleep 0.05; done";
    let arguments: Vec<_> = RUN.split(' ').chain([path.as_str(), "sh", "-c", script]).collect();
    let Some(command) = first(&arguments) else { return };
    let mut running = Beside::start(command);
    running.is_inside();
    send(zoolock_of(&running), Signal::SIGTERM);
    running.says("caught TERM");
    assert_eq!(running.code(), Some(7));
    await_nodes(&path, 0);
}

#[test]
fn pid_1_reaps_orphans() {
    let path = fresh_path("first-orphans");
    // Two orphans that end at once, one of them in another session.
    let script = format!("(sh -c 'exit 1' &); (setsid sh -c 'exit 1' &); {UNTIL_TOLD}");
    let arguments: Vec<_> = RUN.split(' ').chain([path.as_str(), "sh", "-c", &script]).collect();
    let Some(command) = first(&arguments) else { return };
    let mut running = Beside::start(command);
    running.is_inside();
    let zoolock = zoolock_of(&running);
    wait_until("the supervisor, nothing else", SOON, || children_of(zoolock).len() == 1);
    running.let_go();
    assert_eq!(running.code(), Some(0));
}

#[test]
fn signals_end_pid_1_while_it_waits_or_watches() {
    let path = fresh_path("first-waits");
    let _lock = lock_of(&client(), &path).acquire().expect("locked");
    let waits: Vec<_> = RUN.split(' ').chain([path.as_str(), "true"]).collect();
    for (arguments, nodes) in [(&waits[..], 2), (&["watch", &path], 1)] {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let Some(command) = first(arguments) else { return };
            let mut waiting = Beside::start(command);
            let zoolock = zoolock_of(&waiting);
            match nodes {
                1 => drop(waiting.says("holds")),
                nodes => drop(await_nodes(&path, nodes)),
            }
            send(zoolock, signal);
            assert_eq!(waiting.code(), Some(128 + signal as i32), "{arguments:?}");
            await_nodes(&path, 1);
        }
    }
}
