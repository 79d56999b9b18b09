//! The settings of a server: its configuration file and its command line.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use super::install::Installation;
use super::{Server, on_free_ports};

const TICK: Duration = Duration::from_millis(500);
/// Options with which the server starts fast and uses little memory.
const TUNING: &str = "-Xms16m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto \
     -Djava.net.preferIPv4Stack=true -Djava.awt.headless=true -Dzookeeper.jmx.log4j.disable=true \
     -Dorg.slf4j.simpleLogger.showDateTime=true \
     -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS";
const MAIN_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
const COUNTING: &str = "CountingServer.java";
const COUNTING_SOURCE: &str = include_str!("../../java/CountingServer.java");
/// The folder of a server's data, inside the server's folder.
pub(crate) const DATA: &str = "data";
/// The file with the users for SASL.
const JAAS: &str = "jaas.conf";

/// Settings for a [`Server`].
#[derive(Debug, Default, Clone)]
#[must_use = "a builder does nothing until `start`"]
pub struct ServerBuilder {
    /// `None` for any free port.
    pub(crate) port: Option<u16>,
    pub(crate) has_tls: bool,
    /// The port for orders to `CountingServer`, our program around ZooKeeper's classes.
    pub(crate) counts_at: Option<u16>,
    /// `None` for a standalone server.
    pub(crate) membership: Option<Membership>,
    tick: Option<Duration>,
    force_sync: bool,
    properties: Vec<(String, String)>,
    jvm_flags: Vec<String>,
    /// Files in the server's folder: the property that contains the file's path, the name, and the text.
    files: Vec<(&'static str, &'static str, String)>,
    pub(crate) jaas: Option<String>,
}

/// What distinguishes a member of an ensemble.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    /// The member's number, from 1.
    pub(crate) id: usize,
    /// The ports at which it reaches each member, by number: for the quorum, and for elections. Its own entry contains
    /// the ports on which it listens.
    pub(crate) members: Vec<[u16; 2]>,
}

impl Membership {
    fn write(&self, text: &mut String, host: IpAddr) {
        text.push_str("initLimit=20\nsyncLimit=20\n");
        // Without these lines, an ensemble of one member would be a standalone server.
        text.push_str("standaloneEnabled=false\nreconfigEnabled=false\n");
        // Without this line, a member that has no quorum sends its vote at longer and longer intervals, up to a minute.
        text.push_str("fastleader.maxNotificationInterval=500\n");
        for (index, [quorum, election]) in self.members.iter().enumerate() {
            let _ = writeln!(text, "server.{}={host}:{quorum}:{election}", index + 1);
        }
    }
}

