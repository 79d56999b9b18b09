//! The calls of a program: what they ask for, and how the client is asked.

use zookeeper::{Acl, Batch, Names, Op, OpResult, Pending, Stat, WatchedEvent, Watcher};

use super::history::mark;
use super::judge::{Asked, Made, Said, is_sequential, judge};
use super::program::Shared;
use super::watches::told;
use super::{Node, ROOT, RawCall, Since};

/// The number of a call, and what waits for its answer.
pub(super) type Sent = (usize, Box<dyn Answer>);

pub(super) trait Answer {
    fn wait(self: Box<Self>) -> zookeeper::Result<Said>;
    fn call_back(self: Box<Self>, back: Box<dyn FnOnce(zookeeper::Result<Said>) + Send>);
    fn is_done(&self) -> bool;
}

impl<T: Into<Said> + Send + 'static> Answer for Pending<T> {
    fn wait(self: Box<Self>) -> zookeeper::Result<Said> {
        Pending::wait(*self).map(Into::into)
    }

    fn call_back(self: Box<Self>, back: Box<dyn FnOnce(zookeeper::Result<Said>) + Send>) {
        self.on_done(move |result| back(result.map(Into::into)));
    }

    fn is_done(&self) -> bool {
        Pending::is_done(self)
    }
}

macro_rules! said {
    ($($returned:ty: $value:pat => $said:expr;)+) => {$(
        impl From<$returned> for Said {
            fn from($value: $returned) -> Said {
                $said
            }
        }
    )+};
}

said! {
    (): () => Said::Done;
    (String, Stat): (path, stat) => Said::Created(path, stat);
    (String, i64): (path, czxid) => Said::CreatedBy(path, czxid);
    Stat: stat => Said::Set(stat);
    (Vec<u8>, Stat): (data, stat) => Said::Data(data, stat);
    Option<Stat>: found => Said::Found(found);
    (Names, Stat): (names, stat) => Said::Names(names.iter().map(str::to_owned).collect(), stat);
    Vec<OpResult>: results => Said::Several(results);
}

impl Shared {
    fn path(&self, node: Node) -> String {
        let tail = || "x".repeat(self.plan.tail);
        match node {
            Node::Shared(index) => format!("{ROOT}/s{index}{}", tail()),
            Node::Own(index) => format!("{ROOT}/o{}-{index}{}", self.number, tail()),
            Node::Child(index) => {
                let number = judge(|judge| judge.next());
                format!("{ROOT}/s{index}{}/c{number}", tail())
            }
            Node::Made => judge(|judge| {
                let made = &mut judge.program(self.process).made;
                match made.is_empty() {
                    true => format!("{ROOT}/nothing"),
                    false => made.remove(0),
                }
            }),
        }
    }

    /// Returns a listener, either a new one or one that already listens to other nodes.
    fn ear(&self) -> (usize, Watcher) {
        let mut ears = self.ears.borrow_mut();
        let index = kernel::with_random(|random| random.usize(..ears.len() + 3));
        if let Some((number, ear)) = ears.get(index) {
            return (*number, ear.clone());
        }
        let number = judge(|judge| judge.listener(self.process));
        let ear = Watcher::new(move |event: &WatchedEvent| told(number, event));
        ears.push((number, ear.clone()));
        (number, ear)
    }

