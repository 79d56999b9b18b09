//! Commands that ask a holder to release, or take its lock away.

use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::Value;
use zoolock::EphemeralLock;
use zoolock_test_support::{fresh_path, wait_until};

use crate::looks::output;
use crate::util::{
    Beside, SOON, UNTIL_TOLD, await_nodes, client, is_gone, once_connected, run, zoolock,
};

/// Prints the signals that it gets, and ends on TERM.
const LISTENS: &str = "trap 'echo caught USR1' USR1; trap 'echo caught TERM; exit 7' TERM; \
     echo token $ZOOLOCK_TOKEN; echo inside $$; while :; do sleep 0.05; done";

/// The contenders in the output of `list --json`.
fn listed(path: &str) -> Vec<Value> {
    let (code, json) = output(&["list", "--json", path]);
    assert_eq!(code, Some(0));
    serde_json::from_str(&json).expect("an array")
}

#[test]
fn revoke_names_its_holder_and_list_still_shows_its_identity() {
    let path = fresh_path("asked");
    assert_eq!(output(&["revoke", &path]).0, Some(1), "nobody holds it");
    let mut running = Beside::start(run(&["--identity", "a b", "-v"], &path, UNTIL_TOLD));
    running.is_inside();
    let before = listed(&path).remove(0);
    assert_eq!((&before["identity"], &before["asked"]), (&"a b".into(), &false.into()));
    for _ in 0..2 {
        let (code, said) = output(&["revoke", &path]);
        assert_eq!(code, Some(0));
        assert_eq!(said, format!("asked a b, token {}\n", before["token"]));
        wait_until("it is shown as before", SOON, || {
            let now = listed(&path).remove(0);
            assert_eq!(now["asked"], true);
            now["identity"] == before["identity"]
        });
    }
    let (_, table) = output(&["list", &path]);
    assert!(table.contains("asked") && table.contains("a b"), "{table}");
    running.let_go();
    assert_eq!(running.code(), Some(0));
}

#[test]
fn program_gets_the_chosen_signal_on_a_revocation() {
    let path = fresh_path("on-revoke");
    let mut running = Beside::start(run(&["--on-revoke", "USR1"], &path, LISTENS));
    running.is_inside();
    for _ in 0..2 {
        assert_eq!(output(&["revoke", &path]).0, Some(0));
        running.says("caught USR1");
    }
    running.signal(Signal::SIGTERM);
    assert_eq!(running.code(), Some(7));

    for signal in ["TERM", "SIGTERM", "term", "15"] {
        let mut running = Beside::start(run(&["--on-revoke", signal], &path, LISTENS));
        running.is_inside();
        assert_eq!(output(&["revoke", &path]).0, Some(0));
        assert_eq!(running.code(), Some(7), "{signal}");
    }

    let deaf = Beside::start(run(&["-v"], &path, LISTENS));
    deaf.is_inside();
    assert_eq!(output(&["revoke", &path]).0, Some(0));
    deaf.says("another client asks for the lock");
    deaf.signal(Signal::SIGUSR1);
    deaf.says("caught USR1");
    await_nodes(&path, 1);
}

#[test]
fn revoked_leader_steps_down_and_contends_again() {
    let path = fresh_path("steps-down");
    let lead =
        || Beside::start(zoolock(&["lead", "--session-timeout", "40", &path, "sh", "-c", LISTENS]));
    let first = lead();
    let inside = first.is_inside();
    let second = lead();
    await_nodes(&path, 2);
    assert_eq!(output(&["revoke", &path]).0, Some(0));
    second.is_inside();
    assert!(is_gone(inside), "two at once");
    first.says("stepped down because another client asked for the lock");
    await_nodes(&path, 2);
    assert_eq!(output(&["revoke", &path]).0, Some(0));
    first.is_inside();
    await_nodes(&path, 2);
}

/// The output and exit code of `break` with this token.
fn breaks(path: &str, token: u64) -> (Option<i32>, String) {
    output(&["break", path, "--token", &token.to_string()])
}

