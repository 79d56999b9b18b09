use super::*;
use crate::names::{Child, Standing, decide};

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

fn path() -> LockPath {
    LockPath::parse("/locks/a").expect("a path")
}

/// Returns a node that was created by the transaction `token`.
fn made(name: &str, token: i64, session: i64, data: &str) -> Znode {
    let stat = Stat {
        czxid: token,
        mzxid: token,
        ctime: 1_000 + token,
        mtime: 1_000 + token,
        ephemeral_owner: session,
        pzxid: token,
        ..Stat::default()
    };
    Znode { name: name.to_owned(), data: data.as_bytes().to_vec(), stat }
}

/// The contenders of a queue whose nodes were all found.
fn queue(path: &LockPath, nodes: Vec<Znode>) -> Vec<Contender> {
    super::queue(path, nodes, &[])
}

/// The nodes, in the order of their creation.
fn nodes(names: &[String]) -> Vec<Znode> {
    let numbered = names.iter().zip(1..);
    numbered.map(|(name, token)| made(name, token, 7, "who")).collect()
}

fn nodes_of(contenders: &[Contender]) -> Vec<&str> {
    contenders.iter().map(|c| c.node.as_str()).collect()
}

fn holders(contenders: &[Contender]) -> Vec<&str> {
    let holders = contenders.iter().filter(|c| c.holds);
    holders.map(|c| c.node.as_str()).collect()
}

fn lock(sequence: &str) -> String {
    format!("_c_{UUID}-lock-{sequence}")
}

#[test]
fn normal_sequences_sort_by_number_and_never_by_name() {
    let given = [
        format!("_c_{UUID}-lock-0000000010"),
        "zzz__lock__0000000002".to_owned(),
        "lock-0000000003".to_owned(),
        format!("_c_{UUID}-__WRIT__0000000001"),
    ];
    let seen = queue(&path(), nodes(&given));
    println!("{:?}", nodes_of(&seen));
    let expected = [&given[3], &given[1], &given[2], &given[0]];
    assert_eq!(nodes_of(&seen), expected);
    assert_eq!(holders(&seen), [&given[3]]);
}

/// A read below a vanished write may have come since the list.
#[test]
fn nobody_holds_behind_a_node_that_vanished_since_the_list() {
    let name = |mode: &str, number: u32| format!("_c_{UUID}-__{mode}__{number:010}");
    let (first, second, third) = (name("WRIT", 1), name("READ", 2), name("WRIT", 3));
    let listed = [first.clone(), second.clone(), third.clone()];
    let seen = |there: &[String]| super::queue(&path(), nodes(there), &listed);
    assert_eq!(holders(&seen(&listed)), [&first]);
    let left = seen(&listed[1..]);
    assert_eq!((nodes_of(&left), holders(&left)), (vec![&*second, &third], vec![]));
    assert_eq!(holders(&seen(&[first.clone(), third])), [&first], "nodes behind it do not matter");
    // Reads do not wait for reads.
    let listed = [name("READ", 1), second.clone()];
    let left = super::queue(&path(), nodes(&listed[1..]), &listed);
    assert_eq!(holders(&left), [&second]);
}

#[test]
fn abnormal_sequences_come_last_in_creation_order() {
    let given = ["-2147483648", "2147483647", "-000000001", "2147483647", "2147483646"];
    let mut given: Vec<String> = given.iter().map(|sequence| lock(sequence)).collect();
    // Two with one sequence have different ids.
    given[3] = given[3].replace("_c_0", "_c_f");
    given.push("stranger".to_owned());
    let seen = queue(&path(), nodes(&given));
    println!("{:?}", nodes_of(&seen));
    let expected = [4, 0, 1, 2, 3, 5].map(|index: usize| given[index].as_str());
    assert_eq!(nodes_of(&seen), expected);
    assert_eq!(holders(&seen), [&given[4]]);
    let sequences: Vec<_> = seen.iter().map(|c| c.sequence).collect();
    let expected = [2_147_483_646, i64::from(i32::MIN), 2_147_483_647, -1, 2_147_483_647];
    assert_eq!(sequences[..5], expected.map(Some));
    assert_eq!(sequences[5], None);
    let alone = queue(&path(), nodes(&given[..4]));
    assert_eq!(holders(&alone), [&given[0]]);
}

#[test]
fn sequence_is_the_number_behind_the_marker() {
    for (sequence, number) in [
        ("0000000000", 0),
        ("0000000042", 42),
        ("0999999999", 999_999_999),
        ("1000000000", 1_000_000_000),
        ("1234567890", 1_234_567_890),
        ("2147483646", 2_147_483_646),
        ("2147483647", 2_147_483_647),
        ("-1234567890", -1_234_567_890),
        ("-2147483648", i64::from(i32::MIN)),
        ("-000000001", -1),
    ] {
        for marker in ["lock-", "__READ__", "__WRIT__", "__lock__"] {
            let name = format!("_c_{UUID}-{marker}{sequence}");
            let seen = queue(&path(), nodes(std::slice::from_ref(&name)));
            assert_eq!(seen[0].sequence, Some(number), "{name}");
        }
        let name = format!("_c_{UUID}-lease-{sequence}");
        let seen = semaphore(&path(), Vec::new(), nodes(&[name]));
        assert_eq!(seen[0].sequence, Some(number), "{}", seen[0].node);
    }
}

