//! Dispatches commands to the functions that answer them.

use std::io;

use super::abilities::help;
use super::digest::hash_reply;
use super::listing::Form;
use super::session::Session;
use super::upload::Start;
use crate::protocol::command::{ByteRange, Representation};
use crate::protocol::digest::Algorithm;
use crate::protocol::{Command, Reply};

/// The reply, whether the command succeeded or failed.
fn either(result: Result<Reply, Reply>) -> Reply {
    result.unwrap_or_else(|failure| failure)
}

impl Session {
    /// Carries out a command; the caller sends the last reply to it.
    pub(super) async fn dispatch(&mut self, command: Command) -> io::Result<Reply> {
        // RNTO must follow RNFR immediately.
        let rename_from = self.rename_from.take();
        Ok(match command {
            Command::Quit => {
                self.over = true;
                Reply::new(221, "Goodbye")
            }
            Command::User(name) => self.take_name(name),
            Command::Pass(password) => return self.take_password(password).await,
            Command::Noop => Reply::new(200, "OK"),
            Command::Syst => Reply::new(215, "UNIX Type: L8"),
            Command::Feat => self.features(),
            Command::Help(_) => Reply::lines(214, help()),
            Command::NotServed(verb) => Reply::new(502, format!("{verb} command not implemented")),
            Command::Rein => {
                self.reset();
                Reply::new(220, "Service ready for new user")
            }
            Command::Opts { name, arguments } => self.options(&name, &arguments),
            _ if self.user.is_none() => Reply::new(530, "Please login with USER and PASS"),
            Command::Acct => Reply::new(202, "No account needed"),
            Command::Abor => Reply::new(226, "No transfer to ABOR"),
            Command::Stat(None) => self.status(None),
            Command::Stat(Some(listing)) => either(self.stat_path(listing).await),
            Command::Pwd => Reply::new(
                257,
                format!("{} is the working directory", self.cwd.quoted()),
            ),
            Command::Cwd(path) => either(self.change_directory(self.cwd.join(&path)).await),
            Command::Cdup => either(self.change_directory(self.cwd.parent()).await),
            Command::Type(representation) => {
                self.representation = representation;
                Reply::new(200, "Type set")
            }
            Command::Stru(letter) => only("STRU", letter, b'F'),
            Command::Mode(letter) => only("MODE", letter, b'S'),
            Command::Port(address) | Command::Eprt(address) => self.active(address),
            Command::Pasv => either(self.passive()),
            Command::Epsv(what) => either(self.extended_passive(what)),
            Command::Allo(bytes) => either(self.allocate(bytes).await),
            Command::Rest(bytes) if bytes > 0 && self.representation == Representation::Ascii => {
                Reply::new(501, "REST is for TYPE I (binary) only")
            }
            Command::Rest(bytes) => {
                self.restart = bytes;
                Reply::new(350, format!("Restart position accepted ({bytes})"))
            }
            Command::Rang(range) => {
                self.range = range;
                Reply::new(350, "Range accepted for the next RETR or HASH")
            }
            Command::Rnfr(path) => either(self.rename_from(path).await),
            Command::Rnto(path) => either(self.rename_to(rename_from, path).await),
            Command::Dele(path) => either(self.delete(path).await),
            Command::Rmd(path) => either(self.remove_directory(path).await),
            Command::Mkd(path) => either(self.make_directory(path).await),
            Command::Size(path) => either(self.size(path).await),
            Command::Mdtm(path) => either(self.modified(path).await),
            Command::Mfmt(when, path) => either(self.set_modified(when, path).await),
            Command::Mlst(path) => either(self.facts(path).await),
            Command::Hash(path) => {
                let range = self.range.take();
                return self.checksum(path, self.hash, range, hash_reply).await;
            }
            Command::Checksum {
                algorithm,
                path,
                range,
            } => {
                let short = |_: Algorithm, _: ByteRange, sum: &str, _: &str| {
                    Reply::new(250, sum.to_uppercase())
                };
                return self.checksum(path, algorithm, range, short).await;
            }
            Command::Site { name, arguments } => either(self.site(&name, &arguments).await),
            Command::List(listing) => {
                let form = Form::Long {
                    hidden: listing.hidden,
                };
                return self.list(listing.path, form).await;
            }
            Command::Nlst(listing) => {
                let form = Form::Names {
                    hidden: listing.hidden,
                };
                return self.list(listing.path, form).await;
            }
            Command::Mlsd(path) => {
                let form = Form::Facts {
                    write: self.writer().is_ok(),
                    selection: self.selection,
                };
                return self.list(path, form).await;
            }
            Command::Retr(path) => return self.retrieve(path).await,
            Command::Stor(path) => return self.store(path, Start::Afresh).await,
            Command::Appe(path) => return self.store(path, Start::AtEnd).await,
            Command::Stou => return self.store_unique().await,
        })
    }
}

fn only(verb: &str, letter: u8, served: u8) -> Reply {
    if letter == served {
        return Reply::new(200, "OK");
    }
    Reply::new(
        504,
        format!("{verb}: only {} is supported", char::from(served)),
    )
}
