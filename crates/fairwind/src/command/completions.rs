//! `fairwind completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output;

/// Print the completion script of a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind completions bash > ~/.local/share/bash-completion/completions/fairwind
  fairwind completions zsh > ~/.zfunc/_fairwind")]
pub(crate) struct Completions {
    /// Shell to complete for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut super::Cli::command(),
            "fairwind",
            &mut script,
        );
        Ok(output::line(&String::from_utf8_lossy(&script))?)
    }
}
