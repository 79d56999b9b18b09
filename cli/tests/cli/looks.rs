//! Commands that show a lock, and `revoke`.

use serde_json::Value;
use zoolock_test_support::{fresh_path, shared_probe};

use crate::util::{
    Beside, UNTIL_TOLD, await_nodes, client, decoded, in_terminal, in_terminal_of, lock_of, run,
    zoolock,
};

/// The output and exit code of a command that ends on its own.
#[track_caller]
pub(crate) fn output(arguments: &[&str]) -> (Option<i32>, String) {
    let output = zoolock(arguments).output().expect("run");
    let said = String::from_utf8(output.stdout).expect("text");
    println!("{arguments:?}: {}\n{said}", output.status);
    (output.status.code(), said)
}

#[test]
fn list_shows_holder_and_waiters_as_a_table_and_as_json() {
    let path = fresh_path("list");
    assert_eq!(output(&["list", &path]), (Some(0), String::new()));
    assert_eq!(output(&["list", "--json", &path]), (Some(0), "[]\n".to_owned()));
    let holding = Beside::start(run(&[], &path, UNTIL_TOLD));
    holding.is_inside();
    let _waiting = Beside::start(run(&["-s"], &path, "true"));
    await_nodes(&path, 2);

    let (code, table) = output(&["list", &path]);
    assert_eq!(code, Some(0));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = table.lines().map(words).collect();
    assert_eq!(lines.len(), 3);
    // The age of a former waiter is not the time since its grant.
    let columns = ["PLACE", "STATE", "KIND", "IDENTITY", "SESSION", "AGE", "HELD", "TOKEN"];
    assert_eq!(lines[0], columns);
    assert_eq!(lines[1][..3], ["1", "holds", "exclusive"]);
    assert!(lines[1][3].ends_with(&format!("/{}", holding.id())));
    assert!(table.lines().nth(1).is_some_and(|holder| holder.contains(" s  ≤ ")), "{table}");
    assert_eq!(lines[2][..3], ["2", "waits", "read"]);
    assert_eq!(lines[2][lines[2].len() - 2], "-", "a waiter does not hold it");

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
fn recursive_list_shows_all_locks_as_a_table_and_as_json() {
    let (root, client) = (fresh_path("tree"), client());
    let at = |name: &str| format!("{root}/{name}");
    assert_eq!(output(&["list", "-r", &root]), (Some(0), String::new()));
    assert_eq!(output(&["list", "-r", "--json", &root]), (Some(0), "[]\n".to_owned()));
    let holding = Beside::start(run(&[], &at("a"), UNTIL_TOLD));
    holding.is_inside();
    let _waiting = Beside::start(run(&["-s"], &at("a"), "true"));
    await_nodes(&at("a"), 2);
    let readers = [(), ()].map(|()| Beside::start(run(&["-s"], &at("b/read"), UNTIL_TOLD)));
    readers.iter().for_each(|reader| assert_ne!(reader.is_inside(), 0));
    let permits = Beside::start(run(&["--semaphore=1"], &at("c"), UNTIL_TOLD));
    permits.is_inside();
    // The turn is deleted in the background.
    await_nodes(&format!("{}/locks", at("c")), 0);
    let _single = zoolock::EphemeralLock::new(&client, at("d")).expect("a path");
    let _single = _single.acquire().expect("locked");

    let (code, table) = output(&["list", "-r", &root]);
    assert_eq!(code, Some(0));
    let lines: Vec<Vec<_>> = table.lines().map(|line| line.split("  ").collect()).collect();
    let cells = |line: usize| {
        let cells = lines[line].iter().map(|cell| cell.trim());
        cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(cells(0), ["PATH", "STATE", "KIND", "WAITING", "LONGEST", "HELD", "HOLDER", "NEXT"]);
    assert_eq!(cells(1)[..4], [&at("a"), "held", "exclusive", "1"]);
    assert!(cells(1)[4].ends_with(" s") && cells(1)[5].starts_with("≤ "));
    assert!(cells(1)[6].ends_with(&format!("/{}", holding.id())));
    assert_eq!(cells(2)[..5], [&at("b/read"), "held", "read", "0", "-"]);
    assert!(cells(2)[6].ends_with(", and 1 more"));
    assert_eq!(cells(3)[..4], [&at("c"), "held", "1 of 1 permits", "0"]);
    assert_eq!(cells(4)[..4], [&at("d"), "held", "exclusive", "0"]);

    let (code, json) = output(&["list", "--recursive", "--json", &root]);
    assert_eq!(code, Some(0));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let json = json.as_array().expect("an array");
    assert_eq!(json.len(), 4);
    for (lock, name) in json.iter().zip(["a", "b/read", "c", "d"]) {
        assert_eq!(lock["path"], at(name));
        assert_eq!(lock["held"], true);
        assert_eq!(lock["waiting"], usize::from(name == "a"));
        let (_, alone) = output(&["list", "--json", &at(name)]);
        let alone: Value = serde_json::from_str(&alone).expect("JSON");
        assert_eq!(lock["contenders"], alone, "as `list` has them");
        assert_eq!(lock["kind"], alone[0]["kind"]);
    }
}

#[test]
fn recursive_list_names_unreadable_paths_and_shows_the_rest() {
    let (root, boss) = (fresh_path("tree-denied"), shared_probe().expect("probe"));
    let _held = lock_of(&client(), &format!("{root}/z")).acquire().expect("locked");
    boss.add_auth("digest", b"boss:secret").expect("told");
    let hidden = format!("{root}/hidden");
    boss.create_with_acl(&hidden, b"", &[(31, "auth", "")]).expect("made");
    for json in [&[][..], &["--json"]] {
        let mut listed = Beside::start(zoolock(&[&["list", "-r", &root], json].concat()));
        assert_eq!(listed.code(), Some(77), "not all was seen");
        let said = listed.said().join("\n");
        assert!(said.contains(&hidden), "{said:?}");
        assert!(said.contains(&format!("{root}/z")), "{said:?}");
    }
}

#[test]
fn lists_fit_the_terminal_and_keep_both_ends_of_names() {
    let root = fresh_path("tree-narrow");
    let path = format!("{root}/{}/last", "long".repeat(60));
    let client = client();
    let options = zoolock::LockOptions::new().identity(format!("host{}-pid", "名".repeat(60)));
    let lock = zoolock::DistributedLock::with_options(&client, &path, options).expect("a path");
    let _held = lock.acquire().expect("locked");
    let token = format!(" {}", client.contenders(&path).expect("contenders")[0].token);
    for (list, parts) in [
        (&["-r", &*root][..], &[&root[..4], "…", "/last  held  ", "host", "…", "-pid", "-"][..]),
        (&[&path], &["1      holds  exclusive  ", "host", "…", "-pid  0x", "≤ ", &token]),
    ] {
        let mut shown = in_terminal_of(80, 24, &[&["list"], list].concat());
        let shown = decoded(&shown.exp_eof().expect("it has ended"));
        println!("{shown}");
        let lines: Vec<_> = shown.lines().filter(|line| line.contains('…')).collect();
        assert_eq!(lines.len(), 1);
        // The wide characters take two columns.
        let width = lines[0].chars().map(|one| if one == '名' { 2 } else { 1 }).sum::<usize>();
        assert!((70..=80).contains(&width), "{width}");
        let rest = parts.iter().try_fold(lines[0], |rest, part| Some(rest.split_once(part)?.1));
        assert_eq!(rest, Some(""), "{parts:?}");
    }
}

#[test]
fn watch_draws_on_a_terminal_and_writes_lines_elsewhere() {
    let (clients, path) = ([client(), client()], fresh_path("watch"));
    let watch = ["watch", "--interval", "0.1", &path];
    let mut drawn = in_terminal(zoolock(&watch));
    drawn.exp_string("\x1b[H\x1b[J").expect("it draws");
    let lines = Beside::start(zoolock(&watch));
    let [one, other] = clients.each_ref().map(|client| lock_of(client, &path));
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
        next.fencing_token()
    };
    let gone = lines.says("- holds exclusive");
    assert!(gone.ends_with(&token.to_string()), "{gone:?}");
    drawn.send_control('c').expect("sent");
    drawn.exp_eof().expect("it has ended");
}

#[test]
fn foreign_text_does_not_distort_the_table() {
    let path = fresh_path("spread");
    let probe = zoolock_test_support::shared_probe().expect("probe");
    probe.create_all(&path).expect("made");
    let long = "x".repeat(500_000);
    // Identities of double width, with reversed direction, and too long.
    for identity in ["名前", "a\u{202e}b", &long] {
        let node = format!("{path}/lock-");
        let made = probe.create(&node, identity.as_bytes(), true, true);
        made.expect("made");
    }
    let (code, table) = output(&["list", &path]);
    assert_eq!(code, Some(0));
    assert!(!table.contains('\u{202e}'));
    assert!(table.len() < 2000, "{} bytes", table.len());
    let columns: Vec<_> = table
        .lines()
        .map(|line| line.find(if line.starts_with("PLACE") { "SESSION" } else { "0x" }))
        .map(|column| column.expect("a session"))
        .collect();
    // The two characters take two columns and three bytes each.
    assert_eq!(columns[1], columns[0] + 2);
    assert_eq!(columns[2], columns[0]);

    let (code, json) = output(&["list", "--json", &path]);
    assert_eq!(code, Some(0));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[2]["identity"], long, "there it is whole");
}

#[test]
fn closed_output_ends_the_command() {
    let path = fresh_path("unread");
    let _holding = lock_of(&client(), &path).acquire().expect("held");
    for arguments in [&["list", &path][..], &["completions", "zsh"]] {
        let mut unread = zoolock(arguments);
        unread.stdout(std::io::pipe().expect("a pipe").1);
        let status = unread.status().expect("run");
        assert_eq!(status.code(), Some(141), "{arguments:?}");
    }
}
