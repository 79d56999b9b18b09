//! The calls of a program: what they request, and how they are made.

use zookeeper::{Acl, Batch, Names, Op, OpResult, Pending, Stat, WatchedEvent, Watcher};

use super::checker::{Asked, Made, Said, checker, is_sequential};
use super::history::mark;
use super::program::Shared;
use super::watches::received;
use super::{Node, ROOT, RawCall, Since};

/// The number of a call, and a handle to its answer.
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
                let number = checker(|checker| checker.next());
                format!("{ROOT}/s{index}{}/c{number}", tail())
            }
            Node::Made => checker(|checker| {
                let made = &mut checker.program(self.process).made;
                match made.is_empty() {
                    true => format!("{ROOT}/nothing"),
                    false => made.remove(0),
                }
            }),
        }
    }

    /// Returns a new listener, or one that already watches other nodes.
    fn watcher(&self) -> (usize, Watcher) {
        let mut listeners = self.listeners.borrow_mut();
        let index = kernel::with_random(|random| random.usize(..listeners.len() + 3));
        if let Some((number, watcher)) = listeners.get(index) {
            return (*number, watcher.clone());
        }
        let number = checker(|checker| checker.listener(self.process));
        let watcher = Watcher::new(move |event: &WatchedEvent| received(number, event));
        listeners.push((number, watcher.clone()));
        (number, watcher)
    }

    /// Describes a call to the checker, unless it is a transaction.
    fn asked(&self, call: &RawCall) -> Asked {
        match call {
            RawCall::Create { node, mode, .. } => {
                let (path, mode) = (self.path(*node), *mode);
                if matches!(node, Node::Child(_)) && !is_sequential(mode) {
                    // The create may succeed, so a later step deletes the node.
                    checker(|checker| checker.program(self.process).made.push(path.clone()));
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
                    Since::Before(count) => checker(|checker| checker.newest(self.process)) - count,
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
        let (listener, watcher) = is_watched.then(|| self.watcher()).unzip();
        let limit = made.limit.filter(|_| !matches!(call, DeleteEventually(_)));
        let asked = self.asked(call);
        let made = Made { listener, limit, is_shared, ..made };
        let number = checker(|checker| checker.begin(made, asked.clone(), false));
        let (acl, data, watcher) = (Acl::open(), mark(number), watcher.as_ref());
        let answer: Box<dyn Answer> = match &asked {
            Asked::Create { path, mode } if is_shared => {
                Box::new(batch.shared_create(path, &data, &acl, *mode))
            }
            Asked::Create { path, mode } => Box::new(batch.create(path, &data, &acl, *mode)),
            Asked::Delete { path, is_repeated: true } => Box::new(batch.delete_eventually(path)),
            Asked::Delete { path, .. } if is_shared => Box::new(batch.shared_delete(path)),
            Asked::Delete { path, .. } => Box::new(batch.delete(path, None)),
            Asked::Set(path) => Box::new(batch.set_data(path, &data, None)),
            Asked::Get(path) => Box::new(batch.get_data(path, watcher)),
            Asked::Exists(path) => Box::new(batch.exists(path, watcher)),
            Asked::Children(path) => Box::new(batch.get_children(path, watcher)),
            Asked::Watch { paths, since } => {
                Box::new(batch.set_watches(*since, paths, watcher.expect("somebody listens")))
            }
            Asked::Sync => Box::new(batch.sync(ROOT)),
            _ => Box::new(batch.renew_lease()),
        };
        (number, answer)
    }

    fn ask_several(&self, batch: &mut Batch<'_>, made: Made, calls: &[RawCall]) -> Sent {
        kernel::count("raw: a transaction");
        let acl = Acl::open();
        // The numbers of a transaction's parts follow its own number.
        let number = checker(|checker| {
            let parts = (1..=calls.len()).map(|part| checker.next() + part).collect();
            checker.begin(made, Asked::Several(parts), false)
        });
        let parts = calls.iter().map(|call| {
            let asked = self.asked(call);
            let part = checker(|checker| checker.begin(made, asked.clone(), true));
            (asked, mark(part))
        });
        let parts: Vec<_> = parts.collect();
        let ops = parts.iter().map(|(asked, data)| match asked {
            Asked::Create { path, mode } => Op::Create(path, data, &acl, *mode),
            Asked::Delete { path, .. } => Op::Delete(path, None),
            Asked::Set(path) => Op::SetData(path, data, None),
            _ => panic!("{asked:?} cannot be part of a transaction"),
        });
        let ops: Vec<Op<'_>> = ops.collect();
        (number, Box::new(batch.multi(&ops)))
    }
}
