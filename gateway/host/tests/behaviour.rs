//! An adapter may do whatever it likes: it harms at most the rows that it was asked about.
//!
//! The guest is `tests/hostile`, built by the tests themselves and told by a setting what to do wrong.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod support;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate_core::{Batch, FailureClass, Message};
use sluicegate_host::{Adapter, ConnectError, Guest, Host, Options, Settlement, UNHEALTHY_AFTER};
use support::null::{Null0, open, send};
use tokio::sync::OnceCell;

/// A few ticks, so that a test of a guest that loops does not wait for a second.
const BUDGET: Duration = Duration::from_millis(50);

/// So little that a guest that hoards is stopped long before its budget ends, however slow the machine.
const MEMORY_BYTES: usize = 4 << 20;

async fn adapter() -> &'static Adapter {
    static ADAPTER: OnceCell<Adapter> = OnceCell::const_new();
    ADAPTER
        .get_or_init(async || {
            let options = Options {
                call_budget: BUDGET,
                memory_bytes: MEMORY_BYTES,
                ..Options::default()
            };
            // Gone before the first call: an adapter's ticks do not depend on it.
            let host = Host::new(&options).unwrap();
            let path = support::component("sluicegate-hostile");
            host.load(path).await.unwrap()
        })
        .await
}

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|&(key, value)| (key.into(), value.into()))
        .collect()
}

/// A connection whose adapter behaves so, with its destination open.
async fn guest(behaviour: &str) -> Guest<Null0> {
    let mut guest = connect(&[("behaviour", behaviour)]).await.unwrap();
    open(&mut guest).await.unwrap();
    guest
}

async fn connect(pairs: &[(&str, &str)]) -> Result<Guest<Null0>, ConnectError> {
    Guest::connect(adapter().await, "test", &settings(pairs)).await
}

/// A batch whose rows with these numbers are poison.
fn poisoned(rows: usize, poison: &[usize]) -> Batch {
    let message = |row| Message {
        key: Some(
            if poison.contains(&row) {
                "poison"
            } else {
                "fine"
            }
            .into(),
        ),
        ..Message::new("body")
    };
    support::batch_of((0..rows).map(message).collect())
}

