//! Output of commands.

use std::io::Write as _;

/// To stdout. A reader that has seen enough (`| head`) is no error.
pub(crate) fn out(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("stdout cannot be written to"))
        }
        _ => Ok(()),
    }
}