#[test]
fn strangers_come_last_whatever_their_suffix() {
    let given = [
        "-lock-".to_owned(),
        "0000000000".to_owned(),
        lock("0000000009"),
        format!("_c_{UUID}-lease-0000000000"),
        "a".to_owned(),
        "lock-99999999999".to_owned(),
        "lock--000000000".to_owned(),
        "\u{fc}".repeat(11),
    ];
    let seen = queue(&path(), nodes(&given));
    println!("{:?}", nodes_of(&seen));
    assert_eq!(seen[0].node, given[2]);
    assert_eq!(holders(&seen), [&given[2]]);
    assert!(seen[1..].iter().all(|c| c.kind == Kind::Foreign));
    assert_eq!(seen.len(), given.len());
}

#[test]
fn bare_marker_and_empty_directory_are_valid() {
    assert_eq!(queue(&path(), Vec::new()), []);
    assert_eq!(semaphore(&path(), Vec::new(), Vec::new()), []);
    let seen = queue(&path(), nodes(&["".to_owned(), "0".to_owned()]));
    assert!(seen.iter().all(|c| c.sequence.is_none() && !c.holds));
}

/// In any directory, the contenders shown as holders are those that the queue would grant.
#[test]
fn queue_decides_the_holders() {
    const ROUNDS: usize = 3_000;
    let markers = ["lock-", "__READ__", "__WRIT__", "__lock__", "__rlock__"];
    // Sequences that can exist together: at the end of the numbers, and where old servers return to
    // 0.
    let sequences = [
        [
            "0000000001",
            "0000000001",
            "1234567890",
            "2147483646",
            "2147483647",
            "2147483647",
            "-2147483648",
            "-2147483647",
            "junk",
        ],
        [
            "-000000002",
            "-000000001",
            "-000000001",
            "0000000000",
            "0000000001",
            "0000000001",
            "0000000002",
            "1000000000",
            "junk",
        ],
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let mut holding = 0;
    for round in 0..ROUNDS {
        let count = random.usize(0..7);
        let name = |number: usize| {
            let marker = markers[random.usize(..markers.len())];
            let sequences = &sequences[round % sequences.len()];
            let sequence = sequences[random.usize(..sequences.len())];
            format!("{number}{UUID}-{marker}{sequence}")
        };
        let given: Vec<String> = (0..count).map(name).collect();
        let mut given = nodes(&given);
        random.shuffle(&mut given);
        let children: Vec<_> = given
            .iter()
            .map(|node| Child { name: &node.name, czxid: Some(node.stat.czxid) })
            .collect();
        let seen = queue(&path(), given.clone());
        for contender in &seen {
            let mode = names::mode_of(&contender.node);
            let granted = mode
                .is_some_and(|mode| decide(mode, &children, &contender.node) == Standing::Granted);
            assert_eq!(
                contender.holds,
                granted,
                "round {round}: {contender:?} of {:?}",
                nodes_of(&seen)
            );
            holding += usize::from(granted);
        }
    }
    println!("{holding} holders in {ROUNDS} directories");
    assert!(holding > ROUNDS / 2);
}

#[test]
fn downgraded_read_has_the_writes_token_and_holds_beside_it() {
    let write = format!("_c_{UUID}-__WRIT__0000000004");
    let (_, read) = names::read_under(&write, 40);
    let others = ["__READ__0000000003", "__READ__0000000005", "__WRIT__0000000006"];
    let given = |first: &[(&str, i64)]| {
        let given = [first, &[(others[1], 41), (others[2], 42)]].concat();
        let nodes = given.into_iter().map(|(name, czxid)| made(name, czxid, 7, "who"));
        queue(&path(), nodes.collect())
    };
    let both = given(&[(&write, 40), (&read, 50)]);
    println!("{both:#?}");
    assert!(both[..2].iter().all(|c| c.token == 40 && c.sequence == Some(4) && c.holds));
    assert!(both[2..].iter().all(|c| !c.holds), "the reader behind the write waits");
    let after = given(&[(&read, 50)]);
    let shown: Vec<_> = after.iter().map(|c| (c.token, c.holds)).collect();
    assert_eq!(shown, [(40, true), (41, true), (42, false)], "{after:#?}");
    assert_eq!(after[0].since, SystemTime::UNIX_EPOCH + Duration::from_millis(1_050), "its own");
    let first = given(&[(others[0], 39), (&write, 40)]);
    assert_eq!(holders(&first), [others[0]]);
}

#[test]
fn turn_holder_does_not_own_permits_created_for_others() {
    let lease =
        |number: i64, session| made(&format!("{number}-lease-0000000000"), number, session, "");
    let turns = vec![made(&lock("0000000004"), 40, 1, ""), made(&lock("0000000005"), 41, 2, "")];
    // Curator's names have the form of ours.
    let curators = made("_c_11111111-1111-4111-8111-111111111111-lease-0000000009", 52, 1, "");
    let leases = vec![lease(50, 1), lease(30, 1), lease(45, 2), lease(51, 1), curators];
    let seen = semaphore(&path(), turns, leases);
    println!("{seen:#?}");
    let shown: Vec<_> = seen.iter().map(|c| (c.token, c.holds)).collect();
    let expected =
        [(30, true), (45, true), (50, false), (51, false), (52, false), (40, false), (41, false)];
    assert_eq!(shown, expected);
    assert!(seen.iter().all(|c| c.kind == Kind::Permit && c.path == "/locks/a"));
    assert_eq!(seen[5].node, format!("locks/{}", lock("0000000004")));
    assert_eq!(seen[5].znode(), format!("/locks/a/locks/{}", lock("0000000004")));
}

#[test]
fn permits_named_after_the_turn_are_a_part_of_its_call() {
    // Both of one session; the second has no turn yet, or has had one before.
    let turns = [names::new_id(), names::new_id()].map(|id| format!("_c_{id}-lock-0000000004"));
    let [mine, other] = turns.each_ref();
    let lease = |turn: Option<&str>, number, session, data| {
        let id = names::new_permit_id(turn, 3);
        made(&format!("_c_{id}-lease-{number:010}"), number, session, data)
    };
    let leases = vec![
        lease(Some(mine), 50, 1, "who"),
        // A client has asked for them, or has overwritten their data.
        lease(Some(mine), 51, 1, "__REVOKE__"),
        lease(Some(mine), 52, 1, ""),
        lease(Some(other), 53, 1, "who"),
        lease(Some(other), 54, 1, "__REVOKE__"),
        // Permits that a try has taken without a turn.
        lease(None, 55, 1, "who"),
        lease(Some(other), 30, 1, "who"),
        // Not a permit of the call with the turn, whatever its name is.
        lease(Some(mine), 56, 2, "who"),
    ];
    let seen = semaphore(&path(), vec![made(mine, 40, 1, "who")], leases);
    println!("{seen:#?}");
    let shown: Vec<_> = seen.iter().map(|c| (c.token, c.holds)).collect();
    let held = [30, 53, 54, 55, 56].map(|token| (token, true));
    assert_eq!(shown, [&held[..], &[(50, false)]].concat());
    assert!(seen.iter().all(|c| c.limit == Some(3)), "{seen:#?}");
    let revoked = seen.iter().filter(|c| c.identity.is_none()).map(|c| c.token);
    assert_eq!(revoked.collect::<Vec<_>>(), [54]);
}

#[test]
fn permits_of_a_turn_are_held_as_soon_as_they_fit() {
    let turn = lock("0000000004");
    let seen = |limit, turns: &[Znode]| {
        let ours = format!("_c_{}-lease-0000000002", names::new_permit_id(Some(&turn), limit));
        let leases = vec![made(&ours, 50, 1, ""), made("lease-0000000001", 30, 1, "")];
        let seen = semaphore(&path(), turns.to_vec(), leases);
        println!("{limit}: {seen:#?}");
        (seen.len(), holders(&seen).len())
    };
    let turns = [made(&turn, 40, 1, ""), made(&lock("0000000005"), 41, 2, "")];
    assert_eq!(seen(1, &[]), (2, 2), "without a turn");
    assert_eq!(seen(1, &turns), (3, 1), "too few, and two calls wait");
    assert_eq!(seen(2, &turns), (3, 2), "who has them only has to give the turn back");
}

#[test]
fn stranger_among_the_turns_delays_nobody() {
    let turns = vec![made("notes", 1, 0, ""), made(&lock("0000000001"), 2, 1, "")];
    let seen = semaphore(&path(), turns, Vec::new());
    println!("{seen:#?}");
    assert_eq!((seen[0].kind, seen[0].token), (Kind::Permit, 2));
    assert_eq!((seen[1].kind, &*seen[1].node), (Kind::Foreign, "locks/notes"));
}

#[test]
fn times_past_the_end_of_the_clock_do_not_panic() {
    for ctime in [i64::MAX, i64::MAX - 1, i64::MIN, -1, 0] {
        let mut node = made(&lock("0000000001"), 2, 1, "a");
        node.stat.ctime = ctime;
        println!("{ctime}: {:?}", queue(&path(), vec![node])[0].since);
    }
}

#[test]
fn only_the_id_is_stripped_from_a_single_nodes_identity() {
    for (data, identity) in [
        (format!("{UUID} two words"), Some("two words")),
        (format!("{UUID} "), Some("")),
        ("two words".to_owned(), Some("two words")),
        ("word".to_owned(), Some("word")),
        (String::new(), Some("")),
        ("__REVOKE__".to_owned(), None),
    ] {
        let seen = single(&path(), made("", 1, 7, &data));
        assert_eq!(seen.identity.as_deref(), identity, "{data:?}");
        assert_eq!(seen.znode(), "/locks/a");
    }
}
