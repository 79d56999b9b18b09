//! Finds an installed ZooKeeper and a Java runtime.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

const DEBIAN_JARS: &str = "/usr/share/java";
const HELP: &str = "install ZooKeeper and Java (Debian, Ubuntu: libzookeeper-java, \
     libslf4j-java and default-jre-headless, as zoolock's tests/setup.sh does), or set \
     ZOOKEEPER_HOME to an unpacked Apache ZooKeeper release (Java then comes from JAVA_HOME or \
     PATH), or set ZOOKEEPER_CONNECT to a running server for the tests that can share one";

/// What is needed to start a server.
#[derive(Debug, Clone)]
pub(crate) struct Installation {
    pub(crate) java: PathBuf,
    pub(crate) class_path: OsString,
}

impl Installation {
    pub(crate) fn find() -> io::Result<Self> {
        Ok(Self { java: find_java().ok_or_else(|| missing("Java"))?, class_path: find_jars()? })
    }

    /// Fails if there is no Java compiler, without which Java cannot run a program from its source.
    pub(crate) fn require_compiler(&self) -> io::Result<()> {
        let java = self.java.canonicalize()?;
        if java.with_file_name("javac").is_file() {
            return Ok(());
        }
        let text = format!(
            "no Java compiler beside `{}`: install a JDK (Debian, Ubuntu: default-jdk-headless), \
             or set JAVA_HOME to one",
            java.display()
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }
}

fn missing(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("failed to find {what}: {HELP}"))
}

fn find_java() -> Option<PathBuf> {
    let home = env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    if let Some(home) = home {
        return Some(PathBuf::from(home).join("bin/java")).filter(|java| java.is_file());
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join("java"))
        .find(|java| java.is_file())
}

fn find_jars() -> io::Result<OsString> {
    match env::var_os("ZOOKEEPER_HOME").filter(|home| !home.is_empty()) {
        Some(home) => release_jars(Path::new(&home)),
        None => debian_jars(Path::new(DEBIAN_JARS)).ok_or_else(|| missing("ZooKeeper")),
    }
}

/// Returns the jars of an Apache release: `lib/*.jar`, and in releases up to 3.4, `*.jar`. `conf` has the log settings.
fn release_jars(home: &Path) -> io::Result<OsString> {
    let has_jar = |folder: &Path| {
        folder.read_dir().is_ok_and(|mut entries| {
            entries.any(|entry| entry.is_ok_and(|entry| is_zookeeper_jar(&entry.file_name())))
        })
    };
    if !has_jar(home) && !has_jar(&home.join("lib")) {
        let shown = home.display();
        return Err(missing(&format!("zookeeper-*.jar in ZOOKEEPER_HOME `{shown}`")));
    }
    env::join_paths([home.join("conf"), home.join("lib/*"), home.join("*")])
        .map_err(io::Error::other)
}

fn is_zookeeper_jar(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("zookeeper-") && name.ends_with(".jar")
}

/// Returns Debian's jars. The manifest of `zookeeper.jar` lists the others, except a logger and the part of Netty that
/// only TLS needs.
fn debian_jars(folder: &Path) -> Option<OsString> {
    let jars = ["zookeeper.jar", "slf4j-simple.jar", "netty-codec.jar"];
    let jars = jars.map(|jar| folder.join(jar));
    jars[0].is_file().then(|| env::join_paths(jars).ok())?
}
