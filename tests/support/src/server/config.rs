//! What a server is started with: its configuration file and command line.

use std::ffi::OsString;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::install::Installation;

/// Settings of a server; see the setters of [`ServerBuilder`](super::ServerBuilder).
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) tick: Duration,
    pub(crate) force_sync: bool,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) jvm_flags: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(500),
            force_sync: false,
            properties: Vec::new(),
            jvm_flags: Vec::new(),
        }
    }
}

impl Config {
    /// The text of `zoo.cfg`; the last line of a key counts, so properties come last.
    pub(crate) fn text(&self, data: &Path, address: SocketAddr) -> String {
        let mut text = format!(
            "tickTime={}\n\
             dataDir={}\n\
             clientPort={}\n\
             clientPortAddress={}\n\
             minSessionTimeout=1000\n\
             maxSessionTimeout=60000\n\
             maxClientCnxns=0\n\
             admin.enableServer=false\n\
             4lw.commands.whitelist=*\n",
            self.tick.as_millis(),
            data.display(),
            address.port(),
            address.ip(),
        );
        for (key, value) in &self.properties {
            let _ = writeln!(text, "{key}={value}");
        }
        text
    }

    /// Java and its arguments, tuned to start fast and to stay small.
    pub(crate) fn command(&self, found: &Installation, config_file: &Path) -> Vec<OsString> {
        let mut command: Vec<OsString> = vec![found.java.clone().into()];
        command.extend(
            [
                "-Xms16m",
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Xshare:auto",
                "-Djava.net.preferIPv4Stack=true",
                "-Djava.awt.headless=true",
                "-Dzookeeper.jmx.log4j.disable=true",
                "-Dorg.slf4j.simpleLogger.showDateTime=true",
                "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            ]
            .map(OsString::from),
        );
        let sync = if self.force_sync { "yes" } else { "no" };
        command.push(format!("-Dzookeeper.forceSync={sync}").into());
        command.extend(self.jvm_flags.iter().map(OsString::from));
        command.extend(["-cp".into(), found.class_path.clone()]);
        command.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".into());
        command.push(config_file.into());
        command
    }
}
