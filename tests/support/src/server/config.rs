//! The start of a server: its program, configuration file and command line.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use super::install::Installation;
use super::sasl;
use super::tls::Tls;

const MAIN_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
const SOURCE_FILE: &str = "CountingServer.java";
/// The folder of a server's data, in its own folder.
pub(crate) const DATA: &str = "data";

/// Settings of a server; see the setters of [`ServerBuilder`](super::ServerBuilder).
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) program: Program,
    /// `None` for any free one.
    pub(crate) port: Option<u16>,
    pub(crate) tick: Duration,
    pub(crate) force_sync: bool,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) jvm_flags: Vec<String>,
    /// `None` for a standalone server.
    pub(crate) membership: Option<Membership>,
    pub(crate) tls: Option<Tls>,
    pub(crate) sasl_users: Option<sasl::Users>,
}

/// The Java program. Its first argument is the configuration file.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// ZooKeeper's own main class.
    ZooKeeper,
    /// Our `CountingServer` around ZooKeeper's classes, a file that Java compiles at the start. Its second
    /// argument is its own port.
    Source { text: &'static str, port: u16 },
}

impl Program {
    /// Writes the files that Java needs into `folder`.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        match self {
            Self::ZooKeeper => Ok(()),
            Self::Source { text, .. } => fs::write(folder.join(SOURCE_FILE), text),
        }
    }

    fn arguments(&self, config_file: &Path) -> Vec<OsString> {
        match self {
            Self::ZooKeeper => vec![MAIN_CLASS.into(), config_file.into()],
            Self::Source { port, .. } => vec![
                config_file.with_file_name(SOURCE_FILE).into(),
                config_file.into(),
                port.to_string().into(),
            ],
        }
    }
}

/// The settings of a member of an ensemble.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    /// Its number, from 1.
    pub(crate) id: usize,
    pub(crate) init_limit: u32,
    pub(crate) sync_limit: u32,
    /// The addresses at which it reaches each member, by number. For itself, the addresses on which it
    /// listens.
    pub(crate) members: Vec<MemberPorts>,
}

/// The ports of a member that other members connect to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberPorts {
    pub(crate) quorum: u16,
    pub(crate) election: u16,
}

impl Membership {
    fn write(&self, text: &mut String, host: IpAddr) {
        let (init, sync) = (self.init_limit, self.sync_limit);
        let _ = writeln!(text, "initLimit={init}\nsyncLimit={sync}");
        // Without these lines, an ensemble of one is a standalone server.
        let _ = writeln!(text, "standaloneEnabled=false\nreconfigEnabled=false");
        // A member without a quorum asks ever less often, down to once a minute.
        let _ = writeln!(text, "fastleader.maxNotificationInterval=500");
        for (index, ports) in self.members.iter().enumerate() {
            let (id, MemberPorts { quorum, election }) = (index + 1, ports);
            let _ = writeln!(text, "server.{id}={host}:{quorum}:{election}");
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            program: Program::ZooKeeper,
            port: None,
            tick: Duration::from_millis(500),
            force_sync: false,
            properties: Vec::new(),
            jvm_flags: Vec::new(),
            membership: None,
            tls: None,
            sasl_users: None,
        }
    }
}

impl Config {
    /// The text of `zoo.cfg`. The last line of a key counts, so properties come last. The files of a server
    /// with TLS, which listens at `secure`, are in `folder`.
    pub(crate) fn text(
        &self,
        folder: &Path,
        address: SocketAddr,
        secure: Option<SocketAddr>,
    ) -> String {
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
            folder.join(DATA).display(),
            address.port(),
            address.ip(),
        );
        if let Some(membership) = &self.membership {
            membership.write(&mut text, address.ip());
        }
        if let (Some(tls), Some(secure)) = (&self.tls, secure) {
            tls.write_lines(&mut text, folder, secure);
        }
        if self.sasl_users.is_some() {
            text.push_str(sasl::LINES);
        }
        for (key, value) in &self.properties {
            let _ = writeln!(text, "{key}={value}");
        }
        text
    }

    /// Java and its arguments, tuned for a fast start and a small process.
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
        if let (Some(_), Some(folder)) = (&self.sasl_users, config_file.parent()) {
            let mut flag = OsString::from("-Djava.security.auth.login.config=");
            flag.push(sasl::file(folder));
            command.push(flag);
        }
        command.extend(self.jvm_flags.iter().map(OsString::from));
        command.extend(["-cp".into(), found.class_path.clone()]);
        command.extend(self.program.arguments(config_file));
        command
    }
}
