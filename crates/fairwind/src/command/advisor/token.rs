//! `fairwind advisor token`: who may ask from beyond this machine.

use std::path::PathBuf;

use clap::Args;
use fairwind_advisor::doors::{Right, Tokens};

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
  fairwind advisor token /etc/fairwind/tokens --read")]
pub struct Token {
    /// The file, which is created if need be, for its owner only
    file: PathBuf,
    /// A token that is good for questions only, not to declare paths and report tests and transfers
    #[arg(long)]
    read: bool,
}

impl Token {
    pub fn run(self) -> Result<(), Failure> {
        let right = match self.read {
            true => Right::Read,
            false => Right::Write,
        };
        let token = Tokens::add(&self.file, right).map_err(Failure::input)?;
        Ok(output::line(&token)?)
    }
}
