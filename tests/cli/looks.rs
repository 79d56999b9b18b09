//! Looking at a lock, and asking for it.

use serde_json::Value;
use zoolock_test_support::fresh_path;

use crate::util::{Beside, UNTIL_TOLD, await_queue, client, in_terminal, lock_of, run, zoolock};

/// What a command writes that ends by itself, and how it ends.
#[track_caller]
fn output(arguments: &[&str]) -> (Option<i32>, String) {
    let output = zoolock(arguments).output().expect("run");
    let said = String::from_utf8(output.stdout).expect("text");
    println!("{arguments:?}: {}\n{said}", output.status);
    (output.status.code(), said)
}

#[test]
fn list_shows_holder_and_waiters_as_a_table_and_as_json() {
    let path = fresh_path("list");
    assert_eq!(output(&["list", &path]), (Some(0), String::new()));
    assert_eq!(
        output(&["list", "--json", &path]),
        (Some(0), "[]\n".to_owned())
    );
    let holding = Beside::start(run(&[], &path, UNTIL_TOLD));
    holding.is_inside();
    let _waiting = Beside::start(run(&["-s"], &path, "true"));
    await_queue(&path, 2);

    let (code, table) = output(&["list", &path]);
    assert_eq!(code, Some(0));
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let lines: Vec<_> = table.lines().map(words).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1][..3], ["1", "holds", "exclusive"]);
    assert!(lines[1][3].ends_with(&format!("/{}", holding.id())));
    assert_eq!(lines[2][..3], ["2", "waits", "read"]);

    let (code, json) = output(&["list", "--json", &path]);
    assert_eq!(code, Some(0));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let seen = client().contenders(&path).expect("contenders");
    for (object, contender) in json.as_array().expect("an array").iter().zip(&seen) {
        assert_eq!(object["holds"], contender.holds);
        assert_eq!(object["token"], contender.token);
        assert_eq!(object["node"], contender.node);
        assert_eq!(object["identity"], contender.identity.clone().unwrap());
        assert_eq!(object["session"], format!("{:#x}", contender.session));
        let since = object["since"].as_str().expect("a time");
        let since = humantime::parse_rfc3339(since).expect("a time");
        assert_eq!(since, contender.since);
    }
}

#[test]
fn watch_draws_on_a_terminal_and_writes_lines_elsewhere() {
    let (client, path) = (client(), fresh_path("watch"));
    let watch = ["watch", "--interval", "0.1", &path];
    let mut drawn = in_terminal(zoolock(&watch));
    drawn.exp_string("\x1b[H\x1b[J").expect("it draws");
    let lines = Beside::start(zoolock(&watch));
    let (one, other) = (lock_of(&client, &path), lock_of(&client, &path));
    let token = {
        let guard = one.acquire().expect("locked");
        drawn.exp_string("holds  exclusive").expect("the holder");
        lines.says("* holds exclusive");
        let waiting = std::thread::spawn(move || other.acquire().expect("locked"));
        drawn.exp_string("waits  exclusive").expect("the waiter");
        lines.says("+ waits exclusive");
        drawn.exp_string(" 1 waiting").expect("their number");
        guard.release().expect("released");
        lines.says("- holds exclusive");
        lines.says("* holds exclusive");
        let next = waiting.join().expect("no panic");
        next.fencing_token().expect("a token")
    };
    let gone = lines.says("- holds exclusive");
    assert!(gone.ends_with(&token.to_string()), "{gone:?}");
    drawn.send_control('c').expect("sent");
    drawn.exp_eof().expect("it has ended");
}

#[test]
fn revoke_asks_whoever_holds() {
    let (client, path) = (client(), fresh_path("revoke"));
    assert_eq!(output(&["revoke", &path]).0, Some(1), "nobody holds it");
    let guard = lock_of(&client, &path).acquire().expect("locked");
    let asked = guard.revocation().expect("held");
    assert_eq!(output(&["revoke", &path]).0, Some(0));
    asked.recv_timeout(crate::util::SOON).expect("asked");
    guard.release().expect("released");

    let mut running = Beside::start(run(&["-v"], &path, UNTIL_TOLD));
    running.is_inside();
    // It begins to listen when the program runs.
    zoolock_test_support::wait_until("it has been asked", crate::util::SOON, || {
        assert_eq!(output(&["revoke", &path]).0, Some(0));
        running
            .said()
            .iter()
            .any(|line| line.contains("somebody asks for the lock"))
    });
    running.let_go();
    assert_eq!(running.code(), Some(0));
}

#[test]
fn what_stands_in_a_node_cannot_play_with_a_terminal() {
    let path = fresh_path("controls");
    let probe = zoolock_test_support::shared_probe().expect("probe");
    drop(
        lock_of(&client(), &path)
            .acquire()
            .expect("its directory is made"),
    );
    probe
        .create(&format!("{path}/lock-"), b"a\x1b[2Jb", true, true)
        .expect("made");
    let (_, table) = output(&["list", &path]);
    assert!(
        table.contains(r"a\u{1b}[2Jb") && !table.contains('\x1b'),
        "{table:?}"
    );
}

#[test]
fn help_and_completions_are_there_for_every_part() {
    for part in ["run", "list", "watch", "verify", "revoke", "completions"] {
        let (code, help) = output(&[part, "--help"]);
        assert_eq!(code, Some(0));
        assert!(
            help.contains("Example") && help.contains(&format!("zoolock {part}")),
            "{part}"
        );
    }
    for shell in ["bash", "zsh", "fish"] {
        let (code, script) = output(&["completions", shell]);
        assert_eq!(code, Some(0));
        assert!(
            script.contains("semaphore") && !script.contains("exec-step"),
            "{shell}"
        );
    }
}
