//! What `opened` notes for `plan`, and `plan` for `settle`.
//!
//! Parts of text with a NUL after each: no name has one (`Table::configured` refuses it).

use sluicegate_adapter::Batch;

use crate::table::Table;

/// Where a destination's rows go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address<'a> {
    pub(crate) table: &'a str,
    pub(crate) queue: &'a str,
    pub(crate) queue_column: Option<&'a str>,
    pub(crate) id: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) headers: Option<&'a str>,
    pub(crate) body: &'a str,
    pub(crate) created_at: Option<&'a str>,
    /// Whether row ids are known.
    pub(crate) receipts: bool,
}

impl<'a> Address<'a> {
    pub(crate) fn of(table: &'a Table, receipts: bool) -> Self {
        Self {
            table: &table.name,
            queue: &table.queue,
            queue_column: table.queue_column.as_deref(),
            id: table.id.as_deref(),
            key: table.key.as_deref(),
            headers: table.headers.as_deref(),
            body: &table.body,
            created_at: table.created_at.as_deref(),
            receipts,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(&[
            self.table,
            self.queue,
            self.queue_column.unwrap_or_default(),
            self.id.unwrap_or_default(),
            self.key.unwrap_or_default(),
            self.headers.unwrap_or_default(),
            self.body,
            self.created_at.unwrap_or_default(),
            flag(self.receipts),
        ])
    }

    /// `None` only for bytes that `encode` did not make.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut parts = parts(bytes)?;
        let mut part = || parts.next();
        let column = |name: &'a str| (!name.is_empty()).then_some(name);
        Some(Self {
            table: part()?,
            queue: part()?,
            queue_column: column(part()?),
            id: column(part()?),
            key: column(part()?),
            headers: column(part()?),
            body: part()?,
            created_at: column(part()?),
            receipts: part()? == flag(true),
        })
    }
}

/// What `settle` needs to know of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context<'a> {
    pub(crate) destination: &'a str,
    pub(crate) table: &'a str,
    pub(crate) receipts: bool,
}

impl<'a> Context<'a> {
    pub(crate) fn encode(batch: &Batch, address: &Address<'_>) -> Vec<u8> {
        encode(&[
            address.table,
            flag(address.receipts && batch.receipts),
            &batch.destination,
        ])
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut parts = parts(bytes)?;
        Some(Self {
            table: parts.next()?,
            receipts: parts.next()? == flag(true),
            destination: parts.next()?,
        })
    }
}

fn encode(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
    for part in parts {
        bytes.extend_from_slice(part.as_bytes());
        bytes.push(0);
    }
    bytes
}

fn parts(bytes: &[u8]) -> Option<impl Iterator<Item = &str>> {
    Some(std::str::from_utf8(bytes).ok()?.split_terminator('\0'))
}

fn flag(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_context_comes_back_as_it_was() {
        let table = Table {
            name: "messages".into(),
            ..Table::default()
        };
        let mut batch = Batch::of(1);
        batch.destination = "orders".into();
        batch.receipts = true;
        let address = Address::of(&table, true);
        let context = Context::encode(&batch, &address);
        assert_eq!(
            Context::decode(&context),
            Some(Context {
                destination: "orders",
                table: "messages",
                receipts: true
            })
        );
    }

    #[test]
    fn foreign_bytes_are_no_address() {
        assert_eq!(Address::decode(b""), None);
        assert_eq!(Address::decode(b"a\0b\0"), None);
        assert_eq!(Address::decode(b"\xff\0"), None);
    }

    proptest! {
        #[test]
        fn an_address_comes_back_as_it_was(
            name in "[^\0]+",
            queue in "[^\0]*",
            columns in proptest::collection::vec(proptest::option::of("[^\0]+"), 5),
            body in "[^\0]+",
            receipts: bool,
        ) {
            let mut columns = columns.into_iter();
            let mut column = || columns.next().flatten();
            let table = Table {
                name,
                queue,
                create: true,
                receipt: None,
                queue_column: column(),
                id: column(),
                key: column(),
                headers: column(),
                body,
                created_at: column(),
            };
            let address = Address::of(&table, receipts);
            let bytes = address.encode();
            prop_assert_eq!(Address::decode(&bytes), Some(address));
        }
    }
}
