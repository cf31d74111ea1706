//! Commands that need no data connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::channel::{Listening, Setup};
use super::digest;
use super::listing::{self, Form};
use super::session::{Interruption, Session};
use super::upload;
use crate::data::Meter;
use crate::protocol::command::{ByteRange, ExtendedPassive, Family, Listing, Representation};
use crate::protocol::digest::Algorithm;
use crate::protocol::path::one_line;
use crate::protocol::{Command, Reply, VirtualPath, host_port, time};

const VERBS: &str = "ABOR ACCT ALLO APPE CDUP CWD DELE EPRT EPSV FEAT HASH HELP LIST MDTM MFMT MKD MLSD MLST MODE NLST \
                     NOOP OPTS PASS PASV PORT PWD QUIT RANG REIN REST RETR RMD RNFR RNTO SITE SIZE STAT STOR STOU \
                     STRU SYST TYPE USER XCRC XMD5 XSHA1 XSHA256 XSHA512";

/// A reply, whether the command did what it should or not.
fn either(result: Result<Reply, Reply>) -> Reply {
    result.unwrap_or_else(|failure| failure)
}

impl Session {
    /// Does what the command says; the last reply to it is the caller's to send.
    pub(super) async fn obey(&mut self, command: Command) -> io::Result<Reply> {
        // RNTO follows RNFR at once, or not at all.
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
            Command::NotServed(verb) => Reply::new(502, format!("{verb} is not served")),
            Command::Rein => {
                self.reset();
                Reply::new(220, "Ready for a new user")
            }
            Command::Opts { name, arguments } => self.options(&name, &arguments),
            _ if self.user.is_none() => Reply::new(530, "Log in first"),
            Command::Acct => Reply::new(202, "No account is needed"),
            Command::Abor => Reply::new(226, "No transfer to abort"),
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
                Reply::new(501, "REST goes with TYPE I")
            }
            Command::Rest(bytes) => {
                self.restart = bytes;
                Reply::new(350, format!("The next transfer begins at byte {bytes}"))
            }
            Command::Rang(range) => {
                self.range = range;
                Reply::new(350, "The range is for the next RETR or HASH")
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
            Command::Stor(path) => return self.store(path).await,
            Command::Appe(path) => return self.append(path).await,
            Command::Stou => return self.store_unique().await,
        })
    }

    fn take_name(&mut self, name: String) -> Reply {
        if self.user.is_some() {
            return Reply::new(503, "Logged in already; REIN begins anew");
        }
        let text = match self.shared.users.welcomes_anybody(&name) {
            true => "Any password will do; your address of mail is customary",
            false => "Password, please",
        };
        self.name = Some(name);
        Reply::new(331, text)
    }

    async fn take_password(&mut self, password: Vec<u8>) -> io::Result<Reply> {
        let Some(name) = self.name.take() else {
            return Ok(Reply::new(503, "USER comes first"));
        };
        // A hash takes memory and time on purpose; a crowd waits for its turn.
        let turn = self
            .shared
            .password_turns
            .acquire()
            .await
            .map_err(io::Error::other)?;
        let (users, given) = (Arc::clone(&self.shared), name.clone());
        let user = tokio::task::spawn_blocking(move || users.login(&given, &password)).await;
        drop(turn);
        let peer = self.control.facts().peer.ip();
        if let Ok(Some(user)) = user {
            tracing::info!("{peer}: {} logs in", user.name);
            self.user = Some(user);
            return Ok(Reply::new(230, "Logged in"));
        }
        tracing::warn!("{peer}: wrong password for {:?}", one_line(name.as_bytes()));
        self.failures += 1;
        tokio::time::sleep(Duration::from_millis(
            self.shared.config.limits.login_pause_ms,
        ))
        .await;
        Ok(
            match self.failures >= self.shared.config.limits.login_failures {
                true => {
                    self.over = true;
                    Reply::new(421, "Too many wrong passwords; closing")
                }
                false => Reply::new(530, "Wrong name or password"),
            },
        )
    }

    fn features(&self) -> Reply {
        let mut lines = vec!["Features:".to_owned()];
        let hashes: Vec<String> = Algorithm::ALL
            .iter()
            .map(|hash| format!("{hash}{}", if *hash == self.hash { "*" } else { "" }))
            .collect();
        lines.extend(["EPRT", "EPSV", "MDTM", "MFMT"].map(String::from));
        lines.push(format!("HASH {}", hashes.join(";")));
        lines.push(self.selection.feature());
        lines.extend(["RANG STREAM", "REST STREAM", "SIZE", "TVFS", "UTF8"].map(String::from));
        lines.extend(["XCRC", "XMD5", "XSHA1", "XSHA256", "XSHA512"].map(String::from));
        for extension in &self.extensions {
            lines.extend(extension.features());
        }
        lines.push("End".into());
        Reply::lines(211, lines)
    }

    fn options(&mut self, name: &str, arguments: &str) -> Reply {
        match (name, arguments.trim()) {
            ("UTF8" | "UTF-8", text) if text.is_empty() || text.eq_ignore_ascii_case("ON") => {
                Reply::new(200, "Names are UTF-8 always")
            }
            ("UTF8" | "UTF-8", _) => Reply::new(504, "Names are UTF-8 always"),
            ("MLST", facts) => {
                self.selection = listing::Selection::parse(facts);
                Reply::new(
                    200,
                    format!("MLST OPTS {}", self.selection.names()).trim_end(),
                )
            }
            ("HASH", "") => Reply::new(200, self.hash.name()),
            ("HASH", name) => match name.parse() {
                Ok(hash) => {
                    self.hash = hash;
                    Reply::new(200, hash.name())
                }
                Err(error) => Reply::new(504, error),
            },
            (name, arguments) => self
                .extensions
                .iter_mut()
                .find_map(|extension| extension.opts(name, arguments))
                .unwrap_or_else(|| Reply::new(501, "There is no such option")),
        }
    }

    async fn site(&mut self, name: &str, arguments: &[u8]) -> Result<Reply, Reply> {
        match name {
            "HELP" => Ok(Reply::lines(214, help())),
            "CHMOD" => self.change_mode(arguments).await,
            _ => {
                let arguments = one_line(arguments);
                self.extensions
                    .iter_mut()
                    .find_map(|extension| extension.site(name, &arguments))
                    .ok_or_else(|| Reply::new(504, format!("SITE {name} is not served")))
            }
        }
    }

    /// `SITE CHMOD 640 name`, as wu-ftpd has it.
    async fn change_mode(&mut self, arguments: &[u8]) -> Result<Reply, Reply> {
        self.writer()?;
        let (mode, path) = parse_mode(arguments)
            .ok_or_else(|| Reply::new(501, "SITE CHMOD, three octal digits, and a name"))?;
        let path = self.cwd.join(path);
        let text = format!("Mode {mode:03o} for {path}");
        self.on_files(move |root| root.set_mode(&path, mode))
            .await?;
        Ok(Reply::new(200, text))
    }

    /// The status of the session, and of the transfer whose meter is given.
    pub(super) fn status(&self, meter: Option<&Meter>) -> Reply {
        let mut lines = vec![
            "Status of the fairwind FTP server".to_owned(),
            format!("Connected to {}", self.control.facts().peer.ip()),
        ];
        if let Some(user) = &self.user {
            lines.push(format!(
                "Logged in as {}, in {}",
                one_line(user.name.as_bytes()),
                self.cwd
            ));
        }
        lines.push(match self.representation {
            Representation::Ascii => "TYPE: ASCII; STRUcture: File; MODE: Stream".into(),
            Representation::Image => "TYPE: Image; STRUcture: File; MODE: Stream".into(),
        });
        lines.push(match (meter, &self.setup) {
            (Some(meter), _) => format!("Data connection open: {} bytes moved", meter.moved()),
            (None, Some(_)) => "Data connection agreed on".into(),
            (None, None) => "No data connection".into(),
        });
        lines.push("End of status".into());
        Reply::lines(211, lines)
    }

    async fn stat_path(&mut self, listing: Listing) -> Result<Reply, Reply> {
        let path = self.cwd.join(&listing.path);
        let heading = format!("Status of {path}:");
        let (files, code) = self
            .on_files(move |root| {
                let code = if root.facts(&path)?.is_directory() {
                    212
                } else {
                    213
                };
                Ok((listing::lines(root, &path, listing.hidden)?, code))
            })
            .await?;
        let mut lines = vec![heading];
        lines.extend(files);
        lines.push("End of status".into());
        Ok(Reply::lines(code, lines))
    }

    fn active(&mut self, address: SocketAddr) -> Reply {
        if self.extended_only {
            return Reply::new(503, "After EPSV ALL there is only EPSV");
        }
        self.setup = None;
        let client = self.control.facts().peer.ip();
        // RFC 2577 section 3: no bounce.
        if address.port() < 1024 || !self.shared.config.permits_peer(client, address.ip()) {
            tracing::warn!("{client}: a data connection to {address} refused");
            return Reply::new(504, "No data connection will be made to that address");
        }
        self.setup = Some(Setup::Active(address));
        Reply::new(200, "The data connection will be made there")
    }

    fn listen(&mut self) -> Result<SocketAddr, Reply> {
        // What waited before goes first: its port may be wanted again.
        self.setup = None;
        let plan = self.plan(None, None);
        let address = self.control.facts().local.ip();
        let opened = Listening::open(&self.shared.config, address, plan)
            .and_then(|listening| listening.address().map(|address| (listening, address)));
        match opened {
            Ok((listening, address)) => {
                self.setup = Some(Setup::Passive(listening));
                Ok(address)
            }
            Err(error) => {
                tracing::warn!("no passive data connection at {address}: {error}");
                Err(Reply::new(425, "No port is free for a data connection"))
            }
        }
    }

    fn passive(&mut self) -> Result<Reply, Reply> {
        if self.extended_only {
            return Err(Reply::new(503, "After EPSV ALL there is only EPSV"));
        }
        let IpAddr::V4(own) = self.control.facts().local.ip() else {
            return Err(Reply::new(425, "PASV is for IPv4; use EPSV"));
        };
        let port = self.listen()?.port();
        let shown = std::net::SocketAddrV4::new(self.shared.config.masquerade.unwrap_or(own), port);
        let text = format!("Entering Passive Mode ({})", host_port::format_port(shown));
        Ok(Reply::new(227, text))
    }

    fn extended_passive(&mut self, what: ExtendedPassive) -> Result<Reply, Reply> {
        let own = if self.control.facts().local.is_ipv4() {
            Family::V4
        } else {
            Family::V6
        };
        match what {
            ExtendedPassive::All => {
                self.extended_only = true;
                Ok(Reply::new(200, "Only EPSV from now on"))
            }
            ExtendedPassive::Port(Some(family)) if family != own => {
                let number = if own == Family::V4 { 1 } else { 2 };
                Err(Reply::new(
                    522,
                    format!("Network protocol not supported, use ({number})"),
                ))
            }
            ExtendedPassive::Port(_) => {
                let port = self.listen()?.port();
                let text = format!(
                    "Entering Extended Passive Mode ({})",
                    host_port::format_epsv(port)
                );
                Ok(Reply::new(229, text))
            }
        }
    }

    async fn allocate(&mut self, bytes: u64) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.cwd.clone();
        let free = self.on_files(move |root| root.free_bytes(&path)).await?;
        if bytes > free {
            return Err(Reply::new(
                452,
                format!("There is room for {free} bytes only"),
            ));
        }
        self.announced = Some(bytes);
        Ok(Reply::new(200, format!("{bytes} bytes announced")))
    }

    async fn change_directory(&mut self, path: VirtualPath) -> Result<Reply, Reply> {
        let wanted = path.clone();
        self.on_files(move |root| root.directory(&wanted).map(drop))
            .await?;
        self.cwd = path;
        Ok(Reply::new(
            250,
            format!("{} is the working directory", self.cwd.quoted()),
        ))
    }

    async fn rename_from(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.cwd.join(&path);
        let wanted = path.clone();
        self.on_files(move |root| root.facts(&wanted)).await?;
        self.rename_from = Some(path);
        Ok(Reply::new(350, "RNTO with the new name, please"))
    }

    async fn rename_to(
        &mut self,
        from: Option<VirtualPath>,
        path: Vec<u8>,
    ) -> Result<Reply, Reply> {
        let from = from.ok_or_else(|| Reply::new(503, "RNFR comes right before"))?;
        self.writer()?;
        let to = self.cwd.join(&path);
        if to.split().is_some_and(|(_, name)| upload::is_partial(name)) {
            return Err(Reply::new(553, "That name is for unfinished uploads"));
        }
        self.on_files(move |root| root.rename(&from, &to)).await?;
        Ok(Reply::new(250, "Renamed"))
    }

    async fn delete(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.cwd.join(&path);
        self.on_files(move |root| match root.remove_file(&path) {
            // Of a file that never became complete there is only the unfinished upload.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match upload::partial_path(&path) {
                    Some(partial) => root.remove_file(&partial),
                    None => Err(error),
                }
            }
            result => result,
        })
        .await?;
        Ok(Reply::new(250, "Deleted"))
    }

    async fn remove_directory(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.cwd.join(&path);
        self.on_files(move |root| root.remove_directory(&path))
            .await?;
        Ok(Reply::new(250, "Removed"))
    }

    async fn make_directory(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.cwd.join(&path);
        let made = path.quoted();
        self.on_files(move |root| root.make_directory(&path))
            .await?;
        Ok(Reply::new(257, format!("{made} made")))
    }

    /// For somebody who may write, an unfinished upload has a size: the one to resume at.
    async fn size(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        if self.representation == Representation::Ascii {
            return Err(Reply::new(550, "SIZE goes with TYPE I"));
        }
        let path = self.cwd.join(&path);
        let may_resume = self.user()?.write;
        let facts = self
            .on_files(move |root| match root.facts(&path) {
                Err(error) if may_resume && error.kind() == io::ErrorKind::NotFound => {
                    root.facts(&upload::partial_path(&path).ok_or(error)?)
                }
                facts => facts,
            })
            .await?;
        match facts.is_regular() {
            true => Ok(Reply::new(213, facts.size().to_string())),
            false => Err(Reply::new(550, "That is no plain file")),
        }
    }

    async fn modified(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        let path = self.cwd.join(&path);
        let facts = self.on_files(move |root| root.facts(&path)).await?;
        Ok(Reply::new(213, time::format(facts.modified())))
    }

    async fn set_modified(&mut self, when: jiff::Timestamp, path: Vec<u8>) -> Result<Reply, Reply> {
        self.writer()?;
        let path = self.cwd.join(&path);
        let text = format!("Modify={}; {path}", time::format(when));
        self.on_files(move |root| root.set_modified(&path, when))
            .await?;
        Ok(Reply::new(213, text))
    }

    async fn facts(&mut self, path: Vec<u8>) -> Result<Reply, Reply> {
        let path = self.cwd.join(&path);
        let (name, write) = (path.text(), self.user()?.write);
        let facts = self.on_files(move |root| root.facts(&path)).await?;
        let line = format!(
            "{} {name}",
            self.selection.of(&facts, listing::kind(&facts), write)
        );
        Ok(Reply::lines(250, vec!["Facts:".into(), line, "End".into()]))
    }

    async fn checksum(
        &mut self,
        path: Vec<u8>,
        algorithm: Algorithm,
        range: Option<ByteRange>,
        reply: impl Fn(Algorithm, ByteRange, &str, &str) -> Reply,
    ) -> io::Result<Reply> {
        let path = self.cwd.join(&path);
        let name = path.text();
        let opened = self.on_files(move |root| root.read(&path)).await;
        let (file, facts) = match opened {
            Ok(opened) => opened,
            Err(reply) => return Ok(reply),
        };
        let whole = ByteRange {
            first: 0,
            end: facts.size(),
        };
        let range = range.unwrap_or(whole);
        if range.end > facts.size() {
            return Ok(Reply::new(
                501,
                format!("The file has {} bytes only", facts.size()),
            ));
        }
        let meter = Arc::new(Meter::default());
        let (seen, turn) = (Arc::clone(&meter), Arc::clone(&self.shared));
        let summing = async move {
            let _turn = turn.checksum_turns.acquire().await;
            tokio::task::spawn_blocking(move || digest::of(&file, range, algorithm, &seen)).await
        };
        let (sum, interruption) = self.attend(summing, &meter).await?;
        Ok(match (sum, interruption) {
            (_, Interruption::Aborted) => {
                self.control
                    .send(&Reply::new(426, "Checksum aborted"))
                    .await?;
                Reply::new(226, "Aborted")
            }
            (Ok(Ok(sum)), _) => reply(algorithm, range, &sum, &name),
            _ => Reply::new(451, "The file could not be read"),
        })
    }
}