impl ServerBuilder {
    /// The port; by default, any free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// `tickTime`, the unit of session expiry; 500 ms by default.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = Some(tick);
        self
    }

    /// Whether each transaction is forced to disk before it is answered; false by default. If false, the data survive
    /// [`Server::kill`], but not a crash of the machine.
    pub fn force_sync(mut self, force: bool) -> Self {
        self.force_sync = force;
        self
    }

    /// Adds a line `key=value` to the configuration file. It overrides any default. ZooKeeper turns unknown keys into
    /// system properties `zookeeper.<key>`.
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.set_property(key, value);
        self
    }

    pub(crate) fn set_property(&mut self, key: &str, value: &str) {
        self.properties.push((key.into(), value.into()));
    }

    /// Adds an argument for Java, such as `-Xmx1g`.
    pub fn jvm_flag(mut self, flag: &str) -> Self {
        self.jvm_flags.push(flag.into());
        self
    }

    /// Adds a second port with TLS, [`Server::secure_address`], beside the plain one. The server presents this chain of
    /// certificates, its own first, and uses this key, both in PEM. It requests no certificate from clients.
    ///
    /// A later [`property`](Self::property) can override ZooKeeper's `ssl.*` settings. With TLS, both ports use Netty,
    /// whose jars are part of Debian's ZooKeeper. By default, ZooKeeper 3.8 supports only TLS 1.2.
    pub fn tls(mut self, chain_pem: &str, key_pem: &str) -> Self {
        self.has_tls = true;
        let identity = format!("{}\n{}\n", key_pem.trim_end(), chain_pem.trim_end());
        self.files.push(("ssl.keyStore.location", "identity.pem", identity));
        // ZooKeeper's default sockets do not support TLS, and a server uses the same kind of sockets for both ports.
        let sockets = "org.apache.zookeeper.server.NettyServerCnxnFactory";
        self.property("serverCnxnFactory", sockets)
            .property("ssl.keyStore.type", "PEM")
            .property("ssl.clientAuth", "none")
    }

    /// Requires that clients of [`tls`](Self::tls)' port present a certificate issued by one of these roots, in PEM.
    pub fn tls_clients(mut self, roots_pem: &str) -> Self {
        self.files.push(("ssl.trustStore.location", "client-roots.pem", roots_pem.into()));
        self.property("ssl.trustStore.type", "PEM").property("ssl.clientAuth", "need")
    }

    /// Sets the names and passwords of the users that SASL (DIGEST-MD5) accepts; none by default.
    pub fn sasl_users(mut self, users: &[(&str, &str)]) -> Self {
        self.jaas = Some(jaas(users));
        let provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
        // Since ZooKeeper 3.10, DIGEST-MD5 must be enabled explicitly.
        self.property("authProvider.sasl", provider).property("fips-mode", "false")
    }

    /// Starts the server, and returns when it answers.
    ///
    /// # Errors
    ///
    /// If ZooKeeper or Java is not installed (the error describes what to do), if the port is in use, or if the server
    /// does not start (the error contains the end of its log).
    pub fn start(self) -> io::Result<Server> {
        let installation = Installation::find()?;
        if self.counts_at.is_some() {
            installation.require_compiler()?;
        }
        on_free_ports(|| {
            let server = Server::new(self.clone(), installation.clone())?;
            server.start_again().map(|()| server)
        })
    }

    /// Writes a server's files into its folder, and returns the command that makes it listen at these addresses.
    pub(crate) fn write(
        &self,
        found: &Installation,
        folder: &Path,
        address: SocketAddr,
        secure: Option<SocketAddr>,
    ) -> io::Result<Vec<OsString>> {
        let data = folder.join(DATA);
        fs::create_dir_all(&data)?;
        if let Some(membership) = &self.membership {
            fs::write(data.join("myid"), membership.id.to_string())?;
        }
        for (_, name, text) in &self.files {
            fs::write(folder.join(name), text)?;
        }
        if let Some(jaas) = &self.jaas {
            fs::write(folder.join(JAAS), jaas)?;
        }
        if self.counts_at.is_some() {
            fs::write(folder.join(COUNTING), COUNTING_SOURCE)?;
        }
        fs::write(folder.join("zoo.cfg"), self.config(folder, address, secure))?;
        Ok(self.command(found, folder))
    }

    /// Returns the text of `zoo.cfg`. If a key occurs twice, the last line counts, so the properties are at the end.
    fn config(&self, folder: &Path, address: SocketAddr, secure: Option<SocketAddr>) -> String {
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
            self.tick.unwrap_or(TICK).as_millis(),
            folder.join(DATA).display(),
            address.port(),
            address.ip(),
        );
        if let Some(membership) = &self.membership {
            membership.write(&mut text, address.ip());
        }
        if let Some(secure) = secure {
            let (port, host) = (secure.port(), secure.ip());
            let _ = writeln!(text, "secureClientPort={port}\nsecureClientPortAddress={host}");
        }
        for (key, name, _) in &self.files {
            let _ = writeln!(text, "{key}={}", folder.join(name).display());
        }
        for (key, value) in &self.properties {
            let _ = writeln!(text, "{key}={value}");
        }
        text
    }

    /// Returns the path of Java and its arguments.
    fn command(&self, found: &Installation, folder: &Path) -> Vec<OsString> {
        let mut command: Vec<OsString> = vec![found.java.clone().into()];
        command.extend(TUNING.split(' ').map(OsString::from));
        let sync = if self.force_sync { "yes" } else { "no" };
        command.push(format!("-Dzookeeper.forceSync={sync}").into());
        if self.jaas.is_some() {
            let mut flag = OsString::from("-Djava.security.auth.login.config=");
            flag.push(folder.join(JAAS));
            command.push(flag);
        }
        command.extend(self.jvm_flags.iter().map(OsString::from));
        command.extend(["-cp".into(), found.class_path.clone()]);
        // If Java is given a source file, it compiles the file when it starts.
        let program = self.counts_at.map_or(MAIN_CLASS.into(), |_| folder.join(COUNTING).into());
        command.extend([program, folder.join("zoo.cfg").into()]);
        command.extend(self.counts_at.map(|port| port.to_string().into()));
        command
    }
}

/// Returns the text of the file in which Java finds the users.
pub(crate) fn jaas(users: &[(&str, &str)]) -> String {
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let mut text = format!("Server {{\n    {module} required");
    for (name, password) in users {
        let password = password.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = write!(text, "\n    \"user_{name}\"=\"{password}\"");
    }
    text + ";\n};\n"
}
