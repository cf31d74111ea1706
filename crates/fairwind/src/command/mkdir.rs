//! `fairwind mkdir`: makes directories on a server.

use clap::Args;

use super::remote::{Remote, single};
use super::transfer::Reach;
use crate::failure::Failure;

/// Make directories on an FTP server
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind mkdir ftp://alice@ftp.example.org/runs
  fairwind mkdir --parents ftp://alice@ftp.example.org/runs/2026/07")]
pub(crate) struct Mkdir {
    /// URLs of one server and user
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Make missing parents too; a directory that is there is no error
    #[arg(long, short)]
    parents: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Mkdir {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let places = self.urls.iter().map(|url| single(url));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        if let Some(place) = places.iter().find(|place| place.name().is_none()) {
            return Err(Failure::input(format!("{place} names no directory")));
        }
        let mut remote = Remote::of(&super::remote::selections(&self.urls)?, &self.reach)?;
        for place in places {
            let connection = &mut remote.connection;
            let made = match self.parents {
                true => connection.with(|session| session.make_directories(&place.path)),
                false => connection.make_directory(&place.path),
            };
            remote.judge(&place, made)?;
        }
        remote.end()
    }
}
