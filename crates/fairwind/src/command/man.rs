//! `fairwind man`: manual pages.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::failure::Failure;
use crate::output;

/// Write the manual pages, one a command, into a folder
#[derive(Args)]
#[command(after_help = "\
Example:
  fairwind man ~/.local/share/man/man1 && man fairwind-sim-run")]
pub struct Man {
    /// Folder for the pages; made if it is not there
    dir: PathBuf,
}

impl Man {
    pub fn run(self) -> Result<(), Failure> {
        let failed = |error| Failure::work(format!("{}: {error}", self.dir.display()));
        fs::create_dir_all(&self.dir).map_err(failed)?;
        clap_mangen::generate_to(super::Cli::command(), &self.dir).map_err(failed)?;
        output::line(&self.dir.display().to_string())?;
        Ok(())
    }
}
