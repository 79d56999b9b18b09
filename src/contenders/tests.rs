use super::*;

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
    Znode { name: name.to_owned(), found: Some((data.as_bytes().to_vec(), stat)) }
}

/// The nodes, in the order of their creation.
fn nodes(names: &[String]) -> Vec<Znode> {
    let numbered = names.iter().zip(1..);
    numbered.map(|(name, token)| made(name, token, 7, "who")).collect()
}

fn holders(contenders: &[Contender]) -> Vec<&str> {
    let holders = contenders.iter().filter(|c| c.holds);
    holders.map(|c| c.node.as_str()).collect()
}

fn lock(sequence: &str) -> String {
    format!("_c_{UUID}-lock-{sequence}")
}

/// A read node that its thread created while it had the write lock may have been added since the
/// list.
#[test]
fn nobody_holds_behind_a_node_that_vanished_since_the_list() {
    let name = |mode: &str, number: u32| format!("_c_{UUID}-__{mode}__{number:010}");
    let (first, second, third) = (name("WRIT", 1), name("READ", 2), name("WRIT", 3));
    let listed = [first.clone(), second.clone(), third.clone()];
    let seen = |listed: &[String], there: &[String]| {
        let mut nodes = nodes(listed);
        nodes
            .iter_mut()
            .filter(|node| !there.contains(&node.name))
            .for_each(|node| node.found = None);
        queue(&path(), nodes)
    };
    assert_eq!(holders(&seen(&listed, &listed)), [&first]);
    let left = seen(&listed, &listed[1..]);
    assert_eq!((left.len(), holders(&left)), (2, vec![]));
    assert_eq!(
        holders(&seen(&listed, &[first.clone(), third])),
        [&first],
        "nodes behind it do not matter"
    );
    // Readers do not wait for readers.
    let listed = [name("READ", 1), second.clone()];
    let left = seen(&listed, &listed[1..]);
    assert_eq!(holders(&left), [&second]);
}

#[test]
fn turn_holder_does_not_own_permits_created_for_others() {
    let lease =
        |number: i64, session| made(&format!("{number}-lease-0000000000"), number, session, "");
    let turns = vec![made(&lock("0000000004"), 40, 1, ""), made(&lock("0000000005"), 41, 2, "")];
    // Curator's names have the same form.
    let curators = made("_c_11111111-1111-4111-8111-111111111111-lease-0000000009", 52, 1, "");
    let leases = vec![lease(50, 1), lease(30, 1), lease(45, 2), lease(51, 1), curators];
    let seen = semaphore(&path(), turns, leases);
    let shown: Vec<_> = seen.iter().map(|c| (c.token, c.holds)).collect();
    let expected =
        [(30, true), (45, true), (50, false), (51, false), (52, false), (40, false), (41, false)];
    assert_eq!(shown, expected);
    assert!(seen.iter().all(|c| c.kind == LockKind::Semaphore && c.path == "/locks/a"));
    assert_eq!(seen[5].node, format!("locks/{}", lock("0000000004")));
    assert_eq!(seen[5].znode(), format!("/locks/a/locks/{}", lock("0000000004")));
}

#[test]
fn permits_of_a_turn_are_held_as_soon_as_they_fit() {
    let turn = lock("0000000004");
    let seen = |limit, turns: &[Znode]| {
        let ours = format!("_c_{}-lease-0000000002", names::new_permit_id(Some(&turn), limit));
        let leases = vec![made(&ours, 50, 1, ""), made("lease-0000000001", 30, 1, "")];
        let seen = semaphore(&path(), turns.to_vec(), leases);
        (seen.len(), holders(&seen).len())
    };
    let turns = [made(&turn, 40, 1, ""), made(&lock("0000000005"), 41, 2, "")];
    assert_eq!(seen(1, &[]), (2, 2), "without a turn");
    assert_eq!(seen(1, &turns), (3, 1), "too few, and two calls wait");
    assert_eq!(seen(2, &turns), (3, 2), "who has them only has to give the turn back");
}

#[test]
fn times_past_the_end_of_the_clock_do_not_panic() {
    for ctime in [i64::MAX, i64::MAX - 1, i64::MIN, -1, 0] {
        let mut node = made(&lock("0000000001"), 2, 1, "a");
        node.found.iter_mut().for_each(|(_, stat)| stat.ctime = ctime);
        assert_eq!(queue(&path(), vec![node]).len(), 1);
    }
}
