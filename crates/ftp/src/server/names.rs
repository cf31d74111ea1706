//! Commands about names of files and directories.

use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use rustix::io::Errno;

use super::listing::{self, Subject};
use super::messages;
use super::partial;
use super::quota::Amount;
use super::session::Session;
use super::work::{file_failure, naming_failure, upload_failure};
use crate::protocol::command::{Listing, Representation};
use crate::protocol::{Reply, VirtualPath, time};

impl Session {
    pub(super) async fn change_directory(&mut self, path: VirtualPath) -> Result<Reply, Reply> {
        let (wanted, shared) = (path.clone(), Arc::clone(&self.shared));
        let message = self.on_files(move |root| {
            root.enter(&wanted)?;
            let name = shared.config.directory_message.as_deref();
            Ok(name.map_or_else(Vec::new, |name| messages::of(root, &wanted, name)))
        });
        let mut lines = message.await?;
        self.state.cwd = path;
        lines.push(self.working_directory());
        Ok(Reply::lines(250, lines))
    }

    /// The line that tells the working directory.
    pub(super) fn working_directory(&self) -> Vec<u8> {
        [&*self.state.cwd.quoted(), b" is the working directory"].concat()
    }

    pub(super) async fn stat_path(&mut self, listing: Listing) -> Result<Reply, Reply> {
        let from = self.state.cwd.clone();
        let heading = [b"Status of ", from.join(&listing.path).as_bytes(), b":"].concat();
        let (files, code) = self
            .on_files(move |root| {
                let hidden = listing.hidden;
                let subject = Subject::find(root, &from, &listing.path, hidden)?;
                let code = match &subject {
                    Subject::Path(path) if root.facts(path)?.is_directory() => 212,
                    _ => 213,
                };
                match listing::lines(root, &subject, hidden) {
                    Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok((None, code)),
                    lines => Ok((Some(lines?), code)),
                }
            })
            .await?;
        let files =
            files.ok_or_else(|| Reply::new(550, "Listing too long for a reply; use LIST"))?;
        let mut lines = vec![heading];
        lines.extend(files);
        lines.push("End of status".into());
        Ok(Reply::lines(code, lines))
    }

    pub(super) async fn facts(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        let path = self.state.cwd.join(&path);
        let (told, write) = (path.clone(), self.user()?.write);
        let facts = self
            .on_files(move |root| root.facts_or_of_broken_link(&path))
            .await?;
        let selection = self.state.selection;
        let facts = selection.of(&facts, listing::kind(&facts), write);
        let line = [facts.as_bytes(), b" ", told.as_bytes()].concat();
        Ok(Reply::lines(250, vec!["Facts:".into(), line, "End".into()]))
    }

    /// For a user who may write, an unfinished upload has a size: the position at which to resume.
    pub(super) async fn size(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        if self.state.representation == Representation::Ascii {
            return Err(Reply::new(550, "SIZE is not allowed in ASCII mode"));
        }
        let path = self.state.cwd.join(&path);
        let user = self.user()?;
        let resumes = user.write.then(|| user.owner.clone());
        let size = self
            .on_files(move |root| match (root.facts(&path), resumes) {
                (Err(error), Some(owner)) if error.kind() == io::ErrorKind::NotFound => {
                    let (parent, name) = root.parent(&path)?;
                    partial::size(&parent, &name, &owner, root.partial_age).map(Some)
                }
                (facts, _) => facts.map(|facts| facts.is_regular().then(|| facts.size())),
            })
            .await?;
        match size {
            Some(size) => Ok(Reply::new(213, size.to_string())),
            None => Err(Reply::new(550, "Not a regular file")),
        }
    }

    pub(super) async fn modified(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        let path = self.state.cwd.join(&path);
        let facts = self.on_files(move |root| root.facts(&path)).await?;
        Ok(Reply::new(213, time::format(facts.modified())))
    }