/// `213 SHA-256 0-49 digest name`: draft-bryan-ftpext-hash section 3; the end of the range is
/// included.
fn hash_reply(algorithm: Algorithm, range: ByteRange, sum: &str, name: &str) -> Reply {
    let last = range.end.saturating_sub(1);
    Reply::new(
        213,
        format!("{algorithm} {}-{last} {sum} {name}", range.first),
    )
}

/// Permission bits and the name after them. Neither set-user-ID nor its kin are for clients to set.
fn parse_mode(arguments: &[u8]) -> Option<(u32, &[u8])> {
    let space = arguments.iter().position(|&byte| byte == b' ')?;
    let (digits, path) = (&arguments[..space], &arguments[space + 1..]);
    if !(3..=4).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) || path.is_empty()
    {
        return None;
    }
    let mode = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?;
    (mode <= 0o777).then_some((mode, path))
}

fn only(verb: &str, letter: u8, served: u8) -> Reply {
    match letter == served {
        true => Reply::new(200, "OK"),
        false => Reply::new(504, format!("{verb} {} only", char::from(served))),
    }
}

fn help() -> Vec<String> {
    let verbs: Vec<&str> = VERBS.split_whitespace().collect();
    let mut lines = vec!["Commands:".to_owned()];
    lines.extend(verbs.chunks(12).map(|verbs| verbs.join(" ")));
    lines.push("SITE CHMOD, SITE HELP".into());
    lines.push("End".into());
    lines
}
