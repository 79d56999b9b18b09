//! One of the two servers that are compared, and its clients.

use std::net::SocketAddr;
use std::slice::from_ref;
use std::time::Duration;

use zoolock_test_support::{FaultProxy, wait_until};
use zoolock_zookeeper::{
    Acl, CreateMode, ErrorKind, Names, Op, OpResult, Receiver, Result, Stat, State, WatchedEvent,
    Watcher, ZooKeeper,
};

use crate::step::{CLIENTS, Change, OWN, Step, What};

const SOON: Duration = Duration::from_secs(60);

pub(crate) struct Side {
    clients: Vec<Client>,
    /// The transaction that created the root. All other transactions are counted from it.
    base: i64,
    /// The number of lists of children, which are in any order.
    pub(crate) unsorted: usize,
}

struct Client {
    proxy: FaultProxy,
    zk: ZooKeeper,
    watcher: Watcher,
    events: Receiver<WatchedEvent>,
}

/// The result of a step, without anything in which two equivalent servers may differ.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) created: Vec<String>,
    pub(crate) events: Vec<(usize, WatchedEvent)>,
}

impl Seen {
    /// Returns the name of the error, or `Ok`.
    pub(crate) fn outcome(&self) -> &str {
        let error = self.text.strip_prefix("Err(").and_then(|text| text.split(')').next());
        error.unwrap_or("Ok")
    }
}

fn connect(proxy: &FaultProxy, index: usize) -> ZooKeeper {
    let mut builder = ZooKeeper::builder(&proxy.connect_string()).session_timeout(SOON);
    if let Some(secret) = OWN[index] {
        builder = builder.auth("digest", secret.as_bytes());
    }
    builder.connect_timeout(SOON).request_timeout(SOON).connect().expect("connect")
}

