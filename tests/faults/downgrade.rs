//! A read under the thread's own write, and faults in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedRwLock, Error, Hold, HoldState};
use zoolock_test_support::{FaultProxy, Op, Then, fresh_path, wait_until};

use common::{
    SESSION, SOON, Visitor, await_nodes, await_nothing_left, await_resumed, behind_a_proxy,
    children, hold_of, place,
};

/// What a downgrade asks for, in one write.
const REQUESTS: [Op; 2] = [Op::Create, Op::GetChildren];

/// A thread that writes, behind which another client's writer is queued.
struct Writing {
    proxy: FaultProxy,
    client: Client,
    path: String,
    lock: DistributedRwLock,
    rival: Option<Visitor>,
    _rivals: Client,
}

impl Writing {
    fn start() -> Writing {
        let (proxy, client) = behind_a_proxy(SESSION);
        let path = fresh_path("downgrade");
        let lock = DistributedRwLock::new(&client, &path).unwrap();
        lock.write_lock().lock().unwrap();
        let rivals = common::client();
        let rival = DistributedRwLock::new(&rivals, &path).unwrap();
        let rival = Visitor::start(rival.write_lock());
        await_nodes(&path, 2);
        Writing { proxy, client, path, lock, rival: Some(rival), _rivals: rivals }
    }

    fn write(&self) -> Hold {
        hold_of(&self.lock.write_lock())
    }

    fn cut_off(&self) {
        self.proxy.cut_off();
        let write = self.write();
        wait_until("it is suspended", SOON, || write.state() == HoldState::Suspended);
    }

    /// The lock for reading, while this happens beside it.
    fn read_beside<'s>(&'s self, act: impl FnOnce() + Send + 's) -> zoolock::Result<()> {
        thread::scope(|scope| {
            scope.spawn(act);
            self.lock.read_lock().lock()
        })
    }

    /// Both are held in one place, one node each, also over a cut, and nobody comes in until both
    /// are unlocked.
    #[track_caller]
    fn ends_well(mut self, what: &str) {
        let is_in = || self.rival.as_ref().is_some_and(Visitor::is_in);
        let (read, write) = (self.lock.read_lock(), self.lock.write_lock());
        let holds = [hold_of(&read), hold_of(&write)];
        let seen = || {
            let tokens = holds.each_ref().map(|hold| hold.fencing_token());
            (holds.each_ref().map(Hold::node), tokens, children(&self.path))
        };
        wait_until("both are held, by one node each", SOON, || {
            let (nodes, _, there) = seen();
            let are = holds.iter().all(|hold| hold.state() == HoldState::Held);
            are && there.len() == 3 && nodes.iter().all(|node| there.contains(node))
        });
        let before = seen();
        println!("{what}: {before:?}");
        assert_eq!(place(&before.0[0]), place(&before.0[1]), "{what}");
        assert_eq!(before.1[0], before.1[1], "{what}");
        let resumed = self.client.stats().resumed;
        self.proxy.cut();
        await_resumed(&self.client, resumed + 1);
        assert_eq!(seen(), before, "{what}");
        assert!(!is_in(), "{what}");
        write.unlock().unwrap();
        self.proxy.cut();
        await_resumed(&self.client, resumed + 2);
        assert!(!is_in(), "{what}: past a read");
        wait_until("the read is held", SOON, || hold_of(&read).state() == HoldState::Held);
        assert_eq!(hold_of(&read).fencing_token(), before.1[0], "{what}");
        read.unlock().unwrap();
        self.has_ended(what);
        assert_eq!(self.client.stats().holds_lost, 0, "{what}");
        // A create that nobody has answered is looked for until it cannot come any more.
        await_nothing_left(&self.client);
    }

    #[track_caller]
    fn has_ended(&mut self, what: &str) {
        println!("{what}: {:?}", self.client.stats());
        let rival = self.rival.take().expect("it waits");
        rival.comes_in();
        rival.leaves();
        await_nodes(&self.path, 0);
    }
}

/// The last of it costs a heartbeat more.
#[test]
fn a_downgrade_with_little_of_its_lease_left_has_it_renewed_also_if_that_is_cut() {
    const LITTLE: Duration = Duration::from_secs(4);
    assert!(LITTLE < SESSION / 20 * 9);
    for answer in [false, true] {
        let writing = Writing::start();
        let (proxy, write) = (&writing.proxy, writing.write());
        writing.cut_off();
        wait_until("little is left", SOON, || write.valid_for() < LITTLE);
        let rule = proxy.on(Op::SetData);
        let lost = match answer {
            true => rule.drop_answer(Then::Cut),
            false => rule.drop_request(Then::Cut),
        };
        writing.read_beside(|| proxy.refuse(false)).unwrap();
        let left = hold_of(&writing.lock.read_lock()).valid_for();
        assert!(lost.fired(), "{:#?}", proxy.log());
        assert!(left > LITTLE, "answer: {answer}, {left:?} left");
        writing.ends_well(&format!("answer: {answer}, {left:?} left"));
    }
}

#[test]
fn a_downgrade_without_a_connection_waits_for_the_next_one_or_says_so() {
    let writing = Writing::start();
    let read = writing.lock.read_lock();
    writing.cut_off();
    for tried in [read.try_lock(), read.try_lock_for(Duration::from_millis(100))] {
        assert!(matches!(tried, Err(Error::Disconnected { .. })), "{tried:?}");
    }
    assert_eq!(read.hold_count(), 0);
    writing.read_beside(|| writing.proxy.refuse(false)).unwrap();
    writing.ends_well("a connection came");
}

#[test]
fn a_downgrade_that_nobody_waits_for_any_more_leaves_no_node() {
    for op in REQUESTS {
        let writing = Writing::start();
        let (own, read) = (writing.write().node(), writing.lock.read_lock());
        let answer = writing.proxy.on(op).path_contains(&writing.path).hold_answer();
        let gave_up = read.try_lock_for(Duration::from_millis(200));
        assert!(
            answer.wait(SOON) && matches!(gave_up, Err(Error::Disconnected { .. })),
            "{gave_up:?}"
        );
        assert_eq!((read.hold_count(), read.is_held()), (0, false));
        let over = AtomicBool::new(false);
        let cancelled = thread::scope(|scope| {
            scope.spawn(|| {
                wait_until("it is cancelled", SOON, || {
                    read.cancel_waiters();
                    over.load(Ordering::SeqCst)
                });
                answer.release();
            });
            let cancelled = writing.lock.read_lock().lock();
            over.store(true, Ordering::SeqCst);
            cancelled
        });
        assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{op:?}: {cancelled:?}");
        wait_until("only the write and its rival are left", SOON, || {
            let there = children(&writing.path);
            there.len() == 2 && there.contains(&own)
        });
        read.lock().unwrap();
        writing.ends_well("after all that");
    }
}
