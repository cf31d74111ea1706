//! Renames on a server (RNFR, RNTO), which replace a file of the new name and never lose it.
//!
//! Most servers replace it themselves. One that refuses may do so for any reason, and no reply says for which. So the
//! old file is given another name first, and gets its own back if the new file cannot have it.

use super::name_encoding::unique;
use super::{ClientError, Session, join, split};
use crate::protocol::Reply;
use crate::protocol::path::one_line;

/// The longest name on most file systems, bytes.
const LONGEST_NAME: usize = 255;

/// The result of a rename.
enum Renamed {
    Done,
    /// RNFR was refused: the source does not exist.
    NotFrom(Reply),
    /// RNTO was refused.
    NotTo(Reply),
}

impl Session {
    /// Renames a file, replacing one of the new name, or a directory.
    ///
    /// # Errors
    /// If the server refuses, or both names are the same. A file of the new name is kept; the error says so if that is under
    /// another name.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), ClientError> {
        if from == to {
            let name = one_line(from);
            return Err(ClientError::Name(format!("{name} has this name already")));
        }
        let renamed = self.try_rename(from, to)?;
        self.end_rename(from, to, renamed)
    }

    /// Goes on after the replies to RNFR and RNTO.
    ///
    /// # Errors
    /// As for [`rename`](Self::rename).
    pub(super) fn judge_rename(
        &mut self,
        from: &[u8],
        to: &[u8],
        may_rename: Reply,
        renamed: Reply,
    ) -> Result<(), ClientError> {
        let renamed = match (may_rename.is_intermediate(), renamed.is_positive()) {
            (true, true) => Renamed::Done,
            (true, false) => Renamed::NotTo(renamed),
            (false, _) => Renamed::NotFrom(may_rename),
        };
        self.end_rename(from, to, renamed)
    }

    fn end_rename(&mut self, from: &[u8], to: &[u8], renamed: Renamed) -> Result<(), ClientError> {
        let refused = match renamed {
            Renamed::Done => return Ok(()),
            // Some servers do not rename over an existing file.
            Renamed::NotTo(reply) if reply.code / 100 == 5 => {
                if self.holds_file(to)? && self.holds_file(from)? {
                    return self.replace(from, to, reply);
                }
                reply
            }
            Renamed::NotFrom(reply) | Renamed::NotTo(reply) => reply,
        };
        Err(self.not_renamed(from, to, refused, ""))
    }

    /// Whether a file, and no directory, is at a path.
    fn holds_file(&mut self, path: &[u8]) -> Result<bool, ClientError> {
        // Some servers tell sizes of directories, too. Without a way back none is entered.
        Ok(self.size(path)?.is_some() && (self.home()?.is_none() || !self.is_directory(path)?))
    }

    /// Renames, with the existing file out of the way until that is done.
    fn replace(&mut self, from: &[u8], to: &[u8], refused: Reply) -> Result<(), ClientError> {
        let aside = aside(to);
        let (old, kept) = (one_line(to), one_line(&aside));
        match self.try_rename(to, &aside) {
            Ok(Renamed::Done) => {}
            Ok(_) => return Err(self.not_renamed(from, to, refused, "")),
            Err(error) => {
                self.note(&format!("the old {old} may have got the name {kept}"));
                return Err(error);
            }
        }
        match self.try_rename(from, to) {
            Ok(Renamed::Done) => {
                let deleted = self.delete(&aside);
                if deleted.is_err() {
                    self.note(&format!("{old} is replaced; the old one is left as {kept}"));
                }
                match deleted {
                    Err(ClientError::Refused { .. }) => Ok(()),
                    deleted => deleted,
                }
            }
            Ok(Renamed::NotFrom(reply) | Renamed::NotTo(reply)) => {
                let has = format!("the old {old} has the name {kept}");
                let and = match self.try_rename(&aside, to) {
                    Ok(Renamed::Done) => String::new(),
                    Ok(_) => format!("; {has}"),
                    Err(error) => {
                        self.note(&has);
                        return Err(error);
                    }
                };
                Err(self.not_renamed(from, to, reply, &and))
            }
            Err(error) => {
                self.note(&format!("the old {old} has the name {kept}"));
                Err(error)
            }
        }
    }

    fn note(&self, text: &str) {
        self.options.progress.note(text);
    }

    fn not_renamed(&self, from: &[u8], to: &[u8], reply: Reply, and: &str) -> ClientError {
        ClientError::Refused {
            server: self.server().to_owned(),
            what: format!("to rename {} to {}{and}", one_line(from), one_line(to)),
            reply,
        }
    }

    fn try_rename(&mut self, from: &[u8], to: &[u8]) -> Result<Renamed, ClientError> {
        let reply = self.control.ask("RNFR", from)?;
        if !reply.is_intermediate() {
            return Ok(Renamed::NotFrom(reply));
        }
        let reply = self.control.ask("RNTO", to)?;
        if !reply.is_positive() {
            return Ok(Renamed::NotTo(reply));
        }
        Ok(Renamed::Done)
    }
}

/// Where a file waits until another one has its name: beside it, under a name that nothing has.
fn aside(path: &[u8]) -> Vec<u8> {
    let (directory, name) = split(path);
    let end = format!(".{}.old", unique());
    // Digits and letters alone say nothing, but a name that is too long is refused.
    let name = match 1 + name.len() + end.len() {
        0..=LONGEST_NAME => name,
        _ => b"",
    };
    join(directory, &[b".", name, end.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_waits_beside_its_path_under_a_name_that_is_not_too_long() {
        let beside = aside(b"/d/b.h5");
        assert!(beside.starts_with(b"/d/.b.h5.") && beside.ends_with(b".old"));
        assert_ne!(beside, aside(b"/d/b.h5"));
        for length in [200, 255] {
            assert!(aside(&vec![b'x'; length]).len() <= LONGEST_NAME);
        }
    }
}
