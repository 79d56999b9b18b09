//! Reads what the kernel reports about a process.

use std::error::Error;
use std::fs;

/// Returns a number such as `VmRSS`, in the kernel's unit.
pub(crate) fn status(process: u32, name: &str) -> Result<f64, Box<dyn Error + Send + Sync>> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let figure = line.and_then(|line| line.split_whitespace().next());
    Ok(figure.ok_or_else(|| format!("no {name} of process {process}"))?.parse()?)
}
