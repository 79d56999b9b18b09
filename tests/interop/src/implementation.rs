//! The other implementations, and the commands that start peers, which are processes of an implementation.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zoolock_test_support::shared_server;

use crate::built::{built, place};
use crate::peer::Peer;

const REQUIRED: &str = "ZOOLOCK_INTEROP";
const JARS: &str = "/usr/share/java";
const GO_PATH: &str = "/usr/share/gocode";
const GO_ZOOKEEPER: &str = "src/github.com/samuel/go-zookeeper/zk";

/// Another implementation, and the program that executes the commands for it.
#[derive(Debug, Clone)]
pub struct Implementation {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
}

impl Implementation {
    /// Returns Apache Curator, in Java, or `None` if it is not installed.
    pub fn curator() -> Option<Implementation> {
        // These options make Java start fast and use little memory.
        let flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        Self::curator_by("CuratorPeer", &flags)
    }

    /// Returns the program that measures Curator; see `benches/locks`.
    pub fn curator_bench() -> Option<Implementation> {
        Self::curator_by("CuratorBench", &["-Xmx1g"])
    }

    fn curator_by(program: &str, flags: &[&str]) -> Option<Implementation> {
        let (recipes, logger) = (jar("curator-recipes"), jar("slf4j-simple"));
        let missing = [&recipes, &logger].into_iter().find(|jar| !jar.is_file());
        let found = missing.map_or(Ok(()), |jar| Err(jar.display().to_string()));
        let found = found.and_then(|()| Ok((tool("javac")?, tool("java")?)));
        let (javac, java) = or_skip(found)?;
        let source = peer_source(&format!("{program}.java"));
        let lines = peer_source("Lines.java");
        // The manifests of these two jars list the other jars that are needed.
        let jars = format!("{}:{}", recipes.display(), logger.display());
        let classes = built("curator", &[&source, &lines, &recipes], |folder| {
            let mut command = Command::new(javac);
            command.args(["-Xlint:all", "-cp", &jars, "-d"]);
            command.arg(folder).args([&source, &lines]);
            command
        });
        let rest = [
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            &format!("{}:{jars}", classes.display()),
            program,
        ];
        let arguments = flags.iter().copied().chain(rest);
        Some(Implementation {
            name: "curator",
            program: java,
            arguments: arguments.map(str::to_owned).collect(),
        })
    }

    /// Returns kazoo, in Python, or `None` if it is not installed.
    pub fn kazoo() -> Option<Implementation> {
        Self::kazoo_by("kazoo_peer.py")
    }

    /// Returns the program that measures kazoo; see `benches/locks`.
    pub fn kazoo_bench() -> Option<Implementation> {
        Self::kazoo_by("kazoo_bench.py")
    }

    fn kazoo_by(program: &str) -> Option<Implementation> {
        let python = place().join("venv/bin/python");
        let found = Command::new(&python)
            .args(["-c", "import kazoo"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        or_skip(found.then_some(()).ok_or("kazoo".to_owned()))?;
        Some(Implementation {
            name: "kazoo",
            program: python,
            // Keeps Python from writing compiled files next to the sources.
            arguments: vec!["-B".to_owned(), peer_source(program).display().to_string()],
        })
    }

    /// Returns Debian's go-zookeeper, or `None` if it is not installed.
    pub fn go_zookeeper() -> Option<Implementation> {
        let library = Path::new(GO_PATH).join(GO_ZOOKEEPER).join("lock.go");
        let found = match library.is_file() {
            true => tool("go"),
            false => Err(library.display().to_string()),
        };
        let go = or_skip(found)?;
        let source = peer_source("go_peer.go");
        let folder = built("go", &[&source, &library], |folder| {
            let mut command = Command::new(go);
            command.env("GO111MODULE", "off").env("GOPATH", GO_PATH);
            // Without cgo, the build does not need a C compiler.
            command.env("CGO_ENABLED", "0");
            command.arg("build").arg("-o").arg(folder.join("go_peer"));
            command.arg(&source);
            command
        });
        Some(Implementation { name: "go", program: folder.join("go_peer"), arguments: Vec::new() })
    }

    /// Returns the Rust crate `zookeeper-client`. Its peer is a program of this package.
    pub fn zookeeper_client(program: &str) -> Implementation {
        Implementation { name: "zookeeper-client", program: program.into(), arguments: Vec::new() }
    }

    /// Returns the command that starts a peer with this name, connected to this server.
    pub fn command(&self, server: &str, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args([server, name]);
        command
    }

    /// Starts peers that are connected to the shared server. Their names end in a number.
    pub fn start<const COUNT: usize>(&self) -> [Peer; COUNT] {
        let server = shared_server().connect_string();
        let start = |number| {
            let name = format!("{}-{}", self.name, number + 1);
            let command = self.command(&server, &name);
            Peer::spawn(name, command)
        };
        // The peers start in parallel, because this waits for their answers only now.
        let mut peers = std::array::from_fn(start);
        peers.iter_mut().for_each(Peer::answer);
        peers
    }
}

/// Returns the implementation. If it is not installed, prints what is missing and returns `None`.
fn or_skip<T>(found: Result<T, String>) -> Option<T> {
    let missing = match found {
        Ok(found) => return Some(found),
        Err(missing) => missing,
    };
    let line = format!("skipped: {missing} is missing; tests/setup.sh --interop installs it");
    let required = env::var(REQUIRED).is_ok_and(|value| value == "required");
    assert!(!required, "{line} ({REQUIRED} is `required`)");
    // Written to standard error directly, because test runners capture the output of `eprintln!`.
    let _ = writeln!(io::stderr(), "{line}");
    None
}

fn jar(name: &str) -> PathBuf {
    Path::new(JARS).join(format!("{name}.jar"))
}

fn peer_source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers").join(name)
}

/// Returns the path of a program, in `JAVA_HOME` or in `PATH`.
fn tool(name: &str) -> Result<PathBuf, String> {
    let home = env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    let home = home.map(|home| Path::new(&home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = home.into_iter().chain(env::split_paths(&path));
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|tool| tool.is_file()));
    found.ok_or_else(|| name.to_owned())
}