    pub(super) async fn set_modified(
        &mut self,
        when: Timestamp,
        path: Vec<u8>,
    ) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.state.cwd.join(&path);
        let facts = format!("Modify={}; ", time::format(when));
        let line = [facts.as_bytes(), path.as_bytes()].concat();
        self.on_files(move |root| root.set_modified(&path, when))
            .await?;
        Ok(Reply::new(213, line))
    }

    /// `SITE UTIME`, as `time name` and as `name access change creation UTC`; only the time of change is set.
    pub(super) async fn set_times(&mut self, arguments: &[u8]) -> Result<Reply, Reply> {
        self.writer()?;
        let (when, path) = parse_times(arguments).ok_or_else(|| {
            Reply::new(
                501,
                "Usage: SITE UTIME YYYYMMDDhhmm[ss] NAME, or SITE UTIME NAME ACCESS CHANGE CREATION UTC",
            )
        })?;
        let path = path.to_vec();
        self.set_modified(when, path).await?;
        Ok(Reply::new(200, format!("Modify={}", time::format(when))))
    }

    /// `SITE UMASK 027`; without a number, tells it.
    pub(super) fn umask(&mut self, arguments: &[u8]) -> Reply {
        let told = |umask: Option<u32>| match umask {
            Some(umask) => Reply::new(200, format!("UMASK is {umask:03o}")),
            None => Reply::new(200, "UMASK is the server's"),
        };
        if arguments.trim_ascii().is_empty() {
            return told(self.state.umask);
        }
        let Some(umask) = parse_bits(arguments.trim_ascii()) else {
            return Reply::new(501, "Usage: SITE UMASK BITS, BITS in three octal digits");
        };
        self.state.umask = Some(umask);
        told(Some(umask))
    }

    /// `SITE CHMOD 640 name`, as wu-ftpd has it.
    pub(super) async fn change_mode(&mut self, arguments: &[u8]) -> Result<Reply, Reply> {
        self.writer()?;
        let (mode, path) = parse_mode(arguments).ok_or_else(|| {
            Reply::new(
                501,
                "Usage: SITE CHMOD MODE NAME, MODE in three octal digits",
            )
        })?;
        let path = self.state.cwd.join(path);
        let told = path.clone();
        let mode = self
            .on_files(move |root| root.set_mode(&path, mode))
            .await?;
        let set = format!("Mode {mode:03o} for ");
        Ok(Reply::new(200, [set.as_bytes(), told.as_bytes()].concat()))
    }

    /// `SITE QUOTA`, as ProFTPD has it: what the user's root holds and may hold.
    pub(super) async fn quota(&mut self) -> Result<Reply, Reply> {
        let usage = self.on_files(|root| {
            let quota = root.quota();
            let usage = quota.map(|quota| quota.usage(root.directory_itself()));
            usage.transpose()
        });
        let Some((used, limit)) = usage.await? else {
            return Ok(Reply::new(202, "You have no quota"));
        };
        let of = |limit: u64| match limit {
            0 => "unlimited".to_owned(),
            limit => limit.to_string(),
        };
        let lines = vec![
            "Used, and allowed:".to_owned(),
            format!("bytes {} of {}", used.bytes, of(limit.bytes)),
            format!("files {} of {}", used.files, of(limit.files)),
            "End".to_owned(),
        ];
        Ok(Reply::lines(200, lines))
    }

    pub(super) async fn allocate(&mut self, bytes: u64) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.state.cwd.clone();
        let more = Amount { bytes, files: 0 };
        let (free, fits) = self
            .on_files(move |root| {
                let fits = match root.quota() {
                    Some(quota) => quota.has_room(root.directory_itself(), more)?,
                    None => true,
                };
                Ok((root.free_bytes(&path)?, fits))
            })
            .await?;
        if !fits {
            return Err(file_failure(&Errno::DQUOT.into()));
        }
        if bytes > free {
            return Err(Reply::new(
                452,
                format!("Insufficient storage space: {free} bytes are free"),
            ));
        }
        self.state.announced = Some(bytes);
        Ok(Reply::new(200, format!("{bytes} bytes announced")))
    }

    pub(super) async fn rename_from(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.state.cwd.join(&path);
        let wanted = path.clone();
        self.on_files(move |root| root.facts_or_of_broken_link(&wanted))
            .await?;
        if path.split().is_none() {
            return Err(Reply::new(550, "The root directory cannot be renamed"));
        }
        self.state.rename_from = Some(path);
        Ok(Reply::new(350, "Ready for RNTO"))
    }

    pub(super) async fn rename_to(
        &mut self,
        from: Option<VirtualPath>,
        path: Vec<u8>,
    ) -> Result<Reply, Reply> {
        let from = from.ok_or_else(|| Reply::new(503, "RNFR required first"))?;
        self.writer()?;
        let to = self.state.cwd.join(&path);
        free_to_take(&to)?;
        self.try_on_files(move |root| root.rename(&from, &to))
            .await?
            .map_err(|error| upload_failure(&error))?;
        Ok(Reply::new(250, "Rename successful"))
    }

    pub(super) async fn delete(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.state.cwd.join(&path);
        self.try_on_files(move |root| root.remove_file(&path))
            .await?
            .map_err(|error| upload_failure(&error))?;
        Ok(Reply::new(250, "File deleted"))
    }

    pub(super) async fn remove_directory(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.state.cwd.join(&path);
        self.on_files(move |root| root.remove_directory(&path))
            .await?;
        Ok(Reply::new(250, "Directory removed"))
    }

    pub(super) async fn make_directory(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.state.cwd.join(&path);
        free_to_take(&path)?;
        let (made, umask) = (path.quoted(), self.state.umask);
        self.try_on_files(move |root| root.make_directory(&path, umask))
            .await?
            .map_err(|error| naming_failure(&error))?;
        Ok(Reply::new(257, [&*made, b" created"].concat()))
    }
}

