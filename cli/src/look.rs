//! `list`, `verify`, `revoke` and `break`: list a lock once, or send one request about its contenders.

use zoolock::{Client, Contender, Error};

use crate::args::Target;
use crate::exit::{CONFLICT, Failed, print};
use crate::grants::Grants;
use crate::output::say;
use crate::table::{self, name};

pub(crate) fn list(lock: &Target, json: bool) -> Result<u8, Failed> {
    let client = lock.connect()?;
    let contenders = client.contenders(&lock.path)?;
    let _ = client.close();
    if contenders.is_empty() && !json {
        say(&format!("{}: the lock is free, and no client waits for it", lock.path));
        return Ok(0);
    }
    let text = match json {
        true => table::escaped(&table::json(&contenders)),
        false => table::table(&contenders, &Grants::default(), usize::MAX),
    };
    print(text.as_bytes())
}

pub(crate) fn verify(lock: &Target, token: u64) -> Result<u8, Failed> {
    let client = lock.connect()?;
    let is_current = client.verify_token(&lock.path, token)?;
    let _ = client.close();
    Ok(if is_current { 0 } else { CONFLICT })
}

pub(crate) fn revoke(lock: &Target) -> Result<u8, Failed> {
    let is_meant = |contender: &Contender| contender.holds;
    let line =
        |one: &Contender| format!("asked {} to release the lock, token {}\n", name(one), one.token);
    each(lock, is_meant, Client::revoke, line, "the lock is free")
}

pub(crate) fn break_lock(lock: &Target, token: u64) -> Result<u8, Failed> {
    let is_meant = |contender: &Contender| contender.token == token;
    let line = |one: &Contender| {
        let did = if one.holds { "held" } else { "waited for" };
        format!("removed {}, which {did} the lock, token {token}\n", name(one))
    };
    each(lock, is_meant, Client::break_lock, line, &format!("no contender has the token {token}"))
}

/// Acts on all contenders that `is_meant` selects, and writes a line for each success, even if another
/// one fails. If none succeeds, fails with the text `none`.
fn each(
    lock: &Target,
    is_meant: impl Fn(&Contender) -> bool,
    act: impl Fn(&Client, &Contender) -> zoolock::Result<()>,
    line: impl Fn(&Contender) -> String,
    none: &str,
) -> Result<u8, Failed> {
    let client = lock.connect()?;
    let (mut lines, mut failed) = (String::new(), None);
    for contender in client.contenders(&lock.path)?.into_iter().filter(is_meant) {
        match act(&client, &contender) {
            Ok(()) => lines += &line(&contender),
            // This contender has left on its own.
            Err(Error::NotHeld { .. }) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let _ = client.close();
    print(lines.as_bytes())?;
    match failed {
        Some(error) => Err(error.into()),
        None if lines.is_empty() => Err(Failed::new(CONFLICT, format!("{}: {none}", lock.path))),
        None => Ok(0),
    }
}
