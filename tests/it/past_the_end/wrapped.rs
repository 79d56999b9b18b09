//! The second wrap: a server before 3.6 goes on from -1 to 0, after 4,294,967,296 creates.

use super::{Granted, Stage, come_in_one_by_one, numbers};

#[test]
fn after_minus_one_comes_zero_and_waits() {
    let Some(stage) = Stage::new("second-wrap", -1) else {
        return;
    };
    let clients = [stage.client(), stage.client()];
    let list = Granted::default();
    let holder = stage.queues(&list, "holder", stage.lock(&clients[0]));
    holder.comes_in();
    let newcomer = stage.queues(&list, "newcomer", stage.lock(&clients[1]));
    println!("{:?}", numbers(&stage.nodes()));
    assert!(!stage.lock(&clients[1]).try_lock().unwrap());
    come_in_one_by_one(vec![(holder, "holder"), (newcomer, "newcomer")], &list);
}
