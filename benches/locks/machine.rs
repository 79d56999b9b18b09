//! The machine and the versions of a run, for the head of the report.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::session::Outcome;

/// The size and the number of the writes that measure the disk.
const WRITE: usize = 4096;
const WRITES: usize = 100;

/// Describes the processors, the disk and the compiler. Measures the disk.
pub(crate) fn describe() -> Outcome<String> {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    let (kind, device) = file_system(&env::temp_dir());
    Ok(format!(
        "- The machine: {} processors ({}), load before the run {load}. Data on {kind} on {device}; a \
         write of 4 KiB and its sync take {:.0} µs there (median of {WRITES}).\n\
         - Compiler: {}.\n",
        thread::available_parallelism()?,
        processor(),
        sync_time()?.as_secs_f64() * 1e6,
        first_line("rustc", &["--version"]),
    ))
}

fn processor() -> String {
    let all = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names = all.lines().filter_map(|line| line.split_once(':'));
    let name = names.into_iter().find(|(field, _)| field.trim() == "model name");
    name.map_or("of an unknown model".to_owned(), |(_, name)| name.trim().to_owned())
}

/// Returns the kind of file system of a directory, on a disk or in memory, and its device.
fn file_system(folder: &Path) -> (String, String) {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let around = fields.filter(|fields| fields.len() > 2 && folder.starts_with(fields[1]));
    let nearest = around.max_by_key(|fields| fields[1].len());
    let Some(fields) = nearest else { return ("?".to_owned(), "?".to_owned()) };
    let device = fields[0].rsplit('/').next().unwrap_or(fields[0]);
    let model = fs::read_to_string(format!("/sys/block/{device}/device/model"));
    let driver = fs::read_link(format!("/sys/block/{device}/device/driver"));
    let driver = driver.ok().and_then(|it| Some(it.file_name()?.to_string_lossy().into_owned()));
    let about = model.ok().map(|model| model.trim().to_owned()).or(driver);
    let about = about.map_or(String::new(), |about| format!(" ({about})"));
    (fields[2].to_owned(), format!("{device}{about}"))
}

/// Returns the median time of a small write that reaches the disk.
fn sync_time() -> Outcome<Duration> {
    let mut file = tempfile::tempfile()?;
    let mut times = Vec::new();
    for _ in 0..WRITES {
        let begun = Instant::now();
        file.write_all(&[0; WRITE])?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[WRITES / 2])
}

/// Returns the version of a package from the lock file, and the commit of this library.
pub(crate) fn locked_version(package: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
    let rest =
        lock.split_once(&format!("name = \"{package}\"\nversion = \"")).map(|(_, rest)| rest);
    let version = rest.and_then(|rest| rest.split('"').next()).unwrap_or("?");
    match package {
        "zoolock" => {
            let root = root.to_string_lossy();
            let commit = first_line("git", &["-C", &root, "rev-parse", "--short", "HEAD"]);
            format!("{package} {version} (commit {commit})")
        }
        _ => format!("crate {package} {version}"),
    }
}

/// Returns the first line that a program prints about itself.
pub(crate) fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let Ok(output) = output else { return format!("{program}: not found") };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("?").trim().to_owned()
}
