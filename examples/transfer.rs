//! Transfers between accounts, each under the locks of both accounts.
//!
//! ```text
//! cargo run --example transfer
//! ```
//!
//! Eight threads move money between four accounts, in all directions at once. Each transfer takes
//! the locks of its two accounts as one `MultiLock`, in an order that all share, so that no two
//! transfers deadlock. It registers its fencing tokens with both accounts (`claim`) before it reads
//! them, and an account refuses lower tokens. The program checks that no transfer was refused and
//! that the sum has not changed.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedLock, MultiLock};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ACCOUNTS: usize = 4;
const THREADS: usize = 8;
const TRANSFERS: usize = 10;
const AT_FIRST: i64 = 100;
const PATIENCE: Duration = Duration::from_secs(60);

/// An account, with the last token registered.
#[derive(Clone, Copy)]
struct Account {
    balance: i64,
    fence: u64,
}

/// The accounts, like those of a database. Each method is a transaction. Between two methods, the
/// locks keep others from writing, and the fences refuse late writes.
struct Bank(Mutex<[Account; ACCOUNTS]>);

impl Bank {
    fn accounts(&self) -> MutexGuard<'_, [Account; ACCOUNTS]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `INSERT INTO fence (lock, token) VALUES (:lock, :token) ON CONFLICT (lock)
    /// DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token`
    fn claim(&self, account: usize, token: u64) -> Outcome<()> {
        let fence = &mut self.accounts()[account].fence;
        if token < *fence {
            return Err(format!("token {token} is older than {fence}").into());
        }
        *fence = token;
        Ok(())
    }

    fn balance(&self, account: usize) -> i64 {
        self.accounts()[account].balance
    }

    /// Writes all balances, or none if another token has been registered with an account since.
    fn write(&self, writes: [(usize, u64, i64); 2]) -> Outcome<()> {
        let mut accounts = self.accounts();
        for (account, token, _) in writes {
            let fence = accounts[account].fence;
            if token != fence {
                return Err(format!("token {token} has claimed, and then {fence}").into());
            }
        }
        for (account, _, balance) in writes {
            accounts[account].balance = balance;
        }
        Ok(())
    }
}

fn transfer(client: &Client, bank: &Bank, from: usize, to: usize) -> Outcome<()> {
    // New lock objects for each transfer, as in separate processes.
    let lock =
        |account| DistributedLock::new(client, format!("/zoolock-examples/account-{account}"));
    let (debited, credited) = (lock(from)?, lock(to)?);
    let both = MultiLock::new([debited.clone().into(), credited.clone().into()])?;
    // The other error is that a member is busy.
    let locked = both.acquire_within(PATIENCE)??;
    let claim = |account, lock: &DistributedLock| -> Outcome<u64> {
        let not_held = || zoolock::Error::not_held(lock.path());
        let token = lock.hold().ok_or_else(not_held)?.fencing_token();
        bank.claim(account, token)?;
        Ok(token)
    };
    let (debit, credit) = (claim(from, &debited)?, claim(to, &credited)?);
    let (less, more) = (bank.balance(from) - 1, bank.balance(to) + 1);
    thread::yield_now(); // without the locks, other threads would write here
    bank.write([(from, debit, less), (to, credit, more)])?;
    drop(locked); // the transfer is done, even if the lock has been lost since
    Ok(())
}

fn run() -> Outcome<()> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let client = Client::connect(servers, Duration::from_secs(10))?;
    let bank = Bank(Mutex::new([Account { balance: AT_FIRST, fence: 0 }; ACCOUNTS]));
    thread::scope(|scope| {
        let (client, bank) = (&client, &bank);
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                scope.spawn(move || {
                    for turn in 0..TRANSFERS {
                        let from = (number + turn) % ACCOUNTS;
                        let to = (from + 1 + number % (ACCOUNTS - 1)) % ACCOUNTS;
                        transfer(client, bank, from, to)?;
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
    let balances = bank.accounts().map(|account| account.balance);
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
