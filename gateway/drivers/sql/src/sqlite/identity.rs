//! Whether the file that is open is still the file at its path, and still whole.
//!
//! A database that was deleted or replaced while it was open takes commits without complaint, into
//! a file that nobody will ever read; one that was cut short takes them into what is left of it. A row of
//! such a commit must never be `confirmed`. One `stat` before and one after each transaction (about a
//! microsecond each, beside a commit's hundred) closes both holes.
//!
//! **A file may become shorter and be whole**: VACUUM, and `auto_vacuum` with every checkpoint, give pages
//! back. So a file that has become shorter is judged by its header, which says how many pages there are: a
//! checkpoint leaves that many, or it has not yet ended and is looked at again. What is overwritten in place
//! without becoming shorter cannot be seen from here; SQLite notices when it reads such a page, and
//! `PRAGMA integrity_check` always.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::settings::Settings;

/// How often the header of a shorter file is read before it is believed, and how long apart: longer than
/// another process's checkpoint takes to write the pages that its header already counts.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// A database's file, for as long as the database is open.
///
/// It must outlive SQLite's own handle: POSIX drops all of a process's locks on a file when any handle of
/// it is closed, SQLite's among them.
#[derive(Debug)]
pub(crate) struct StoreFile {
    path: PathBuf,
    identity: Identity,
    length: u64,
    /// One for all that have the same file open, so that none closes it under another.
    handle: Arc<File>,
}

/// What has become of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is there, and as far as can be seen all of it.
    Whole,
    /// It was deleted or replaced; or that cannot be seen (a directory that may not be searched): what
    /// cannot be seen is not confirmed.
    Moved,
    /// Pages are missing at its end, or its beginning is not that of a database.
    CutShort { was: u64, is: u64 },
}

/// Files that are open.
static HANDLES: LazyLock<Mutex<HashMap<Identity, Weak<File>>>> = LazyLock::new(Mutex::default);

impl StoreFile {
    /// The file at the configured path, before SQLite opens it.
    pub(crate) fn open(settings: &Settings) -> io::Result<Self> {
        let path = &settings.path;
        let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
        handles.retain(|_, handle| handle.strong_count() > 0);
        let known = std::fs::metadata(path)
            .ok()
            .and_then(|metadata| handles.get(&Identity::from(&metadata))?.upgrade());
        let handle = match known {
            Some(handle) => handle,
            None => Arc::new(match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && settings.create => {
                    OpenOptions::new()
                        .read(true)
                        .write(true)
                        .create(true)
                        .truncate(false)
                        .open(path)?
                }
                opened => opened?,
            }),
        };
        let metadata = handle.metadata()?;
        let identity = Identity::from(&metadata);
        handles.insert(identity, Arc::downgrade(&handle));
        Ok(Self {
            path: path.clone(),
            identity,
            length: metadata.len(),
            handle,
        })
    }

    /// What has become of it since it was last looked at.
    pub(crate) async fn fate(&mut self) -> Fate {
        let was = self.length;
        let mut is = 0;
        for look in 0..LOOKS {
            let Ok(now) = std::fs::metadata(&self.path) else {
                return Fate::Moved;
            };
            if Identity::from(&now) != self.identity {
                return Fate::Moved;
            }
            is = now.len();
            if is >= was || self.counted().is_some_and(|counted| is >= counted) {
                self.length = is;
                return Fate::Whole;
            }
            if look + 1 < LOOKS {
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
        }
        Fate::CutShort { was, is }
    }

    /// How long the file's header says that it is, as SQLite's file format describes it; None if it is none.
    fn counted(&self) -> Option<u64> {
        let mut header = [0; 32];
        self.handle.read_exact_at(&mut header, 0).ok()?;
        if !header.starts_with(b"SQLite format 3\0") {
            return None;
        }
        let page_bytes = match u16::from_be_bytes(header.get(16..18)?.try_into().ok()?) {
            1 => 65_536,
            bytes => u64::from(bytes),
        };
        let pages = u32::from_be_bytes(header.get(28..32)?.try_into().ok()?);
        (pages > 0).then_some(page_bytes * u64::from(pages))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn file(path: &Path) -> StoreFile {
        StoreFile::open(&Settings {
            path: path.to_owned(),
            ..Settings::default()
        })
        .unwrap()
    }

    /// A header that counts so many pages of 512 bytes, and so many bytes after it.
    fn database(pages: u32, bytes: usize) -> Vec<u8> {
        let mut file = vec![0; bytes];
        file[..16].copy_from_slice(b"SQLite format 3\0");
        file[16..18].copy_from_slice(&512_u16.to_be_bytes());
        file[28..32].copy_from_slice(&pages.to_be_bytes());
        file
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_or_replaced_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        std::fs::write(&path, "first").unwrap();
        let mut own = file(&path);
        assert_eq!(own.fate().await, Fate::Whole);

        // Another file under the same name is another file.
        let other = directory.path().join("other.db");
        std::fs::write(&other, "second").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(own.fate().await, Fate::Moved);

        std::fs::remove_file(&path).unwrap();
        assert_eq!(own.fate().await, Fate::Moved);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_became_shorter_is_whole_only_if_its_header_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        std::fs::write(&path, database(4, 2_048)).unwrap();
        let mut own = file(&path);
        // It grew, and a vacuum made it shorter.
        std::fs::write(&path, database(8, 4_096)).unwrap();
        assert_eq!(own.fate().await, Fate::Whole);
        std::fs::write(&path, database(3, 1_536)).unwrap();
        assert_eq!(own.fate().await, Fate::Whole);

        for damaged in [database(3, 1_024), vec![], vec![7; 1_024]] {
            std::fs::write(&path, &damaged).unwrap();
            let cut = Fate::CutShort {
                was: 1_536,
                is: damaged.len() as u64,
            };
            assert_eq!(own.fate().await, cut);
        }
    }

    #[test]
    fn all_that_have_one_file_open_share_its_handle() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let (one, two) = (file(&path), file(&path));
        assert!(Arc::ptr_eq(&one.handle, &two.handle));
    }
}
