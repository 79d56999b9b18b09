//! Commands that request that a holder releases its lock, or that take the lock away.

use zoolock::EphemeralLock;

use crate::util::*;

#[test]
fn revoke_names_its_holder_and_list_still_shows_its_identity() {
    let path = fresh_path("asked");
    assert_eq!(output(&["revoke", &path]).0, Some(1), "nobody holds it");
    let mut running = started(&["--identity", "a b", "-v"], &path, UNTIL_TOLD);
    let before = &json(&["list", "--json", &path])[0];
    assert_eq!((&before["identity"], &before["asked"]), (&"a b".into(), &false.into()));
    for _ in 0..2 {
        let said = prints(&["revoke", &path]);
        assert_eq!(said, format!("asked a b to release the lock, token {}\n", before["token"]));
        wait_until("it is shown as before", SOON, || {
            let now = &json(&["list", "--json", &path])[0];
            assert_eq!(now["asked"], true);
            now["identity"] == before["identity"]
        });
    }
    let table = prints(&["list", &path]);
    assert!(table.contains("asked") && table.contains("a b"), "{table}");
    assert_eq!(let_end(&mut running), Some(0));
}

#[test]
fn program_gets_the_chosen_signal_on_a_revocation() {
    let path = fresh_path("on-revoke");
    for (options, times, expected) in [
        (&["--on-revoke", "USR1"][..], 2, "caught USR1"),
        (&["--on-revoke", "SIGTERM"], 1, "caught TERM"),
        (&["--on-revoke", "term"], 1, "caught TERM"),
        (&["--on-revoke", "15"], 1, "caught TERM"),
        (&["-v"], 2, "another client requests the release of the lock"),
    ] {
        let mut running = started(options, &path, LISTENS);
        for _ in 0..times {
            await_nodes(&path, 1);
            prints(&["revoke", &path]);
            running.says(expected);
        }
        if expected != "caught TERM" {
            running.signal(Signal::SIGTERM);
        }
        assert_eq!(running.code(), Some(7), "{options:?}");
    }
}

/// Returns the exit code and the output of `break` with this token.
fn breaks(path: &str, token: u64) -> (Option<i32>, String) {
    output(&["break", path, "--token", &token.to_string()])
}

#[test]
fn break_ends_only_the_hold_with_that_token() {
    let path = fresh_path("broken");
    let mut held = runs(&["--identity", "stuck"], &path, "trap '' TERM; cat");
    await_nodes(&path, 1);
    let token = contenders(&path)[0].token;
    let next = runs(&[], &path, LISTENS);
    await_nodes(&path, 2);
    let last = runs(&[], &path, LISTENS);
    await_nodes(&path, 3);
    for other in [0, token - 1, u64::MAX] {
        assert_eq!(breaks(&path, other), (Some(1), String::new()), "nobody has {other}");
    }
    await_nodes(&path, 3);
    let removed = format!("removed stuck, which held the lock, token {token}\n");
    assert_eq!(breaks(&path, token), (Some(0), removed));
    held.says("its node was deleted");
    assert_eq!(held.code(), Some(74));
    let next_token: u64 = next.says("token ").parse().expect("a token");
    assert_ne!(next_token, token);
    next.is_inside();
    assert_eq!(breaks(&path, token), (Some(1), String::new()), "it is gone");

    // `break` also removes a waiter from the queue.
    let waiting = contenders(&path).remove(1);
    let (code, said) = breaks(&path, waiting.token);
    assert_eq!(code, Some(0));
    assert!(said.contains("which waited for the lock"), "{said}");
    wait_until("it has queued again", SOON, || {
        let now = contenders(&path);
        now.len() == 2 && now[1].token != waiting.token
    });
    assert_eq!(contenders(&path)[0].token, next_token);
    assert!(last.said().is_empty());
}

#[test]
fn break_takes_a_node_without_a_session_and_no_single_node() {
    let [path, single] = ["broken-persistent", "broken-single"].map(fresh_path);
    probe().create_all(&path).expect("made");
    probe().create(&format!("{path}/lock-"), b"nobody", false, true).expect("made");
    assert_eq!(breaks(&path, contenders(&path)[0].token).0, Some(0));
    await_nodes(&path, 0);
    let lock = EphemeralLock::new(&client(), &single).expect("a path");
    let held = lock.acquire().expect("locked");
    assert_eq!(breaks(&single, held.fencing_token()).0, Some(64));
    assert!(held.is_held());
}

#[test]
fn another_limit_is_shown_and_warned_of() {
    let path = fresh_path("limits");
    let _first = started(&["--semaphore=3"], &path, LISTENS);
    let waiting = runs(&["--semaphore=30", "--permits=30"], &path, "true");
    waiting.says("permits were taken under a limit of 3, but the limit here is 30");
    let list = prints(&["list", &path]);
    let lines: Vec<_> = list.lines().collect();
    assert_eq!(lines.len(), 3, "a line for a call: {list}");
    assert!(lines[1].contains("holds  permit of 3 "), "{list}");
    assert!(lines[2].contains("waits  permit of 30"), "{list}");
    let all = prints(&["list", "-r", &path]);
    assert!(all.contains("  1 of 3 permits  1 "), "{all}");
    let json = json(&["list", "--json", &path]);
    assert_eq!([&json[0]["limit"], &json[1]["limit"]], [3, 30]);
    let (_, said) = output(&["doctor", &path]);
    assert!(said.contains(&format!("permits at {path} have different limits (3, 30)")), "{said}");
}
