//! Holders in processes of their own, which are stopped or killed.

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use zoolock_test_support::{connect_string, fresh_path, wait_until};

use common::basics::hold_of;
use common::{Beside, OWN_PROCESS, SOON, Task, client, client_of, lock_of};

const SHORT: Duration = Duration::from_secs(3);

/// Holds the lock and looks all the time, until it is lost. The first look that begins after it
/// stood still must see the loss.
fn hold_and_look(path: &str) {
    let client = client_of(&connect_string(), SHORT);
    let lock = lock_of(&client, path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    println!("holding: {}", hold.node());
    let (begun, mut looks, mut stood_still) = (Instant::now(), 0_u64, None);
    let mut last = Instant::now();
    while begun.elapsed() < 3 * SOON {
        let start = Instant::now();
        let before = start - last;
        let held = hold.is_held();
        let during = start.elapsed();
        last = Instant::now();
        looks += 1;
        // A stop in the middle of a look counts for the next one.
        if let Some(gap) = stood_still.take().or((before > SHORT).then_some(before)) {
            println!("first look: {held} after {gap:?}, {:?}", hold.state());
            assert!(!held && hold.valid_for().is_zero());
            break;
        }
        if during > SHORT {
            stood_still = Some(during);
        } else {
            assert!(held, "lost after {looks} looks: {hold:?}");
        }
        thread::sleep(Duration::from_millis(1));
    }
    let told = hold.lost().recv_timeout(SOON);
    println!("told: {told:?}");
    let unlocked = lock.unlock();
    println!("unlocked: {unlocked:?}");
    assert!(unlocked.is_err_and(|error| error.is_lost()));
    assert!(lock.try_lock_for(SOON).is_ok());
    println!("done: {looks} looks");
}

#[test]
fn a_process_that_was_stopped_for_too_long_sees_the_loss_first() {
    const NAME: &str = "processes::a_process_that_was_stopped_for_too_long_sees_the_loss_first";
    if let Ok(path) = env::var(OWN_PROCESS) {
        return hold_and_look(&path);
    }
    let path = fresh_path("stopped");
    let mut holder = Beside::start(NAME, &path);
    let node = holder.says("holding:");
    let rivals = client();
    let rival = lock_of(&rivals, &path);
    let waiting = {
        let rival = rival.clone();
        Task::spawn(move || rival.lock())
    };
    common::basics::await_nodes(&path, 2);
    holder.stop();
    let begun = Instant::now();
    waiting.result("the rival").unwrap();
    println!("the rival was let in {:?} after {node} was stopped", begun.elapsed());
    // So that the holder can tell by its clock, too.
    wait_until("it has been stopped for long", SOON, || begun.elapsed() > SHORT + SHORT / 3);
    holder.signal(Signal::CONT);
    let first = holder.says("first look:");
    assert!(first.starts_with("false"), "{first}");
    assert!(holder.says("told:").contains("Disconnected"));
    assert!(holder.says("unlocked:").contains("Lost"));
    assert!(rival.is_held(), "{rival:?}");
    rival.unlock().unwrap();
    holder.says("done:");
    holder.ends_well();
}
