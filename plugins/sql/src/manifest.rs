//! Who the adapter is and what can be set.

use sluicegate_adapter::{Capabilities, Columns, Manifest, Setting, Window, WindowUnit};

use crate::table::{
    BODY_COLUMN, CREATED_AT_COLUMN, HEADERS_COLUMN, ID_COLUMN, KEY_COLUMN, QUEUE_COLUMN,
    RECEIPT_COLUMN, TABLE,
};

/// One transaction at a time: SQLite has one writer, and a second batch would only wait for the first.
const WINDOW_REQUESTS: u32 = 1;

pub(crate) fn manifest() -> Manifest {
    Manifest {
        name: "sql".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        driver: "sql".into(),
        summary: "Every message is a row of a table in an SQLite database.".into(),
        reads: Columns::HEADERS,
        window: Window {
            unit: WindowUnit::Requests,
            size: WINDOW_REQUESTS,
        },
        capabilities: Capabilities {
            key: true,
            headers: true,
            id: true,
            null_body: true,
            receipts: true,
            ..Capabilities::NONE
        },
        connection_settings: vec![
            Setting::with_default(
                "path",
                "./sluicegate.db",
                "The database's file; its directory must exist.",
            ),
            Setting::with_default(
                "create",
                "true",
                "Whether a missing file is created: `true` or `false`.",
            ),
            Setting::with_default(
                "synchronous",
                "full",
                "What a commit waits for: `full` (the disk: survives loss of power), `normal` (the operating \
                 system: survives the gateway's death) or `off`.",
            ),
            Setting::with_default(
                "busy_timeout_ms",
                "5000",
                "Milliseconds that a transaction waits for another writer.",
            ),
        ],
        destination_settings: vec![
            Setting::with_default(TABLE, "messages", "The table that messages are rows of."),
            Setting::optional(
                "queue",
                "What the queue column holds; without it, the destination's name.",
            ),
            Setting::with_default(
                "create_table",
                "true",
                "Whether a missing table is created: `true` or `false`.",
            ),
            Setting::with_default(
                RECEIPT_COLUMN,
                "id",
                "The INTEGER PRIMARY KEY column whose values are receipts; empty: no receipts.",
            ),
            Setting::with_default(
                QUEUE_COLUMN,
                "queue",
                "The column of the queue's name; empty: not stored.",
            ),
            Setting::with_default(
                ID_COLUMN,
                "message_id",
                "The column of message ids; empty: messages cannot have one.",
            ),
            Setting::with_default(
                KEY_COLUMN,
                "key",
                "The column of keys; empty: messages cannot have one.",
            ),
            Setting::with_default(
                HEADERS_COLUMN,
                "headers",
                "The column of headers, as JSON; empty: messages cannot have any.",
            ),
            Setting::with_default(BODY_COLUMN, "body", "The column of bodies."),
            Setting::with_default(
                CREATED_AT_COLUMN,
                "created_at_ms",
                "The column of the time in Unix milliseconds; empty: not stored.",
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_says_what_it_is_and_no_key_stands_twice() {
        let manifest = manifest();
        for settings in [
            &manifest.connection_settings,
            &manifest.destination_settings,
        ] {
            let mut keys: Vec<&str> = settings
                .iter()
                .map(|setting| setting.key.as_str())
                .collect();
            assert!(settings.iter().all(|setting| !setting.summary.is_empty()));
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), count);
        }
    }
}
