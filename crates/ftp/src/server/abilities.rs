//! What the server can do and how it is doing: FEAT, OPTS, HELP, SITE, STAT.

use fairwind_transfer::Meter;

use super::channel::Setup;
use super::listing;
use super::session::{Session, TransferMode};
use crate::protocol::Reply;
use crate::protocol::command::Representation;
use crate::protocol::digest::Algorithm;
use crate::protocol::path::one_line;

const VERBS: &str = "ABOR ACCT ALLO APPE CDUP CWD DELE EPRT EPSV FEAT HASH HELP HOST LIST MDTM MFMT MKD MLSD MLST MODE NLST \
                     NOOP OPTS PASS PASV PORT PWD QUIT RANG REIN REST RETR RMD RNFR RNTO SITE SIZE STAT STOR STOU \
                     STRU SYST TYPE USER XCRC XMD5 XSHA1 XSHA256 XSHA512";

impl Session {
    pub(super) fn features(&self) -> Reply {
        let mut lines = vec!["Features:".to_owned()];
        let hashes: Vec<String> = Algorithm::ALL
            .iter()
            .map(|hash| format!("{hash}{}", if *hash == self.state.hash { "*" } else { "" }))
            .collect();
        if self.offers_tls() {
            lines.extend(["AUTH TLS", "CPSV", "PBSZ", "PROT", "SSCN"].map(String::from));
        }
        lines.extend(["EPRT", "EPSV", "HOST", "MDTM", "MFMT"].map(String::from));
        if self.may_share() {
            lines.push("MODE B".into());
        }
        if self.highest_level() > 0 {
            lines.push("MODE Z".into());
        }
        lines.push(format!("HASH {}", hashes.join(";")));
        lines.push(self.state.selection.feature());
        lines.push("PIPELINING".into());
        lines.extend(["RANG STREAM", "REST STREAM"].map(String::from));
        lines.extend(
            [
                "SITE CHMOD",
                "SITE QUOTA",
                "SITE UMASK",
                "SITE UTIME",
                "SITE WHO",
            ]
            .map(String::from),
        );
        if self.offers_tls() {
            lines.push("SITE PEER".into());
        }
        lines.extend(["SIZE", "TVFS", "UTF8"].map(String::from));
        lines.extend(["XCRC", "XMD5", "XSHA1", "XSHA256", "XSHA512"].map(String::from));
        for extension in &self.extensions {
            lines.extend(extension.features());
        }
        lines.push("End".into());
        Reply::lines(211, lines)
    }

    pub(super) fn options(&mut self, name: &str, arguments: &str) -> Reply {
        match (name, arguments.trim()) {
            ("UTF8" | "UTF-8", text) if text.is_empty() || text.eq_ignore_ascii_case("ON") => {
                Reply::new(200, "Names are always UTF-8")
            }
            ("UTF8" | "UTF-8", _) => Reply::new(504, "Names are always UTF-8"),
            ("MLST", facts) => {
                self.state.selection = listing::Selection::parse(facts);
                Reply::new(
                    200,
                    format!("MLST OPTS {}", self.state.selection.names()).trim_end(),
                )
            }
            ("MODE", arguments) => self.mode_options(arguments),
            ("HASH", "") => Reply::new(200, self.state.hash.name()),
            ("HASH", name) => match name.parse() {
                Ok(hash) => {
                    self.state.hash = hash;
                    Reply::new(200, hash.name())
                }
                Err(error) => Reply::new(504, error),
            },
            (name, arguments) => self
                .extensions
                .iter_mut()
                .find_map(|extension| extension.opts(name, arguments))
                .unwrap_or_else(|| Reply::new(501, "Option not understood")),
        }
    }

    /// MODE S, MODE B and MODE Z.
    pub(super) fn mode(&mut self, letter: u8) -> Reply {
        self.state.mode = match letter {
            b'S' => TransferMode::Stream,
            b'B' if self.may_share() => TransferMode::Block,
            b'Z' if self.highest_level() > 0 => TransferMode::Deflate(self.level()),
            _ => return Reply::new(504, "MODE: only S and those in FEAT are supported"),
        };
        self.close_shared();
        Reply::new(200, "OK")
    }

    /// Whether several files may go through one data connection.
    fn may_share(&self) -> bool {
        let mut extensions = self.extensions.iter();
        !extensions.any(|extension| extension.is_for_every_file())
    }

    /// Closes the data connection of an earlier transfer that waits for another one.
    pub(super) fn close_shared(&mut self) {
        self.state
            .setup
            .take_if(|setup| matches!(setup, Setup::Shared(..)));
    }

    fn highest_level(&self) -> u32 {
        self.shared.config.limits.deflate_level
    }