/// What the engine does with `isolate`: it halves, left half first, until rows stand alone. Gives each row's
/// class of failure, or `None` where it was confirmed.
async fn bisected(guest: &mut Guest<Null0>, batch: &Batch) -> Vec<Option<FailureClass>> {
    let mut verdicts = vec![None; batch.rows.len()];
    let mut parts = Vec::new();
    parts.push(0..batch.rows.len());
    while let Some(part) = parts.pop() {
        let rows = batch.rows[part.clone()].to_vec();
        let half = Batch {
            rows,
            ..batch.clone()
        };
        for settlement in send(guest, &half).await {
            match settlement {
                Settlement::Confirmed(..) => {}
                Settlement::Isolate(_, failure) if part.len() == 1 => {
                    verdicts[part.start] = Some(failure.class);
                }
                Settlement::Isolate(rows, _) => {
                    let rows: Range<usize> =
                        part.start + rows.start as usize..part.start + rows.end as usize;
                    let middle = rows.start + rows.len() / 2;
                    parts.extend([middle..rows.end, rows.start..middle]);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    verdicts
}

// === plan ===

#[tokio::test]
async fn a_row_that_traps_fails_alone_and_its_neighbours_go_on() {
    let mut guest = guest("trap-on-poison").await;
    let batch = poisoned(1_000, &[0, 499, 999]);
    let verdicts = bisected(&mut guest, &batch).await;
    for (row, verdict) in verdicts.into_iter().enumerate() {
        let expected = [0, 499, 999]
            .contains(&row)
            .then_some(FailureClass::AdapterFault);
        assert_eq!(verdict, expected, "row {row}");
    }
    assert_eq!(
        guest.health().unhealthy(),
        None,
        "three rows are no illness"
    );
}

#[tokio::test]
async fn rows_that_a_plan_refuses_fail_and_the_others_are_sent() {
    let mut guest = guest("fail-poison").await;
    let settled = send(&mut guest, &poisoned(10, &[0, 5, 9])).await;
    let mut outcomes = [""; 10];
    for settlement in settled {
        let (rows, outcome) = match settlement {
            Settlement::Confirmed(rows, _) => (rows, "confirmed"),
            Settlement::Failed(rows, failure) => {
                assert_eq!(failure.class, FailureClass::Invalid);
                (rows, "failed")
            }
            other => panic!("{other:?}"),
        };
        outcomes[rows.start as usize..rows.end as usize].fill(outcome);
    }
    let failed: Vec<usize> = (0..10).filter(|&row| outcomes[row] == "failed").collect();
    assert_eq!(failed, [0, 5, 9]);
    assert_eq!(outcomes.iter().filter(|o| **o == "confirmed").count(), 7);
}

#[tokio::test]
async fn whatever_goes_wrong_in_plan_isolates_the_batch_since_nothing_was_sent() {
    for (behaviour, reason) in [
        ("trap-in-plan", "told to trap in plan"),
        ("loop-in-plan", "ran longer than its budget of 50ms"),
        ("allocate-in-plan", "an instance may have 4194304"),
        (
            "rows-beyond",
            "names rows 0 to 4 of a batch that has only 4",
        ),
        ("row-twice", "puts row 0 in two places"),
        ("row-missing", "leaves out row 0"),
    ] {
        let mut guest = guest(behaviour).await;
        let settled = send(&mut guest, &support::batch(4)).await;
        let [Settlement::Isolate(rows, failure)] = &settled[..] else {
            panic!("{behaviour}: {settled:?}");
        };
        assert_eq!(*rows, 0..4, "{behaviour}");
        assert_eq!(failure.class, FailureClass::AdapterFault, "{behaviour}");
        assert!(!failure.retryable, "{behaviour}");
        for part in [reason, "`hostile`"] {
            assert!(failure.reason.contains(part), "{behaviour}: {failure}");
        }
    }
}

#[tokio::test]
async fn a_guest_that_loops_lets_other_tasks_run() {
    let mut guest = guest("loop-in-plan").await;
    static TURNS: AtomicU32 = AtomicU32::new(0);
    // One thread: the other task gets its turn only if the guest gives the thread back.
    let other = tokio::spawn(async {
        loop {
            TURNS.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    send(&mut guest, &support::batch(1)).await;
    other.abort();
    assert_ne!(TURNS.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_call_that_is_given_up_half_way_leaves_a_guest_that_works() {
    let mut guest = guest("loop-in-plan").await;
    let batch = support::batch(1);
    {
        let mut sending = Box::pin(send(&mut guest, &batch));
        // The guest loops until its first tick, and then waits for its next turn, which never comes.
        assert!(is_pending(&mut sending).await);
    }
    let settled = send(&mut guest, &batch).await;
    assert!(
        matches!(&settled[..], [Settlement::Isolate(_, failure)] if failure.reason.contains("budget")),
        "{settled:?}"
    );
}

/// Polls once; whether it was pending.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
    })
    .await
}

// === settle ===

#[tokio::test]
async fn a_settle_that_traps_is_asked_again_on_a_fresh_instance() {
    let mut guest = guest("trap-in-settle-when-worn").await;
    let settled = send(&mut guest, &support::batch(4)).await;
    assert_eq!(settled, [Settlement::Confirmed(0..4, vec![])]);
    assert_eq!(guest.health().traps(), 1);
}

#[tokio::test]
async fn rows_whose_settle_fails_twice_or_contradicts_itself_are_unknown() {
    for (behaviour, reason) in [
        ("trap-in-settle", "`settle` trapped"),
        ("loop-in-settle", "ran longer than its budget"),
        ("two-verdicts", "gives two verdicts on row 0"),
        (
            "verdict-beyond",
            "gives a verdict on rows 0 to 4; it was asked about 0 to 3",
        ),
        ("no-verdict", "gave no verdict"),
    ] {
        let mut guest = guest(behaviour).await;
        let settled = send(&mut guest, &support::batch(4)).await;
        let [Settlement::Unknown(rows, failure)] = &settled[..] else {
            panic!("{behaviour}: {settled:?}");
        };
        assert_eq!(*rows, 0..4, "{behaviour}");
        assert_eq!(failure.class, FailureClass::AdapterFault, "{behaviour}");
        for part in [reason, "`hostile`", "`orders`"] {
            assert!(failure.reason.contains(part), "{behaviour}: {failure}");
        }
    }
}

#[tokio::test]
async fn rows_without_a_verdict_are_unknown_and_the_others_keep_theirs() {
    let mut guest = guest("half-a-verdict").await;
    let settled = send(&mut guest, &support::batch(4)).await;
    assert!(
        matches!(
            &settled[..],
            [
                Settlement::Confirmed(Range { start: 0, end: 2 }, _),
                Settlement::Unknown(Range { start: 2, end: 4 }, _)
            ]
        ),
        "{settled:?}"
    );
}

#[tokio::test]
async fn receipts_come_with_confirmations_when_the_batch_wants_them() {
    let mut guest = guest("good").await;
    let batch = Batch {
        receipts: true,
        ..support::batch(3)
    };
    let settled = send(&mut guest, &batch).await;
    let receipts = ["1", "2", "3"].map(Into::into).to_vec();
    assert_eq!(settled, [Settlement::Confirmed(0..3, receipts)]);
}

// === connecting, opening, health ===

#[tokio::test]
async fn an_adapter_that_refuses_its_settings_is_heard() {
    let error = connect(&[("behaviour", "refuse")]).await.unwrap_err();
    for part in ["`hostile`", "`test`", "do not write \"refuse\""] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn an_adapter_that_traps_in_configure_makes_no_connection() {
    let error = connect(&[("behaviour", "trap-in-configure")])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("`configure` trapped"), "{error}");
}

#[tokio::test]
async fn a_key_that_the_manifest_does_not_list_makes_no_connection() {
    let error = connect(&[("behavior", "good")]).await.unwrap_err();
    for part in ["`behavior`", "`behaviour`"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_secret_never_enters_an_adapter() {
    // The guest refuses to be configured if it sees one.
    connect(&[("password", "hunter2")]).await.unwrap();
}

#[tokio::test]
async fn what_an_adapter_says_about_a_destination_is_checked() {
    let mut guest = connect(&[]).await.unwrap();
    for (strange, class, reason) in [
        ("trap", FailureClass::AdapterFault, "`open` trapped"),
        ("refuse", FailureClass::NotFound, "no such place"),
        ("zero-limit", FailureClass::AdapterFault, "a limit of 0"),
    ] {
        let destination = guest
            .destination("orders", &settings(&[("strange", strange)]))
            .unwrap();
        let mut call = guest.enter().await.unwrap();
        let exports = call.bindings.sluicegate_adapter_null_driver();
        let found = exports.call_open(&mut call.store, &destination).await;
        let opened = guest
            .leave("open", call, found)
            .and_then(|found| guest.opened(&"orders".into(), found));
        let failure = opened.unwrap_err();
        assert_eq!(failure.class, class, "{failure}");
        assert!(failure.reason.contains(reason), "{failure}");
    }
    let unknown = guest.destination("orders", &settings(&[("stranger", "x")]));
    assert_eq!(unknown.unwrap_err().class, FailureClass::Invalid);
    open(&mut guest).await.unwrap();
}

#[tokio::test]
async fn a_batch_for_a_destination_that_is_not_open_asks_for_it_to_be_opened() {
    let mut guest = connect(&[]).await.unwrap();
    let planned = guest.plan(&support::batch(2)).await;
    assert!(planned.reopen && planned.commands.is_empty());
    let [Settlement::Failed(rows, failure)] = &planned.settled[..] else {
        panic!("{:?}", planned.settled);
    };
    assert_eq!(
        (rows.clone(), failure.class),
        (0..2, FailureClass::Unavailable)
    );
    assert!(failure.retryable);
}

#[tokio::test]
async fn a_connection_whose_adapter_keeps_trapping_is_unhealthy_and_says_why() {
    let mut guest = guest("trap-in-plan").await;
    let health = guest.health();
    for _ in 1..UNHEALTHY_AFTER {
        send(&mut guest, &support::batch(1)).await;
    }
    assert_eq!(health.unhealthy(), None);
    send(&mut guest, &support::batch(1)).await;
    let why = health.unhealthy().unwrap();
    assert!(why.contains("`plan` trapped"), "{why}");
}

#[tokio::test]
async fn an_adapter_that_talks_without_end_still_does_its_work() {
    let mut guest = guest("chatty").await;
    let settled = send(&mut guest, &support::batch(2)).await;
    assert_eq!(settled, [Settlement::Confirmed(0..2, vec![])]);
}
