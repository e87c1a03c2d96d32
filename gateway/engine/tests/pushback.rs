//! Nothing is unbounded: who fills a queue waits, and who waits goes on.

mod support;

use std::time::Duration;

use futures_poll::is_ready;
use sluicegate_core::{Extra, Failure, FailureClass, Message};
use sluicegate_engine::{ClientLimits, Event, Memory, ProtocolFault, ScopeOptions};
use support::*;

mod futures_poll {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// Whether a future is ready now.
    pub(crate) fn is_ready(future: impl Future<Output = ()>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        matches!(pin!(future).poll(&mut context), Poll::Ready(()))
    }
}

fn many(count: usize) -> Vec<Message> {
    (0..count).map(|_| Message::new("m")).collect()
}

#[tokio::test(start_paused = true)]
async fn one_destination_may_hold_half_of_the_credit_and_all_together_all_of_it() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    stream.publish(1, "orders", many(500), 1).unwrap();
    assert!(is_ready(stream.ready(0)));
    stream.publish(1, "orders", many(1), 1).unwrap();
    assert!(!is_ready(stream.ready(0)));
    // Rows settle, and the stream may read on.
    asked.recv().await.unwrap().confirm();
    stream.ready(0).await;
    for destination in ["orders.1", "orders.2"] {
        stream.publish(1, destination, many(300), 1).unwrap();
    }
    assert!(!is_ready(stream.ready(0)), "1,001 rows are unsettled");
}

#[tokio::test(start_paused = true)]
async fn credit_comes_back_when_rows_settle() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    stream.publish(1, "orders", many(3), 70).unwrap();
    asked.recv().await.unwrap().confirm();
    let mut events = Vec::new();
    assert!(stream.events(&mut events, 1 << 16).await);
    assert_eq!(
        events.last(),
        Some(&Event::Credit {
            messages: 3,
            bytes: 70
        })
    );
}