    /// Returns what a call asks for that is no transaction.
    fn asked(&self, call: &RawCall) -> Asked {
        match call {
            RawCall::Create { node, mode, .. } => {
                let (path, mode) = (self.path(*node), *mode);
                if matches!(node, Node::Child(_)) && !is_sequential(mode) {
                    // It may be created, so that a later step deletes it.
                    judge(|judge| judge.program(self.process).made.push(path.clone()));
                }
                Asked::Create { path, mode }
            }
            RawCall::Delete(node, _) | RawCall::DeleteEventually(node) => {
                let is_repeated = matches!(call, RawCall::DeleteEventually(_));
                Asked::Delete { path: self.path(*node), is_repeated }
            }
            RawCall::Set(node) => Asked::Set(self.path(*node)),
            RawCall::Get(node, _) => Asked::Get(self.path(*node)),
            RawCall::Exists(node, _) => Asked::Exists(self.path(*node)),
            RawCall::Children(node, _) => Asked::Children(self.path(*node)),
            RawCall::Watch(nodes, since) => {
                let mut paths: Vec<String> = nodes.iter().map(|node| self.path(*node)).collect();
                paths.sort_unstable();
                paths.dedup();
                let since = match since {
                    Since::Ever => 0,
                    Since::Before(count) => judge(|judge| judge.newest(self.process)) - count,
                    Since::Future => i64::MAX,
                };
                Asked::Watch { paths, since }
            }
            RawCall::Sync => Asked::Sync,
            RawCall::Renew | RawCall::Several(_) => Asked::Other,
        }
    }

    pub(super) fn ask(&self, batch: &mut Batch<'_>, made: Made, call: &RawCall) -> Sent {
        if let RawCall::Several(calls) = call {
            return self.ask_several(batch, made, calls);
        }
        use RawCall::{Children, Create, Delete, DeleteEventually, Exists, Get, Watch};
        let is_shared = matches!(call, Create { is_shared: true, .. } | Delete(_, true));
        let is_watched =
            matches!(call, Get(_, true) | Exists(_, true) | Children(_, true) | Watch(..));
        let (listener, ear) = is_watched.then(|| self.ear()).unzip();
        let limit = made.limit.filter(|_| !matches!(call, DeleteEventually(_)));
        let asked = self.asked(call);
        let made = Made { listener, limit, is_shared, ..made };
        let number = judge(|judge| judge.begin(made, asked.clone(), false));
        let (acl, data, ear) = (Acl::open(), mark(number), ear.as_ref());
        let answer: Box<dyn Answer> = match &asked {
            Asked::Create { path, mode } if is_shared => {
                Box::new(batch.shared_create(path, &data, &acl, *mode))
            }
            Asked::Create { path, mode } => Box::new(batch.create(path, &data, &acl, *mode)),
            Asked::Delete { path, is_repeated: true } => Box::new(batch.delete_eventually(path)),
            Asked::Delete { path, .. } if is_shared => Box::new(batch.shared_delete(path)),
            Asked::Delete { path, .. } => Box::new(batch.delete(path, None)),
            Asked::Set(path) => Box::new(batch.set_data(path, &data, None)),
            Asked::Get(path) => Box::new(batch.get_data(path, ear)),
            Asked::Exists(path) => Box::new(batch.exists(path, ear)),
            Asked::Children(path) => Box::new(batch.get_children(path, ear)),
            Asked::Watch { paths, since } => {
                Box::new(batch.set_watches(*since, paths, ear.expect("somebody listens")))
            }
            Asked::Sync => Box::new(batch.sync(ROOT)),
            _ => Box::new(batch.renew_lease()),
        };
        (number, answer)
    }

    fn ask_several(&self, batch: &mut Batch<'_>, made: Made, calls: &[RawCall]) -> Sent {
        kernel::count("raw: a transaction");
        let acl = Acl::open();
        // The parts have the numbers after the whole.
        let number = judge(|judge| {
            let parts = (1..=calls.len()).map(|part| judge.next() + part).collect();
            judge.begin(made, Asked::Several(parts), false)
        });
        let parts = calls.iter().map(|call| {
            let asked = self.asked(call);
            let part = judge(|judge| judge.begin(made, asked.clone(), true));
            (asked, mark(part))
        });
        let parts: Vec<_> = parts.collect();
        let ops = parts.iter().map(|(asked, data)| match asked {
            Asked::Create { path, mode } => Op::Create(path, data, &acl, *mode),
            Asked::Delete { path, .. } => Op::Delete(path, None),
            Asked::Set(path) => Op::SetData(path, data, None),
            _ => panic!("{asked:?} is no part of a transaction"),
        });
        let ops: Vec<Op<'_>> = ops.collect();
        (number, Box::new(batch.multi(&ops)))
    }
}
