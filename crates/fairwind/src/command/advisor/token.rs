//! `fairwind advisor token`: tokens for clients on other hosts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use fairwind_advisor::listener::{Right, Tokens};

use crate::failure::Failure;
use crate::output;

/// Make a token, add it to a file of tokens, and print it
///
/// The advisor reads the file when it starts with --tokens FILE. A client has its token in the variable
/// FAIRWIND_ADVISOR_TOKEN, or in the first line of the file that FAIRWIND_ADVISOR_TOKEN_FILE names.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind advisor token /etc/fairwind/tokens
  fairwind advisor token /etc/fairwind/tokens --read --into /etc/fairwind/token")]
pub(crate) struct Token {
    /// File of tokens, which is created if necessary, for its owner alone
    file: PathBuf,
    /// Generate a token with the right read; without this option it has the right write
    #[arg(long)]
    read: bool,
    /// Write the token into this new file, for its owner alone, instead of printing it
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
}

impl Token {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let right = if self.read { Right::Read } else { Right::Write };
        let Some(path) = self.into else {
            let token = Tokens::add(&self.file, right).map_err(Failure::input)?;
            return Ok(output::line(&token)?);
        };
        // The file comes first, so that no token is added that cannot be kept.
        let mut into = create(&path).map_err(|error| at(&path, &error))?;
        let kept = Tokens::add(&self.file, right)
            .map_err(Failure::input)
            .and_then(|token| writeln!(into, "{token}").map_err(|error| at(&path, &error)));
        if kept.is_err() {
            let _ = fs::remove_file(&path);
        }
        kept
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::input(format!("{}: {error}", path.display()))
}
