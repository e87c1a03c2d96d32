//! Runs other programs. A command is shown before it runs, its output is never swallowed, and its
//! failure names it, so that anyone can repeat by hand what a chore did.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// A program to run, without a shell.
#[derive(Debug)]
pub(crate) struct Cmd {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

/// The cargo that runs this program, so that a toolchain chosen on the command line stays chosen.
pub(crate) fn cargo<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> Cmd {
    Cmd::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).args(arguments)
}

impl Cmd {
    /// A program by name or path.
    pub(crate) fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// More arguments.
    #[must_use]
    pub(crate) fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, arguments: I) -> Self {
        self.arguments.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    /// One more variable of its environment.
    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs it with this process's own output.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        eprintln!("$ {self}");
        let status = self
            .command()
            .status()
            .with_context(|| format!("cannot run `{self}`"))?;
        if !status.success() {
            bail!("`{self}` failed: {status}");
        }
        Ok(())
    }

    /// Runs it and returns what it printed; its stderr goes to ours.
    pub(crate) fn read(&self) -> anyhow::Result<String> {
        let (text, success) = self.read_any()?;
        if !success {
            bail!("`{self}` failed");
        }
        Ok(text)
    }

    /// Like `read`, whatever its exit code: what it printed, and whether it was content.
    pub(crate) fn read_any(&self) -> anyhow::Result<(String, bool)> {
        let output = self
            .command()
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run `{self}`"))?;
        let text = String::from_utf8(output.stdout)
            .with_context(|| format!("`{self}` printed text that is not UTF-8"))?;
        Ok((text, output.status.success()))
    }

    /// Whether it runs at all, quietly: to find out what is installed.
    pub(crate) fn works(&self) -> bool {
        self.command()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// For callers that keep the process.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        // Cargo tells the programs that it runs about the package that it runs them for; a cargo
        // started from here would take such variables for changes and build again.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| {
                name.starts_with("CARGO_PKG_")
                    || name == "CARGO_MANIFEST_DIR"
                    || name == "CARGO_MANIFEST_PATH"
            }) {
                command.env_remove(name);
            }
        }
        command
    }
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = std::path::Path::new(&self.program);
        let name = program.file_name().unwrap_or(program.as_os_str());
        write!(f, "{}", name.to_string_lossy())?;
        for argument in &self.arguments {
            let argument = argument.to_string_lossy();
            if argument.is_empty()
                || argument.contains(|c: char| c.is_whitespace() || "\"'*$`;&|<>()".contains(c))
            {
                write!(f, " '{}'", argument.replace('\'', r"'\''"))?;
            } else {
                write!(f, " {argument}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let command = Cmd::new("/usr/bin/python3").args(["-c", "print('a b')", "plain"]);
        assert_eq!(
            command.to_string(),
            r"python3 -c 'print('\''a b'\'')' plain"
        );
    }

    #[test]
    fn a_failed_command_is_named_in_the_error() {
        let error = cargo(["no-such-subcommand-of-cargo"]).read().unwrap_err();
        assert!(
            error.to_string().contains("no-such-subcommand-of-cargo"),
            "{error}"
        );
    }
}
