//! The servers of the locks. Each is a child process, started when it is first needed, on a free
//! loopback port, with its data in a temporary directory.

use std::cell::{Cell, OnceCell};
use std::env;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use zoolock_test_support::{Ensemble, Probe, Server, wait_until};

use crate::etcd::Gateway;
use crate::machine::first_line;
use crate::session::Outcome;

const SOON: Duration = Duration::from_secs(60);
/// The tick of ZooKeeper's sample settings. The tests' servers have a shorter one.
const ZOOKEEPER_TICK: Duration = Duration::from_secs(2);
/// The heap. With the tests' default of `-Xmx256m`, the server would collect garbage all the time.
const ZOOKEEPER_HEAP: &str = "-Xmx1g";
/// The default compiler of a server. The tests' servers have another one.
const ZOOKEEPER_COMPILER: &str = "-XX:TieredStopAtLevel=4";

/// The kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ZooKeeper,
    Redis,
    Etcd,
}

impl Kind {
    /// Returns what the server does before it answers a write.
    pub(crate) const fn durability(self, ensemble: bool) -> &'static str {
        match self {
            Kind::ZooKeeper if ensemble => {
                "ZooKeeper, three servers, `forceSync=yes`: each write is on the disks of two, all \
                 clients are connected to one follower, and the servers to each other through proxies"
            }
            Kind::ZooKeeper => "ZooKeeper, one server, `forceSync=yes`: each write is on disk",
            Kind::Redis => {
                "Redis, one server, `appendonly yes`, `appendfsync always`: each write is on disk"
            }
            Kind::Etcd => "etcd, one server, with its defaults: each write is on disk",
        }
    }
}

/// What a ZooKeeper server has counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    pub(crate) requests: u64,
    pub(crate) events: u64,
    pub(crate) transactions: u64,
    pub(crate) syncs: u64,
}

/// The ZooKeeper servers.
enum ZooKeeper {
    Single(Box<Server>),
    /// The number is that of the follower to which the clients connect.
    Ensemble(Ensemble, usize),
}

/// Returns a count each time it is called.
pub(crate) type Count<'a> = Box<dyn FnMut() -> Outcome<usize> + 'a>;

/// All servers.
#[derive(Default)]
pub(crate) struct Servers {
    /// Whether ZooKeeper is an ensemble.
    ensemble: bool,
    zookeeper: OnceCell<ZooKeeper>,
    redis: OnceCell<Option<Service>>,
    etcd: OnceCell<Option<Service>>,
    /// The bench's own requests to ZooKeeper, which the server counts as well.
    asked: Cell<u64>,
}

impl Servers {
    pub(crate) fn new(ensemble: bool) -> Servers {
        Servers { ensemble, ..Servers::default() }
    }

    /// Returns the address of a server, or `None` if it is not installed.
    pub(crate) fn address(&self, kind: Kind) -> Outcome<Option<String>> {
        let service = match kind {
            Kind::ZooKeeper => return Ok(Some(self.zookeeper()?.connect_string())),
            Kind::Redis => get_or_start(&self.redis, start_redis)?,
            Kind::Etcd => get_or_start(&self.etcd, start_etcd)?,
        };
        Ok(service.as_ref().map(|service| service.address.to_string()))
    }

    /// Returns the versions of the running servers, and of what runs them.
    pub(crate) fn versions(&self) -> Outcome<Vec<String>> {
        let mut versions = Vec::new();
        if self.zookeeper.get().is_some() {
            let status = self.zookeeper()?.four_letter("srvr")?;
            self.asked.set(self.asked.get() + 1);
            let version = status.lines().next().unwrap_or_default();
            let version = version.split([':', ',', '-']).nth(1).unwrap_or("?").trim();
            versions.push(format!("ZooKeeper {version} ({})", first_line("java", &["-version"])));
        }
        for (service, program) in [(&self.redis, "redis-server"), (&self.etcd, "etcd")] {
            if matches!(service.get(), Some(Some(_))) {
                // What follows is not needed: `Redis server v=7.0.15 sha=..`.
                let line = first_line(program, &["--version"]);
                versions.push(line.split(" sha=").next().unwrap_or(&line).to_owned());
            }
        }
        Ok(versions)
    }

    /// Returns the counts so far, if the server counts, minus the bench's own requests.
    pub(crate) fn counters(&self, kind: Kind) -> Outcome<Option<Counters>> {
        if kind != Kind::ZooKeeper {
            return Ok(None);
        }
        let server = self.zookeeper()?;
        let zxid = server.four_letter("srvr")?;
        let zxid = zxid.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
        let answer = server.four_letter("mntr")?;
        self.asked.set(self.asked.get() + 2);
        let sum = |wanted: &dyn Fn(&str) -> bool| -> u64 {
            let lines = answer.lines().filter_map(|line| line.split_once('\t'));
            let wanted = lines.filter(|(name, _)| wanted(name));
            wanted.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
        };
        Ok(Some(Counters {
            requests: sum(&|name| name == "zk_packets_received") - self.asked.get(),
            events: sum(&|name| name.starts_with("zk_sum_node_") && name.ends_with("_watch_count")),
            // The upper half is the number of the election, which preceded the first count.
            transactions: u64::from_str_radix(zxid.ok_or("no zxid")?, 16)?,
            syncs: sum(&|name| name == "zk_cnt_fsynctime"),
        }))
    }