#[tokio::test(start_paused = true)]
async fn the_memory_of_all_streams_is_bounded_and_its_release_wakes_them() {
    let tight = ClientLimits {
        total_bytes: 1_000,
        ..limits()
    };
    let (engine, mut asked) = engine(config(policy(), 1, tight));
    let first = engine.open_stream().unwrap();
    let second = engine.open_stream().unwrap();
    first.open_scope(1, ScopeOptions::default()).unwrap();
    assert!(is_ready(second.ready(0)));
    first.publish(1, "orders", many(1), 2_000).unwrap();
    assert!(!is_ready(second.ready(0)));
    let batch = asked.recv().await.unwrap();
    let waiting = async {
        first.ready(0).await;
        second.ready(0).await;
    };
    let confirming = async { batch.confirm() };
    tokio::join!(waiting, confirming);
    assert_eq!(engine.stats().held_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_frame_is_charged_from_before_it_is_read() {
    let tight = ClientLimits {
        total_bytes: 1_000,
        ..limits()
    };
    let (engine, mut asked) = engine(config(policy(), 1, tight));
    let held = || engine.stats().held_bytes;
    let first = engine.open_stream().unwrap();
    let second = engine.open_stream().unwrap();
    let third = engine.open_stream().unwrap();
    first.open_scope(1, ScopeOptions::default()).unwrap();
    assert!(is_ready(first.ready(900)));
    // What exceeds the limit is one frame, whatever its size.
    assert!(is_ready(second.ready(5_000)));
    assert!(!is_ready(third.ready(1)));
    assert_eq!(held(), 5_900);

    // A client that leaves in the middle of its frame gives back what was kept for it.
    let leaving = async { drop(second) };
    tokio::join!(third.ready(10), leaving);
    assert_eq!(held(), 910);

    // A frame that was read is charged to its rows, and to nothing besides.
    first.publish(1, "orders", many(1), 900).unwrap();
    assert!((910..1_200).contains(&held()), "{}", held());
    third.open_scope(1, ScopeOptions::default()).unwrap();
    asked.recv().await.unwrap().confirm();
    assert_eq!(held(), 0);
}

#[tokio::test(start_paused = true)]
async fn headers_are_charged_to_the_memory_of_all_and_not_to_credit() {
    let tight = ClientLimits {
        total_bytes: 100_000,
        ..limits()
    };
    let (engine, mut asked) = engine(config(policy(), 1, tight));
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    let memory = Memory {
        frame: 70,
        extra: 100_000,
    };
    stream.publish(1, "orders", many(1), memory).unwrap();
    assert!(engine.stats().held_bytes > 100_000);
    assert!(!is_ready(stream.ready(0)));
    asked.recv().await.unwrap().confirm();
    stream.ready(0).await;
    assert_eq!(engine.stats().held_bytes, 0);
    let mut events = Vec::new();
    stream.events(&mut events, 1 << 16).await;
    assert_eq!(
        events.last(),
        Some(&Event::Credit {
            messages: 1,
            bytes: 70
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_refused_while_it_was_decoded_fails_and_its_neighbours_go_on() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    let refused = Message {
        extra: Some(Box::new(Extra {
            refused: Some(Box::new(Failure::fatal(FailureClass::TooLarge, "too much"))),
            ..Extra::default()
        })),
        ..Message::default()
    };
    let batch = vec![Message::new("a"), refused, Message::new("b")];
    stream.publish(1, "orders", batch, 1).unwrap();
    let batch = asked.recv().await.unwrap();
    assert_eq!(batch.bodies(), ["a", "b"]);
    batch.confirm();
    let results = results(&stream).await;
    assert_eq!(results.failed.len(), 1);
    let (row, why) = &results.failed[0];
    assert_eq!((*row, why.class), (1, FailureClass::TooLarge));
    assert_eq!(why.reason, "row 1 for \"orders\": too much");
}

#[tokio::test(start_paused = true)]
async fn a_frame_is_charged_until_the_last_of_its_rows_is_settled() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    stream.publish(1, "orders", many(2), 5_000).unwrap();
    let batch = asked.recv().await.unwrap();
    let held = engine.stats().held_bytes;
    batch.replies.confirmed(0..1, Vec::new());
    assert_eq!(engine.stats().held_bytes, held);
    batch.replies.confirmed(1..2, Vec::new());
    assert_eq!(engine.stats().held_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn results_left_unread_stop_the_stream_and_end_it_at_last() {
    let (engine, _asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    while is_ready(stream.ready(0)) {
        stream.publish(1, "nowhere", many(10), 1).unwrap();
    }
    // Reading some of it is progress, and starts the time anew.
    tokio::time::advance(Duration::from_secs(29)).await;
    let mut events = Vec::new();
    assert!(stream.events(&mut events, 100).await);
    assert!(!is_ready(stream.ready(0)));
    tokio::time::advance(Duration::from_secs(29)).await;
    assert!(!is_ready(stream.stalled()));
    stream.stalled().await;
    let mut events = Vec::new();
    assert!(stream.events(&mut events, 100).await);
    assert_eq!(events, [Event::Stalled]);
}

#[tokio::test(start_paused = true)]
async fn confirmations_left_unread_cost_a_range() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    for _ in 0..1_000 {
        stream.ready(0).await;
        stream.publish(1, "orders", many(10), 10).unwrap();
        asked.recv().await.unwrap().confirm();
    }
    let results = results(&stream).await;
    assert_eq!(results.confirmed.len(), 1);
    assert_eq!(results.confirmed[0], 0..10_000);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_drains_takes_nothing_new_and_settles_what_it_has() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    stream.publish(1, "orders", many(1), 1).unwrap();
    let batch = asked.recv().await.unwrap();
    engine.drain(Duration::from_secs(5));
    assert!(engine.open_stream().is_err());
    let refused = stream.open_scope(2, ScopeOptions::default());
    assert_eq!(refused, Err(ProtocolFault::Draining));
    let mut events = Vec::new();
    assert!(stream.events(&mut events, 100).await);
    let deadline = Duration::from_secs(5);
    assert_eq!(events, [Event::Draining { deadline }]);
    assert!(!is_ready(engine.drained()));
    let confirming = async { batch.confirm() };
    tokio::join!(engine.drained(), confirming);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_gives_up_settles_everything_and_takes_nothing_more() {
    let (engine, mut asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    // One batch is handed over, a failed row waits for its next attempt, others wait for the window.
    stream.publish(1, "orders", many(2), 1).unwrap();
    let batch = asked.recv().await.unwrap();
    batch.replies.sent();
    stream.publish(1, "orders", many(3), 1).unwrap();
    let failed = Failure::retryable(FailureClass::Throttled, "later");
    batch.replies.failed(0..1, failed);
    engine.drain(Duration::from_secs(5));
    engine.give_up();
    engine.drained().await;
    stream.publish(1, "orders", many(1), 1).unwrap_err();

    stream.finish();
    let events = all(&stream).await;
    let results = events.iter().filter_map(|event| match event {
        Event::Results(results) => Some(results),
        _ => None,
    });
    let (mut not_sent, mut unknown) = (Vec::new(), Vec::new());
    for results in results {
        not_sent.extend(results.failed.iter().map(|(row, why)| {
            assert!(why.retryable && why.class == FailureClass::Unavailable);
            *row
        }));
        unknown.extend(results.unknown.iter().map(|(row, _)| *row));
    }
    not_sent.sort_unstable();
    assert_eq!((not_sent, unknown), (vec![0, 2, 3, 4], vec![1]));
    assert_eq!(events.last(), Some(&done(1, 0, 4, 1)));

    // What the connection says afterwards changes nothing.
    batch.confirm();
    let stats = engine.stats();
    assert_eq!((stats.confirmed, stats.failed, stats.unknown), (0, 4, 1));
    assert_eq!((stats.held_bytes, stats.in_flight_messages), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn rows_linger_for_company_until_a_flush_or_the_end_of_the_linger() {
    let patient = sluicegate_engine::Policy {
        linger: Duration::from_millis(20),
        ..policy()
    };
    let (engine, mut asked) = engine(config(patient, 1, limits()));
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    engine.open("orders").await.unwrap();
    let start = tokio::time::Instant::now();
    stream.publish(1, "orders", many(1), 1).unwrap();
    stream.publish(1, "orders", many(1), 1).unwrap();
    let batch = asked.recv().await.unwrap();
    assert_eq!(batch.bodies().len(), 2);
    assert!(start.elapsed() >= Duration::from_millis(20));
    batch.confirm();
    let start = tokio::time::Instant::now();
    stream.publish(1, "orders", many(1), 1).unwrap();
    stream.flush(1, 1).unwrap();
    asked.recv().await.unwrap().confirm();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_failures_are_taken_in_pieces() {
    let (engine, _asked) = standard();
    let stream = engine.open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    stream.publish(1, "nowhere", many(10_000), 1).unwrap();
    stream.finish();
    let mut count = 0;
    loop {
        let mut events = Vec::new();
        let more = stream.events(&mut events, 4_096).await;
        for event in events {
            if let Event::Results(results) = event {
                let bytes: usize = results
                    .failed
                    .iter()
                    .map(|(_, f): &(u64, Failure)| f.bytes())
                    .sum();
                assert!(bytes <= 4_096);
                assert!(
                    results
                        .failed
                        .iter()
                        .all(|(_, f)| f.class == FailureClass::NotFound)
                );
                count += results.failed.len();
            }
        }
        if !more {
            break;
        }
    }
    assert_eq!(count, 10_000);
}
