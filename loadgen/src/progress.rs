//! A bar on a terminal, and nothing anywhere else.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// How far the measurements are.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `steps` measurements are to be done.
    pub(crate) fn new(steps: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// The next one begins.
    pub(crate) fn step(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.inc(1);
        self.0.tick();
    }

    /// All are done.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
