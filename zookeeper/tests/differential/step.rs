//! What is done: random, and the same on both sides.

use std::time::Duration;

use fastrand::Rng;
use zoolock_zookeeper::{Acl, CreateMode, Permissions};

/// How many clients there are.
pub(crate) const CLIENTS: usize = 3;

/// One thing that a client does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Exists(usize, String, bool),
    GetData(usize, String, bool),
    GetChildren(usize, String, bool),
    GetAcl(usize, String),
    SetAcl(usize, String, Vec<Acl>, Option<i32>),
    Sync(usize, String),
    Write(usize, Change),
    Multi(usize, Vec<Change>),
    /// Its session ends, and it opens another one.
    Reopen(usize),
    /// It has no connection while another client does this.
    Away(usize, usize, Vec<Change>),
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
        let who = rng.usize(..CLIENTS);
        let path = path(rng, root, known);
        let watches = rng.u32(..4) > 0;
        match rng.u32(..100) {
            0..40 => Step::Write(who, Change::random(rng, root, known)),
            40..47 => Step::Multi(who, changes(rng, root, known)),
            47..58 => Step::Exists(who, path, watches),
            58..70 => Step::GetData(who, path, watches),
            70..83 => Step::GetChildren(who, path, watches),
            83..86 => Step::GetAcl(who, path),
            86..90 => Step::SetAcl(who, path, acl(rng), version(rng)),
            90..92 => Step::Sync(who, path),
            92..97 => Step::Reopen(who),
            _ => Step::Away(who, (who + 1) % CLIENTS, changes(rng, root, known)),
        }
    }
}

impl Change {
    fn random(rng: &mut Rng, root: &str, known: &[String]) -> Change {
        let path = path(rng, root, known);
        match rng.u32(..10) {
            0..5 => Change::Create(path, data(rng), acl(rng), mode(rng)),
            5..7 => Change::Delete(path, version(rng)),
            7..9 => Change::SetData(path, data(rng), version(rng)),
            _ => Change::Check(path, version(rng)),
        }
    }
}

fn changes(rng: &mut Rng, root: &str, known: &[String]) -> Vec<Change> {
    (0..rng.usize(1..5)).map(|_| Change::random(rng, root, known)).collect()
}

/// One that was created, one below it, or one that may be there.
fn path(rng: &mut Rng, root: &str, known: &[String]) -> String {
    let name = |rng: &mut Rng| ["a", "b", "c", "\u{e9}"][rng.usize(..4)];
    let recent = &known[known.len().saturating_sub(12)..];
    match (rng.u32(..6), rng.choice(recent)) {
        (0..3, Some(path)) => path.clone(),
        (3, Some(path)) => format!("{path}/{}", name(rng)),
        (5, _) => root.to_owned(),
        _ => format!("{root}/{}", name(rng)),
    }
}

fn data(rng: &mut Rng) -> Vec<u8> {
    vec![7; rng.usize(..20)]
}

fn version(rng: &mut Rng) -> Option<i32> {
    match rng.u32(..5) {
        0 => Some(rng.i32(0..3)),
        _ => None,
    }
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

/// The first client has credentials, whose hash is that of `user:secret`.
fn acl(rng: &mut Rng) -> Vec<Acl> {
    let anyone = |permissions| Acl::new(permissions, "world", "anyone");
    let user = "user:O+9bWVBmPiVRhnXVJkBDWC2WKlw=";
    match rng.u32(..32) {
        0 => Acl::read_only(),
        1 => Acl::creator_all(),
        2 => vec![Acl::new(Permissions::ALL, "digest", user), anyone(Permissions::READ)],
        3 => vec![Acl::new(Permissions::ALL, "digest", user), anyone(Permissions::CONTEND)],
        4 => vec![Acl::new(Permissions::ALL, "ip", "127.0.0.1"), anyone(Permissions::READ)],
        5 => vec![Acl::new(Permissions::ALL, "nonsense", "x")],
        6 => vec![anyone(Permissions::CONTEND), anyone(Permissions::CONTEND)],
        7 => Vec::new(),
        _ => Acl::open(),
    }
}
