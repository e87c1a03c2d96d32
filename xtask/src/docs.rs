//! `cargo xtask docs`: pages that are made of what the program itself says. A test fails while they
//! say something else.

use anyhow::Context as _;

use crate::build;
use crate::command::Cmd;
use crate::workspace::Workspace;

const PREFACE: &str = "\
# Configuration

`sluicegate config` prints this page's file; `cargo xtask docs` writes the page. Everything in it is optional: without a
configuration the gateway listens on 127.0.0.1:7077 and stores every destination in `./sluicegate.db`.

- **File.** `--config FILE`, else the file that `SLUICEGATE_CONFIG` names, else `./sluicegate.toml` if it is there.
- **Environment.** A variable wins over the file: `SLUICEGATE_` and the key in capitals, with two underscores between
  tables and one for every mark that a variable's name cannot have. `SLUICEGATE_LISTEN`,
  `SLUICEGATE_LIMITS__FRAME_BYTES`, `SLUICEGATE_CONNECTIONS__MAIN__PATH`.
- **Secrets** never stand in the file: `password = { file = \"/run/secrets/x\" }` or `password = { env = \"NAME\" }`. A secret
  written inline, or a URL with a password in it, is refused.
- **A mistake** ends `serve` and `check` with exit code 64 and a line for each that names file, line, key and remedy.
  `sluicegate check` also connects, opens every named destination, and shows what would be served.
";

/// Writes docs/configuration.md.
pub(crate) fn write(workspace: &Workspace) -> anyhow::Result<()> {
    build::all(workspace)?;
    // Where no configuration is: the page shows the built-in one.
    let nowhere = tempfile::tempdir()?;
    let output = Cmd::new(workspace.binary("sluicegate"))
        .args(["config"])
        .command()
        .current_dir(nowhere.path())
        .output()
        .context("cannot run sluicegate")?;
    let printed =
        String::from_utf8(output.stdout).context("`sluicegate config` printed no UTF-8")?;
    anyhow::ensure!(
        output.status.success(),
        "`sluicegate config` failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let directory = workspace.root().join("docs");
    std::fs::create_dir_all(&directory)?;
    let page = directory.join("configuration.md");
    std::fs::write(&page, format!("{PREFACE}\n```toml\n{printed}```\n"))
        .with_context(|| format!("cannot write {}", page.display()))?;
    eprintln!("wrote {}", page.display());
    Ok(())
}
