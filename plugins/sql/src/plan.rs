//! Rows to commands: one INSERT for the whole batch, unless some rows are refused.

use sluicegate_adapter::sql::{Column, Command, Insert, Planned, Source, SparseTexts, Value};
use sluicegate_adapter::{Batch, Failure, FailureClass, Rows, ranges};

use crate::address::{Address, Context};
use crate::headers;

pub(crate) fn plan(batch: &Batch) -> Planned {
    let Some(address) = Address::decode(&batch.address) else {
        let failure = Failure::fatal(
            FailureClass::AdapterFault,
            format!(
                "the destination `{}` was opened by another version of the adapter `sql`",
                batch.destination
            ),
        );
        return Planned {
            commands: vec![],
            failures: vec![failure.of(Rows::all(batch))],
        };
    };
    let (texts, failures) = headers::texts(batch);
    let refused = failures.iter().map(|failed| failed.rows.first);
    let commands = ranges(batch.count, refused)
        .map(|rows| Command {
            rows,
            insert: insert(batch, &address, within(&texts, rows)),
            context: Context::encode(batch, &address),
        })
        .collect();
    Planned { commands, failures }
}

fn insert(batch: &Batch, address: &Address<'_>, headers: SparseTexts) -> Insert {
    let now_ms = i64::try_from(batch.now_ms).unwrap_or(i64::MAX);
    let columns = [
        (
            address.queue_column,
            Source::Constant(Value::Text(address.queue.to_owned())),
        ),
        (address.id, Source::Id),
        (address.key, Source::Key),
        (address.headers, Source::Texts(headers)),
        (Some(address.body), Source::Body),
        (address.created_at, Source::Constant(Value::Integer(now_ms))),
    ];
    Insert {
        table: vec![address.table.to_owned()],
        columns: columns
            .into_iter()
            .filter_map(|(name, source)| {
                Some(Column {
                    name: name?.to_owned(),
                    source,
                })
            })
            .collect(),
    }
}

/// The texts of a command's rows.
fn within(texts: &SparseTexts, rows: Rows) -> SparseTexts {
    let range = rows.range();
    let from = texts.rows.partition_point(|row| *row < range.start);
    let to = texts.rows.partition_point(|row| *row < range.end);
    SparseTexts {
        rows: texts.rows.get(from..to).unwrap_or_default().to_vec(),
        values: texts.values.get(from..to).unwrap_or_default().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_adapter::HeaderValue;

    use super::*;
    use crate::table::{Table, tests::destination};

    fn batch(count: u32, settings: &[(&str, &str)]) -> Batch {
        let table = Table::configured(&destination(settings)).unwrap();
        let mut batch = Batch::of(count);
        batch.destination = "orders".to_owned();
        batch.address = Address::of(&table, true).encode();
        batch.now_ms = 77;
        batch
    }

    #[test]
    fn a_batch_is_one_insert_of_all_columns() {
        let planned = plan(&batch(10_000, &[]));
        assert_eq!(planned.failures, []);
        let [command] = &planned.commands[..] else {
            panic!("one command, not {}", planned.commands.len());
        };
        assert_eq!(command.rows.range(), 0..10_000);
        assert_eq!(command.insert.table, ["messages"]);
        let columns: Vec<(&str, &Source)> = command
            .insert
            .columns
            .iter()
            .map(|column| (column.name.as_str(), &column.source))
            .collect();
        let no_headers = SparseTexts {
            rows: vec![],
            values: vec![],
        };
        assert_eq!(
            columns,
            [
                ("queue", &Source::Constant(Value::Text("orders".to_owned()))),
                ("message_id", &Source::Id),
                ("key", &Source::Key),
                ("headers", &Source::Texts(no_headers)),
                ("body", &Source::Body),
                ("created_at_ms", &Source::Constant(Value::Integer(77))),
            ]
        );
    }

    #[test]
    fn a_column_that_is_switched_off_is_not_filled() {
        let planned = plan(&batch(
            1,
            &[
                ("key_column", ""),
                ("headers_column", ""),
                ("queue_column", ""),
            ],
        ));
        let names: Vec<&str> = planned.commands[0]
            .insert
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(names, ["message_id", "body", "created_at_ms"]);
    }

    #[test]
    fn the_name_of_a_queue_is_a_value_and_no_part_of_a_statement() {
        let evil = "x'); DROP TABLE messages; --";
        let planned = plan(&batch(1, &[("queue", evil)]));
        let insert = &planned.commands[0].insert;
        assert_eq!(
            insert.columns[0].source,
            Source::Constant(Value::Text(evil.to_owned()))
        );
        assert_eq!(insert.table, ["messages"]);
    }

    #[test]
    fn a_batch_of_an_unreadable_address_is_refused_whole() {
        let mut batch = batch(5, &[]);
        batch.address = b"?".to_vec();
        let planned = plan(&batch);
        assert!(planned.commands.is_empty());
        assert_eq!(planned.failures[0].rows.range(), 0..5);
    }

    proptest! {
        #[test]
        fn each_row_is_in_exactly_one_command_or_failure_with_its_own_headers(
            count in 1_u32..200,
            rows in proptest::collection::btree_map(0_u32..200, any::<bool>(), 0..40),
        ) {
            let mut batch = batch(count, &[]);
            let rows: Vec<(u32, bool)> = rows.into_iter().filter(|(row, _)| *row < count).collect();
            for (row, good) in &rows {
                let value = if *good { f64::from(*row) } else { f64::INFINITY };
                batch.headers.push(*row, "h", HeaderValue::Double(value));
            }
            let planned = plan(&batch);
            let mut seen = vec![0_u32; count as usize];
            for failed in &planned.failures {
                for row in failed.rows.range() {
                    seen[row as usize] += 1;
                    prop_assert!(rows.contains(&(row, false)));
                }
            }
            for command in &planned.commands {
                let range = command.rows.range();
                let expected: Vec<u32> = rows
                    .iter()
                    .filter(|(row, good)| *good && range.contains(row))
                    .map(|(row, _)| *row)
                    .collect();
                let Source::Texts(texts) = &command.insert.columns[3].source else {
                    panic!("the headers' column");
                };
                prop_assert_eq!(&texts.rows, &expected);
                for (row, text) in texts.rows.iter().zip(&texts.values) {
                    let number = format!("\"value\":{:?}}}", f64::from(*row));
                    prop_assert!(text.contains(&number));
                }
                for row in range {
                    seen[row as usize] += 1;
                    prop_assert!(!rows.contains(&(row, false)));
                }
            }
            prop_assert!(seen.iter().all(|times| *times == 1));
        }
    }
}
