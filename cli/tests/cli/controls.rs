//! Foreign text in nodes and paths never controls a terminal, wherever the command shows it.

use serde_json::Value;

use crate::util::*;

/// Control characters that clear, colour, delete, return to the line's start, reverse the direction, or end lines.
const HOSTILE: &str = "<\x07\x08\x1b[2J\x7f\u{80}\u{85}\u{9b}31m\u{9f}\u{200b}\u{200e}\u{202a}\
     \u{202e}\u{2066}\u{2069}\u{2028}\u{2029}\t\r\n>";
/// Of these characters, servers accept the last three in paths.
const IN_A_PATH: &str = "<\u{202e}\u{2066}\u{2028}>";

/// Expects that the text contains none of these characters except line ends.
#[track_caller]
fn is_harmless(said: &str) {
    let bad = |character: char| {
        (character.is_control() && character != '\n')
            || matches!(character, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(character, '\u{2066}'..='\u{2069}')
    };
    assert!(!said.contains(bad), "{said:?}");
}

/// Returns a lock at a new path, and the probe that holds it with a hostile identity.
fn hostile_lock(name: &str) -> (String, Probe) {
    let path = fresh_path(name) + IN_A_PATH;
    let probe = probe();
    probe.create_all(&path).expect("its directory is made");
    contends(&probe, &path, HOSTILE);
    (path, probe)
}

#[test]
fn table_and_json_escape_control_characters() {
    let (path, _holder) = hostile_lock("controls");
    let table = prints(&["list", &path]);
    is_harmless(&table);
    assert!(table.contains(r"\u{1b}[2J") && table.contains(r"\u{9b}31m"), "{table:?}");
    let json = prints(&["list", "--json", &path]);
    is_harmless(&json);
    assert!(json.contains(r"\u001b[2J") && json.contains(r"\u009b31m"), "{json:?}");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["identity"], HOSTILE, "it is all there");
}

#[test]
fn watch_and_waiting_messages_escape_control_characters() {
    let (path, _holder) = hostile_lock("controls-live");
    let (watch, wait) = (["watch", "--interval", "0.1", &path], ["run", "-v", &path, "true"]);
    for (arguments, drawn_again, line, parts) in [
        (&watch[..], "0 waiting", "holds ", &[r"\u{9b}31m", ">"][..]),
        // The line contains both the path and the holder's whole identity.
        (&wait, "held by", "zoolock: ", &[r"\u{2028}>: ", r"\u{9b}31m", r"\t\r\n>"]),
    ] {
        let mut terminal = Terminal::with(zoolock(arguments));
        let drawn = terminal.shows(drawn_again) + &terminal.shows(drawn_again);
        let line = Beside::start(zoolock(arguments)).says(line);
        for part in parts {
            assert!(drawn.contains(part) && line.contains(part), "{part}: {drawn:?} {line:?}");
        }
        // On a terminal, the command also writes control characters of its own.
        let own = ["\x1b[H\x1b[J", "\r\x1b[K", "\r"];
        is_harmless(&own.iter().fold(drawn, |drawn, own| drawn.replace(own, "")));
        is_harmless(&line);
    }
}

#[test]
fn errors_escape_control_characters() {
    let (hostile, free) = (format!("/{HOSTILE}"), fresh_path("controls-free") + IN_A_PATH);
    for arguments in [
        &["list", &hostile][..],
        &["watch", &hostile],
        &["run", &hostile, "true"],
        &["run", &free, HOSTILE],
        &["list", &free],
        &["revoke", &free],
        &["verify", &free, HOSTILE],
        &["list", "-c", HOSTILE, &free],
        &["run", "-E", HOSTILE, &free],
        &["list", "--session-timeout", HOSTILE, &free],
        &["man", &format!("/proc/{HOSTILE}")],
        &[&format!("--{HOSTILE}")],
        &[HOSTILE],
    ] {
        let (_, said, errors) = ends(zoolock(arguments));
        assert_eq!(said, "", "{arguments:?}");
        is_harmless(&errors);
        assert!(errors.contains(r"\u{202e}"), "{arguments:?}: {errors:?}");
    }
    let mut secret = zoolock(&["list", &free]);
    secret.env("ZOOKEEPER_AUTH", format!("{HOSTILE}:secret"));
    is_harmless(&ends(secret).2);
}
