//! Exports OpenTelemetry spans: one for each wait for a lock, which begins with the call, and one
//! for each hold.
//!
//! ```text
//! cargo run -p opentelemetry_spans
//! ```
//!
//! Two workers take a lock with the name `invoices` alternately, each inside a span of its own. An
//! observer is called when a wait or a hold is over, and receives its duration. It can therefore
//! export spans that begin in the past. A wait belongs to the span in which the thread made the
//! call. The program prints all spans; a real one would send them with `opentelemetry-otlp`.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Span, Status, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, SpanData, SpanExporter};
use zoolock::observer::{CallOutcome, Called, Ended, HoldOutcome, Observer};
use zoolock::{Client, DistributedLock, LockKind, LockOptions};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const WORKERS: usize = 2;
const TURNS: usize = 3;

fn main() -> Result<()> {
    let printed = Exporter::default();
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let tracer = tracer_to(&printed);
    let client = Client::builder(servers).observer(Spans(tracer.clone())).connect()?;
    thread::scope(|scope| {
        let works: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| work(&client, &tracer))).collect();
        works.into_iter().try_for_each(|work| work.join().expect("a worker"))
    })?;
    client.close()?;
    let spans = printed.spans();
    for span in &spans {
        let took = span.end_time.duration_since(span.start_time)?;
        println!("{}, {took:.1?}, in {}: {:?}", span.name, span.parent_span_id, span.attributes);
    }
    let turns = WORKERS * TURNS;
    let count = |name: &str| spans.iter().filter(|span| span.name == name).count();
    if [count(WAIT), count(HOLD)] != [turns, turns] {
        return Err("a wait or a hold has no span".into());
    }
    println!("{turns} turns, each with the spans of its wait and its hold");
    Ok(())
}

/// Acquires a lock again and again, each time in a span of the program.
fn work(client: &Client, tracer: &SdkTracer) -> zoolock::Result<()> {
    let options = LockOptions::new().name("invoices");
    let lock = DistributedLock::with_options(client, "/zoolock-examples/opentelemetry", options)?;
    (0..TURNS).try_for_each(|_| {
        tracer.in_span("work", |_| {
            let guard = lock.acquire()?;
            thread::sleep(Duration::from_millis(2));
            guard.release()
        })
    })
}

const WAIT: &str = "wait for a lock";
const HOLD: &str = "hold of a lock";

/// An observer that exports a span of each wait and of each hold.
struct Spans(SdkTracer);

impl Spans {
    /// Exports a span that took this long and ends now.
    fn export(
        &self,
        span: &'static str,
        took: Duration,
        failure: Option<String>,
        attributes: impl IntoIterator<Item = KeyValue>,
    ) {
        let end = SystemTime::now();
        let builder = self.0.span_builder(span).with_start_time(end - took);
        let builder = builder.with_attributes(attributes);
        let mut span = builder.start_with_context(&self.0, &Context::current());
        failure.into_iter().for_each(|text| span.set_status(Status::error(text)));
        span.end_with_timestamp(end);
    }
}

fn attributes(lock: LockKind, name: &str, outcome: &'static str) -> [KeyValue; 3] {
    let kind = KeyValue::new("kind", lock.as_str());
    [kind, KeyValue::new("name", name.to_owned()), KeyValue::new("outcome", outcome)]
}

fn queue(ahead: Option<usize>) -> Option<KeyValue> {
    Some(KeyValue::new("queue", i64::try_from(ahead?).ok()?))
}

impl Observer for Spans {
    fn called(&self, call: &Called<'_>) {
        let failure = match call.outcome {
            CallOutcome::Failed(error) => Some(error.to_string()),
            _ => None,
        };
        let all = attributes(call.lock, call.name, call.outcome.as_str());
        self.export(WAIT, call.waited, failure, all.into_iter().chain(queue(call.queue)));
    }

    fn ended(&self, hold: &Ended<'_>) {
        let failure = match hold.outcome {
            HoldOutcome::Lost(reason) => Some(reason.to_string()),
            _ => None,
        };
        let all = attributes(hold.lock, hold.name, hold.outcome.as_str());
        self.export(HOLD, hold.held, failure, all);
    }
}

/// Keeps the spans; a real exporter sends them.
#[derive(Debug, Clone, Default)]
struct Exporter(Arc<Mutex<Vec<SpanData>>>);

impl Exporter {
    fn spans(&self) -> Vec<SpanData> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        Ok(())
    }
}

fn tracer_to(exporter: &Exporter) -> SdkTracer {
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone());
    provider.build().tracer("zoolock")
}
