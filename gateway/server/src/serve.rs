//! `sluicegate serve`.
//!
//! The order matters: the configuration is understood whole, then addresses are taken, then stores
//! are connected, and clients are served while stores that cannot be reached are tried again. A
//! gateway whose store is away for a minute has to come up with it, not before and not instead.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::Engine;
use sluicegate_ingress::{Options, Server};

use crate::config::Config;
use crate::failure::Failure;
use crate::logging;
use crate::signals::Signals;
use crate::wiring::{self, Plan};

/// Between attempts to open a destination that nobody publishes to yet: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Serves until it is told to end, and then until what it has is settled.
pub(crate) async fn run(config: Config) -> Result<ExitCode, Failure> {
    logging::start(&config.log);
    let mut signals = Signals::listen()?;
    let plan = Plan::new(config).await?;
    let engine = Engine::new(plan.engine()).map_err(anyhow::Error::from)?;
    let server = Server::bind(options(&plan.config), engine.clone())
        .await
        .map_err(anyhow::Error::from)?;

    let Plan {
        config,
        connections,
        // Adapters run as long as it lives: to the end of this function.
        host: _host,
        ..
    } = plan;
    for (place, connection) in connections.into_iter().enumerate() {
        connection.driver.attach(&engine, wiring::id(place));
    }
    for destination in config.destinations.iter().filter(|d| !d.is_pattern()) {
        tokio::spawn(open(engine.clone(), destination.pattern.as_str().into()));
    }
    announce(&config, &server);

    let shutdown = async move {
        let signal = signals.next().await;
        tracing::info!("{signal}: settling what was accepted, refusing new scopes");
        tokio::spawn(async move {
            let signal = signals.next().await;
            tracing::warn!("{signal} again: ending at once");
            std::process::exit(1);
        });
    };
    server.serve(shutdown).await.map_err(anyhow::Error::from)?;

    let stats = engine.stats();
    let left = stats.queued_messages + stats.in_flight_messages;
    tracing::info!(
        accepted = stats.accepted,
        confirmed = stats.confirmed,
        failed = stats.failed,
        unknown = stats.unknown,
        without_verdict = left,
        "ended"
    );
    Ok(if left == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn options(config: &Config) -> Options {
    Options {
        tcp: config.top.listen.0,
        unix: config.top.unix_socket.clone(),
        frame_bytes: u32::try_from(config.limits.frame_bytes).unwrap_or(u32::MAX),
        drain_timeout: config.shutdown.drain_timeout_ms,
        ..Options::default()
    }
}

/// Programs that start a gateway wait for these lines.
fn announce(config: &Config, server: &Server) {
    match &config.file {
        Some(file) => tracing::info!("configuration from {}", file.display()),
        None => tracing::info!("no configuration file: serving the built-in one"),
    }
    if let Some(address) = server.local_addr() {
        tracing::info!("listening on {address}");
        if !address.ip().is_loopback() {
            tracing::warn!(
                "{address} can be reached from other machines, and whoever reaches it may publish"
            );
        }
    }
    if let Some(path) = server.unix_path() {
        tracing::info!("listening on unix:{}", path.display());
    }
}

/// Opens a destination ahead of its first message, so that what is wrong with it is in the log before
/// somebody needs it.
async fn open(engine: Engine, destination: Arc<str>) {
    let mut pause = FIRST_PAUSE;
    loop {
        match engine.open(&destination).await {
            Ok(opened) => {
                tracing::info!(%destination, strength = %opened.strength, "destination opened");
                return;
            }
            Err(failure) => {
                tracing::error!(%destination, %failure, "destination cannot be opened; trying again");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
