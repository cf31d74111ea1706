//! `fairwind rmdir`: removes empty directories of a server.

use clap::Args;
use fairwind_ftp::client::Kind;

use super::remote::{Remote, selections};
use super::transfer::Reach;
use crate::failure::Failure;

/// Remove empty directories of an FTP server
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind rmdir ftp://alice@ftp.example.org/runs/2025
  fairwind rmdir 'ftp://alice@ftp.example.org/runs/20*/'")]
pub(crate) struct Rmdir {
    /// URLs of one server and user; with patterns if wanted
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

impl Rmdir {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let selections = selections(&self.urls)?;
        let mut remote = Remote::of(&selections, &self.reach)?;
        for found in remote.find(&selections)? {
            let place = found.place;
            if found.entry.is_some_and(|entry| entry.kind == Kind::File) {
                remote.fail(format!("{place}: that is no directory"));
                continue;
            }
            let connection = &mut remote.connection;
            let removed = connection.remove_directory(&place.path);
            remote.judge(&place, removed)?;
        }
        remote.end()
    }
}
