//! `fairwind copy`: copies a file from server to server.

use clap::Args;
use fairwind_ftp::client::{ClientError, Outcome, Place, join, third_party};

use super::transfer::{self, Data, Moving, Reach};
use crate::failure::Failure;

/// Copy a file from one FTP server to another, directly between them
#[derive(Args)]
#[command(after_help = "\
The destination's server waits for a data connection and the source's server connects to it; if either
refuses, the other way round. Most servers refuse data connections with strangers, for good reason
(RFC 2577): `fairwind serve --foreign-peer NETWORK` allows those of a network. The file appears under
its name when all of it has arrived and both servers compute the same checksum. Repeat the command to
continue after a failure.

Examples:
  fairwind copy ftp://a.example.org/big.iso ftp://alice@b.example.org/big.iso
  fairwind copy ftp://a.example.org/big.iso ftp://alice@b.example.org/incoming/ --json")]
pub(crate) struct Copy {
    /// URL of the file
    from: String,
    /// URL of its new place; one that ends with a slash is a directory
    to: String,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    moving: Moving,
}

impl Copy {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let from = transfer::place(&self.from)?;
        let to = destination(transfer::place(&self.to)?, &from)?;
        let bar = transfer::begin()?;
        let options = self.moving.options(&Data::default(), &self.reach, &bar)?;
        let mut source = transfer::connection(from, options.clone())?;
        let mut destination = transfer::connection(to, options)?;
        let copied = third_party(&mut source, &mut destination, 0);
        bar.clear();
        source.close();
        destination.close();
        let mut outcome = Outcome::default();
        match copied {
            Ok(report) => outcome.add(report),
            Err(error @ (ClientError::Usage(_) | ClientError::Stopped)) => {
                return Err(error.into());
            }
            Err(error) => outcome.fail(&source.place().to_string(), &error.to_string()),
        }
        self.moving.tell("copy", &outcome)
    }
}

fn destination(to: Place, from: &Place) -> Result<Place, Failure> {
    let name = from.name().filter(|_| !from.is_directory());
    let name = name.ok_or_else(|| Failure::input(format!("{from} names no file")))?;
    if to.is_directory() {
        return Ok(to.with_path(join(&to.path, name)));
    }
    Ok(to)
}