#[test]
fn break_ends_only_the_hold_with_that_token() {
    let (client, path) = (client(), fresh_path("broken"));
    let mut held = Beside::start(run(&["--identity", "stuck"], &path, "trap '' TERM; cat"));
    await_nodes(&path, 1);
    let token = client.contenders(&path).expect("contenders")[0].token;
    let next = Beside::start(run(&[], &path, LISTENS));
    await_nodes(&path, 2);
    let last = Beside::start(run(&[], &path, LISTENS));
    await_nodes(&path, 3);
    for other in [0, token - 1, u64::MAX] {
        assert_eq!(breaks(&path, other), (Some(1), String::new()), "nobody has {other}");
    }
    await_nodes(&path, 3);
    let begun = Instant::now();
    let (code, said) = breaks(&path, token);
    assert_eq!(
        (code, &*said),
        (Some(0), &*format!("removed stuck, which held it, token {token}\n"))
    );
    held.says("its node was deleted");
    println!("the holder has heard of it after {:?}", begun.elapsed());
    assert_eq!(held.code(), Some(74));
    let next_token: u64 = next.says("token ").parse().expect("a token");
    assert_ne!(next_token, token);
    next.is_inside();
    assert_eq!(breaks(&path, token), (Some(1), String::new()), "it is gone");

    // `break` takes the position of a waiter.
    let waiting = client.contenders(&path).expect("contenders").remove(1);
    let (code, said) = breaks(&path, waiting.token);
    assert_eq!(code, Some(0));
    assert!(said.contains("which waited for it"), "{said}");
    wait_until("it has queued again", SOON, || {
        let now = client.contenders(&path).expect("contenders");
        now.len() == 2 && now[1].token != waiting.token
    });
    assert_eq!(client.contenders(&path).expect("contenders")[0].token, next_token);
    assert!(last.said().is_empty());
}

#[test]
fn break_of_a_single_node_is_refused() {
    let (client, path) = (client(), fresh_path("broken-single"));
    let lock = EphemeralLock::new(&client, &path).expect("a path");
    let held = lock.acquire().expect("locked");
    assert_eq!(breaks(&path, held.fencing_token()).0, Some(64));
    assert!(held.is_held());
    held.release().expect("released");
}

#[test]
fn break_ends_one_permit_and_leaves_the_others() {
    let (client, path) = (client(), fresh_path("broken-permit"));
    let permits = [(), ()].map(|()| Beside::start(run(&["--semaphore=2"], &path, LISTENS)));
    let tokens: [u64; 2] = permits.each_ref().map(|permit| {
        let token = permit.says("token ").parse().expect("a token");
        permit.is_inside();
        token
    });
    assert_eq!(breaks(&path, tokens[0]).0, Some(0));
    permits[0].says("its node was deleted");
    let held: Vec<_> = client.contenders(&path).expect("contenders");
    assert_eq!(held.iter().map(|one| one.token).collect::<Vec<_>>(), [tokens[1]]);
    let start = || Beside::start(run(&["--semaphore=2", "-n"], &path, "true"));
    assert_eq!(once_connected(start).code(), Some(0), "there is one to be had");
}

#[test]
fn break_deletes_a_node_without_a_session() {
    let (client, path) = (client(), fresh_path("broken-persistent"));
    let probe = zoolock_test_support::shared_probe().expect("probe");
    probe.create_all(&path).expect("made");
    probe.create(&format!("{path}/lock-"), b"nobody", false, true).expect("made");
    let token = client.contenders(&path).expect("contenders")[0].token;
    assert_eq!(breaks(&path, token).0, Some(0));
    await_nodes(&path, 0);
}

#[test]
fn several_permits_are_taken_at_once() {
    let path = fresh_path("permits");
    let options = |count| ["--semaphore=3", "--permits", count];
    let mut two = Beside::start(run(&options("2"), &path, LISTENS));
    two.is_inside();
    for (count, code) in [("2", 1), ("1", 0)] {
        let start = || {
            let options = [&options(count)[..], &["-n"]].concat();
            Beside::start(run(&options, &path, "true"))
        };
        assert_eq!(once_connected(start).code(), Some(code), "{count}");
    }
    two.signal(Signal::SIGTERM);
    two.status();
}

#[test]
fn another_limit_is_shown_and_warned_of() {
    let path = fresh_path("limits");
    let first = Beside::start(run(&["--semaphore=3"], &path, LISTENS));
    first.is_inside();
    let waiting = Beside::start(run(&["--semaphore=30", "--permits=30"], &path, "true"));
    waiting.says("permits were taken under a limit of 3, here it is 30");
    let (code, list) = output(&["list", &path]);
    assert_eq!((code, list.lines().count()), (Some(0), 3), "a line for a call: {list}");
    let lines: Vec<_> = list.lines().collect();
    assert!(lines[1].contains("holds  permit of 3 "), "{list}");
    assert!(lines[2].contains("waits  permit of 30"), "{list}");
    let (_, all) = output(&["list", "-r", &path]);
    assert!(all.contains("  1 of 3 permits  1 "), "{all}");
    let json = listed(&path);
    assert_eq!([&json[0]["limit"], &json[1]["limit"]], [3, 30]);
    let (_, said) = output(&["doctor", &path]);
    assert!(said.contains("permits at") && said.contains("have different limits, 3, 30"), "{said}");
}