/// Refuses names that only unfinished uploads may have.
pub(super) fn free_to_take(path: &VirtualPath) -> Result<(), Reply> {
    match path.split() {
        Some((_, name)) if partial::is_partial(name.as_encoded_bytes()) => {
            Err(Reply::new(553, "Name reserved for partial uploads"))
        }
        _ => Ok(()),
    }
}

/// Parses permission bits and the name after them. Clients may not set set-user-ID and the like.
fn parse_mode(arguments: &[u8]) -> Option<(u32, &[u8])> {
    let space = arguments.iter().position(|&byte| byte == b' ')?;
    let (digits, path) = (&arguments[..space], &arguments[space + 1..]);
    let mode = parse_bits(digits)?;
    (!path.is_empty()).then_some((mode, path))
}

/// Permission bits in three or four octal digits.
fn parse_bits(digits: &[u8]) -> Option<u32> {
    if !(3..=4).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let bits = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?;
    (bits <= 0o777).then_some(bits)
}

/// The time of change and the name of `SITE UTIME`, in either form.
fn parse_times(arguments: &[u8]) -> Option<(Timestamp, &[u8])> {
    let when = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok()?;
        let seconds = if digits.len() == 12 { "00" } else { "" };
        time::parse(&format!("{digits}{seconds}"))
    };
    if let Some(rest) = arguments.strip_suffix(b" UTC") {
        let mut words = rest.rsplitn(4, |byte| *byte == b' ');
        let (_creation, change, access) = (words.next()?, words.next()?, words.next()?);
        let name = words.next()?;
        when(access)?;
        return (!name.is_empty()).then_some((when(change)?, name));
    }
    let space = arguments.iter().position(|&byte| byte == b' ')?;
    let (digits, name) = (&arguments[..space], &arguments[space + 1..]);
    (!name.is_empty()).then_some((when(digits)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_before_one_name_or_behind_it() {
        let told = |text: &str| {
            let (when, name) = parse_times(text.as_bytes())?;
            Some(format!("{when} {}", String::from_utf8_lossy(name)))
        };
        let expected = Some("2026-03-02T14:05:00Z a b".to_owned());
        assert_eq!(told("202603021405 a b"), expected);
        assert_eq!(told("20260302140500 a b"), expected);
        assert_eq!(
            told("a b 20200101000000 20260302140500 20200101000000 UTC"),
            expected
        );
        for wrong in [
            "",
            "202603021405",
            "202603021405 ",
            "202613021405 a",
            "a 20260302140500 UTC",
            "a x 20260302140500 20260302140500 UTC",
        ] {
            assert_eq!(told(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn modes_have_nine_bits() {
        assert_eq!(parse_mode(b"640 a b"), Some((0o640, &b"a b"[..])));
        assert_eq!(parse_mode(b"4755 a"), None);
        assert_eq!(parse_mode(b"640"), None);
        assert_eq!(parse_bits(b"027"), Some(0o027));
        assert_eq!(parse_bits(b"8"), None);
    }
}
