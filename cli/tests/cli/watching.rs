//! `watch`, mainly `watch -r`: the busiest locks come first, as many as fit are shown, and for how long they were held.

use std::time::{Duration, SystemTime};

use zoolock::Guard;

use crate::looks::cells;
use crate::util::*;

const CLEAR: &str = "\x1b[H\x1b[J";

fn watch_in(columns: usize, rows: usize, arguments: &[&str]) -> Terminal {
    Terminal::of(columns, rows, &[&["watch", "--interval", "0.1"], arguments].concat())
}

/// Waits until the screen shows these texts in this order. Returns its lines.
#[track_caller]
fn await_screen(drawn: &mut Terminal, texts: &[&str]) -> Vec<String> {
    let mut screen = String::new();
    wait_until(&format!("the screen shows {texts:?}"), SOON, || {
        screen = drawn.shows(CLEAR);
        let rest = texts.iter().try_fold(&*screen, |rest, text| Some(rest.split_once(text)?.1));
        rest.is_some()
    });
    screen.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn recursive_watch_shows_the_busiest_locks_first_and_fits_the_terminal() {
    let (root, probe) = (fresh_path("busy"), probe());
    let at = |name: &str| format!("{root}/{}/{name}", "long".repeat(30));
    let hold = |name: &str| held_as("the holder", &at(name));
    let [_d, _c, a] = ["d", "c", "a"].map(hold);
    let mut b = None;
    wait_until("it is held since a later millisecond", SOON, || {
        b.take().map(Guard::release).transpose().expect("released");
        b = Some(hold("b"));
        contenders(&at("b"))[0].since > contenders(&at("d"))[0].since
    });
    let wait_at = |name: &str| drop(contends(&probe, &at(name), "waiter"));
    ["c", "a", "a"].into_iter().for_each(wait_at);

    let mut all = watch_in(250, 24, &["-r", &root]);
    let screen = await_screen(&mut all, &["4 locks  3 waiting", "/a ", "/c ", "/d ", "/b "]);
    assert_eq!(screen.len(), 2 + 1 + 4);
    let cells = cells(&screen[3]);
    assert_eq!(cells[0], at("a"));
    assert_eq!(cells[1..4], ["held", "exclusive", "2"]);
    assert!(cells[4].ends_with(" s"), "the longest wait: {cells:?}");
    assert!(cells[5].starts_with("≤ "), "nobody saw the grant: {cells:?}");
    assert_eq!(cells[6..], ["the holder", "waiter"]);

    let mut small = watch_in(80, 7, &["-r", &root]);
    let first = await_screen(&mut small, &["4 locks", "/a ", ".. and 2 more"]);
    ["b", "b", "b"].into_iter().for_each(wait_at);
    let second = await_screen(&mut small, &["6 waiting", "/b ", "/a ", ".. and 2 more"]);
    for screen in [first, second] {
        assert_eq!(screen.len(), 6, "the last line is the cursor's");
        assert!(screen.iter().all(|line| line.chars().count() <= 80), "{screen:?}");
        assert!(screen[3].starts_with(&root[..6]), "{screen:?}");
        assert!(screen[3].ends_with("the holder  waiter"), "{screen:?}");
    }
    a.release().expect("released");
    let screen = await_screen(&mut all, &["5 waiting", "/b ", "/c ", "/a ", "waiter"]);
    assert!(!screen[5].contains('≤'), "it has seen the grant: {screen:?}");
}

#[test]
fn watch_distinguishes_the_time_since_the_grant_from_the_age() {
    let (path, probe) = (fresh_path("granted"), probe());
    let guard = held(&path);
    contends(&probe, &path, "second");
    let mut drawn = watch_in(200, 24, &[&path]);
    await_screen(&mut drawn, &["AGE", "HELD", "≤ ", "waits", " s  -  "]);
    await_screen(&mut watch_in(80, 5, &[&path]), &["HELD", ".. and 2 more"]);
    wait_until("the waiter has waited", SOON, || {
        contenders(&path)[1].since + Duration::from_secs(2) < SystemTime::now()
    });
    guard.release().expect("released");
    let screen = await_screen(&mut drawn, &["0 waiting", "holds", "second"]);
    let cells = cells(&screen[3]);
    let [age, held] = [cells[5], cells[6]].map(|cell| humantime::parse_duration(cell).expect(cell));
    assert!(held < age, "{cells:?}");
    let listed = prints(&["list", &path]);
    assert!(listed.contains("  ≤ "), "one look cannot know: {listed}");
}

#[test]
fn watch_writes_a_line_for_each_change() {
    let path = format!("{}/a\u{202e}", fresh_path("events"));
    let root = path.rsplit_once('/').expect("a path").0;
    let held = held(&path);
    let (node, token) = (held.node(), held.fencing_token());
    let json = ["watch", "--json", "--interval", "0.1"];
    let mut watch = Beside::start(zoolock(&[&json[..], &["-r", root]].concat()));
    let alone = Beside::start(zoolock(&[&json[..], &[&path]].concat()));
    let plain = Beside::start(zoolock(&["watch", "--interval", "0.1", &path]));
    let event = |name: &str, said: &str| {
        plain.says(said);
        let line = format!("{{{}", watch.says("{"));
        assert!(!line.contains('\u{202e}'), "it would control a terminal");
        let [event, same] = [line, format!("{{{}", alone.says("{"))].map(|line| {
            let mut event: serde_json::Value = serde_json::from_str(&line).expect("an object");
            assert!(event["time"].take().is_string());
            event
        });
        assert_eq!(event, same, "one lock is reported as all of them");
        assert_eq!((event["event"].as_str(), event["path"].as_str()), (Some(name), Some(&*path)));
        event
    };
    let first = event("holds", "Z * holds exclusive ");
    assert_eq!(first["node"], *node);
    assert_eq!((first["token"].as_u64(), first["kind"].as_str()), (Some(token), Some("exclusive")));
    let probe = probe();
    let waiter = contends(&probe, &path, "waiter");
    assert_eq!(event("waits", "Z + waits exclusive waiter ")["identity"], "waiter");
    prints(&["revoke", &path]);
    assert_eq!(event("asked", "Z ! asked exclusive ")["node"], *node);
    held.release().expect("released");
    assert_eq!(event("gone", "Z - asked exclusive ")["token"].as_u64(), Some(token));
    assert_eq!(event("holds", "Z * holds exclusive waiter ")["holds"], true);
    probe.delete(&waiter).expect("deleted");
    event("gone", "Z - holds exclusive waiter ");
    assert_eq!(end_by(Signal::SIGINT, &mut watch), None, "SIGINT ends it");
}

#[test]
fn interrupted_watch_leaves_the_terminal_as_it_was() {
    let (path, mut shell) = (fresh_path("interrupted"), Terminal::shell());
    shell.types("stty cols 80 rows 8; before=$(stty -g); echo he''re", "here");
    let scrolled = shell.types(&format!("{ZOOLOCK} watch -r {path}"), CLEAR);
    assert!(scrolled.ends_with(&"\r\n".repeat(8)), "it was overwritten: {scrolled:?}");
    let drawn = shell.shows("HOLDER");
    assert!(!drawn.contains('\x1b'), "it changes no mode: {drawn:?}");
    shell.presses('c');
    shell.shows("ready> ");
    let compare = "[ \"$before\" = \"$(stty -g)\" ] && echo sa''me";
    shell.types(&format!("echo code $?, $({compare})"), "code 130, same");
}
