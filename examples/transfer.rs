//! Transfers between accounts, each under the locks of both.
//!
//! ```text
//! cargo run --example transfer
//! ```
//!
//! Eight threads move money between four accounts, in all directions at once. Each transfer takes
//! the locks of its two accounts as one `MultiLock`, in an order that all share, so that no two of
//! them each have what the other waits for. An account refuses whoever comes with a lower fencing
//! token than it has seen. The program checks that nothing was refused and that the sum is what it
//! was.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedLock, MultiLock};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ACCOUNTS: usize = 4;
const THREADS: usize = 8;
const TRANSFERS: usize = 10;
const AT_FIRST: i64 = 100;
const PATIENCE: Duration = Duration::from_secs(60);

/// An account, as a row of a database would be: it is read, and later it is written. It keeps
/// nobody from writing in between but those who come with an old token.
struct Account(Mutex<(i64, u64)>);

impl Account {
    fn read(&self) -> i64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// `UPDATE .. SET balance = :balance, token = :token WHERE token <= :token`
    fn write(&self, balance: i64, token: u64) -> Outcome<()> {
        let mut row = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if token < row.1 {
            return Err(format!("token {token} is older than {}", row.1).into());
        }
        *row = (balance, token);
        Ok(())
    }
}

fn transfer(client: &Client, accounts: &[Account], from: usize, to: usize) -> Outcome<()> {
    // Objects of their own for each transfer, as other processes would have.
    let lock =
        |account| DistributedLock::new(client, format!("/zoolock-examples/account-{account}"));
    let (debited, credited) = (lock(from)?, lock(to)?);
    let both = MultiLock::new([debited.clone().into(), credited.clone().into()])?;
    let Some(locked) = both.try_acquire_for(PATIENCE)? else {
        return Err(format!("no transfer from {from} to {to} within {PATIENCE:?}").into());
    };
    let token = |lock: &DistributedLock| match lock.hold() {
        Some(hold) => hold.fencing_token(),
        None => Err(zoolock::Error::NotHeld { path: lock.path().to_owned() }),
    };
    let (debit, credit) = (accounts[from].read() - 1, accounts[to].read() + 1);
    thread::yield_now(); // Without the locks, others would write here.
    accounts[from].write(debit, token(&debited)?)?;
    accounts[to].write(credit, token(&credited)?)?;
    Ok(locked.release()?)
}

fn run() -> Outcome<()> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let client = Client::connect(servers, Duration::from_secs(10))?;
    let accounts = [(); ACCOUNTS].map(|()| Account(Mutex::new((AT_FIRST, 0))));
    thread::scope(|scope| {
        let (client, accounts) = (&client, &accounts);
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                scope.spawn(move || {
                    for turn in 0..TRANSFERS {
                        let from = (number + turn) % ACCOUNTS;
                        let to = (from + 1 + number % (ACCOUNTS - 1)) % ACCOUNTS;
                        transfer(client, accounts, from, to)?;
                    }
                    Outcome::Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Outcome::Ok(())
    })?;
    let balances = accounts.each_ref().map(Account::read);
    let (sum, expected) = (balances.iter().sum::<i64>(), ACCOUNTS as i64 * AT_FIRST);
    println!("{} transfers, balances {balances:?}, sum {sum}", THREADS * TRANSFERS);
    if sum != expected {
        return Err(format!("the sum was {expected}").into());
    }
    Ok(client.close()?)
}

fn main() {
    if let Err(error) = run() {
        eprintln!("transfer: {error}");
        std::process::exit(1);
    }
}
