//! Creates the nodes of a call that queues: either in the existing directory, or together with the
//! directory.
//!
//! A node that was created in one transaction with its directory is alone, and does not need a
//! list. This is certain because the servers carry out the transaction only if the directory does
//! not exist, and a directory that does not exist is empty. Other clients cannot break this. A node
//! that replaces the node of the previous thread is alone for the same reason: the transaction
//! deletes the old node and the directory, and creates both again.

use std::slice;

use zookeeper::{Batch, ErrorKind, Names, Op, Watcher};

use super::attempt::{Attempt, Create, last_created};
use super::rule::{Recipe, deleted};
use crate::base::path::LockPath;
use crate::base::sys;
use crate::session::{Failure, Replaceable, creations, deletions, is_outcome_unknown};

/// Where missing nodes are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Together with the directory, which probably does not exist yet.
    Make,
    /// In the directory, which probably exists.
    Inside,
    /// Both requests are sent in one write, after one of them has failed because other clients
    /// create and remove the directory. Both requests succeed only if another client deletes the
    /// first node and the directory in between.
    Both,
}

/// Creates the missing nodes of a call, and the directory if necessary. If there is a `replaceable`
/// node, the new node replaces it. Returns a list that is at least as new as the nodes. If there is
/// a `watcher`, it watches the list.
pub(super) fn create_missing(
    attempt: &mut Attempt<'_>,
    recipe: &Recipe<'_>,
    watcher: Option<&Watcher>,
    replaceable: Option<Replaceable>,
) -> Result<Names, Failure> {
    if let Some(replaceable) = replaceable
        && let Some(list) = replace(attempt, recipe, replaceable)?
    {
        return Ok(list);
    }
    let (directory, requests, under) =
        (&attempt.facts.directory, attempt.requests(), recipe.under());
    let is_missing = under.is_none() && requests.directories.get(directory).is_none();
    let mut way = if is_missing { Way::Make } else { Way::Inside };
    let mut levels = vec![directory.clone()];
    loop {
        let created = match way {
            Way::Make => make(attempt, recipe, &levels),
            Way::Inside => create_inside(attempt, recipe, watcher, &[]),
            Way::Both => create_inside(attempt, recipe, watcher, &levels),
        };
        let failure = match created {
            Ok(_) if attempt.nodes.len() < recipe.count() => {
                way = Way::Inside;
                continue;
            }
            Ok(_) if way == Way::Make && !sys::shortcuts() => return attempt.list(watcher),
            Ok(list) => return Ok(list),
            Err(failure @ Failure::Refused(_)) => failure,
            Err(failure) => return Err(failure),
        };
        let has_no_directory = failure.is(ErrorKind::NoNode);
        let exists = failure.is(ErrorKind::NodeExists);
        match way {
            // After `AuthFailed`, no other way helps: the server ends the session.
            _ if failure.is_outcome_unknown() || failure.is(ErrorKind::AuthFailed) => {
                return Err(failure);
            }
            Way::Make | Way::Both if has_no_directory || exists && levels.len() > 1 => {
                levels = requests.missing_directories(directory, attempt.until)?;
                if levels.is_empty() {
                    levels.push(directory.clone());
                }
                way = Way::Both;
            }
            Way::Make => way = Way::Both,
            Way::Inside if has_no_directory => {
                if let Some(write) = under {
                    sys::reached("a read is not created because its write is gone");
                    return Err(deleted(write).into());
                }
                requests.directories.note_missing(directory);
                way = Way::Both;
            }
            Way::Both if exists => sys::reached("a directory is created and deleted in between"),
            Way::Inside | Way::Both => return Err(failure),
        }
    }
}

/// Creates these directories, and a node in the last one.
fn make(
    attempt: &mut Attempt<'_>,
    recipe: &Recipe<'_>,
    levels: &[LockPath],
) -> Result<Names, Failure> {
    let before = creations(attempt.requests().acl(), levels);
    let (create, made) = attempt.create(|| recipe.name(), &before, true)?;
    take_made(attempt, create, made)?;
    Ok(own_names(attempt))
}

