//! Compiled components on disk, so that a start takes milliseconds and not seconds.
//!
//! Invariant: nothing is loaded as machine code that this user's gateway did not write itself: the directory
//! is ours and nobody else can write to it, an entry carries a digest of its own bytes, and its name one of
//! all that went into it (the component, wasmtime's version, the engine's configuration, the processor's
//! features). An entry that does not hold is made again; a directory that does not hold is refused.

use std::fs::{self, DirBuilder};
use std::hash::{Hash, Hasher};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

/// Length of the digest at an entry's end.
const DIGEST_BYTES: usize = 32;

/// Bits of a mode that let somebody else write.
const OTHERS_WRITE: u32 = 0o022;

/// Why a directory cannot be the cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It cannot be made or looked at.
    #[error(
        "the cache directory {path} cannot be used: {source}; make it writable for the gateway's user or name another one"
    )]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is a file or the like.
    #[error("the cache directory {path} is no directory; name another one")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Whoever owns it could put code into it.
    #[error(
        "the cache directory {path} belongs to user {owner}, the gateway runs as user {ours}; compiled code is loaded only from a directory of our own: name another one, or change its owner"
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        ours: u32,
    },
    /// Anyone could put code into it.
    #[error(
        "others can write to the cache directory {path} (mode {mode:04o}); compiled code is loaded only from a directory of our own: chmod 0700 {path}"
    )]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// A directory of compiled components.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
}

impl Cache {
    /// Makes the directory if it is missing.
    pub(crate) fn open(directory: &Path) -> Result<Self, CacheError> {
        let path = || directory.to_owned();
        let unusable = |source| CacheError::Unusable {
            path: path(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => CacheError::NotADirectory { path: path() },
                _ => unusable(source),
            })?;
        let metadata = fs::metadata(directory).map_err(unusable)?;
        let (owner, ours) = (metadata.uid(), rustix::process::geteuid().as_raw());
        if owner != ours {
            return Err(CacheError::NotOurs {
                path: path(),
                owner,
                ours,
            });
        }
        let mode = metadata.mode() & 0o7777;
        if mode & OTHERS_WRITE != 0 {
            return Err(CacheError::Writable { path: path(), mode });
        }
        Ok(Self {
            directory: directory.to_owned(),
        })
    }

    /// The compiled component, if it is there and whole.
    pub(crate) fn load(&self, engine: &Engine, component: &[u8]) -> Option<Component> {
        let path = self.entry(engine, component);
        let bytes = fs::read(&path).ok()?;
        let loaded = verified(&bytes).and_then(|compiled| deserialize(engine, compiled));
        if loaded.is_none() {
            tracing::warn!(
                entry = %path.display(),
                "a compiled adapter in the cache is damaged; it is compiled again"
            );
        }
        loaded
    }

    /// Keeps a compiled component. That it cannot is no reason not to serve.
    pub(crate) fn store(&self, engine: &Engine, component: &[u8], compiled: &Component) {
        let path = self.entry(engine, component);
        let stored = compiled
            .serialize()
            .map_err(|error| io::Error::other(error.to_string()))
            .and_then(|bytes| write_whole(&path, &bytes));
        if let Err(error) = stored {
            tracing::warn!(
                entry = %path.display(),
                "a compiled adapter cannot be kept, so that the next start is slower: {error}"
            );
        }
    }

    fn entry(&self, engine: &Engine, component: &[u8]) -> PathBuf {
        let mut key = Sha256::new();
        key.update(Sha256::digest(component));
        // Covers wasmtime's version, the engine's configuration and the processor's features.
        let mut hasher = DigestHasher(key);
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let name: String = hasher
            .0
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.directory.join(format!("{name}.component"))
    }
}

fn verified(entry: &[u8]) -> Option<&[u8]> {
    let (compiled, digest) = entry.split_at_checked(entry.len().checked_sub(DIGEST_BYTES)?)?;
    (Sha256::digest(compiled).as_slice() == digest).then_some(compiled)
}

#[allow(
    unsafe_code,
    reason = "compiled code can only be loaded on trust: see the module's invariant"
)]
fn deserialize(engine: &Engine, compiled: &[u8]) -> Option<Component> {
    // SAFETY: the bytes are those that `store` wrote from `Component::serialize`: they carry a digest that
    // was just checked, and come from a directory that belongs to this user and that no other can write to.
    // wasmtime itself refuses them if its version, the configuration or the processor differ.
    unsafe { Component::deserialize(engine, compiled) }.ok()
}

/// Readers see the whole entry or none: it is written beside its place and then moved there.
fn write_whole(path: &Path, compiled: &[u8]) -> io::Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let temporary = path.with_extension(format!(
        "{}-{}.new",
        std::process::id(),
        WRITTEN.fetch_add(1, Ordering::Relaxed)
    ));
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(compiled)?;
            file.write_all(&Sha256::digest(compiled))
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Lets what wasmtime can only hash run into a digest that is the same in the next process.
struct DigestHasher(Sha256);

impl Hasher for DigestHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
