//! `fairwind mv`: renames files and directories of a server.

use clap::Args;
use fairwind_ftp::client::{Kind, Match, Place, SAME_NAME, join, twice};

use super::remote::{Remote, selections, single};
use super::transfer::Reach;
use crate::failure::Failure;

/// Rename files and directories of an FTP server, or move them to another directory there
#[derive(Args)]
#[command(override_usage = "fairwind mv [OPTIONS] <URL>... <TO>")]
#[command(after_help = "\
If TO ends with a slash or names a directory, the files go into it; otherwise it is the new name of a
single one. A file that has the new name is replaced. Of files that would get the same name none is moved.

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
        let planned = |found: Match| {
            let target = target(&found.place, &to, into)?;
            Ok((found.place, target))
        };
        let moves = found.into_iter().map(planned);
        let moves: Vec<(Place, Vec<u8>)> = moves.collect::<Result<_, Failure>>()?;
        let twice = twice(moves.iter().map(|(_, target)| target.as_slice()));
        for (place, target) in &moves {
            if twice.contains(target.as_slice()) {
                remote.fail(format!("{place}: {SAME_NAME}"));
                continue;
            }
            let moved = remote.connection.move_to(&place.path, target);
            remote.judge(place, moved)?;
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
