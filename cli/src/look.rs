//! `list`, `verify` and `revoke`: one look at a lock, or one word to its holder.

use zoolock::Error;

use crate::args::Target;
use crate::exit::{CONFLICT, Failed, print};
use crate::output::say;
use crate::table;

pub(crate) fn list(lock: &Target, json: bool) -> Result<u8, Failed> {
    let client = lock.connect(None)?;
    let contenders = client.contenders(&lock.path)?;
    let _ = client.close();
    if contenders.is_empty() && !json {
        say(&format!("{}: nobody holds it, nobody waits for it", lock.path));
        return Ok(0);
    }
    let text = match json {
        true => table::escaped(&table::json(&contenders)),
        false => table::table(&contenders),
    };
    print(text.as_bytes())
}

pub(crate) fn verify(lock: &Target, token: u64) -> Result<u8, Failed> {
    let client = lock.connect(None)?;
    let is_current = client.verify(&lock.path, token)?;
    let _ = client.close();
    Ok(if is_current { 0 } else { CONFLICT })
}

pub(crate) fn revoke(lock: &Target) -> Result<u8, Failed> {
    let client = lock.connect(None)?;
    let holders = client.contenders(&lock.path)?.into_iter();
    let mut asked = 0;
    for holder in holders.filter(|contender| contender.holds) {
        match client.revoke(&holder) {
            Ok(()) => asked += 1,
            // It has let go by itself.
            Err(Error::NotHeld { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let _ = client.close();
    if asked == 0 {
        let text = format!("{}: nobody holds it", lock.path);
        return Err(Failed::new(CONFLICT, text));
    }
    Ok(0)
}
