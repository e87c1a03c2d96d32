//! Takes the addresses to listen on. Binding is apart from serving, so that `sluicegate` can refuse a
//! bad address before it opens anything else, and log the port that it got.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener};

/// Only the user that runs the gateway may connect: whoever may, may publish.
const SOCKET_MODE: u32 = 0o600;

/// Why an address could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Neither TCP nor a Unix socket is configured.
    #[error(
        "nothing to listen on: set `listen` to an address such as 127.0.0.1:7077, or name a Unix socket"
    )]
    Nowhere,
    /// The TCP address cannot be had.
    #[error("cannot listen on {address}: {source}; set `listen` to a free address of this machine")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A process answers on the socket.
    #[error(
        "cannot listen on {}: another process is listening there; stop it, or name another Unix socket",
        path.display()
    )]
    SocketInUse {
        /// The socket's path.
        path: PathBuf,
    },
    /// The path leads to something that is no socket, and it is not touched.
    #[error(
        "cannot listen on {}: there is a file that is no socket; move it away, or name another Unix socket",
        path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The Unix socket cannot be made.
    #[error(
        "cannot listen on {}: {source}; the directory must exist and be writable for the gateway",
        path.display()
    )]
    Unix {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

pub(crate) async fn tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), BindError> {
    let failed = |source| BindError::Tcp { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// A Unix socket; its file goes when this does.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "the socket's file stays");
        }
    }
}

pub(crate) async fn unix(path: &Path) -> Result<(UnixListener, Socket), BindError> {
    let failed = |source| BindError::Unix {
        path: path.to_owned(),
        source,
    };
    remove_stale(path).await?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    let socket = Socket {
        path: path.to_owned(),
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE)).map_err(failed)?;
    Ok((listener, socket))
}

/// Removes what a gateway that was killed has left: a socket on which nobody answers. Anything else
/// stays where it is.
async fn remove_stale(path: &Path) -> Result<(), BindError> {
    let failed = |source| BindError::Unix {
        path: path.to_owned(),
        source,
    };
    let kind = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !kind.is_socket() {
        return Err(BindError::NotASocket {
            path: path.to_owned(),
        });
    }
    match tokio::net::UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "removing a socket that nobody listens on");
            std::fs::remove_file(path).map_err(failed)
        }
        Ok(_) => Err(BindError::SocketInUse {
            path: path.to_owned(),
        }),
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_named_with_the_key_to_set() {
        let (_first, address) = tcp("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let error = tcp(address).await.expect_err("in use").to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        assert!(error.contains("`listen`"), "{error}");
    }

    #[tokio::test]
    async fn a_socket_that_nobody_listens_on_is_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a killed process leaves its socket");
        let (_listener, socket) = unix(&path).await.unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, SOCKET_MODE);
        drop(socket);
        assert!(!path.exists(), "the socket goes with the gateway");
    }

    #[tokio::test]
    async fn a_socket_in_use_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.sock");
        let (_listener, _socket) = unix(&path).await.unwrap();
        let error = unix(&path).await.expect_err("in use");
        assert!(matches!(error, BindError::SocketInUse { .. }), "{error}");
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, "precious").unwrap();
        let error = unix(&path).await.expect_err("no socket");
        assert!(matches!(error, BindError::NotASocket { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn a_missing_directory_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("no/gateway.sock");
        let error = unix(&path).await.expect_err("no directory").to_string();
        assert!(error.contains("no/gateway.sock"), "{error}");
    }
}
