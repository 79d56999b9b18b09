//! Random steps, which are the same on both sides.

use std::time::Duration;

use fastrand::Rng;
use zoolock_zookeeper::{Acl, CreateMode, Permissions};

/// The number of clients.
pub(crate) const CLIENTS: usize = 3;

/// An action, and the index of the client that takes it.
#[derive(Debug, Clone)]
pub(crate) struct Step(pub(crate) usize, pub(crate) What);

#[derive(Debug, Clone)]
pub(crate) enum What {
    Exists(String, bool),
    GetData(String, bool),
    GetChildren(String, bool),
    /// Sets watches since this transaction, which is counted from the root's, or for the future if it is `None`.
    SetWatches(Option<i64>, Vec<String>),
    GetAcl(String),
    SetAcl(String, Vec<Acl>, Option<i32>),
    AddAuth(&'static str, &'static str),
    Sync(String),
    Write(Change),
    Multi(Vec<Change>),
    /// The client ends its session, and opens another one.
    Reopen,
    /// The client is disconnected while the next client makes these changes.
    Away(Vec<Change>),
}

#[derive(Debug, Clone)]
pub(crate) enum Change {
    Create(String, Vec<u8>, Vec<Acl>, CreateMode),
    Delete(String, Option<i32>),
    SetData(String, Vec<u8>, Option<i32>),
    Check(String, Option<i32>),
}

impl Step {
    pub(crate) fn random(rng: &mut Rng, root: &str, known: &[String]) -> Step {
        let path = path(rng, root, known);
        let watches = rng.u32(..4) > 0;
        let what = match rng.u32(..100) {
            0..36 => What::Write(Change::random(rng, root, known)),
            36..44 => What::Multi(changes(rng, root, known)),
            44..54 => What::Exists(path, watches),
            54..63 => What::GetData(path, watches),
            63..70 => What::GetChildren(path, watches),
            70..75 => What::GetAcl(path),
            75..78 => {
                let since = rng.bool().then(|| rng.i64(0..250));
                let more = (0..rng.usize(..4)).map(|_| self::path(rng, root, known));
                What::SetWatches(since, more.chain([path]).collect())
            }
            // The root's ACL does not change, so that all clients keep all permissions for it.
            78..90 if path != root => What::SetAcl(path, acl(rng), version(rng)),
            78..92 => What::Sync(path),
            92..95 => {
                let (scheme, secret) = SECRETS[rng.usize(..SECRETS.len())];
                What::AddAuth(scheme, secret)
            }
            95..97 => What::Reopen,
            _ => What::Away(changes(rng, root, known)),
        };
        Step(rng.usize(..CLIENTS), what)
    }

    /// Returns the name of the step, or of its only change, under which it is counted.
    pub(crate) fn name(&self) -> String {
        let text = match &self.1 {
            What::Multi(all) if matches!(all[..], [Change::Delete(..), Change::Delete(..)]) => {
                "Deletes".into()
            }
            What::Write(change) => format!("{change:?}"),
            what => format!("{what:?}"),
        };
        text.split('(').next().unwrap_or_default().to_owned()
    }
}

impl Change {
    fn random(rng: &mut Rng, root: &str, known: &[String]) -> Change {
        let path = path(rng, root, known);
        match rng.u32(..10) {
            0..5 => Change::Create(path, vec![7; rng.usize(..20)], acl(rng), mode(rng)),
            5..7 => Change::Delete(path, version(rng)),
            7..9 => Change::SetData(path, vec![7; rng.usize(..20)], version(rng)),
            _ => Change::Check(path, version(rng)),
        }
    }
}

fn changes(rng: &mut Rng, root: &str, known: &[String]) -> Vec<Change> {
    let parent = path(rng, root, known);
    let create = |path, acl, mode| Change::Create(path, vec![1], acl, mode);
    let numbered = known.iter().rev().take(12).find(|path| path.contains("/n-"));
    match (rng.u32(..4), numbered.and_then(|path| path.rsplit_once('/'))) {
        // A container that is created with its first node, and deleted with its last one.
        (0, _) => vec![
            create(parent.clone(), acl(rng), CreateMode::Container),
            create(format!("{parent}/n-"), Acl::open(), CreateMode::EphemeralSequential),
        ],
        (1 | 2, Some((parent, name))) => vec![
            Change::Delete(format!("{parent}/{name}"), None),
            Change::Delete(parent.to_owned(), Some(0)),
        ],
        _ => (0..rng.usize(1..5)).map(|_| Change::random(rng, root, known)).collect(),
    }
}

