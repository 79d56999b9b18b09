//! What a client was built with, in the terms of the crate below.

use std::time::Duration;

use zookeeper::Permission;

use crate::acl::{Acl, Permissions};
use crate::hosts::HostList;

/// What a client was built with.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) hosts: HostList,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) auth: Vec<(String, Secret)>,
    pub(crate) acl: Vec<zookeeper::Acl>,
    /// A connection that has sent so many requests is replaced; see [`MOST_REQUESTS`].
    pub(crate) most_requests: u64,
}

/// The crate numbers its requests with 32 bits and takes -1 for a watch event: after 2^32 of them
/// every answer goes to the wrong caller. Half of that leaves time to spare.
pub(crate) const MOST_REQUESTS: u64 = (1 << 31) - (1 << 20);
/// And so many if that would end a hold that cannot move.
pub(super) const REQUESTS_HARD: u64 = (1 << 32) - (1 << 20);

/// Bytes that are never printed.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl Config {
    /// The list in the crate's terms.
    pub(crate) fn acl(acl: &Acl) -> Vec<zookeeper::Acl> {
        let entry = |(permissions, scheme, id): &(Permissions, String, String)| {
            let permission = permissions.each().fold(Permission::NONE, |all, one| all | bit(one));
            zookeeper::Acl::new(permission, scheme, id)
        };
        // A server keeps one of equal entries; what it says of a node is compared with this.
        let mut entries: Vec<zookeeper::Acl> = Vec::new();
        for entry in acl.entries.iter().map(entry) {
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        entries
    }
}

fn bit(one: Permissions) -> Permission {
    match one {
        Permissions::READ => Permission::READ,
        Permissions::WRITE => Permission::WRITE,
        Permissions::CREATE => Permission::CREATE,
        Permissions::DELETE => Permission::DELETE,
        _ => Permission::ADMIN,
    }
}
