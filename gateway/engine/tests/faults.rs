//! What a broker may answer, and what follows from it.

#![allow(
    clippy::single_range_in_vec_init,
    clippy::reversed_empty_ranges,
    reason = "results are lists of ranges, and an adapter may give any"
)]

mod support;

use std::time::Duration;

use sluicegate_core::{Deduplication, Failure, FailureClass, Message, Opened, Order};
use sluicegate_engine::{Event, Policy, Results, ScopeOptions, Stream};
use support::*;

fn retryable() -> Failure {
    Failure::retryable(FailureClass::Throttled, "try later")
}

fn fatal() -> Failure {
    Failure::fatal(FailureClass::Rejected, "never")
}

#[allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]
fn scope(stream: &Stream) {
    stream.open_scope(1, ScopeOptions::default()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unknown_destination_fails_its_rows_and_names_those_that_exist() {
    let (engine, _asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream.publish(1, "ordres", messages(["a"]), 1).unwrap();
    stream.publish(1, "", messages(["b"]), 1).unwrap();
    let results = results(&stream).await;
    let classes: Vec<_> = results
        .failed
        .iter()
        .map(|(row, f)| (*row, f.class))
        .collect();
    assert_eq!(
        classes,
        [(0, FailureClass::NotFound), (1, FailureClass::Invalid)]
    );
    let reason = &results.failed[0].1.reason;
    assert!(
        reason.contains("ordres") && reason.contains("orders.*"),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_destination_with_an_endless_name_is_refused_and_the_name_is_not_kept() {
    let (engine, _asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    let name = format!("orders.{}", "x".repeat(1_000_000));
    stream.publish(1, &name, messages(["a"]), 1).unwrap();
    let results = results(&stream).await;
    let why = &results.failed[0].1;
    assert_eq!(why.class, FailureClass::Invalid);
    assert!(why.reason.contains("1000007 bytes"), "{}", why.reason);
    assert!(why.reason.len() < 500, "{}", why.reason.len());
    assert_eq!(engine.stats().lanes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_a_pattern_matched_is_not_told_to_others() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    let rows = messages(["a"]);
    stream.publish(1, "orders.of-somebody", rows, 1).unwrap();
    asked.recv().await.unwrap().confirm();
    assert_eq!(engine.stats().lanes, 1);
    let known = engine.destinations();
    assert!(known.iter().any(|d| d.name == "orders.*"));
    assert!(known.iter().all(|d| d.name != "orders.of-somebody"));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_its_destination_cannot_take_harms_no_other() {
    let mut found = opened();
    found.limits.body_bytes = 3;
    let (engine, mut asked) = engine_that_opens(config(policy(), 1, limits()), vec![Ok(found)]);
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream
        .publish(1, "orders", messages(["a", "long", "b"]), 1)
        .unwrap();
    let batch = asked.recv().await.unwrap();
    assert_eq!(batch.bodies(), ["a", "b"]);
    batch.confirm();
    stream.finish();
    let events = all(&stream).await;
    let Event::Results(results) = &events[0] else {
        panic!("{events:?}");
    };
    assert_eq!(results.failed[0].0, 1);
    assert_eq!(results.failed[0].1.class, FailureClass::TooLarge);
    assert_eq!(events.last(), Some(&done(1, 2, 1, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_retryable_row_is_sent_again_after_its_backoff_and_at_last_fails() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream
        .publish(1, "orders", messages(["a", "b"]), 1)
        .unwrap();
    let first = asked.recv().await.unwrap();
    first.replies.sent();
    first.replies.confirmed(0..1, Vec::new());
    first.replies.failed(1..2, retryable());
    drop(first);
    for attempts in 1..3 {
        let again = asked.recv().await.unwrap();
        assert_eq!(again.bodies(), ["b"]);
        assert_eq!(again.batch.rows[0].attempts, attempts);
        again.replies.failed(0..1, retryable());
    }
    stream.finish();
    let events = all(&stream).await;
    let failed = events.iter().find_map(|event| match event {
        Event::Results(results) => results.failed.first(),
        _ => None,
    });
    let (row, failure) = failed.unwrap();
    assert_eq!((*row, failure.attempts, failure.retryable), (1, 3, true));
    assert_eq!(events.last(), Some(&done(1, 1, 1, 0)));
    assert_eq!(engine.stats().retries, 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_failed_is_a_batch_again() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    let bodies: Vec<String> = (0..50).map(|n| format!("{n:02}")).collect();
    let rows = bodies.iter().map(|body| Message::new(body.clone()));
    stream.publish(1, "orders", rows.collect(), 1).unwrap();
    let first = asked.recv().await.unwrap();
    first.replies.failed(first.rows(), retryable());
    drop(first);
    let again = asked.recv().await.unwrap();
    assert_eq!(again.bodies(), bodies);
}

#[tokio::test(start_paused = true)]
async fn later_rows_of_a_key_wait_behind_one_that_is_sent_again() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    let publish = |rows| stream.publish(1, "orders", rows, 1).unwrap();
    publish(vec![keyed("k", "a1"), keyed("j", "b1")]);
    let first = asked.recv().await.unwrap();
    publish(vec![keyed("k", "a2"), keyed("j", "b2")]);
    first.replies.sent();
    first.replies.failed(0..1, retryable());
    first.replies.confirmed(1..2, Vec::new());
    drop(first);
    // The other key goes on.
    let second = asked.recv().await.unwrap();
    assert_eq!(second.bodies(), ["b2"]);
    second.confirm();
    let third = asked.recv().await.unwrap();
    assert_eq!(third.bodies(), ["a1", "a2"]);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_a_later_one_of_its_key_has_overtaken_fails_out_of_order() {
    let (engine, mut asked) = engine(config(policy(), 2, limits()));
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream
        .publish(1, "orders", vec![keyed("k", "a1")], 1)
        .unwrap();
    let first = asked.recv().await.unwrap();
    stream
        .publish(1, "orders", vec![keyed("k", "a2")], 1)
        .unwrap();
    let second = asked.recv().await.unwrap();
    second.confirm();
    first.replies.failed(0..1, retryable());
    drop(first);
    stream.finish();
    let events = all(&stream).await;
    let Event::Results(results) = &events[0] else {
        panic!("{events:?}");
    };
    assert_eq!(results.confirmed, [1..2]);
    assert_eq!(results.failed[0].1.class, FailureClass::OutOfOrder);
    assert!(results.failed[0].1.reason.contains("try later"));
}

#[tokio::test(start_paused = true)]
async fn without_order_an_overtaken_row_is_sent_again() {
    let free = Policy {
        order: Order::None,
        ..policy()
    };
    let (engine, mut asked) = engine(config(free, 2, limits()));
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream
        .publish(1, "orders", vec![keyed("k", "a1")], 1)
        .unwrap();
    let first = asked.recv().await.unwrap();
    stream
        .publish(1, "orders", vec![keyed("k", "a2")], 1)
        .unwrap();
    asked.recv().await.unwrap().confirm();
    first.replies.failed(0..1, retryable());
    drop(first);
    assert_eq!(asked.recv().await.unwrap().bodies(), ["a1"]);
}

#[tokio::test(start_paused = true)]
async fn poison_is_found_by_halves_and_its_neighbours_go_on() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream
        .publish(1, "orders", messages(["a", "b", "POISON", "d", "e"]), 1)
        .unwrap();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let batch = asked.recv().await.unwrap();
        seen.push(batch.bodies().concat());
        if batch.bodies().contains(&"POISON".to_owned()) {
            batch.replies.isolate(batch.rows(), fatal());
        } else {
            batch.confirm();
        }
    }
    assert_eq!(seen, ["abPOISONde", "abPOISON", "ab", "POISON", "de"]);
    stream.finish();
    assert_eq!(all(&stream).await.last(), Some(&done(1, 4, 1, 0)));
}

#[tokio::test(start_paused = true)]
async fn rows_without_a_verdict_are_unknown_if_something_was_sent_and_sent_again_if_not() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream.publish(1, "orders", messages(["a"]), 1).unwrap();
    drop(asked.recv().await.unwrap());
    let again = asked.recv().await.unwrap();
    assert_eq!(again.bodies(), ["a"]);
    again.replies.sent();
    drop(again);
    stream.finish();
    let events = all(&stream).await;
    assert_eq!(events.last(), Some(&done(1, 0, 0, 1)));
    assert!(asked.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_unknown_is_sent_again_where_ids_are_recognised() {
    let found = Opened {
        capabilities: sluicegate_core::Capabilities {
            deduplication: Deduplication::MessageId,
            ..opened().capabilities
        },
        ..opened()
    };
    let (engine, mut asked) = engine_that_opens(config(policy(), 1, limits()), vec![Ok(found)]);
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    let message = Message {
        extra: Some(Box::new(sluicegate_core::Extra {
            id: Some("1".into()),
            ..Default::default()
        })),
        ..Message::new("a")
    };
    stream.publish(1, "orders", vec![message], 1).unwrap();
    let first = asked.recv().await.unwrap();
    first.replies.unknown(0..1, retryable());
    drop(first);
    // The second attempt is refused, and the first may have been stored all the same.
    let second = asked.recv().await.unwrap();
    second.replies.failed(0..1, fatal());
    drop(second);
    stream.finish();
    assert_eq!(all(&stream).await.last(), Some(&done(1, 0, 0, 1)));
}

#[tokio::test(start_paused = true)]
async fn the_first_verdict_of_a_row_stands() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream
        .publish(1, "orders", messages(["a", "b"]), 1)
        .unwrap();
    let batch = asked.recv().await.unwrap();
    batch.replies.confirmed(0..1, Vec::new());
    batch.replies.failed(0..9, fatal());
    batch.replies.confirmed(5..3, Vec::new());
    drop(batch);
    stream.finish();
    assert_eq!(all(&stream).await.last(), Some(&done(1, 1, 1, 0)));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_in_time_fails_and_what_was_sent_is_unknown() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream.publish(1, "orders", messages(["sent"]), 1).unwrap();
    let stuck = asked.recv().await.unwrap();
    stream
        .publish(1, "orders", messages(["queued"]), 1)
        .unwrap();
    stream.finish();
    let events = all(&stream).await;
    assert_eq!(events.last(), Some(&done(1, 0, 1, 1)));
    let Event::Results(results) = &events[0] else {
        panic!("{events:?}");
    };
    let verdicts = results.failed.iter().chain(&results.unknown);
    assert!(
        verdicts
            .into_iter()
            .all(|(_, f)| f.class == FailureClass::Timeout)
    );
    // The late verdict is nobody's fault, and the slot is free again.
    stuck.confirm();
    assert_eq!(engine.stats().confirmed, 0);
}

#[tokio::test(start_paused = true)]
async fn an_abort_fails_what_is_unsent_at_once_and_lets_the_rest_settle() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream.publish(1, "orders", messages(["sent"]), 1).unwrap();
    let batch = asked.recv().await.unwrap();
    stream
        .publish(1, "orders", messages(["queued"]), 1)
        .unwrap();
    stream.abort_scope(1).unwrap();
    assert_eq!(
        results(&stream).await.failed[0].1.class,
        FailureClass::Aborted
    );
    assert_eq!(engine.stats().queued_messages, 0);
    batch.confirm();
    stream.finish();
    assert_eq!(all(&stream).await.last(), Some(&done(1, 1, 1, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_settles_and_leaves_nothing() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream
        .publish(1, "orders", messages(["a", "b"]), 1)
        .unwrap();
    let batch = asked.recv().await.unwrap();
    drop(stream);
    assert_eq!(engine.stats().streams, 1);
    batch.confirm();
    let stats = engine.stats();
    assert_eq!(
        (
            stats.confirmed,
            stats.streams,
            stats.scopes,
            stats.held_bytes
        ),
        (2, 0, 0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn rows_wait_while_their_destination_is_opened_again_and_fail_when_it_is_refused() {
    let refused = Failure::fatal(FailureClass::NotFound, "no such queue");
    let openings = vec![Err(retryable()), Ok(opened()), Err(refused.clone())];
    let (engine, mut asked) = engine_that_opens(config(policy(), 1, limits()), openings);
    assert_eq!(engine.open("orders").await, Err(retryable()));
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream.publish(1, "orders", messages(["a"]), 1).unwrap();
    let batch = asked.recv().await.unwrap();
    batch.replies.reopen();
    batch.confirm();
    stream.publish(1, "orders", messages(["b"]), 1).unwrap();
    stream.finish();
    let events = all(&stream).await;
    assert!(events.iter().any(|event| matches!(
        event,
        Event::Results(Results { failed, .. }) if failed.iter().any(|(row, why)| *row == 1 && *why == refused)
    )));
    assert_eq!(engine.destinations()[0].refusal, Some(refused));
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_cannot_be_opened_says_why_when_time_is_up() {
    let (engine, _asked) = engine_that_opens(config(policy(), 1, limits()), vec![Err(retryable())]);
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream.publish(1, "orders", messages(["a"]), 1).unwrap();
    let (_, failure) = &results(&stream).await.failed[0];
    assert_eq!(failure.class, FailureClass::Timeout);
    assert!(
        failure.reason.contains("30s") && failure.reason.contains("try later"),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_lane_is_forgotten() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    scope(&stream);
    stream.publish(1, "orders.1", messages(["a"]), 1).unwrap();
    asked.recv().await.unwrap().confirm();
    assert_eq!(engine.stats().lanes, 1);
    tokio::time::advance(Duration::from_secs(130)).await;
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert_eq!(engine.stats().lanes, 0);
}
