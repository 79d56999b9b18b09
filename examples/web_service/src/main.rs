//! A web service that takes a lock for each request. It shows how to handle many keys, names that
//! users choose, outages of ZooKeeper, readiness, metrics, and an orderly shutdown.
//!
//! ```text
//! cargo run -p web_service
//! curl -i -X POST http://127.0.0.1:8080/items/lamp/reserve
//! curl -i http://127.0.0.1:8081/health
//! curl http://127.0.0.1:8081/metrics
//! ```
//!
//! A pool of threads serves the [`items`]. `/health` and `/metrics` have a port and threads of
//! their own, so that neither load nor an outage delays them. `LISTEN` and `ADMIN` set the two
//! addresses. On SIGTERM the service stops accepting connections, answers the accepted ones, and
//! closes its client, which frees its locks at once. It can start without ZooKeeper, and is ready
//! once ZooKeeper can be reached.
//!
//! The program also contains a load generator ([`load`]) with which you can try this. Stop
//! ZooKeeper while it runs, or pause it with `kill -STOP` and continue it with `kill -CONT`:
//!
//! ```text
//! cargo run --release -p web_service -- load 30
//! ```
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

mod http;
mod items;
mod load;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::net::TcpListener;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use zoolock::{Client, ClientBuilder, ClientState};

use http::{Answer, Request, Server};
use items::Items;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const THREADS: usize = 8;
const ADMIN_THREADS: usize = 2;
/// How long a request waits for its lock, and with it a thread of the pool.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

struct Service {
    client: Client,
    items: Server,
    admin: Server,
}

impl Service {
    fn start(
        client: Client,
        longest_wait: Duration,
        listen: TcpListener,
        admin: TcpListener,
    ) -> Outcome<Service> {
        let (items, asked) = (Items::new(&client, longest_wait), client.clone());
        let items = Server::start(listen, THREADS, move |request| items.answer(request))?;
        let admin = Server::start(admin, ADMIN_THREADS, move |request| look(&asked, request))?;
        Ok(Service { client, items, admin })
    }

    /// Each step waits for the one before it: a closed client would fail the requests.
    fn shutdown(self) -> zoolock::Result<()> {
        self.items.shutdown();
        let closed = self.client.close();
        self.admin.shutdown();
        closed
    }
}

/// Answers without any request to ZooKeeper.
fn look(client: &Client, request: &Request) -> Answer {
    match (&*request.method, &*request.path, client.state()) {
        ("GET", "/health", ClientState::Connected) => Answer::new("200 OK", "Connected\n"),
        ("GET", "/health", state) => Answer::unavailable(format!("{state:?}\n")),
        ("GET", "/metrics", _) => {
            zoolock::metrics::record_client(client);
            Answer::new("200 OK", recorder().render())
        }
        _ => Answer::new("404 Not Found", "GET /health or /metrics\n"),
    }
}

/// Returns the recorder of this process. It must exist before the client does.
fn recorder() -> &'static metrics_exporter_prometheus::PrometheusHandle {
    use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
    static RECORDER: std::sync::OnceLock<PrometheusHandle> = std::sync::OnceLock::new();
    RECORDER.get_or_init(|| PrometheusBuilder::new().install_recorder().expect("the only recorder"))
}

fn connect(builder: ClientBuilder) -> zoolock::Result<Client> {
    recorder();
    let builder = builder.observer(zoolock::metrics::MetricsObserver::new());
    builder.connect_lazily()
}

fn run() -> Outcome<()> {
    let setting = |name, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let (listen, admin) = (setting("LISTEN", "127.0.0.1:8080"), setting("ADMIN", "127.0.0.1:8081"));
    match &std::env::args().skip(1).collect::<Vec<_>>()[..] {
        [] => {}
        [load, seconds] if load == "load" => return load::run(&listen, &admin, seconds.parse()?),
        _ => return Err("usage: web_service [load SECONDS]".into()),
    }
    // From here on a signal is kept until it is read.
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let servers = setting("ZOOKEEPER_CONNECT", "127.0.0.1:2181");
    let client = connect(Client::builder(&servers))?;
    let (listen, admin) = (TcpListener::bind(listen)?, TcpListener::bind(admin)?);
    let service = Service::start(client, LONGEST_WAIT, listen, admin)?;
    println!("items: http://{}/items", service.items.address());
    println!("admin: http://{}/health", service.admin.address());
    signals.forever().next();
    println!("shutting down");
    Ok(service.shutdown()?)
}

fn main() {
    if let Err(error) = run() {
        eprintln!("web_service: {error}");
        std::process::exit(1);
    }
}
