//! Whether the file that is open is still the file at its path.
//!
//! A database that was deleted or replaced while it was open takes commits without complaint, into
//! a file that nobody will ever read: a row of such a commit must never be `confirmed`. One `stat`
//! before and one after each transaction (about a microsecond each, beside a commit's hundred)
//! closes that hole.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The file that is at a path now.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::from(&metadata))
    }

    /// Whether the file at the path is still this one. An error that leaves it open (a directory
    /// that may not be searched) counts as a no: what cannot be seen is not confirmed.
    pub(crate) fn is_at(self, path: &Path) -> bool {
        Self::of(path).is_ok_and(|now| now == self)
    }
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_or_replaced_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        std::fs::write(&path, "first").unwrap();
        let identity = Identity::of(&path).unwrap();
        assert!(identity.is_at(&path));

        // Writing to it changes nothing.
        std::fs::write(&path, "more").unwrap();
        assert!(identity.is_at(&path));

        // Another file under the same name is another file.
        let other = directory.path().join("other.db");
        std::fs::write(&other, "second").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(!identity.is_at(&path));

        std::fs::remove_file(&path).unwrap();
        assert!(!identity.is_at(&path));
    }
}
