//! Exports the metrics of a program's locks to Prometheus.
//!
//! ```text
//! cargo run -p prometheus
//! curl http://127.0.0.1:9184/metrics
//! ```
//!
//! Three workers acquire a lock with the name `invoices` alternately. The program serves the
//! metrics over HTTP. For this it installs a recorder and an observer, and reads the client's
//! counts at each scrape. At the end, the program scrapes itself and checks that the metrics match
//! the number of acquisitions. If `SERVE` is set to an address, it continues to serve there until
//! it is killed.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use zoolock::metrics::{MetricsObserver, record_client};
use zoolock::{Client, DistributedLock, LockOptions};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const WORKERS: usize = 3;
const TURNS: usize = 20;
/// Bounds of the histograms, in seconds. Without buckets, the exporter makes summaries, which
/// cannot be added up across processes.
const TIMES: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0];
const LENGTHS: [f64; 8] = [0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0, 1000.0];

fn main() -> Outcome<()> {
    // Install the recorder before the client exists: without one, the metrics are lost.
    let numbers = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &TIMES)?
        .set_buckets_for_metric(Matcher::Suffix("_length".to_owned()), &LENGTHS)?
        .install_recorder()?;

    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let client = Client::builder(servers).observer(MetricsObserver::new()).connect()?;

    let forever = std::env::var("SERVE").ok();
    let listener = TcpListener::bind(forever.as_deref().unwrap_or("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    println!("serving http://{address}/metrics");
    let watched = client.clone();
    let server = thread::spawn(move || serve(&listener, &watched, &numbers));

    thread::scope(|scope| {
        let works: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| work(&client))).collect();
        works.into_iter().try_for_each(|work| work.join().expect("a worker"))
    })?;

    let page = scrape(address)?;
    print!("{page}");
    let turns = WORKERS * TURNS;
    let labels = r#"{lock="exclusive",name="invoices",outcome="acquired"}"#;
    let expected = format!("zoolock_acquisitions_total{labels} {turns}");
    if !page.lines().any(|line| line == expected) {
        return Err(format!("there is no line {expected:?}").into());
    }
    println!("{turns} turns, all of them reported");
    if forever.is_some() {
        server.join().expect("the server");
    }
    Ok(client.close()?)
}

/// Acquires a lock again and again. Each worker has its own lock object, like a separate process.
fn work(client: &Client) -> zoolock::Result<()> {
    let options = LockOptions::new().name("invoices");
    let lock = DistributedLock::with_options(client, "/zoolock-examples/prometheus", options)?;
    for _ in 0..TURNS {
        let guard = lock.acquire()?;
        thread::sleep(Duration::from_millis(2));
        guard.release()?;
    }
    Ok(())
}

/// Answers one request after the other, whatever its path.
fn serve(listener: &TcpListener, client: &Client, numbers: &PrometheusHandle) {
    for stream in listener.incoming() {
        record_client(client);
        // A client that hangs up does not stop the server.
        let _ = stream.and_then(|stream| answer(stream, &numbers.render()));
    }
}

fn answer(mut stream: TcpStream, page: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut lines = BufReader::new(&stream).lines();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let length = page.len();
    let kind = "text/plain; version=0.0.4";
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n")?;
    write!(stream, "Content-Length: {length}\r\nConnection: close\r\n\r\n{page}")
}

/// Requests the page as Prometheus does.
fn scrape(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map_or(answer.clone(), |(_, page)| page.to_owned()))
}
