//! Java's client, which runs `tests/peers/SayEverything.java`.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use super::recording::{Recorder, Step};
use super::relay::Relay;

const REQUIRED: &str = "ZOOLOCK_INTEROP";
const JARS: &str = "/usr/share/java";
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/peers/SayEverything.java");

/// A JDK and Debian's jars.
#[derive(Debug)]
pub(crate) struct Java {
    program: PathBuf,
    jars: String,
}

impl Java {
    /// Returns `None`, and prints what is missing, if something is.
    pub(crate) fn find() -> Option<Java> {
        let missing = match Self::look() {
            Ok(java) => return Some(java),
            Err(missing) => missing,
        };
        let line = format!("skipped: {missing} is missing; tests/setup.sh --interop installs it");
        let required = env::var(REQUIRED).is_ok_and(|value| value == "required");
        assert!(!required, "{line} ({REQUIRED} is `required`)");
        // A macro would print into the captured output of the test.
        let _ = writeln!(io::stderr(), "{line}");
        None
    }

    fn look() -> Result<Java, String> {
        let jars = ["zookeeper", "slf4j-simple"].map(|name| format!("{JARS}/{name}.jar"));
        let missing = jars.iter().find(|jar| !Path::new(jar).is_file());
        missing.map_or(Ok(()), |jar| Err(jar.clone()))?;
        let program = tool("java")?;
        // Java runs programs from source only with its compiler installed.
        let real = program.canonicalize().map_err(|error| error.to_string())?;
        let compiler = real.with_file_name("javac");
        if !compiler.is_file() {
            return Err(compiler.display().to_string());
        }
        let jars = jars.join(":");
        Ok(Java { program, jars })
    }

    /// Runs the whole script at this server.
    pub(crate) fn run(&self, server: SocketAddr, root: &str) -> Vec<Step> {
        let mut recorder = Recorder::new(Relay::start(server).expect("a relay"));
        let mut running = Running(self.start(recorder.relay().address(), root));
        let errors = running.0.stderr.take().expect("piped");
        // A thread reads the log, so that a long one blocks nobody.
        let log = thread::spawn(move || io::read_to_string(errors));
        let mut go = running.0.stdin.take().expect("piped");
        let steps = BufReader::new(running.0.stdout.take().expect("piped"));
        for step in steps.lines() {
            let step = step.expect("a step's name");
            if step == "cut" {
                recorder.relay().cut();
            } else {
                recorder.done(&step);
            }
            // If the program has ended, its log says why.
            let _ = writeln!(go);
        }
        let status = running.0.wait().expect("the end of Java");
        let log = log.join().expect("reads").unwrap_or_default();
        assert!(status.success(), "Java, {status}:\n{log}");
        recorder.finish()
    }

    fn start(&self, relay: SocketAddr, root: &str) -> Child {
        let mut command = Command::new(&self.program);
        command
            // Options for a fast start and a small process.
            .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"])
            .args([&self.jars, PROGRAM, &relay.to_string(), root])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = command.spawn();
        started.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }
}

/// The drop ends the process if the test fails first.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program of `JAVA_HOME` or of the path.
fn tool(name: &str) -> Result<PathBuf, String> {
    let home = env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    let home = home.map(|home| Path::new(&home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = home.into_iter().chain(env::split_paths(&path));
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|tool| tool.is_file()));
    found.ok_or_else(|| name.to_owned())
}
