//! A cut at every place: before a request leaves, within it, before its answer, within that.

use zoolock_test_support::{Op, Rule, RuleBuilder, Then};
use zoolock_zookeeper::{ErrorKind, SessionEventKind};

use crate::util::{CALLS, SESSION, SOON, Stage, make_ephemeral, prepare};

type Cut = fn(RuleBuilder<'_>) -> Rule;

/// Where it is cut, and whether the server has got the request then.
const PLACES: [(&str, Cut, bool); 8] = [
    ("before the request", |rule| rule.drop_request(Then::Cut), false),
    ("within the length of the request", |rule| rule.tear_request(2), false),
    ("within the request", |rule| rule.tear_request(13), false),
    ("before the answer", |rule| rule.drop_answer(Then::Cut), true),
    ("within the length of the answer", |rule| rule.tear_answer(3), true),
    ("behind the length of the answer", |rule| rule.tear_answer(4), true),
    ("within the header of the answer", |rule| rule.tear_answer(11), true),
    ("before the last byte of the header of the answer", |rule| rule.tear_answer(19), true),
];

#[test]
fn a_call_that_is_cut_anywhere_says_so_and_the_session_goes_on() {
    let stage = Stage::new("everywhere", SESSION);
    let (id, probe) = (stage.client.session_id(), stage.probe());
    let ephemeral = make_ephemeral(&stage.client, &stage.path("ephemeral"));
    for call in &CALLS {
        for (number, (place, cut, has_request)) in PLACES.into_iter().enumerate() {
            let path = stage.path(&format!("{}-{number}", call.name));
            prepare(&probe, &path);
            let rule = cut(stage.proxy.on(call.op));
            let error = (call.call)(&stage.client, &path).unwrap_err();
            let is_done = call.is_done.map(|is_done| is_done(&probe, &path));
            println!("{} cut {place}: {error}; done: {is_done:?}", call.name);
            assert!(rule.fired());
            assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
            assert!(error.is_maybe_done());
            assert!(is_done.is_none_or(|is_done| is_done == has_request));
            // It is on the user to do it again, and the client does so on the next connection.
            assert!(stage.client.exists(&path).unwrap().is_some());
            assert_eq!(stage.client.session_id(), id);
        }
    }
    let cuts = CALLS.len() * PLACES.len();
    let turn = [SessionEventKind::Suspended, SessionEventKind::Resumed];
    assert_eq!(stage.told.kinds(), turn.repeat(cuts));
    assert_eq!(stage.probe().stat(&ephemeral).unwrap().unwrap().ephemeral_owner, id);
}

#[test]
fn the_end_of_a_long_answer_that_is_missing_is_a_cut_like_any_other() {
    let stage = Stage::new("long", SESSION);
    let data = vec![7; 500_000];
    stage.client.set_data(&stage.root, &data, None).unwrap();
    for bytes in [24, 1000, 65_536, 400_000, 4 + 16 + 4 + 500_000 + 68 - 1] {
        let rule = stage.proxy.on(Op::GetData).tear_answer(bytes);
        let error = stage.client.get_data(&stage.root).unwrap_err();
        println!("{bytes} bytes: {error}");
        assert!(rule.fired());
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
        assert!(stage.client.get_data(&stage.root).unwrap().0 == data);
    }
}

#[test]
fn all_that_are_in_flight_fail_at_once_and_those_that_were_answered_do_not() {
    let stage = Stage::new("in_flight", SESSION);
    let rule = stage.proxy.on(Op::Exists).nth(50).drop_answer(Then::Cut);
    let pending = stage
        .client
        .submit(|batch| (0..100).map(|_| batch.exists(&stage.root, None)).collect::<Vec<_>>());
    let results: Vec<_> = pending.into_iter().map(|pending| pending.wait()).collect();
    assert!(rule.fired());
    let answered = results.iter().take_while(|result| result.is_ok()).count();
    println!("{answered} were answered");
    assert_eq!(answered, 49);
    for result in &results[49..] {
        assert_eq!(result.as_ref().unwrap_err().kind(), ErrorKind::ConnectionLoss);
    }
    stage.told.until(SessionEventKind::Resumed);
}

#[test]
fn a_handshake_that_is_cut_anywhere_is_made_again() {
    let stage = Stage::new("handshake", SESSION);
    let id = stage.client.session_id();
    for (place, cut, _) in PLACES {
        let rule = cut(stage.proxy.on(Op::Connect));
        stage.proxy.cut();
        stage.told.until(SessionEventKind::Resumed);
        println!("cut {place}: resumed");
        assert!(rule.wait(SOON));
        assert!(stage.client.exists(&stage.root).unwrap().is_some());
    }
    assert_eq!(stage.client.session_id(), id);
    let turn = [SessionEventKind::Suspended, SessionEventKind::Resumed];
    assert_eq!(stage.told.kinds(), turn.repeat(PLACES.len()));
}

#[test]
fn watches_that_could_not_be_set_again_are_set_on_the_connection_after() {
    let stage = Stage::new("set_watches", SESSION);
    let (watcher, events) = zoolock_zookeeper::Watcher::channel();
    for (place, cut, _) in PLACES {
        stage.client.get_data_w(&stage.root, &watcher).unwrap();
        let rule = cut(stage.proxy.on(Op::SetWatches));
        stage.proxy.cut();
        assert!(rule.wait(SOON));
        stage.told.until(SessionEventKind::Resumed);
        stage.told.until(SessionEventKind::Resumed);
        stage.client.sync("/").unwrap();
        assert_eq!(events.len(), 0, "{place}");
        stage.probe().set(&stage.root, b"").unwrap();
        stage.client.sync("/").unwrap();
        println!("cut {place}: told {} times", events.len());
        assert_eq!(events.try_iter().count(), 1);
    }
}
