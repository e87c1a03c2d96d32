//! The path of a message when nothing goes wrong.

#![allow(
    clippy::single_range_in_vec_init,
    reason = "results are lists of ranges"
)]

mod support;

use sluicegate_core::Message;
use sluicegate_engine::{Event, ProtocolFault, Results, ScopeOptions};
use support::*;

#[tokio::test(start_paused = true)]
async fn what_is_published_is_confirmed_and_its_scope_is_done() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    stream
        .publish(1, "orders", messages(["a", "b"]), 100)
        .unwrap();
    let batch = asked.recv().await.unwrap();
    assert_eq!(batch.bodies(), ["a", "b"]);
    assert_eq!(&*batch.batch.destination, "orders");
    assert_eq!(batch.batch.address, 7);
    assert_eq!(batch.batch.body_bytes, 2);
    assert_eq!(engine.stats().in_flight_messages, 2);
    batch.confirm();
    stream.finish();
    assert_eq!(
        all(&stream).await,
        [
            Event::Results(Results {
                scope: 1,
                confirmed: vec![0..2],
                ..Results::default()
            }),
            done(1, 2, 0, 0),
        ]
    );
    let stats = engine.stats();
    assert_eq!((stats.accepted, stats.confirmed), (2, 2));
    assert_eq!((stats.held_bytes, stats.queued_messages), (0, 0));
    drop(stream);
    assert_eq!((engine.stats().streams, engine.stats().scopes), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn rows_gather_while_no_window_slot_is_free_across_scopes_and_streams() {
    let (engine, mut asked) = standard();
    let first = engine.open_stream().unwrap();
    let second = engine.open_stream().unwrap();
    for stream in [&first, &second] {
        stream.open_scope(1, ScopeOptions::default()).unwrap();
    }
    first.publish(1, "orders", messages(["a"]), 1).unwrap();
    let batch = asked.recv().await.unwrap();
    // The slot is taken: these wait for each other.
    first.publish(1, "orders", messages(["b"]), 1).unwrap();
    second
        .publish(1, "orders", messages(["c", "d"]), 1)
        .unwrap();
    first.publish(1, "orders", messages(["e"]), 1).unwrap();
    assert!(asked.try_recv().is_err());
    batch.confirm();
    let batch = asked.recv().await.unwrap();
    assert_eq!(batch.bodies(), ["b", "e", "c", "d"]);
    batch.confirm();
    first.finish();
    second.finish();
    assert_eq!(all(&first).await.last(), Some(&done(1, 3, 0, 0)));
    assert_eq!(all(&second).await.last(), Some(&done(1, 2, 0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_flush_is_answered_after_the_results_of_the_rows_before_it() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    stream.publish(1, "orders", messages(["a"]), 1).unwrap();
    stream.flush(1, 9).unwrap();
    stream.close_scope(1).unwrap();
    asked.recv().await.unwrap().confirm();
    stream.finish();
    let events = all(&stream).await;
    assert!(matches!(&events[0], Event::Results(results) if results.confirmed == [0..1]));
    assert_eq!(
        events[1..],
        [Event::Flushed { scope: 1, token: 9 }, done(1, 1, 0, 0)]
    );
}

#[tokio::test(start_paused = true)]
async fn receipts_come_only_to_scopes_that_want_them() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    let wants = ScopeOptions {
        receipts: true,
        ..ScopeOptions::default()
    };
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    stream.open_scope(2, wants).unwrap();
    stream.publish(1, "orders", messages(["first"]), 1).unwrap();
    let first = asked.recv().await.unwrap();
    assert!(!first.batch.receipts);
    stream.publish(1, "orders", messages(["a"]), 1).unwrap();
    stream.publish(2, "orders", messages(["b"]), 1).unwrap();
    first.confirm();
    let second = asked.recv().await.unwrap();
    assert!(second.batch.receipts);
    second
        .replies
        .confirmed(0..2, vec!["r0".into(), "r1".into()]);
    drop(second);
    stream.finish();
    let receipts: Vec<_> = all(&stream)
        .await
        .into_iter()
        .filter_map(|event| match event {
            Event::Results(results) => Some((results.scope, results.receipts)),
            _ => None,
        })
        .filter(|(_, receipts)| !receipts.is_empty())
        .collect();
    assert_eq!(receipts, [(2, vec![(0, "r1".into())])]);
}

#[tokio::test(start_paused = true)]
async fn batches_keep_to_the_limits_of_their_destination() {
    let mut found = opened();
    found.limits.batch_messages = 3;
    found.limits.batch_bytes = 10;
    let (engine, mut asked) = engine_that_opens(config(policy(), 9, limits()), vec![Ok(found)]);
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    let bodies = ["aaaa", "bbbb", "cccc", "d", "e", "f", "g"];
    stream.publish(1, "orders", messages(bodies), 1).unwrap();
    for expected in [vec!["aaaa", "bbbb"], vec!["cccc", "d", "e"], vec!["f", "g"]] {
        let batch = asked.recv().await.unwrap();
        assert_eq!(batch.bodies(), expected);
        batch.confirm();
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_without_batching_sends_each_message_as_a_batch_of_its_own() {
    let (engine, mut asked) = engine(config(policy(), 9, limits()));
    let stream = engine.open_stream().unwrap();
    let options = ScopeOptions {
        batching: false,
        ..ScopeOptions::default()
    };
    stream.open_scope(1, options).unwrap();
    stream
        .publish(1, "orders", messages(["a", "b", "c"]), 1)
        .unwrap();
    for expected in ["a", "b", "c"] {
        assert_eq!(asked.recv().await.unwrap().bodies(), [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_without_deferred_confirmation_has_one_batch_in_flight() {
    let (engine, mut asked) = engine(config(policy(), 9, limits()));
    let stream = engine.open_stream().unwrap();
    let options = ScopeOptions {
        batching: false,
        deferred_confirmation: false,
        ..ScopeOptions::default()
    };
    stream.open_scope(1, options).unwrap();
    stream.open_scope(2, ScopeOptions::default()).unwrap();
    stream
        .publish(1, "orders", messages(["a", "b"]), 1)
        .unwrap();
    let first = asked.recv().await.unwrap();
    assert_eq!(first.bodies(), ["a"]);
    // Other scopes go on.
    stream.publish(2, "orders", messages(["x"]), 1).unwrap();
    assert_eq!(asked.recv().await.unwrap().bodies(), ["x"]);
    assert!(asked.try_recv().is_err());
    first.confirm();
    assert_eq!(asked.recv().await.unwrap().bodies(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_large_scope_does_not_starve_a_small_one() {
    let mut found = opened();
    found.limits.batch_messages = 10;
    found.limits.batch_bytes = 1 << 20;
    let (engine, mut asked) = engine_that_opens(config(policy(), 1, limits()), vec![Ok(found)]);
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    stream.open_scope(2, ScopeOptions::default()).unwrap();
    let large: Vec<Message> = (0..40).map(|_| Message::new(vec![b'l'; 8_000])).collect();
    stream.publish(1, "orders", large, 1).unwrap();
    stream.publish(2, "orders", messages(["s"]), 1).unwrap();
    let batch = asked.recv().await.unwrap();
    assert!(
        batch.bodies().contains(&"s".to_owned()),
        "the small one is in the first batch"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_protocol_does_not_allow_is_refused_by_name() {
    let (engine, _asked) = standard();
    let stream = engine.open_stream().unwrap();
    let publish = |scope| stream.publish(scope, "orders", messages(["a"]), 1);
    assert_eq!(publish(5), Err(ProtocolFault::NoSuchScope(5)));
    stream.open_scope(5, ScopeOptions::default()).unwrap();
    publish(5).unwrap();
    stream.close_scope(5).unwrap();
    assert_eq!(publish(5), Err(ProtocolFault::ScopeClosed(5)));
    assert_eq!(stream.flush(5, 1), Err(ProtocolFault::ScopeClosed(5)));
    let reused = stream.open_scope(5, ScopeOptions::default());
    assert_eq!(reused, Err(ProtocolFault::ScopeReused(5)));
    for id in 6..16 {
        stream.open_scope(id, ScopeOptions::default()).unwrap();
    }
    let more = stream.open_scope(16, ScopeOptions::default());
    assert_eq!(more, Err(ProtocolFault::TooManyScopes(10)));
}
