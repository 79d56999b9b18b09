//! Permissions: ACLs of the schemes `world`, `auth`, `digest` and `ip`. No I/O.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1_smol::Sha1;

use crate::terms::Refused;

/// Permissions are sets of these bits.
pub(crate) mod permission {
    pub(crate) const READ: i32 = 1;
    pub(crate) const WRITE: i32 = 2;
    pub(crate) const CREATE: i32 = 4;
    pub(crate) const DELETE: i32 = 8;
    pub(crate) const ADMIN: i32 = 16;
    pub(crate) const ALL: i32 = 31;
}

/// An entry of an ACL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acl {
    pub(crate) permissions: i32,
    pub(crate) scheme: String,
    pub(crate) id: String,
}

impl Acl {
    fn new(permissions: i32, scheme: &str, id: &str) -> Acl {
        Acl { permissions, scheme: scheme.to_owned(), id: id.to_owned() }
    }
}

/// The scheme of users with all permissions. Clients cannot authenticate with this scheme.
const SUPER: &str = "super";

/// An identity that a connection has authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id {
    scheme: String,
    /// The name of the identity in this scheme.
    name: String,
}

impl Id {
    pub(super) fn new(scheme: &str, name: String) -> Id {
        Id { scheme: scheme.to_owned(), name }
    }

    /// Returns the scheme and the user. The hash of the password is left out.
    pub(super) fn user(&self) -> (&str, &str) {
        let user = match &*self.scheme {
            "digest" => self.name.split(':').next().unwrap_or_default(),
            _ => &self.name,
        };
        (&self.scheme, user)
    }
}

/// What a client can find out about a node that it may not read. This depends on the release of ZooKeeper, because the
/// fix of CVE-2024-23944 restricts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadRules {
    /// `exists` answers every client, and every watcher receives events: up to ZooKeeper 3.8.3 and 3.9.1.
    Open,
    /// `exists` answers every client. A watcher receives no event if its client may not read the node at the time of
    /// the event: Debian's 3.8.0.
    Events,
    /// Like [`Events`](Self::Events), but `exists` fails with `NoAuth`: ZooKeeper 3.8.4, 3.9.2 and later.
    #[default]
    EventsAndExists,
}

/// Adds the identity that these credentials authenticate, unless it has been added already.
pub(super) fn authenticate(ids: &mut Vec<Id>, scheme: &str, secret: &[u8]) -> Result<(), Refused> {
    match scheme {
        // A connection has its address as an identity from the start.
        "ip" => Ok(()),
        "digest" => {
            let user = String::from_utf8_lossy(secret);
            let user = user.split(':').next().unwrap_or_default();
            let hash = STANDARD.encode(Sha1::from(secret).digest().bytes());
            let id = Id::new(scheme, format!("{user}:{hash}"));
            if !ids.contains(&id) {
                ids.push(id);
            }
            Ok(())
        }
        _ => Err(Refused::AUTH_FAILED),
    }
}

/// Returns the ACL that nearly all nodes have. It is stored only once.
pub(super) fn open() -> Arc<[Acl]> {
    static OPEN: LazyLock<Arc<[Acl]>> =
        LazyLock::new(|| [Acl::new(permission::ALL, "world", "anyone")].into());
    Arc::clone(&OPEN)
}

/// Returns the identity with all permissions.
pub(super) fn superuser() -> Id {
    Id::new(SUPER, String::new())
}

