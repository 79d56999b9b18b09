//! The spans of a wait behind another client, of a failed call, and of a hold that is lost.

use zoolock::testing::Server;

use super::*;

#[test]
fn span_of_a_wait_begins_with_the_call_and_is_part_of_the_callers_span() {
    let (exporter, server) = (Exporter::default(), Server::start().expect("a server"));
    let tracer = tracer_to(&exporter);
    let builder = server.builder().observer(Spans(tracer.clone()));
    let (client, others) = (builder.connect().expect("one"), server.client().expect("one"));
    let options = LockOptions::new().name("one");
    let lock = DistributedLock::with_options(&client, "/locks/one", options).expect("a path");
    let rival = DistributedLock::new(&others, "/locks/one").expect("a path");

    let (limit, held) = (Duration::from_millis(50), rival.acquire().expect("held"));
    let called = SystemTime::now();
    let late = tracer.in_span("request", |_| lock.acquire_within(limit).expect("late"));
    assert!(late.is_none());
    held.release().expect("released");
    let held = lock.acquire().expect("held");
    server.delete(&held.hold()).expect("deleted");
    held.release().expect_err("its node is gone");

    // The client reports a loss on another thread.
    let soon = SystemTime::now() + Duration::from_secs(30);
    while exporter.spans().len() < 4 && SystemTime::now() < soon {
        thread::yield_now();
    }
    let spans = exporter.spans();
    let text = |span: &SpanData, key: &str| {
        let found = span.attributes.iter().find(|one| one.key.as_str() == key);
        found.map(|one| one.value.to_string()).unwrap_or_default()
    };
    let told: Vec<_> = spans
        .iter()
        .map(|span| (&*span.name, text(span, "outcome"), text(span, "queue")))
        .collect();
    println!("{told:?}");
    let [wait, request, _, hold] = &spans[..] else { panic!("{} spans", spans.len()) };
    assert_eq!(told[0], (WAIT, "timed_out".to_owned(), "1".to_owned()));
    assert_eq!(told[2], (WAIT, "acquired".to_owned(), "0".to_owned()));
    assert_eq!(told[3], (HOLD, "node_deleted".to_owned(), String::new()));
    assert_eq!(wait.parent_span_id, request.span_context.span_id());
    let waited = wait.end_time.duration_since(wait.start_time).expect("it ends later");
    assert!(wait.start_time >= called && waited >= limit, "{waited:?} from {:?}", wait.start_time);
    assert!(matches!(hold.status, Status::Error { .. }), "{:?}", hold.status);
    assert_eq!((text(wait, "kind"), text(wait, "name")), ("exclusive".into(), "one".into()));
}
