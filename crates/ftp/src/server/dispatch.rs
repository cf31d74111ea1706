//! Dispatches commands to the functions that answer them.

use super::abilities::help;
use super::digest::hash_reply;
use super::listing::Form;
use super::session::{Failure, Session};
use super::upload::Start;
use crate::protocol::command::{ByteRange, Representation};
use crate::protocol::digest::Algorithm;
use crate::protocol::{Command, Reply, VirtualPath};

impl Session {
    /// Carries out a command; the caller sends the last reply to it.
    pub(super) async fn dispatch(&mut self, command: Command) -> Result<Reply, Failure> {
        // RNTO must follow RNFR immediately.
        let rename_from = self.state.rename_from.take();
        Ok(match command {
            Command::Quit => {
                self.over = true;
                Reply::new(221, "Goodbye")
            }
            Command::User(name) => self.take_name(name),
            Command::Pass(password) => self.take_password(password).await?,
            Command::Noop => Reply::new(200, "OK"),
            Command::Syst => Reply::new(215, "UNIX Type: L8"),
            Command::Feat => self.features(),
            Command::Help(_) => Reply::lines(214, help(self.offers_tls())),
            Command::Auth(mechanism) => self.authenticate(&mechanism).await?,
            Command::Pbsz(_) => self.protection_buffer(),
            Command::Prot(level) => self.protection_level(level),
            Command::Ccc => self.clear_command_channel(),
            Command::NotServed(verb) => Reply::new(502, format!("{verb} command not implemented")),
            Command::Rein => {
                self.reset();
                self.leave_host();
                Reply::new(220, "Service ready for new user")
            }
            Command::Opts { name, arguments } => self.options(&name, &arguments),
            Command::Host(name) => self.host(&name),
            _ if self.state.user.is_none() => Reply::new(530, "Please login with USER and PASS"),
            Command::Acct => Reply::new(202, "No account needed"),
            Command::Abor => {
                // RFC 959, section 4.1.3
                self.close_shared();
                Reply::new(226, "No transfer to ABOR")
            }
            Command::Stat(None) => self.status(None),
            Command::Stat(Some(listing)) => self.stat_path(listing).await?,
            Command::Pwd => Reply::new(257, self.working_directory()),
            Command::Cwd(path) => self.change_directory(self.state.cwd.join(&path)).await?,
            Command::Cdup => self.change_directory(self.state.cwd.parent()).await?,
            Command::Type(representation) => {
                self.state.representation = representation;
                Reply::new(200, "Type set")
            }
            Command::Stru(letter) => only("STRU", letter, b'F'),
            Command::Mode(letter) => self.mode(letter),
            Command::Port(address) | Command::Eprt(address) => self.active(address),
            Command::Pasv => self.passive()?,
            Command::Sscn(on) => self.secured_client(on)?,
            Command::Cpsv => self.passive_as_tls_client()?,
            Command::Epsv(what) => self.extended_passive(what)?,
            Command::Allo(bytes) => self.allocate(bytes).await?,
            Command::Rest(bytes)
                if bytes > 0 && self.state.representation == Representation::Ascii =>
            {
                Reply::new(501, "REST is for TYPE I (binary) only")
            }
            Command::Rest(bytes) => {
                self.state.restart = bytes;
                Reply::new(350, format!("Restart position accepted ({bytes})"))
            }
            Command::Rang(range) => {
                self.state.range = range;
                Reply::new(350, "Range accepted for the next RETR or HASH")
            }
            Command::Rnfr(path) => self.rename_from(path).await?,
            Command::Rnto(path) => self.rename_to(rename_from, path).await?,
            Command::Dele(path) => self.delete(path).await?,
            Command::Rmd(path) => self.remove_directory(path).await?,
            Command::Mkd(path) => self.make_directory(path).await?,
            Command::Size(path) => self.size(path).await?,
            Command::Mdtm(path) => self.modified(path).await?,
            Command::Mfmt(when, path) => self.set_modified(when, path).await?,
            Command::Mlst(path) => self.facts(path).await?,
            Command::Hash(path) => {
                let range = self.state.range.take();
                let hash = self.state.hash;
                self.checksum(path, hash, range, hash_reply).await?
            }
            Command::Checksum {
                algorithm,
                path,
                range,
            } => {
                let short = |_: Algorithm, _: ByteRange, sum: &str, _: &VirtualPath| {
                    Reply::new(250, sum.to_uppercase())
                };
                self.checksum(path, algorithm, range, short).await?
            }
            Command::Site { name, arguments } => self.site(&name, &arguments).await?,
            Command::List(listing) => {
                let form = Form::Long {
                    hidden: listing.hidden,
                };
                self.list(listing.path, form).await?
            }
            Command::Nlst(listing) => {
                let form = Form::Names {
                    hidden: listing.hidden,
                };
                self.list(listing.path, form).await?
            }
            Command::Mlsd(path) => {
                let form = Form::Facts {
                    write: self.writer().is_ok(),
                    selection: self.state.selection,
                };
                self.list(path, form).await?
            }
            Command::Retr(path) => self.retrieve(path).await?,
            Command::Stor(path) => self.store(path, Start::Afresh).await?,
            Command::Appe(path) => self.store(path, Start::AtEnd).await?,
            Command::Stou => self.store_unique().await?,
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
