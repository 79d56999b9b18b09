//! The TCP connections of a process, according to Linux.

use std::collections::HashSet;
use std::fs;

/// Returns the local and the remote end of each open IPv4 connection of a process, in hexadecimal.
pub(crate) fn connections(process: u32) -> Vec<(String, String)> {
    let own = inodes(process);
    let table = fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap();
    let lines = table.lines().skip(1);
    let columns = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    columns
        .filter(|columns| columns[3] == ESTABLISHED && own.contains(columns[9]))
        .map(|columns| (columns[1].to_owned(), columns[2].to_owned()))
        .collect()
}

const ESTABLISHED: &str = "01";

fn inodes(process: u32) -> HashSet<String> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let targets = files.flatten().flat_map(|file| fs::read_link(file.path()));
    let sockets = targets.filter_map(|target| {
        let name = target.to_string_lossy().into_owned();
        Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    });
    sockets.collect()
}
