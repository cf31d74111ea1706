//! `fairwind mv`: renames files and directories of a server.

use clap::Args;
use fairwind_ftp::client::{Kind, Place, join};

use super::remote::{Remote, selections, single};
use super::transfer::Reach;
use crate::failure::Failure;

/// Rename files and directories of an FTP server, or move them to another directory there
#[derive(Args)]
#[command(override_usage = "fairwind mv [OPTIONS] <URL>... <TO>")]
#[command(after_help = "\
If TO ends with a slash or names a directory, the files go into it; otherwise it is the new name of a
single one. A file that has the new name is replaced.

Examples:
  fairwind mv ftp://alice@ftp.example.org/a.iso ftp://alice@ftp.example.org/b.iso
  fairwind mv 'ftp://alice@ftp.example.org/in/*.h5' ftp://alice@ftp.example.org/done/")]
pub(crate) struct Mv {
    /// URLs of one server and user, with patterns if wanted; then the URL of the new place
    #[arg(required = true, num_args = 2.., value_names = ["URL", "TO"])]
    urls: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

impl Mv {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (to, from) = self.urls.split_last().expect("two are required");
        let (to, from) = (single(to)?, selections(from)?);
        let mut remote = Remote::of(&selections(&self.urls)?, &self.reach)?;
        let found = remote.find(&from)?;
        let looked = remote
            .connection
            .with(|session| session.look(&to.path))?
            .is_some_and(|entry| entry.kind == Kind::Directory);
        let into = to.is_directory() || looked;
        if found.len() > 1 && !into {
            return Err(Failure::input(format!(
                "{to} is no directory, and several files cannot have one name"
            )));
        }
        for found in found {
            let place = found.place;
            let target = target(&place, &to, into)?;
            let connection = &mut remote.connection;
            let moved = connection.with(|session| session.move_to(&place.path, &target));
            remote.judge(&place, moved)?;
        }
        remote.end()
    }
}

fn target(place: &Place, to: &Place, into: bool) -> Result<Vec<u8>, Failure> {
    let name = place
        .name()
        .ok_or_else(|| Failure::input(format!("{place} has no name that could be changed")))?;
    Ok(match into {
        true => join(&to.path, name),
        false => to.path.clone(),
    })
}
