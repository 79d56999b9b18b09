//! The script of `SayEverything.java` for this client.

use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::thread;
use std::time::Duration;

use crossbeam_channel::Receiver;
use zoolock_zookeeper::{
    Acl, CreateMode, Listener, Op, Permissions, SessionEvent, SessionEventKind, Watcher, ZooKeeper,
};

use super::recording::{Recorder, Step};
use super::relay::Relay;

const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(3600);
const LONGER_TTL: Duration = Duration::from_millis(3_600_001);
const CREDENTIALS: &[u8] = b"user:secret";
const DATA: &[u8] = b"some data";

/// Runs the whole script at this server. A failure ends it as the last step, since the frames should explain
/// what the server rejected.
pub(crate) fn run(server: SocketAddr, root: &str) -> (Vec<Step>, thread::Result<()>) {
    let mut recorder = Recorder::new(Relay::start(server).expect("a relay"));
    let script = AssertUnwindSafe(|| {
        everything(&mut recorder, root);
        resumed(&mut recorder, root);
        below_a_root(&mut recorder, root);
    });
    let outcome = panic::catch_unwind(script);
    if outcome.is_err() {
        recorder.done("a failure");
    }
    (recorder.finish(), outcome)
}

fn everything(recorder: &mut Recorder, root: &str) {
    let mut client = Client::connect(recorder, "", false);
    client.done("connect");

    let in_root = |name: &str| format!("{root}/{name}");
    let open = Acl::open();
    client.create("root", root, b"", &open, CreateMode::Persistent);
    client.create("persistent", &in_root("persistent"), DATA, &open, CreateMode::Persistent);
    client.create("ephemeral", &in_root("ephemeral"), DATA, &open, CreateMode::Ephemeral);
    let mode = CreateMode::PersistentSequential;
    client.create("sequential", &in_root("seq-"), DATA, &open, mode);
    let mode = CreateMode::EphemeralSequential;
    client.create("ephemeral sequential", &in_root("eseq-"), DATA, &open, mode);
    client.create("container", &in_root("container"), DATA, &open, CreateMode::Container);
    let mode = CreateMode::PersistentWithTtl(TTL);
    client.create("with TTL", &in_root("ttl"), DATA, &open, mode);
    let mode = CreateMode::PersistentSequentialWithTtl(LONGER_TTL);
    client.create("sequential with TTL", &in_root("tseq-"), DATA, &open, mode);
    client.create("empty", &in_root("empty"), b"", &open, CreateMode::Persistent);
    let every: Vec<u8> = (0..=255).collect();
    let path = in_root("every-byte");
    client.create("with every byte", &path, &every, &open, CreateMode::Persistent);
    // Characters of one, two and three bytes in UTF-8.
    let path = in_root("straße-ключ-鍵");
    client.create("non-ASCII", &path, "鍵".as_bytes(), &open, CreateMode::Persistent);
    let (path, acl) = (in_root("read-only"), Acl::read_only());
    client.create("for all to read", &path, DATA, &acl, CreateMode::Persistent);
    let (path, acl) = (in_root("several"), several());
    client.create("with several ACLs", &path, DATA, &acl, CreateMode::Persistent);

    let (node, missing) = (&*in_root("persistent"), &*in_root("missing"));
    let watcher = ignored();
    let zk = client.zk.clone();
    let found = zk.exists(node).expect("an answer");
    assert!(found.is_some());
    client.done("exists");
    let found = zk.exists(missing).expect("an answer");
    assert!(found.is_none());
    client.done("exists, missing");
    zk.exists_w(node, &watcher).expect("an answer");
    client.done("exists with watch");
    zk.exists_w(missing, &watcher).expect("an answer");
    client.done("exists with watch, missing");
    zk.get_data(node).expect("the data");
    client.done("get data");
    zk.get_data_w(node, &watcher).expect("the data");
    client.done("get data with watch");
    zk.get_children(root).expect("the children");
    client.done("get children");
    zk.get_children_w(root, &watcher).expect("the children");
    client.done("get children with watch");
    zk.set_data(node, b"other", None).expect("set");
    client.done("set data");
    zk.set_data(node, b"yet another", Some(1)).expect("set");
    client.done("set data of a version");
    zk.set_data(node, b"", None).expect("set");
    client.done("set data, empty");
    let (acl, _) = zk.get_acl(&in_root("several")).expect("the ACL");
    assert_eq!(acl, several());
    client.done("get ACL");
    zk.set_acl(&in_root("ephemeral"), &several(), None).expect("set");
    client.done("set ACL");
    zk.set_acl(&in_root("empty"), &open, Some(0)).expect("set");
    client.done("set ACL of a version");
    zk.sync(node).expect("an answer");
    client.done("sync");
    multi(&mut client, root);

    zk.add_auth("digest", CREDENTIALS).expect("an answer");
    zk.exists("/").expect("an answer");
    client.done("add auth");
    let (path, acl) = (in_root("own"), Acl::creator_all());
    client.create("for its creator", &path, DATA, &acl, CreateMode::Persistent);

    zk.delete(&in_root("container"), None).expect("deleted");
    client.done("delete");
    zk.delete(&in_root("empty"), Some(0)).expect("deleted");
    client.done("delete of a version");
    zk.delete(missing, None).expect_err("no such node");
    client.done("delete, refused");
    zk.close().expect("closed");
    client.done("close");
}