/// Creates the missing nodes in the directory, and lists it. If there are `levels`, also creates
/// these directories and a node in the last one, in case the directory is missing.
fn create_inside(
    attempt: &mut Attempt<'_>,
    recipe: &Recipe<'_>,
    watcher: Option<&Watcher>,
    levels: &[LockPath],
) -> Result<Names, Failure> {
    let (directory, requests) = (&attempt.facts.directory, attempt.requests());
    let above = recipe.under().map(|write| write.znode(0));
    let missing = recipe.count().saturating_sub(attempt.nodes.len());
    let count = missing + usize::from(!levels.is_empty());
    let make = |attempt: &Attempt<'_>, batch: &mut Batch<'_>, creates: &[Create]| {
        let (inside, with) = creates.split_at(missing);
        // A request that may be refused does not share a transaction with other requests.
        let is_shared = levels.is_empty();
        let send = |create| send_inside(attempt, batch, create, above.as_deref(), is_shared);
        let created: Vec<_> = inside.iter().map(send).collect();
        let before = creations(requests.acl(), levels);
        let made = with.first().map(|create| attempt.send(batch, create, &before, true));
        ((created, made), batch.get_children(directory.as_str(), watcher))
    };
    let (creates, (created, made), listed) = attempt.create_all(count, || recipe.name(), make)?;
    let mut creates = creates.into_iter();
    // These answers all arrived before the list.
    let mut outcome = Ok(());
    for (created, create) in created.into_iter().zip(creates.by_ref()) {
        outcome = attempt.created(create, created()).and(outcome);
    }
    if let Some((made, create)) = made.zip(creates.next()) {
        let made = take_made(attempt, create, made.wait().map(last_created));
        // The directory was missing, so what counts is the request that also creates the directory.
        if outcome.as_ref().is_err_and(|failure| failure.is(ErrorKind::NoNode)) {
            outcome = made;
        }
    }
    let names = listed.map(|listed| requests.directories.listed(directory, listed));
    outcome?;
    Ok(names?)
}

/// Waits for the path and the czxid of a node.
type Created = Box<dyn FnOnce() -> zookeeper::Result<(String, i64)>>;

/// Sends a request that creates a node in the directory. With `above`, it is created only if the
/// node at that path exists.
fn send_inside(
    attempt: &Attempt<'_>,
    batch: &mut Batch<'_>,
    create: &Create,
    above: Option<&str>,
    is_shared: bool,
) -> Created {
    if let Some(above) = above {
        let made = attempt.send(batch, create, &[Op::Check(above, None)], is_shared);
        return Box::new(move || made.wait().map(last_created));
    }
    let ((path, data), acl) = (attempt.node(create), attempt.requests().acl());
    if is_shared {
        let created = batch.shared_create(&path, &data, acl, create.mode);
        Box::new(move || created.wait())
    } else {
        let created = batch.create(&path, &data, acl, create.mode);
        Box::new(move || created.wait().map(|(path, stat)| (path, stat.czxid)))
    }
}

/// Replaces the node that the previous thread released. Returns `None` if the node could not be
/// replaced and the call has to create its node in another way.
fn replace(
    attempt: &mut Attempt<'_>,
    recipe: &Recipe<'_>,
    replaceable: Replaceable,
) -> Result<Option<Names>, Failure> {
    if replaceable.session() != attempt.place.session {
        sys::reached("a handed-over node belongs to another session");
        return Ok(None);
    }
    let (directory, acl) = (&attempt.facts.directory, attempt.requests().acl());
    let old = replaceable.path();
    let before = [&deletions(directory, &old)[..], &creations(acl, slice::from_ref(directory))];
    match attempt.create(|| recipe.name(), &before.concat(), true) {
        Ok((create, Err(refused))) if !is_outcome_unknown(&refused) => {
            drop(take_made(attempt, create, Err(refused)));
            Ok(None)
        }
        Ok((create, replaced)) => {
            replaceable.settle(&attempt.inner.own, replaced.is_ok());
            take_made(attempt, create, replaced)?;
            Ok(Some(own_names(attempt)))
        }
        Err(failure) => {
            sys::reached("a call ends while it replaces a node");
            // If the transaction was not sent, the outcome is known. Dropping `replaceable` then
            // makes the releasing thread delete the node with its directory.
            if failure.is_outcome_unknown() {
                replaceable.settle(&attempt.inner.own, false);
            }
            Err(failure)
        }
    }
}

fn own_names(attempt: &Attempt<'_>) -> Names {
    attempt.nodes.iter().map(|node| &node.name).collect()
}

/// Handles the answer to a transaction that creates the directory and a node in it. Returns the
/// failure if they were not created.
fn take_made(
    attempt: &mut Attempt<'_>,
    create: Create,
    made: zookeeper::Result<(String, i64)>,
) -> Result<(), Failure> {
    attempt.created(create, made)?;
    if let Some(node) = attempt.nodes.last_mut() {
        attempt.inner.requests.directories.note_made(&attempt.facts.directory, node.czxid);
        node.takes_directory = true;
    }
    Ok(())
}
