//! `list`: the holder and the waiters of one lock, or all locks, as a table or as JSON.

use crate::util::*;

/// Returns the cells of a table's line.
pub(crate) fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn lists_show_holders_and_waiters_as_tables_and_as_json() {
    let root = fresh_path("list");
    let at = |name: &str| format!("{root}/{name}");
    for options in [&["list"][..], &["list", "-r"]] {
        assert_eq!(prints(&[options, &[&root]].concat()), "");
        assert_eq!(prints(&[options, &["--json", &root]].concat()), "[]\n");
    }
    let holding = started(&[], &at("a"), UNTIL_TOLD);
    let _waiting = runs(&["-s"], &at("a"), "true");
    await_nodes(&at("a"), 2);
    let holder = format!("/{}", holding.id());

    let table = prints(&["list", &at("a")]);
    let lines: Vec<_> = table.lines().map(cells).collect();
    assert_eq!(lines.len(), 3);
    let columns = ["PLACE", "STATE", "KIND", "IDENTITY", "SESSION", "AGE", "HELD", "TOKEN"];
    assert_eq!(lines[0], columns);
    assert_eq!(lines[1][..3], ["1", "holds", "exclusive"]);
    assert!(lines[1][3].ends_with(&holder));
    // `list` cannot know when a former waiter was granted the lock, so it shows an upper limit.
    assert!(lines[1][5].ends_with(" s") && lines[1][6].starts_with("≤ "), "{table}");
    assert_eq!(lines[2][..3], ["2", "waits", "read"]);
    assert_eq!(lines[2][6], "-", "a waiter does not hold it");

    let alone = json(&["list", "--json", &at("a")]);
    for (object, contender) in alone.as_array().expect("an array").iter().zip(&contenders(&at("a")))
    {
        assert_eq!(object["holds"], contender.holds);
        assert_eq!(object["token"], contender.token);
        assert_eq!(object["node"], contender.node);
        assert_eq!(object["identity"], contender.identity.clone().unwrap());
        assert_eq!(object["session"], format!("{:#x}", contender.session));
        let since = object["since"].as_str().expect("a time");
        assert_eq!(humantime::parse_rfc3339(since).expect("a time"), contender.since);
    }

    let _readers = [(), ()].map(|()| started(&["-s"], &at("b/read"), UNTIL_TOLD));
    let _permits = started(&["--semaphore=1"], &at("c"), UNTIL_TOLD);
    // The node in the queue is deleted later, in the background.
    await_nodes(&format!("{}/locks", at("c")), 0);
    let single = zoolock::EphemeralLock::new(&client(), at("d")).expect("a path");
    let _single = single.acquire().expect("locked");

    let table = prints(&["list", "-r", &root]);
    let lines: Vec<_> = table.lines().map(cells).collect();
    let columns = ["PATH", "STATE", "KIND", "WAITING", "LONGEST", "HELD", "HOLDER", "NEXT"];
    assert_eq!(lines[0], columns);
    assert_eq!(lines[1][..4], [&at("a"), "held", "exclusive", "1"]);
    assert!(lines[1][4].ends_with(" s") && lines[1][5].starts_with("≤ "));
    assert!(lines[1][6].ends_with(&holder));
    assert_eq!(lines[2][..5], [&at("b/read"), "held", "read", "0", "-"]);
    assert!(lines[2][6].ends_with(", and 1 more"));
    assert_eq!(lines[3][..4], [&at("c"), "held", "1 of 1 permits", "0"]);
    assert_eq!(lines[4][..4], [&at("d"), "held", "ephemeral", "0"]);

    let all = json(&["list", "--recursive", "--json", &root]);
    let all = all.as_array().expect("an array");
    assert_eq!(all.len(), 4);
    for (lock, name) in all.iter().zip(["a", "b/read", "c", "d"]) {
        assert_eq!(lock["path"], at(name));
        assert_eq!(lock["held"], true);
        assert_eq!(lock["waiting"], usize::from(name == "a"));
        let alone = json(&["list", "--json", &at(name)]);
        assert_eq!(lock["contenders"], alone, "as `list` has them");
        assert_eq!(lock["kind"], alone[0]["kind"]);
    }
}

#[test]
fn lists_fit_the_terminal_and_keep_both_ends_of_names() {
    let root = fresh_path("tree-narrow");
    let path = format!("{root}/{}/last", "long".repeat(60));
    let _held = held_as(&format!("host{}-pid", "名".repeat(60)), &path);
    let token = format!(" {}", contenders(&path)[0].token);
    for (list, parts) in [
        (&["-r", &*root][..], &[&root[..4], "…", "/last  held  ", "host", "…", "-pid", "-"][..]),
        (&[&path], &["1      holds  exclusive  ", "host", "…", "-pid  0x", "≤ ", &token]),
    ] {
        let shown = Terminal::of(80, 24, &[&["list"], list].concat()).rest();
        let lines: Vec<_> = shown.lines().filter(|line| line.contains('…')).collect();
        assert_eq!(lines.len(), 1);
        // Wide characters take two columns each.
        let width = lines[0].chars().map(|one| if one == '名' { 2 } else { 1 }).sum::<usize>();
        assert!((70..=80).contains(&width), "{width}");
        let rest = parts.iter().try_fold(lines[0], |rest, part| Some(rest.split_once(part)?.1));
        assert_eq!(rest, Some(""), "{parts:?}");
    }
}

#[test]
fn foreign_text_does_not_distort_the_table() {
    let path = fresh_path("spread");
    let probe = probe();
    probe.create_all(&path).expect("made");
    let long = "x".repeat(500_000);
    // Identities with wide characters or a reversed direction, and one that is too long.
    for identity in ["名前", "a\u{202e}b", &long] {
        contends(&probe, &path, identity);
    }
    let table = prints(&["list", &path]);
    assert!(!table.contains('\u{202e}'));
    assert!(table.len() < 2000, "{} bytes", table.len());
    let columns: Vec<_> = table
        .lines()
        .map(|line| line.find(if line.starts_with("PLACE") { "SESSION" } else { "0x" }))
        .map(|column| column.expect("a session"))
        .collect();
    // Each of the two characters takes two columns and three bytes.
    assert_eq!(columns[1], columns[0] + 2);
    assert_eq!(columns[2], columns[0]);

    let json = json(&["list", "--json", &path]);
    assert_eq!(json[2]["identity"], long, "there it is whole");
}

#[test]
fn closed_output_ends_the_command() {
    let path = fresh_path("unread");
    let _held = held(&path);
    for arguments in [&["list", &path][..], &["completions", "zsh"]] {
        let mut unread = zoolock(arguments);
        unread.stdout(std::io::pipe().expect("a pipe").1);
        let status = unread.status().expect("run");
        assert_eq!(status.code(), Some(141), "{arguments:?}");
    }
}