    /// Returns a function that counts the holders and waiters of the lock at a path, over a new
    /// connection.
    pub(crate) fn queue_at<'a>(&'a self, kind: Kind, path: &'a str) -> Outcome<Count<'a>> {
        let address = self.address(kind)?.ok_or("the server does not run")?;
        Ok(match kind {
            Kind::ZooKeeper => {
                let probe = Probe::connect(&address)?;
                Box::new(move || {
                    self.asked.set(self.asked.get() + 1);
                    Ok(probe.children(path)?.len())
                })
            }
            Kind::Redis => return Err("Redis has no queue".into()),
            Kind::Etcd => {
                let mut gateway = Gateway::connect(&address)?;
                Box::new(move || gateway.contenders(path))
            }
        })
    }

    /// Returns the server to which the clients connect.
    fn zookeeper(&self) -> Outcome<&Server> {
        if self.zookeeper.get().is_none() {
            let _ = self.zookeeper.set(ZooKeeper::start(self.ensemble)?);
        }
        match self.zookeeper.get().ok_or("no ZooKeeper")? {
            ZooKeeper::Single(server) => Ok(server),
            ZooKeeper::Ensemble(ensemble, follower) => Ok(ensemble.server(*follower)),
        }
    }
}

impl ZooKeeper {
    fn start(ensemble: bool) -> Outcome<ZooKeeper> {
        if !ensemble {
            let server = Server::builder().force_sync(true).tick(ZOOKEEPER_TICK);
            let server = server.jvm_flag(ZOOKEEPER_HEAP).jvm_flag(ZOOKEEPER_COMPILER);
            return Ok(ZooKeeper::Single(Box::new(server.start()?)));
        }
        let servers = Ensemble::builder(3).force_sync(true).tick(ZOOKEEPER_TICK);
        let servers = servers.jvm_flag(ZOOKEEPER_HEAP).jvm_flag(ZOOKEEPER_COMPILER);
        let ensemble = servers.start()?;
        let follower = *ensemble.followers()?.first().ok_or("no follower")?;
        Ok(ZooKeeper::Ensemble(ensemble, follower))
    }
}

fn get_or_start(
    cell: &OnceCell<Option<Service>>,
    start: fn() -> Outcome<Option<Service>>,
) -> Outcome<&Option<Service>> {
    if cell.get().is_none() {
        let _ = cell.set(start()?);
    }
    cell.get().ok_or_else(|| "no server".into())
}

/// Ends the server at the end of its standard input, which happens at any end of this process.
const WRAPPER: &str = r#"
exec 3<&0
"$@" 3<&- </dev/null &
server=$!
(read -r _ <&3; kill -9 "$server") &
watcher=$!
exec 3<&-
wait "$server"
kill "$watcher"
"#;

/// A server process. Dropping this kills it.
struct Service {
    address: SocketAddr,
    wrapper: Child,
    _folder: TempDir,
}

impl Drop for Service {
    fn drop(&mut self) {
        // Close its input first.
        let _ = self.wrapper.wait();
    }
}

fn start_redis() -> Outcome<Option<Service>> {
    start("redis-server", b"PING\r\n", "+PONG", |folder, [port, _]| {
        let port = port.to_string();
        let bind = ["--bind", "127.0.0.1", "--port", &port, "--dir", folder];
        let keep = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
        bind.into_iter().chain(keep).map(str::to_owned).collect()
    })
}

fn start_etcd() -> Outcome<Option<Service>> {
    let health = b"GET /health HTTP/1.0\r\n\r\n";
    start("etcd", health, "\"health\":\"true\"", |folder, ports| {
        let [clients, members] = ports.map(|port| format!("http://127.0.0.1:{port}"));
        let options = [
            ("data-dir", format!("{folder}/data")),
            ("listen-client-urls", clients.clone()),
            ("advertise-client-urls", clients),
            ("listen-peer-urls", members.clone()),
            ("initial-advertise-peer-urls", members.clone()),
            ("initial-cluster", format!("default={members}")),
        ];
        options.map(|(name, value)| format!("--{name}={value}")).to_vec()
    })
}

/// Starts a program, with the arguments for a directory and two ports, and waits until it answers.
/// Returns `None` if it is not installed.
fn start(
    program: &str,
    question: &[u8],
    answer: &str,
    arguments: impl Fn(&str, [u16; 2]) -> Vec<String>,
) -> Outcome<Option<Service>> {
    if !is_installed(program) {
        return Ok(None);
    }
    let folder = tempfile::Builder::new().prefix("zoolock-bench-").tempdir()?;
    let ports = free_ports()?;
    let log_file = folder.path().join("log");
    let log = File::create(&log_file)?;
    let wrapper = Command::new("/bin/sh")
        .args(["-c", WRAPPER, "sh", program])
        .args(arguments(&folder.path().to_string_lossy(), ports))
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    let mut service = Service {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, ports[0])),
        wrapper,
        _folder: folder,
    };
    let mut ended = false;
    wait_until(&format!("{program} answers"), SOON, || {
        ended = !matches!(service.wrapper.try_wait(), Ok(None));
        ended || answers(service.address, question, answer)
    });
    if ended {
        let log = fs::read_to_string(log_file)?;
        return Err(format!("{program} has ended; its log:\n{log}").into());
    }
    Ok(Some(service))
}

fn answers(address: SocketAddr, question: &[u8], answer: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(question)?;
        let mut said = Vec::new();
        // Redis keeps the connection open, so this takes what it has received by then.
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            said.extend_from_slice(&buffer[..count]);
            if String::from_utf8_lossy(&said).contains(answer) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    ask().unwrap_or(false)
}

/// Returns two ports that were free a moment ago.
fn free_ports() -> std::io::Result<[u16; 2]> {
    let any = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (first, second) = (any()?, any()?);
    Ok([first.local_addr()?.port(), second.local_addr()?.port()])
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
