//! `sluicegate adapters` and `sluicegate config`: what the installed adapters say about themselves.

use std::process::ExitCode;

use sluicegate_host::Adapter;

use crate::catalog;
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::{print, wiring};

/// Prints the manifest of every adapter in the directory.
pub(crate) async fn list(config: &Config) -> Result<ExitCode, Failure> {
    let (adapters, broken) = installed(config).await?;
    let manifests: Vec<String> = adapters
        .iter()
        .map(|adapter| {
            format!(
                "{}  file: {}\n",
                adapter.manifest(),
                adapter.path().display()
            )
        })
        .collect();
    print::out(&manifests.join("\n"))?;
    Ok(verdict(&broken))
}

/// Prints the whole commented default.
pub(crate) async fn reference(config: &Config) -> Result<ExitCode, Failure> {
    let (adapters, broken) = installed(config).await?;
    let references: Vec<_> = adapters.iter().map(wiring::adapter_reference).collect();
    print::out(&config::reference(&references))?;
    Ok(verdict(&broken))
}

/// Those that work, and what is wrong with the others.
async fn installed(config: &Config) -> Result<(Vec<Adapter>, Vec<String>), Failure> {
    let directory = catalog::directory(&config.adapters)?;
    let host = wiring::host(config)?;
    let mut adapters = Vec::new();
    let mut broken = Vec::new();
    for file in catalog::installed(&directory) {
        match host.load(&file).await {
            Ok(adapter) => adapters.push(adapter),
            Err(error) => broken.push(error.to_string()),
        }
    }
    if adapters.is_empty() && broken.is_empty() {
        broken.push(format!(
            "there are no adapters in {}: install them, or set adapters.path to where they are",
            directory.display()
        ));
    }
    Ok((adapters, broken))
}

fn verdict(broken: &[String]) -> ExitCode {
    for error in broken {
        eprintln!("{error}");
    }
    if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
