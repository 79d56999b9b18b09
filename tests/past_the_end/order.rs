//! Who waits is served in the order of arrival, whatever the numbers say.

use zoolock::{DistributedLock, DistributedReentrantLock, DistributedRwLock, Lock};

use super::{END, Granted, Stage, come_in_one_by_one, number, numbers};
use common::{BRIEFLY, SOON};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// One holds, five queue; before each of them the counter is set if there is a number for it.
fn queue_and_serve(name: &str, set: [Option<i32>; 6]) -> bool {
    let Some(stage) = Stage::new(name, 0) else {
        return false;
    };
    let clients = [stage.client(), stage.client()];
    let (list, mut set) = (Granted::default(), set.into_iter());
    let mut prepare = || {
        if let Some(number) = set.next().flatten() {
            stage.set(number);
        }
    };
    prepare();
    let holder = stage.queues(&list, "holder", stage.lock(&clients[0]));
    holder.comes_in();
    let mut waiting = vec![(holder, "holder")];
    for (at, name) in NAMES.into_iter().enumerate() {
        prepare();
        let client = &clients[at % 2];
        let path = stage.path.as_str();
        let lock: Box<dyn Lock> = match at {
            0 | 1 => DistributedLock::new(client, path).unwrap().into(),
            2 => DistributedReentrantLock::new(client, path).unwrap().into(),
            _ => {
                let lock = DistributedRwLock::new(client, path).unwrap();
                lock.write_lock().into()
            }
        };
        waiting.push((stage.queues(&list, name, lock), name));
    }
    let nodes = stage.nodes();
    println!("{:?}", numbers(&nodes));
    // Seen from outside it is the same order.
    let seen = clients[0].contenders(&stage.path).unwrap();
    let order: Vec<_> = seen.iter().map(|one| one.node.clone()).collect();
    assert_eq!(order, nodes);
    let holds: Vec<_> = seen.iter().map(|one| one.holds).collect();
    assert_eq!(holds, [true, false, false, false, false, false]);
    let sequences: Vec<_> = seen.iter().filter_map(|one| one.sequence).collect();
    let expected: Vec<_> = nodes.iter().map(|node| i64::from(number(node))).collect();
    assert_eq!(sequences, expected);
    assert!(!stage.lock(&clients[1]).try_lock().unwrap());
    come_in_one_by_one(waiting, &list);
    stage.await_nodes(0);
    true
}

#[test]
fn fifo_from_wherever_the_numbers_are() {
    for number in [END - 6, END - 3, END - 1, END, i32::MIN, i32::MIN + 1, -1_000_000_006, -50] {
        if !queue_and_serve("fifo", [Some(number), None, None, None, None, None]) {
            return;
        }
    }
}

/// As they come when creates are under way together, or the server is replaced by an older one.
#[test]
fn fifo_when_the_numbers_say_the_opposite() {
    let opposite = [-5, -1000, i32::MIN + 5, i32::MIN, END, END];
    let mixed = [END - 1, -2, END, i32::MIN, END, -7];
    for numbers in [opposite, mixed] {
        if !queue_and_serve("fifo-mixed", numbers.map(Some)) {
            return;
        }
    }
}

#[test]
fn who_gives_up_in_the_middle_holds_up_nobody() {
    for number in [END - 2, END, i32::MIN] {
        let Some(stage) = Stage::new("gives-up", number) else {
            return;
        };
        let clients = [stage.client(), stage.client()];
        let list = Granted::default();
        let holder = stage.queues(&list, "holder", stage.lock(&clients[0]));
        let first = stage.queues(&list, "first", stage.lock(&clients[1]));
        let quits = stage.lock(&clients[0]);
        let quitter = stage.queues(&list, "quitter", quits.clone());
        let last = stage.queues(&list, "last", stage.lock(&clients[1]));
        quits.cancel_waiters();
        let cancelled = quitter.result();
        assert!(cancelled.is_err(), "{cancelled:?}");
        stage.await_nodes(3);
        come_in_one_by_one(vec![(holder, "holder"), (first, "first"), (last, "last")], &list);
        stage.await_nodes(0);
    }
}

#[test]
fn try_lock_is_busy_or_gets_it() {
    for number in [END - 1, END, i32::MIN, -9] {
        let Some(stage) = Stage::new("try", number) else {
            return;
        };
        let clients = [stage.client(), stage.client()];
        let [one, other] = clients.each_ref().map(|client| stage.lock(client));
        for _ in 0..3 {
            assert!(one.try_lock().unwrap());
            assert!(!other.try_lock().unwrap());
            assert_eq!(stage.nodes().len(), 1);
            one.unlock().unwrap();
            assert!(other.try_lock_for(SOON).unwrap());
            assert!(!one.try_lock().unwrap());
            other.unlock().unwrap();
        }
        assert!(one.try_lock().unwrap());
        let timed_out = other.try_lock_for(BRIEFLY);
        assert!(!timed_out.unwrap());
        one.unlock().unwrap();
        stage.await_nodes(0);
    }
}

/// The last normal one holds; those behind it are not.
#[test]
fn a_normal_node_goes_before_all_that_are_not() {
    let Some(stage) = Stage::new("normal-first", END - 3) else {
        return;
    };
    let clients = [stage.client(), stage.client()];
    let list = Granted::default();
    let mut queue = Vec::new();
    for (at, name) in ["holder", "a", "b", "c", "d", "e"].into_iter().enumerate() {
        queue.push((stage.queues(&list, name, stage.lock(&clients[at % 2])), name));
    }
    let found = numbers(&stage.nodes());
    assert_eq!(found, [END - 3, END - 2, END - 1, END, END, END]);
    come_in_one_by_one(queue, &list);
}
