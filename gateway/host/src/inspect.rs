//! Is this file an adapter? Answered before any of its code runs.

use std::path::Path;

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::error::LoadError;

/// The version of the contract that this gateway speaks, as in `proto/wit`.
pub(crate) const CONTRACT: &str = "0.1.0";

/// What every adapter exports, without its version.
const ADAPTER: &str = "sluicegate:adapter/adapter";

/// What an adapter may import, without its version.
const LOG: &str = "sluicegate:adapter/log";

/// Only types: a component that uses them names them as an import, and gets nothing by it.
const TYPES: &str = "sluicegate:adapter/types";

/// What every WebAssembly binary begins with; then two bytes of version, then two of layer.
const MAGIC: &[u8] = b"\0asm";

/// The layer of components; that of core modules is 0.
const COMPONENT_LAYER: u8 = 1;

/// Tells a component from a core module and from anything else by its first eight bytes.
pub(crate) fn format(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    match (bytes.get(..4), bytes.get(6)) {
        (Some(MAGIC), Some(&COMPONENT_LAYER)) => Ok(()),
        (Some(MAGIC), Some(0)) => Err(LoadError::CoreModule {
            path: path.to_owned(),
        }),
        _ => Err(LoadError::NotWasm {
            path: path.to_owned(),
        }),
    }
}

/// Looks at what a component exports and imports.
pub(crate) fn interface(
    path: &Path,
    engine: &Engine,
    component: &Component,
) -> Result<(), LoadError> {
    let kind = component.component_type();
    let exports: Vec<&str> = kind.exports(engine).map(|(name, _)| name).collect();
    let Some((_, version)) = exports
        .iter()
        .map(|name| versioned(name))
        .find(|(name, _)| *name == ADAPTER)
    else {
        return Err(LoadError::NotAnAdapter {
            path: path.to_owned(),
            interface: format!("{ADAPTER}@{CONTRACT}"),
            exports: if exports.is_empty() {
                "nothing".into()
            } else {
                exports.join(", ")
            },
        });
    };
    if !compatible(version, CONTRACT) {
        return Err(LoadError::OtherVersion {
            path: path.to_owned(),
            theirs: version.to_owned(),
            ours: CONTRACT,
        });
    }
    for (name, item) in kind.imports(engine) {
        let allowed = match versioned(name) {
            (LOG, version) => compatible(version, CONTRACT),
            (TYPES, _) => only_types(engine, &item.ty),
            _ => false,
        };
        if !allowed {
            return Err(LoadError::Import {
                path: path.to_owned(),
                import: name.to_owned(),
            });
        }
    }
    Ok(())
}

fn only_types(engine: &Engine, item: &ComponentItem) -> bool {
    let ComponentItem::ComponentInstance(instance) = item else {
        return false;
    };
    instance
        .exports(engine)
        .all(|(_, item)| matches!(item.ty, ComponentItem::Type(_)))
}

fn versioned(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, "none"))
}

/// Whether the gateway can serve an adapter of this version: up to 1.0 every minor version may break, as
/// Cargo reads it.
fn compatible(theirs: &str, ours: &str) -> bool {
    let breaking = |version: &str| {
        let mut parts = version.split(['.', '-', '+']);
        let (major, minor) = (
            parts.next()?.parse::<u64>().ok()?,
            parts.next()?.parse().ok()?,
        );
        Some((major, if major == 0 { minor } else { 0_u64 }))
    };
    breaking(theirs).is_some() && breaking(theirs) == breaking(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_fit_as_cargo_reads_them() {
        for (theirs, ours, expected) in [
            ("0.1.0", "0.1.0", true),
            ("0.1.7", "0.1.0", true),
            ("0.2.0", "0.1.0", false),
            ("1.4.0", "1.0.0", true),
            ("2.0.0", "1.0.0", false),
            ("none", "0.1.0", false),
        ] {
            assert_eq!(compatible(theirs, ours), expected, "{theirs} for {ours}");
        }
    }

    #[test]
    fn the_contracts_version_is_that_of_the_wit_package() {
        let wit = include_str!("../../../proto/wit/types.wit");
        assert!(wit.contains(&format!("package sluicegate:adapter@{CONTRACT};")));
    }
}
