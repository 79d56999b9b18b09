//! Fencing tokens, in the order in which they were given out.

use zoolock::Client;

use common::{SOON, hold_of, lock_of};

/// Tokens in the order in which they were given out, with what happened before.
#[derive(Debug, Default)]
pub(super) struct Tokens(Vec<(String, u64)>);

impl Tokens {
    pub(super) fn note(&mut self, after: &str, token: u64) {
        self.0.push((after.to_owned(), token));
    }

    /// Takes the lock, notes its token, and gives it back.
    pub(super) fn turn(&mut self, client: &Client, path: &str, after: &str) {
        let lock = lock_of(client, path);
        assert!(lock.try_lock_for(SOON).unwrap(), "{self:?}");
        self.note(after, hold_of(&lock).fencing_token().unwrap());
        lock.unlock().unwrap();
    }

    #[track_caller]
    pub(super) fn rise(&self) {
        println!("{self:#?}");
        assert!(self.0.is_sorted_by(|a, b| a.1 < b.1), "{self:?}");
    }
}
