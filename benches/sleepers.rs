//! Counts the threads of a process that are asleep, as the kernel reports them.

use std::fs;
use std::io::Result;

/// Returns how many threads of the process are asleep.
pub(crate) fn sleepers(process: u32) -> Result<usize> {
    let states = fs::read_dir(format!("/proc/{process}/task"))?.map(|task| {
        let stat = fs::read_to_string(task?.path().join("stat"))?;
        Ok(stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')))
    });
    Ok(states.collect::<Result<Vec<_>>>()?.into_iter().filter(|is_asleep| *is_asleep).count())
}