fn multi(client: &mut Client<'_>, root: &str) {
    let (open, zk) = (Acl::open(), client.zk.clone());
    let in_root = |name: &str| format!("{root}/{name}");
    let (m, node) = (&*in_root("m"), &*in_root("persistent"));
    zk.multi(&[
        create(m, DATA, &open, CreateMode::Persistent),
        set_data(m, b"other", Some(0)),
        check(m, 1),
        delete(m, Some(1)),
    ])
    .expect("done");
    client.done("multi");
    let me = &*in_root("me");
    zk.multi(&[
        create(&in_root("m-"), DATA, &several(), CreateMode::PersistentSequential),
        create(me, DATA, &open, CreateMode::Ephemeral),
        create(&in_root("me-"), DATA, &open, CreateMode::EphemeralSequential),
        create(&in_root("mc"), b"", &open, CreateMode::Container),
        set_data(node, b"", None),
        delete(me, None),
    ])
    .expect("done");
    client.done("multi of other modes");
    let longer = CreateMode::PersistentSequentialWithTtl(LONGER_TTL);
    zk.multi(&[
        create(&in_root("mt"), DATA, &open, CreateMode::PersistentWithTtl(TTL)),
        create(&in_root("mt-"), DATA, &open, longer),
    ])
    .expect("done");
    client.done("multi with TTL");
    zk.multi(&[check(&in_root("missing"), 0)]).expect_err("no such node");
    client.done("multi, refused");
}

/// A session with credentials and watches of all kinds.
fn resumed(recorder: &mut Recorder, root: &str) {
    let mut client = Client::connect(recorder, "", true);
    let zk = client.zk.clone();
    zk.exists("/").expect("an answer");
    client.done("connect with auth");
    client.cut_and_resume("resume with auth");
    let in_root = |name: &str| format!("{root}/{name}");
    let watcher = ignored();
    zk.get_data_w(&in_root("persistent"), &watcher).expect("the data");
    zk.get_data_w(&in_root("several"), &watcher).expect("the data");
    zk.exists_w(&in_root("read-only"), &watcher).expect("an answer");
    zk.exists_w(&in_root("missing"), &watcher).expect("an answer");
    zk.exists_w(&in_root("missing too"), &watcher).expect("an answer");
    zk.get_children_w(root, &watcher).expect("the children");
    zk.get_children_w(&in_root("own"), &watcher).expect("the children");
    client.done("watch");
    // Neither of these is still watched.
    zk.get_data_w(&in_root("ttl"), &watcher).expect("the data");
    zk.set_data(&in_root("ttl"), b"", None).expect("set");
    zk.get_data_w(&in_root("never"), &watcher).expect_err("no such node");
    client.done("watches that end at once");
    client.cut_and_resume("resume with auth and watches");
    client.cut_and_resume("resume once more");
    zk.close().expect("closed");
    client.done("close after resuming");
}

