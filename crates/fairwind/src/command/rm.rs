//! `fairwind rm`: deletes files and directories of a server.

use clap::Args;
use fairwind_ftp::client::{Kind, remove_tree, scan};

use super::remote::{Remote, selections};
use super::transfer::Reach;
use crate::failure::Failure;

/// Delete files and directories of an FTP server
#[derive(Args)]
#[command(after_help = "\
Patterns in URLs select files: * ? [a-z] within a name, ** for any directories. Quote them against the
shell. What they select is listed before anything is deleted. Links are deleted, not followed.

Examples:
  fairwind rm ftp://alice@ftp.example.org/run/one.h5
  fairwind rm 'ftp://alice@ftp.example.org/run/*.tmp'
  fairwind rm --recursive ftp://alice@ftp.example.org/old-run")]
pub(crate) struct Rm {
    /// URLs of one server and user; with patterns if wanted
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Delete directories with everything in them
    #[arg(long, short)]
    recursive: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Rm {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let selections = selections(&self.urls)?;
        if let Some(root) = selections
            .iter()
            .find(|one| !one.has_patterns() && one.base().name().is_none())
        {
            let what = format!("{}: the directory of the login is not deleted", root.base());
            return Err(Failure::input(what));
        }
        let mut remote = Remote::of(&selections, &self.reach)?;
        for found in remote.find(&selections)? {
            let (place, kind) = (found.place, found.entry.map(|entry| entry.kind));
            let is_directory = place.is_directory() || kind == Some(Kind::Directory);
            if is_directory && !self.recursive {
                remote.fail(format!("{place}: --recursive deletes directories"));
                continue;
            }
            let connection = &mut remote.connection;
            if self.recursive {
                let removal = remove_tree(connection, &place.path, &scan::everything)?;
                for refused in removal.refused {
                    remote.fail(refused);
                }
            } else {
                let removed = connection.remove_file(&place.path);
                remote.judge(&place, removed)?;
            }
        }
        remote.end()
    }
}
