//! `sluicegate check`: what `serve` would do, without serving. Every connection is tried, every named
//! destination is opened, and all that is found is shown, also when some of it is bad.

use std::process::ExitCode;
use std::sync::Arc;

use sluicegate_core::{Capabilities, Deduplication, Opened, Strength, WindowUnit};
use sluicegate_engine::OpenRequest;

use crate::config::Config;
use crate::failure::Failure;
use crate::wiring::{Plan, PlannedConnection};
use crate::{logging, print};

/// Parses, connects, opens, shows.
pub(crate) async fn run(config: Config) -> Result<ExitCode, Failure> {
    logging::start(&config.log);
    let mut plan = Plan::new(config).await?;
    print::out(&heading(&plan.config))?;
    let mut reached = true;
    for (place, connection) in plan.connections.iter_mut().enumerate() {
        print::out(&described(connection))?;
        if let Err(failure) = connection.driver.reach().await {
            reached = false;
            print::out(&format!("  cannot be reached: {failure}\n"))?;
            continue;
        }
        let own = plan
            .config
            .destinations
            .iter()
            .zip(&plan.destination_settings)
            .filter(|(destination, _)| destination.connection == place);
        for (destination, settings) in own {
            if destination.is_pattern() {
                print::out(&format!(
                    "  destinations {}: each opened by its first message\n",
                    destination.pattern
                ))?;
                continue;
            }
            let request = OpenRequest {
                destination: destination.pattern.as_str().into(),
                settings: Arc::clone(settings),
            };
            let line = match connection.driver.open(request).await {
                Ok(opened) => found(&destination.pattern, &opened),
                Err(failure) => {
                    reached = false;
                    format!(
                        "  destination {}: refused: {failure}\n",
                        destination.pattern
                    )
                }
            };
            print::out(&line)?;
        }
    }
    if reached {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "sluicegate: the configuration is good, but not all of it can be served now (see above)"
    );
    Ok(ExitCode::FAILURE)
}

fn heading(config: &Config) -> String {
    let mut text = match &config.file {
        Some(file) => format!("configuration {}\n", file.display()),
        None => "configuration: none, serving the built-in one\n".to_owned(),
    };
    if let Some(address) = config.top.listen.0 {
        text.push_str(&format!("listen {address}\n"));
    }
    if let Some(path) = &config.top.unix_socket {
        text.push_str(&format!("listen unix:{}\n", path.display()));
    }
    text
}

fn described(connection: &PlannedConnection) -> String {
    let manifest = connection.adapter.manifest();
    let unit = match connection.window.unit {
        WindowUnit::Requests => "batches",
        WindowUnit::Messages => "messages",
    };
    format!(
        "connection {}: adapter {} {}, driver {}, window {} {unit}\n",
        connection.name, manifest.name, manifest.version, manifest.driver, connection.window.size
    )
}

fn found(name: &str, opened: &Opened) -> String {
    let mut text = format!(
        "  destination {name}: confirmed means {} ({})\n    takes {}\n    limits: {} messages or {} bytes a batch, {} bytes a body\n",
        opened.strength,
        meaning(opened.strength),
        abilities(&opened.capabilities),
        opened.limits.batch_messages,
        opened.limits.batch_bytes,
        opened.limits.body_bytes,
    );
    for (fact, value) in &opened.facts {
        text.push_str(&format!("    {fact}: {value}\n"));
    }
    text
}

fn meaning(strength: Strength) -> &'static str {
    match strength {
        Strength::Replicated => "on several machines",
        Strength::Fsynced => "survives loss of power",
        Strength::Written => "survives the store's death, not loss of power",
        Strength::Accepted => "in memory, or nowhere",
    }
}

fn abilities(capabilities: &Capabilities) -> String {
    let names: Vec<&str> = [
        (capabilities.key, "key"),
        (capabilities.headers, "headers"),
        (capabilities.id, "id"),
        (capabilities.delay, "delay"),
        (capabilities.ttl, "time to live"),
        (capabilities.null_body, "null body"),
        (capabilities.receipts, "receipts"),
        (
            capabilities.deduplication == Deduplication::MessageId,
            "deduplication by id",
        ),
    ]
    .into_iter()
    .filter_map(|(has, name)| has.then_some(name))
    .collect();
    if names.is_empty() {
        "a body and nothing else".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::Limits;

    use super::*;

    #[test]
    fn what_was_found_is_shown_with_what_it_promises() {
        let opened = Opened {
            address: 0,
            limits: Limits {
                batch_messages: 10,
                batch_bytes: 20,
                body_bytes: 30,
            },
            capabilities: Capabilities {
                key: true,
                deduplication: Deduplication::MessageId,
                ..Capabilities::default()
            },
            strength: Strength::Fsynced,
            facts: vec![("table".to_owned(), "messages".to_owned())],
        };
        assert_eq!(
            found("orders", &opened),
            "  destination orders: confirmed means fsynced (survives loss of power)\n    \
             takes key, deduplication by id\n    \
             limits: 10 messages or 20 bytes a batch, 30 bytes a body\n    \
             table: messages\n"
        );
    }
}