/// Returns an existing path, a path below one, or a path that may exist.
fn path(rng: &mut Rng, root: &str, known: &[String]) -> String {
    let name = |rng: &mut Rng| ["a", "b", "c", "\u{e9}"][rng.usize(..4)];
    let recent = &known[known.len().saturating_sub(12)..];
    match (rng.u32(..10), rng.choice(recent)) {
        (0..6, Some(path)) => path.clone(),
        (6, Some(path)) => format!("{path}/{}", name(rng)),
        (7, _) => root.to_owned(),
        _ => format!("{root}/{}", name(rng)),
    }
}

fn version(rng: &mut Rng) -> Option<i32> {
    (rng.u32(..5) == 0).then(|| rng.i32(0..3))
}

fn mode(rng: &mut Rng) -> CreateMode {
    match rng.u32(..12) {
        0..4 => CreateMode::Persistent,
        4..6 => CreateMode::Ephemeral,
        6..8 => CreateMode::PersistentSequential,
        8..10 => CreateMode::EphemeralSequential,
        10 => CreateMode::Container,
        _ => CreateMode::PersistentWithTtl(Duration::from_secs(60)),
    }
}

/// The `digest` credentials that each client has from its start. The last client has none.
pub(crate) const OWN: [Option<&str>; CLIENTS] = [Some("user:secret"), Some("other:word"), None];

/// More credentials, which a client may add. Servers do not know the last scheme.
const SECRETS: [(&str, &str); 5] = [
    ("digest", "user:secret"),
    ("digest", "other:word"),
    ("digest", "other:word:and:more"),
    ("ip", "anything"),
    ("nonsense", "user:secret"),
];

pub(crate) const USER: &str = "user:5w9W4eL3797Y4Wq8AcKUPPk8ha4=";
const OTHER: &str = "other:tz05ELVFBMUiiBYibDY6e+xrsto=";

/// The ids that may occur in an ACL.
const IDS: &[(&str, &[&str])] = &[
    ("world", &["anyone"]),
    ("digest", &[USER, USER, OTHER]),
    ("auth", &[""]),
    ("ip", &["127.0.0.1", "127.1.2.3/8", "127.0.0.2", "10.0.0.0/8"]),
];

/// Ids at the limit of what servers accept.
const ODD_IDS: &[(&str, &[&str])] = &[
    ("nonsense", &["x"]),
    ("super", &[""]),
    ("world", &["someone"]),
    ("auth", &["anybody"]),
    ("digest", &["", "user", "user:", ":hash", "user:hash:", "user:hash:more"]),
    ("ip", &["", "nonsense", "127.0.0", "127.0.0.256"]),
    ("ip", &["127.0.0.1/0", "127.0.0.1/33", "127.0.0.1/x", "127.0.0.1/8/8"]),
];

/// Returns an ACL. Many are open, because otherwise the clients could soon do nothing any more.
fn acl(rng: &mut Rng) -> Vec<Acl> {
    match rng.u32(..16) {
        0 => Vec::new(),
        1..10 => (0..rng.usize(1..3)).map(|_| entry(rng)).collect(),
        _ => Acl::open(),
    }
}

fn entry(rng: &mut Rng) -> Acl {
    use Permissions as P;
    let some = [P::READ, P::WRITE, P::CREATE, P::DELETE, P::ADMIN, P::CONTEND, P::ALL];
    let permissions = some[rng.usize(..some.len())] | some[rng.usize(..some.len())];
    let known = if rng.u32(..16) == 0 { ODD_IDS } else { IDS };
    let (scheme, ids) = known[rng.usize(..known.len())];
    Acl::new(permissions, scheme, ids[rng.usize(..ids.len())])
}