/// With a root in the connect string.
fn below_a_root(recorder: &mut Recorder, root: &str) {
    let mut client = Client::connect(recorder, root, false);
    client.done("connect below a root");
    client.cut_and_resume("resume below a root");
    client.create("below a root", "/below", b"", &Acl::open(), CreateMode::Persistent);
    let zk = client.zk.clone();
    zk.exists("/").expect("an answer");
    client.done("exists below a root");
    zk.sync("/").expect("an answer");
    client.done("sync below a root");
    zk.multi(&[
        create("/m", b"", &Acl::open(), CreateMode::Persistent),
        check("/m", 0),
        set_data("/m", b"", Some(0)),
        delete("/m", Some(1)),
    ])
    .expect("done");
    client.done("multi below a root");
    let watcher = ignored();
    zk.get_data_w("/below", &watcher).expect("the data");
    zk.exists_w("/missing", &watcher).expect("an answer");
    zk.get_children_w("/", &watcher).expect("the children");
    client.done("watch below a root");
    client.cut_and_resume("resume below a root with watches");
    zk.delete("/below", None).expect("deleted");
    client.done("delete below a root");
    zk.close().expect("closed");
    client.done("close below a root");
}

/// A session, and the recorder of its steps.
struct Client<'a> {
    zk: ZooKeeper,
    recorder: &'a mut Recorder,
    _listener: Listener<SessionEvent>,
    events: Receiver<SessionEvent>,
}

impl Client<'_> {
    fn connect<'a>(recorder: &'a mut Recorder, root: &str, with_auth: bool) -> Client<'a> {
        let address = recorder.relay().address();
        let mut builder = ZooKeeper::builder(&format!("{address}{root}"))
            .session_timeout(SESSION_TIMEOUT)
            .connect_timeout(SOON)
            .request_timeout(SOON);
        if with_auth {
            builder = builder.auth("digest", CREDENTIALS);
        }
        let zk = builder.connect().expect("a session");
        let (listener, events) = Listener::channel();
        zk.subscribe(&listener);
        Client { zk, recorder, _listener: listener, events }
    }

    fn done(&mut self, step: &str) {
        self.recorder.done(step);
    }

    fn create(&mut self, what: &str, path: &str, data: &[u8], acl: &[Acl], mode: CreateMode) {
        let created = self.zk.create(path, data, acl, mode);
        created.unwrap_or_else(|error| panic!("{what}: {error}"));
        self.done(&format!("create {what}"));
    }

    fn cut_and_resume(&mut self, step: &str) {
        self.recorder.relay().cut();
        self.wait_for(SessionEventKind::Suspended);
        self.wait_for(SessionEventKind::Resumed);
        // Follows everything that the client sends on its own.
        self.zk.exists("/").expect("an answer");
        self.done(step);
    }

    fn wait_for(&self, kind: SessionEventKind) {
        loop {
            let event = self.events.recv_timeout(SOON);
            if event.unwrap_or_else(|_| panic!("no {kind:?}")).kind == kind {
                return;
            }
        }
    }
}

fn create<'a>(path: &'a str, data: &'a [u8], acl: &'a [Acl], mode: CreateMode) -> Op<'a> {
    Op::Create(path, data, acl, mode)
}

fn set_data<'a>(path: &'a str, data: &'a [u8], version: Option<i32>) -> Op<'a> {
    Op::SetData(path, data, version)
}

fn check(path: &str, version: i32) -> Op<'_> {
    let version = Some(version);
    Op::Check(path, version)
}

fn delete(path: &str, version: Option<i32>) -> Op<'_> {
    Op::Delete(path, version)
}

fn several() -> Vec<Acl> {
    let mut acl = Acl::open();
    acl.push(Acl::new(Permissions::READ | Permissions::WRITE, "digest", "user:aGFzaA=="));
    acl.push(Acl::new(Permissions::CREATE | Permissions::DELETE, "ip", "127.0.0.1"));
    acl.push(Acl::new(Permissions::ADMIN, "digest", "ключ:aGFzaA=="));
    acl
}

fn ignored() -> Watcher {
    Watcher::new(|_| {})
}