/// Returns the ACL that a new node gets: duplicates are removed, and `auth` is replaced by the client's identities.
pub(super) fn resolve(acl: &Arc<[Acl]>, ids: &[Id]) -> Result<Arc<[Acl]>, Refused> {
    if Arc::ptr_eq(acl, &open()) {
        return Ok(Arc::clone(acl));
    }
    let mut resolved: Vec<Acl> = Vec::new();
    for (index, entry) in acl.iter().enumerate() {
        if acl[..index].contains(entry) {
            continue;
        }
        match (entry.scheme.as_str(), entry.id.as_str()) {
            ("world", "anyone") => resolved.push(entry.clone()),
            ("ip", id) if network(id).is_some() => resolved.push(entry.clone()),
            ("digest", id) if is_digest(id) => resolved.push(entry.clone()),
            ("auth", _) => {
                let own = ids.iter().filter(|id| id.scheme == "digest");
                let before = resolved.len();
                resolved.extend(own.map(|id| Acl::new(entry.permissions, &id.scheme, &id.name)));
                if resolved.len() == before {
                    return Err(Refused::INVALID_ACL);
                }
            }
            _ => return Err(Refused::INVALID_ACL),
        }
    }
    match resolved.is_empty() {
        true => Err(Refused::INVALID_ACL),
        false => Ok(resolved.into()),
    }
}

/// Returns whether servers accept the id as a name and a hash. They split it as Java does, which ignores empty parts at
/// the end.
fn is_digest(id: &str) -> bool {
    id.trim_end_matches(':').split(':').count() == 2
}

/// Returns an address and how many of its first bits matter, given `10.0.0.0/8` or a single address.
fn network(id: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = id.split_once('/').map_or((id, None), |(ip, bits)| (ip, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(all), |bits| bits.parse().ok())?;
    (bits <= all).then_some((address, bits))
}

/// Returns whether the client's address is in the network. Clients use IPv4, because the server listens only on that.
fn is_in(id: &str, client: &str) -> bool {
    match (network(id), client.parse::<Ipv4Addr>()) {
        (Some((IpAddr::V4(address), bits)), Ok(client)) => {
            let differing = address.to_bits() ^ client.to_bits();
            differing.checked_shr(32 - bits).unwrap_or_default() == 0
        }
        _ => false,
    }
}

/// Checks that the ACL grants one of these permissions to one of these identities.
pub(super) fn check(acl: &[Acl], ids: &[Id], any_of: i32) -> Result<(), Refused> {
    let is_for = |entry: &Acl| {
        let is_own = |id: &str| match entry.scheme.as_str() {
            "ip" => is_in(&entry.id, id),
            _ => id == entry.id,
        };
        let known = |id: &Id| id.scheme == entry.scheme && is_own(&id.name);
        (entry.scheme == "world" && entry.id == "anyone") || ids.iter().any(known)
    };
    let may_all = ids.iter().any(|id| id.scheme == SUPER);
    match may_all || acl.iter().any(|entry| entry.permissions & any_of != 0 && is_for(entry)) {
        true => Ok(()),
        false => Err(Refused::NO_AUTH),
    }
}

/// Returns the ACL for clients that may read it but not set it: the hashes of passwords are removed.
pub(super) fn hidden(acl: &[Acl]) -> Vec<Acl> {
    let mut shown = acl.to_vec();
    for entry in shown.iter_mut().filter(|entry| entry.scheme == "digest") {
        let user = entry.id.split(':').next().unwrap_or_default();
        entry.id = format!("{user}:x");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Older servers refuse such addresses, so the differential test does not cover them.
    #[test]
    fn ipv6_addresses_are_accepted_and_match_nobody() {
        let own = vec![Id::new("ip", "127.0.0.1".to_owned())];
        for (id, expected) in [
            ("::1", Ok(())),
            ("::/0", Ok(())),
            ("fe80::1:2/128", Ok(())),
            ("::1/129", Err(Refused::INVALID_ACL)),
            ("1::2::3", Err(Refused::INVALID_ACL)),
            ("::g", Err(Refused::INVALID_ACL)),
        ] {
            let acl: Arc<[Acl]> = [Acl::new(permission::ALL, "ip", id)].into();
            assert_eq!(resolve(&acl, &own).map(drop), expected, "{id}");
            assert_eq!(check(&acl, &own, permission::READ), Err(Refused::NO_AUTH), "{id}");
        }
    }
}