    /// zlib's level: the chosen one, or else zlib's own default if that is allowed.
    fn level(&self) -> u32 {
        const DEFAULT: u32 = 6;
        self.state
            .deflate_level
            .unwrap_or(DEFAULT)
            .min(self.highest_level())
    }

    /// `OPTS MODE Z LEVEL 6`
    fn mode_options(&mut self, arguments: &str) -> Reply {
        let words: Vec<String> = arguments
            .split_whitespace()
            .map(str::to_ascii_uppercase)
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let level = match words[..] {
            ["Z", "LEVEL", level] => level.parse().ok(),
            _ => return Reply::new(501, "Option not understood: only MODE Z LEVEL"),
        };
        let highest = self.highest_level();
        let Some(level) = level.filter(|level| (1..=highest).contains(level)) else {
            return Reply::new(501, format!("MODE Z LEVEL is from 1 to {highest}"));
        };
        self.state.deflate_level = Some(level);
        if let TransferMode::Deflate(current) = &mut self.state.mode {
            *current = level;
        }
        Reply::new(200, format!("MODE Z LEVEL is {level}"))
    }

    /// `SITE WHO`: the sessions of the same user, or of all for an administrator.
    fn who(&self) -> Result<Reply, Reply> {
        let user = self.user()?;
        if user.anonymous {
            return Err(Reply::new(550, "Permission denied"));
        }
        let mut lines = vec!["Sessions:".to_owned()];
        let roster = &self.shared.ledger.roster;
        let rows = match user.admin {
            true => roster.rows(),
            false => roster.rows_of(user),
        };
        for row in rows {
            let command = row.command.as_deref().unwrap_or("idle");
            let name = row.user.as_deref().unwrap_or("(no login)");
            lines.push(format!(
                "{} {} {} {} {}",
                row.session,
                one_line(name.as_bytes()),
                row.address,
                row.since.strftime("%Y-%m-%dT%H:%M:%SZ"),
                command
            ));
        }
        lines.push("End".into());
        Ok(Reply::lines(200, lines))
    }

    pub(super) async fn site(&mut self, name: &str, arguments: &[u8]) -> Result<Reply, Reply> {
        match name {
            "HELP" => Ok(Reply::lines(214, help(self.offers_tls()))),
            "CHMOD" => self.change_mode(arguments).await,
            "PEER" => {
                self.close_shared();
                self.peer(arguments)
            }
            "QUOTA" => self.quota().await,
            "UMASK" => Ok(self.umask(arguments)),
            "UTIME" => self.set_times(arguments).await,
            "WHO" => self.who(),
            _ => Err(Reply::new(
                504,
                format!("SITE {name} command not implemented"),
            )),
        }
    }

    /// The status of the session, and of the transfer whose meter is given.
    pub(super) fn status(&self, meter: Option<&Meter>) -> Reply {
        let mut lines: Vec<Vec<u8>> = vec![
            "Status of the fairwind FTP server".into(),
            format!("Connected to {}", self.control.facts.peer.ip()).into(),
        ];
        if let Some(protection) = self.protection() {
            lines.push(protection.into());
        }
        if let Some(user) = &self.state.user {
            let user = format!("Logged in as {}, in ", one_line(user.name.as_bytes()));
            lines.push([user.as_bytes(), self.state.cwd.as_bytes()].concat());
        }
        let mode = match self.state.mode {
            TransferMode::Stream => "Stream",
            TransferMode::Block => "Block",
            TransferMode::Deflate(_) => "Deflate",
        };
        let parameters = match self.state.representation {
            Representation::Ascii => format!("TYPE: ASCII; STRUcture: File; MODE: {mode}"),
            Representation::Image => format!("TYPE: Image; STRUcture: File; MODE: {mode}"),
        };
        let data = match (meter, &self.state.setup) {
            (Some(meter), _) => format!("Data connection open: {} bytes moved", meter.moved()),
            (None, Some(Setup::Failed(_)) | None) => "No data connection".into(),
            (None, Some(Setup::Shared(..))) => "Data connection open".into(),
            (None, Some(_)) => "Data connection agreed on".into(),
        };
        lines.extend([parameters, data, "End of status".into()].map(String::into_bytes));
        Reply::lines(211, lines)
    }
}

/// The commands that are implemented.
pub(super) fn help(tls: bool) -> Vec<String> {
    let verbs: Vec<&str> = VERBS.split_whitespace().collect();
    let mut lines = vec!["Commands:".to_owned()];
    lines.extend(verbs.chunks(12).map(|verbs| verbs.join(" ")));
    if tls {
        lines.push("AUTH PBSZ PROT CPSV SSCN".into());
        lines.push("SITE PEER".into());
    }
    lines.push("SITE CHMOD, SITE HELP, SITE QUOTA, SITE UMASK, SITE UTIME, SITE WHO".into());
    lines.push("End".into());
    lines
}
