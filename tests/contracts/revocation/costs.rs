//! What listening costs.

use zoolock_test_support::fresh_path;

use super::{contender_of, is_asked, is_not_asked};
use common::{client, lock_of};

#[test]
fn a_hold_that_looks_again_and_again_listens_as_long_as_it_likes() {
    const LOOKS: u32 = 20_000;
    let own = client();
    let guard = lock_of(&own, &fresh_path("polling")).acquire().unwrap();
    let before = own.stats().requests;
    let begun = std::time::Instant::now();
    for _ in 0..LOOKS {
        let asked = guard.revocation().unwrap();
        is_not_asked(&asked, "nobody asked");
    }
    let took = begun.elapsed();
    let asked = guard.revocation().unwrap();
    own.revoke(&contender_of(&own, &guard)).unwrap();
    let begun = std::time::Instant::now();
    is_asked(&asked, "the holder");
    println!(
        "{LOOKS} looks in {took:?} and {} requests, told after {:?}",
        own.stats().requests - before,
        begun.elapsed()
    );
    guard.release().unwrap();
}
