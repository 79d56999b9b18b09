//! The directories that nodes live in: made when they are missing and, where that is wanted,
//! removed when a release has left them empty.

use log::debug;
use zookeeper::ZkError;

use super::Session;
use super::call::Failure;
use super::seat::Claim;
use super::wire::Wire;
use crate::path::LockPath;

impl Session {
    /// Makes the claim's directory and what is missing above it, the chroot included. Others may
    /// make and delete the same ones meanwhile: afterwards it may still be missing.
    pub(crate) fn make_directories(&self, wire: &Wire<'_>, claim: &Claim) -> Result<(), Failure> {
        let full = wire.full(claim.directory.as_str());
        let inner = full.match_indices('/').skip(1).map(|(end, _)| end);
        let ends: Vec<usize> = inner.chain([full.len()]).collect();
        // Up until something is there, so that no permission is needed where nothing is made ..
        let mut missing = Vec::new();
        for end in ends.into_iter().rev() {
            match wire.make_directory(&full[..end]) {
                Err(failure) if failure.is_no_node() => missing.push(end),
                made => {
                    self.remember(claim, wire, &full[..end], made?);
                    break;
                }
            }
        }
        // .. and down again.
        for end in missing.into_iter().rev() {
            match wire.make_directory(&full[..end]) {
                Err(failure) if failure.is_no_node() => return Ok(()),
                made => self.remember(claim, wire, &full[..end], made?),
            }
        }
        Ok(())
    }

    /// The server may change the ACL that a node is made with (`auth` becomes the credentials), so
    /// what this client has made is remembered, where that matters.
    fn remember(&self, claim: &Claim, wire: &Wire<'_>, full: &str, made: bool) {
        let auth = self.config.acl.iter().any(|entry| entry.scheme == "auth");
        let wanted = claim.remember.iter().find(|directory| wire.full(directory.as_str()) == full);
        if let Some(directory) = wanted.filter(|_| made && auth) {
            self.made.lock().insert(directory.clone());
        }
    }

    /// Removes the directories that the claim wants removed, innermost first, as far as they are
    /// empty. Whoever is about to use one makes it again.
    pub(super) fn tidy(&self, wire: &Wire<'_>, claim: &Claim) {
        for directory in &claim.tidy {
            match self.remove(wire, directory) {
                Ok(true) => debug!(target: "zoolock::session", "removed {directory}"),
                Ok(false) => return,
                Err(failure) => {
                    debug!(target: "zoolock::session", "{directory} stays: {failure:?}");
                    return;
                }
            }
        }
    }

    /// False if it is not empty, or somebody else's.
    fn remove(&self, wire: &Wire<'_>, directory: &LockPath) -> Result<bool, Failure> {
        // Before the request: whoever makes it again behind that remembers it anew.
        let made = self.made.lock().remove(directory);
        let removed = remove_if_ours(wire, directory, made);
        if made && removed != Ok(true) {
            self.made.lock().insert(directory.clone());
        }
        removed
    }
}

fn remove_if_ours(wire: &Wire<'_>, directory: &LockPath, made: bool) -> Result<bool, Failure> {
    let removed = match wire.is_our_directory(directory.as_str(), made) {
        Ok(true) => wire.delete(directory.as_str()),
        other => other.map(drop).and(Err(Failure::Refused(ZkError::NotEmpty))),
    };
    match removed {
        Ok(()) => Ok(true),
        Err(failure) if failure.is_no_node() => Ok(true),
        Err(Failure::Refused(ZkError::NotEmpty)) => Ok(false),
        Err(failure) => Err(failure),
    }
}
