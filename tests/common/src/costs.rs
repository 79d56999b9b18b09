//! The number of requests that calls need, counted by a proxy.

use zoolock_test_support::{FaultProxy, Op};

/// Operations that a lock may request. It needs the last three only if other contenders are ahead.
const OPS: [Op; 8] = [
    Op::Create,
    Op::Delete,
    Op::GetChildren,
    Op::GetData,
    Op::Multi,
    Op::Exists,
    Op::Sync,
    Op::SetWatches,
];

/// Returns how many creates, deletions, lists, reads and transactions `work` requests. It must request nothing else.
#[track_caller]
pub fn cost(proxy: &FaultProxy, work: impl FnOnce()) -> [u64; 5] {
    let requests = || OPS.map(|op| proxy.requests(op));
    let before = requests();
    work();
    let after = requests();
    let cost: [u64; OPS.len()] = std::array::from_fn(|at| after[at] - before[at]);
    println!("[create, delete, list, read, transaction, ..] = {cost:?}");
    assert_eq!(cost[5..], [0; 3]);
    std::array::from_fn(|at| cost[at])
}