impl Side {
    pub(crate) fn new(server: SocketAddr, root: &str) -> Side {
        let client = |index| {
            let proxy = FaultProxy::start(server).expect("a proxy");
            let (watcher, events) = Watcher::channel();
            Client { zk: connect(&proxy, index), proxy, watcher, events }
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        // The numbers of the root's siblings depend on the parent, so the parent is new as well.
        let (parent, _) = root.rsplit_once('/').expect("a path");
        clients[0].zk.create_all(parent, &Acl::open(), CreateMode::Persistent).expect("a parent");
        let made = clients[0].zk.create(root, b"", &Acl::open(), CreateMode::Persistent);
        Side { clients, base: made.expect("the root").1.czxid, unsorted: 0 }
    }

    /// Ends all sessions, so that their transactions do not interfere with the next side's.
    pub(crate) fn close(self) {
        self.clients.iter().for_each(|client| client.zk.close().expect("an answer"));
    }

    pub(crate) fn take(&mut self, step: &Step) -> Seen {
        let Step(who, what) = step;
        let (who, mut created) = (*who, Vec::new());
        let Client { zk, proxy, watcher, .. } = &self.clients[who];
        let watcher_if = |watch: &bool| watch.then_some(watcher);
        let is = |state| wait_until(&format!("{state:?}"), SOON, || zk.state() == state);
        let text = match what {
            What::Exists(path, watch) => {
                let found = zk.submit(|batch| batch.exists(path, watcher_if(watch))).wait();
                self.text(found, |stat| format!("{:?}", stat.map(|stat| self.stat(stat))))
            }
            What::GetData(path, watch) => {
                let read = zk.submit(|batch| batch.get_data(path, watcher_if(watch))).wait();
                self.text(read, |(data, stat)| format!("{data:?} {}", self.stat(stat)))
            }
            What::GetChildren(path, watch) => {
                let list = zk.submit(|batch| batch.get_children(path, watcher_if(watch))).wait();
                let is_unsorted = |(names, _): &(Names, Stat)| !names.iter().is_sorted();
                self.unsorted += usize::from(list.as_ref().is_ok_and(is_unsorted));
                self.text(list, |(names, stat)| {
                    let mut names: Vec<&str> = names.iter().collect();
                    names.sort_unstable();
                    format!("{names:?} {}", self.stat(stat))
                })
            }
            What::SetWatches(since, paths) => {
                let since = since.map_or(i64::MAX, |since| self.base + since);
                self.done(zk.set_watches(since, paths, watcher))
            }
            What::GetAcl(path) => self.text(zk.get_acl(path), |(acl, stat)| {
                // `auth` is replaced by all identities of a connection, in any order.
                let mut acl: Vec<_> = acl.iter().map(|entry| format!("{entry:?}")).collect();
                acl.sort_unstable();
                format!("{acl:?} {}", self.stat(stat))
            }),
            What::SetAcl(path, acl, version) => {
                self.text(zk.set_acl(path, acl, *version), |stat| self.stat(stat))
            }
            What::AddAuth(scheme, secret) => {
                proxy.refuse(true);
                let added = zk.add_auth(scheme, secret.as_bytes());
                if added.is_err() {
                    is(State::Suspended);
                }
                proxy.restore();
                is(State::Connected);
                self.done(added)
            }
            What::Sync(path) => self.done(zk.sync(path)),
            What::Write(change) => self.change(zk, change, &mut created),
            What::Multi(changes) => self.multi(zk, changes, &mut created),
            What::Reopen => {
                let closed = zk.close();
                let again = connect(proxy, who);
                self.clients[who].zk = again;
                format!("{closed:?}")
            }
            What::Away(changes) => {
                proxy.cut_off();
                is(State::Suspended);
                let other = &self.clients[(who + 1) % CLIENTS].zk;
                let each = changes.iter().map(|change| self.change(other, change, &mut created));
                let texts: Vec<_> = each.collect();
                proxy.restore();
                is(State::Connected);
                texts.join(", ")
            }
        };
        let mut events = Vec::new();
        for (index, client) in self.clients.iter().enumerate() {
            // All earlier events arrive before this answer.
            client.zk.exists("/").expect("an answer");
            events.extend(client.events.try_iter().map(|event| (index, event)));
        }
        // When a session ends or watches are set again, the events may arrive in any order.
        if matches!(what, What::Reopen | What::Away(_) | What::AddAuth(..)) {
            events.sort_by_key(|(index, event)| (*index, format!("{event:?}")));
        }
        Seen { text, created, events }
    }

    fn change(&self, zk: &ZooKeeper, change: &Change, created: &mut Vec<String>) -> String {
        match change {
            Change::Create(path, data, acl, mode) => {
                let made = zk.create(path, data, acl, *mode);
                created.extend(made.iter().map(|(path, _)| path.clone()));
                self.text(made, |(path, stat)| format!("{path} {}", self.stat(stat)))
            }
            Change::Delete(path, version) => self.done(zk.delete(path, *version)),
            Change::SetData(path, data, version) => {
                self.text(zk.set_data(path, data, *version), |stat| self.stat(stat))
            }
            Change::Check(..) => self.multi(zk, from_ref(change), created),
        }
    }

    fn multi(&self, zk: &ZooKeeper, changes: &[Change], created: &mut Vec<String>) -> String {
        let ops: Vec<Op<'_>> = changes
            .iter()
            .map(|change| match change {
                Change::Create(path, data, acl, mode) => Op::Create(path, data, acl, *mode),
                Change::Delete(path, version) => Op::Delete(path, *version),
                Change::SetData(path, data, version) => Op::SetData(path, data, *version),
                Change::Check(path, version) => Op::Check(path, *version),
            })
            .collect();
        let done = zk.multi(&ops);
        let failed = done.as_ref().err().and_then(|error| error.failed_op());
        let text = self.text(done, |results| {
            let texts = results.into_iter().map(|result| match result {
                OpResult::Created { path, .. } => {
                    created.push(path.clone());
                    format!("Created {path}")
                }
                OpResult::Set(stat) => self.stat(stat),
                other => format!("{other:?}"),
            });
            texts.collect::<Vec<_>>().join(", ")
        });
        format!("{text} {failed:?}")
    }

    fn done(&self, result: Result<()>) -> String {
        self.text(result, |()| String::new())
    }

    fn text<T>(&self, result: Result<T>, text: impl FnOnce(T) -> String) -> String {
        match result.map_err(|error| error.kind()) {
            Ok(value) => text(value),
            Err(kind @ (ErrorKind::ConnectionLoss | ErrorKind::Timeout)) => panic!("{kind}"),
            Err(kind) => format!("Err({kind:?})"),
        }
    }

    fn stat(&self, stat: Stat) -> String {
        let [czxid, mzxid, pzxid] =
            [stat.czxid, stat.mzxid, stat.pzxid].map(|zxid| zxid - self.base);
        let owner = self.clients.iter().position(|one| one.zk.session_id() == stat.ephemeral_owner);
        let is_known = owner.is_some() || stat.ephemeral_owner == 0;
        assert!(is_known, "{:x} is nobody's session", stat.ephemeral_owner);
        let Stat { version, cversion, aversion, data_length, num_children, .. } = stat;
        format!(
            "[{czxid} {mzxid} {pzxid} versions {version} {cversion} {aversion} \
             owner {owner:?} {data_length} bytes {num_children} children]"
        )
    }
}
