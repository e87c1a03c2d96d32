use super::*;

fn range(first: u64, count: u64) -> v1::Results {
    v1::Results {
        confirmed: vec![v1::Range { first, count }],
        ..Default::default()
    }
}

fn failed(row: u64) -> v1::Results {
    v1::Results {
        failed: vec![v1::FailedRow { row, failure: None }],
        ..Default::default()
    }
}

struct Scope {
    rows: Rows,
    credit: Credit,
    answers: Answers,
}

impl Scope {
    fn new() -> Self {
        Self {
            rows: Rows::default(),
            credit: Credit::new(100, 1_000_000),
            answers: Answers::new(),
        }
    }

    fn publish(&mut self, destination: &str, rows: u64) {
        let destination = self.credit.destination(destination, 0);
        for _ in 0..rows {
            self.credit.spend(destination, 10);
        }
        self.rows.publish(destination, rows, rows * 10);
    }

    fn results(&mut self, results: v1::Results) {
        self.rows
            .results(results, &mut self.credit, &mut self.answers);
    }

    fn lose(&mut self) {
        let failure = Failure::from_protocol(None);
        self.rows.lose(&failure, &mut self.answers);
    }
}

#[test]
fn rows_without_a_verdict_are_unknown_when_the_stream_is_lost() {
    let mut scope = Scope::new();
    scope.publish("a", 10);
    scope.results(range(0, 3));
    scope.results(failed(5));
    scope.lose();
    let summary = scope.rows.summary();
    assert_eq!(
        (summary.confirmed, summary.failed, summary.unknown),
        (3, 1, 6)
    );
    let unknown: Vec<u64> = summary.unknowns.iter().map(|row| row.row).collect();
    assert_eq!(unknown, [3, 4, 6, 7, 8, 9]);
}

#[test]
fn a_second_verdict_of_a_row_counts_for_nothing() {
    let mut scope = Scope::new();
    scope.publish("a", 2);
    scope.results(range(0, 2));
    scope.results(failed(1));
    assert_eq!(
        (scope.rows.summary().confirmed, scope.rows.summary().failed),
        (2, 0)
    );
}

#[test]
fn verdicts_of_rows_that_were_never_published_count_for_nothing() {
    let mut scope = Scope::new();
    scope.publish("a", 2);
    scope.results(range(1, 50));
    scope.results(failed(9));
    let summary = scope.rows.summary();
    assert_eq!((summary.confirmed, summary.failed), (1, 0));
}

#[test]
fn credit_comes_back_to_the_destination_that_held_it() {
    let mut scope = Scope::new();
    scope.publish("a", 50);
    scope.publish("b", 1);
    let (a, b) = (
        scope.credit.destination("a", 0),
        scope.credit.destination("b", 0),
    );
    assert!(!scope.credit.allows(a));
    // The row of b settles: a's half is still taken.
    scope.results(range(50, 1));
    assert!(!scope.credit.allows(a));
    scope.results(range(7, 2));
    assert!(scope.credit.allows(a) && scope.credit.allows(b));
}

#[test]
fn each_verdicts_detail_is_handed_out_once() {
    let mut scope = Scope::new();
    scope.publish("a", 3);
    scope.results(failed(0));
    assert_eq!(scope.rows.take_verdicts().unwrap().failed.len(), 1);
    assert_eq!(scope.rows.take_verdicts(), None);
    scope.results(failed(2));
    let summary = scope.rows.summary();
    assert_eq!((summary.failed, summary.failures.len()), (2, 1));
}

#[test]
fn callers_are_answered_by_row_whatever_the_order() {
    let mut scope = Scope::new();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let (caller, answer) = oneshot::channel();
        scope.publish("a", 1);
        scope.rows.call(caller);
        waiting.push(answer);
    }
    scope.results(failed(2));
    scope.results(range(0, 2));
    scope.lose();
    for (caller, verdict) in scope.answers.drain(..) {
        caller.send(verdict).unwrap();
    }
    let verdicts: Vec<Verdict> = waiting
        .into_iter()
        .map(|mut answer| answer.try_recv().unwrap())
        .collect();
    assert!(verdicts[0].is_confirmed() && verdicts[1].is_confirmed());
    assert!(matches!(verdicts[2], Verdict::Failed(_)));
    assert!(matches!(verdicts[3], Verdict::Unknown(_)));
    assert!(scope.rows.take_verdicts().is_none());
}

#[test]
fn counts_that_differ_from_the_gateways_are_noticed() {
    let mut scope = Scope::new();
    scope.publish("a", 2);
    scope.results(range(0, 1));
    scope.rows.finish(v1::ScopeDone {
        scope: 1,
        confirmed: 2,
        failed: 0,
        unknown: 0,
    });
    let (gateway, own) = scope.rows.miscounted().unwrap();
    assert!(gateway.starts_with("2 confirmed") && own.starts_with("1 confirmed"));
}
