//! Nodes that other libraries made, strangers, and data of any kind.

use zoolock::Kind;
use zoolock_test_support::{fresh_path, shared_probe};

use super::{UUID, holding, identities, is_as_the_server_says, kinds, look, nodes};
use common::{client, lock_of, place};

const HEX: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn nodes_of_other_libraries_are_shown_in_one_order_and_strangers_last() {
    let client = client();
    let path = fresh_path("mixed");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let made = [
        // Kazoo, an older .NET recipe, go-zookeeper, Curator, the recipe's text.
        (format!("{HEX}__rlock__0000000003"), Kind::Read, true),
        (format!("_c_{UUID}-__READ__0000000004"), Kind::Read, true),
        ("lock-0000000005".to_owned(), Kind::Exclusive, false),
        (format!("{HEX}__lock__0000000006"), Kind::Exclusive, false),
        (format!("_c_{HEX}-lock-0000000007"), Kind::Exclusive, false),
        (format!("_c_{UUID}-__WRIT__0000000008"), Kind::Write, false),
        (format!("x-{UUID}-lock-0000000009"), Kind::Exclusive, false),
        (format!("_c_{UUID}-__READ__0000000010"), Kind::Read, false),
        // Strangers.
        ("0000000001".to_owned(), Kind::Foreign, false),
        (format!("_c_{UUID}-lease-0000000002"), Kind::Foreign, false),
        ("hello".to_owned(), Kind::Foreign, false),
        ("lock-9999999999".to_owned(), Kind::Foreign, false),
        ("ß-lock-".to_owned(), Kind::Foreign, false),
    ];
    for (name, ..) in made.iter().rev() {
        let node = format!("{path}/{name}");
        probe.create(&node, b"somebody", true, false).unwrap();
    }
    probe.create(&format!("{path}/stays"), b"", false, false).unwrap();
    let seen = look("mixed", client.contenders(&path));
    let expected: Vec<_> = made.iter().map(|(name, ..)| name.as_str()).collect();
    let (contending, strangers) = seen.split_at(8);
    assert_eq!(nodes(contending), expected[..8]);
    let mut last = nodes(strangers);
    last.sort_unstable();
    let mut expected_last = [&expected[8..], &["stays"]].concat();
    expected_last.sort_unstable();
    assert_eq!(last, expected_last);
    for (seen, (name, kind, holds)) in seen.iter().zip(&made).take(8) {
        assert_eq!((seen.kind, seen.holds), (*kind, *holds), "{name}");
        let digits: i64 = place(name).parse().unwrap();
        assert_eq!(seen.sequence, Some(digits));
        assert_eq!(seen.session, probe.session_id());
        assert_eq!(seen.identity.as_deref(), Some("somebody"));
    }
    for stranger in strangers {
        assert_eq!((stranger.kind, stranger.holds), (Kind::Foreign, false));
    }
    let persistent = strangers.iter().find(|c| c.node == "stays").unwrap();
    assert_eq!(persistent.session, 0);
}

#[test]
fn strangers_block_nobody() {
    let client = client();
    let path = fresh_path("strangers");
    let probe = shared_probe().unwrap();
    probe.create_all(&format!("{path}/notes")).unwrap();
    probe.create(&format!("{path}/0000000000"), b"", true, false).unwrap();
    let lock = lock_of(&client, &path);
    assert!(lock.try_lock().unwrap());
    let seen = look("strangers", lock.contenders());
    let expected = [Kind::Exclusive, Kind::Foreign, Kind::Foreign];
    assert_eq!(kinds(&seen), expected);
    assert_eq!(holding(&seen), [true, false, false]);
    lock.unlock().unwrap();
    let seen = look("strangers alone", lock.contenders());
    assert_eq!(kinds(&seen), [Kind::Foreign, Kind::Foreign]);
}

#[test]
fn node_data_of_any_kind_are_no_error() {
    let client = client();
    let path = fresh_path("data");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let long = "x".repeat(500 * 1000);
    let lines = "who\n_zoolock token=77 since=1000";
    let data: [(&[u8], Option<&str>); 7] = [
        (b"\xff\xfe\x00", None),
        (b"", Some("")),
        (b"__REVOKE__", None),
        (long.as_bytes(), Some(&long)),
        (b"192.168.0.1", Some("192.168.0.1")),
        (lines.as_bytes(), Some(lines)),
        (b"__REVOKE__ ", Some("__REVOKE__ ")),
    ];
    for (number, (data, _)) in data.iter().enumerate() {
        let node = format!("{path}/_c_{UUID}-lock-{number:010}");
        probe.create(&node, data, true, false).unwrap();
    }
    let seen = client.contenders(&path).unwrap();
    let shown: Vec<_> =
        seen.iter().map(|c| (c.identity.as_ref().map(String::len), c.token, c.since)).collect();
    println!("length of identity, token, since: {shown:?}");
    assert_eq!(identities(&seen), data.map(|(_, identity)| identity));
    seen.iter().for_each(is_as_the_server_says);
}
