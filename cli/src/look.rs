//! `list`, `verify` and `revoke`: one look at a lock, or one word to its holder.

use zoolock::Error;

use crate::args::{List, Revoke, Verify};
use crate::exit::{CONFLICT, Failed, print, say};
use crate::table::{json, table};

pub(crate) fn list(list: &List) -> Result<u8, Failed> {
    let client = list.servers.connect(None)?;
    let contenders = client.contenders(&list.path)?;
    let _ = client.close();
    if list.json {
        return print(json(&contenders).as_bytes());
    }
    if contenders.is_empty() {
        say(&format!("{}: nobody holds it, nobody waits for it", list.path));
        return Ok(0);
    }
    print(table(&contenders).as_bytes())
}

pub(crate) fn verify(verify: &Verify) -> Result<u8, Failed> {
    let client = verify.servers.connect(None)?;
    let is_current = client.verify(&verify.path, verify.token)?;
    let _ = client.close();
    Ok(if is_current { 0 } else { CONFLICT })
}

pub(crate) fn revoke(revoke: &Revoke) -> Result<u8, Failed> {
    let client = revoke.servers.connect(None)?;
    let holders = client.contenders(&revoke.path)?.into_iter();
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
        let text = format!("{}: nobody holds it", revoke.path);
        return Err(Failed::new(CONFLICT, text));
    }
    Ok(0)
}
