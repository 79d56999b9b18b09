//! Who may do what: the ACLs of the schemes `world`, `auth`, `digest` and, for one address, `ip`. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1_smol::Sha1;

use crate::acl::{Acl, Permissions};
use crate::error::ErrorKind;

/// Whom a connection has shown to be: a scheme, and a name in it.
pub(super) type Id = (String, String);

/// Whom credentials show. None for a scheme that is not known.
pub(super) fn id_of(scheme: &str, secret: &[u8]) -> Option<Id> {
    let user = String::from_utf8_lossy(secret);
    let user = user.split(':').next().unwrap_or_default();
    let hash = STANDARD.encode(Sha1::from(secret).digest().bytes());
    (scheme == "digest").then(|| (scheme.to_owned(), format!("{user}:{hash}")))
}

/// Who may do everything.
pub(super) fn superuser() -> Id {
    ("super".to_owned(), String::new())
}

/// The ACL that a node gets: without duplicates, and `auth` replaced by whom that is.
pub(super) fn resolve(acl: &[Acl], ids: &[Id]) -> Result<Vec<Acl>, ErrorKind> {
    let mut resolved: Vec<Acl> = Vec::new();
    for (index, entry) in acl.iter().enumerate() {
        if acl[..index].contains(entry) {
            continue;
        }
        match (entry.scheme.as_str(), entry.id.as_str()) {
            ("world", "anyone") | ("ip", _) => resolved.push(entry.clone()),
            ("digest", id) if id.split(':').count() == 2 => resolved.push(entry.clone()),
            ("auth", _) => {
                let own = ids.iter().filter(|(scheme, _)| scheme == "digest");
                let before = resolved.len();
                resolved.extend(own.map(|(scheme, id)| Acl::new(entry.permissions, scheme, id)));
                if resolved.len() == before {
                    return Err(ErrorKind::InvalidAcl);
                }
            }
            _ => return Err(ErrorKind::InvalidAcl),
        }
    }
    match resolved.is_empty() {
        true => Err(ErrorKind::InvalidAcl),
        false => Ok(resolved),
    }
}

/// Does an entry allow one of these things?
pub(super) fn check(acl: &[Acl], ids: &[Id], any_of: Permissions) -> Result<(), ErrorKind> {
    let is_for = |entry: &Acl| {
        let known = |(scheme, id): &Id| *scheme == entry.scheme && *id == entry.id;
        (entry.scheme == "world" && entry.id == "anyone") || ids.iter().any(known)
    };
    let may_all = ids.contains(&superuser());
    match may_all || acl.iter().any(|entry| entry.permissions.0 & any_of.0 != 0 && is_for(entry)) {
        true => Ok(()),
        false => Err(ErrorKind::NoAuth),
    }
}

/// As it is shown to those who may read it, and not set it: without hashes of passwords.
pub(super) fn hidden(acl: &[Acl]) -> Vec<Acl> {
    let mut shown = acl.to_vec();
    for entry in shown.iter_mut().filter(|entry| entry.scheme == "digest") {
        let user = entry.id.split(':').next().unwrap_or_default();
        entry.id = format!("{user}:x");
    }
    shown
}
