//! zoolock as the first process of a container. The kernel delivers only signals that it handles, and all orphans
//! become its children.

use std::fs;

use crate::util::*;

const CONTAINER: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// Returns the process id of `unshare`'s child, as seen from outside the container.
#[track_caller]
fn zoolock_of(unshare: &Beside) -> u32 {
    children_of(unshare.id())[0]
}

#[test]
fn pid_1_reaps_orphans_forwards_signals_and_releases_the_lock() {
    let path = fresh_path("first-run");
    // Two orphans that end immediately. One of them is in another session.
    let script = format!("(sh -c 'exit 1' &); (setsid sh -c 'exit 1' &); {LISTENS}");
    let arguments = ["run", &path, "sh", "-c", &script];
    let Some(command) = unshared(&CONTAINER, &arguments) else { return };
    let mut running = Beside::start(command);
    running.is_inside();
    let zoolock = zoolock_of(&running);
    wait_until("the supervisor, nothing else", SOON, || children_of(zoolock).len() == 1);
    send(zoolock, Signal::SIGTERM);
    running.says("caught TERM");
    assert_eq!(running.code(), Some(7));
    await_nodes(&path, 0);
}

#[test]
fn signals_end_pid_1_while_it_waits_or_watches() {
    let path = fresh_path("first-waits");
    let (_held, (_folder, socket)) = (held(&path), scratch());
    for (arguments, signal, code) in [
        (&["run", &path, "true"][..], Signal::SIGTERM, 143),
        (&["watch", &path], Signal::SIGINT, 130),
        (&["reaper", "--socket", &socket], Signal::SIGTERM, 0),
    ] {
        let Some(command) = unshared(&CONTAINER, arguments) else { return };
        let mut waiting = Beside::start(command);
        match arguments[0] {
            "watch" => drop(waiting.says("holds")),
            "run" => drop(await_nodes(&path, 2)),
            _ => drop(wait_until("it listens", SOON, || fs::exists(&socket).expect("a folder"))),
        }
        send(zoolock_of(&waiting), signal);
        assert_eq!(waiting.code(), Some(code), "{arguments:?}");
        await_nodes(&path, 1);
    }
}
