//! What the server can do and how it is doing: FEAT, OPTS, HELP, SITE, STAT.

use fairwind_transfer::Meter;

use super::channel::Setup;
use super::listing;
use super::session::Session;
use crate::protocol::Reply;
use crate::protocol::command::Representation;
use crate::protocol::digest::Algorithm;
use crate::protocol::path::one_line;

const VERBS: &str = "ABOR ACCT ALLO APPE CDUP CWD DELE EPRT EPSV FEAT HASH HELP LIST MDTM MFMT MKD MLSD MLST MODE NLST \
                     NOOP OPTS PASS PASV PORT PWD QUIT RANG REIN REST RETR RMD RNFR RNTO SITE SIZE STAT STOR STOU \
                     STRU SYST TYPE USER XCRC XMD5 XSHA1 XSHA256 XSHA512";

impl Session {
    pub(super) fn features(&self) -> Reply {
        let mut lines = vec!["Features:".to_owned()];
        let hashes: Vec<String> = Algorithm::ALL
            .iter()
            .map(|hash| format!("{hash}{}", if *hash == self.state.hash { "*" } else { "" }))
            .collect();
        lines.extend(["EPRT", "EPSV", "MDTM", "MFMT"].map(String::from));
        lines.push(format!("HASH {}", hashes.join(";")));
        lines.push(self.state.selection.feature());
        lines.push("PIPELINING".into());
        lines.extend(["RANG STREAM", "REST STREAM", "SIZE", "TVFS", "UTF8"].map(String::from));
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

    pub(super) async fn site(&mut self, name: &str, arguments: &[u8]) -> Result<Reply, Reply> {
        match name {
            "HELP" => Ok(Reply::lines(214, help())),
            "CHMOD" => self.change_mode(arguments).await,
            "QUOTA" => self.quota().await,
            _ => Err(Reply::new(
                504,
                format!("SITE {name} command not implemented"),
            )),
        }
    }

    /// The status of the session, and of the transfer whose meter is given.
    pub(super) fn status(&self, meter: Option<&Meter>) -> Reply {
        let mut lines = vec![
            "Status of the fairwind FTP server".to_owned(),
            format!("Connected to {}", self.control.facts.peer.ip()),
        ];
        if let Some(user) = &self.state.user {
            lines.push(format!(
                "Logged in as {}, in {}",
                one_line(user.name.as_bytes()),
                self.state.cwd
            ));
        }
        lines.push(match self.state.representation {
            Representation::Ascii => "TYPE: ASCII; STRUcture: File; MODE: Stream".into(),
            Representation::Image => "TYPE: Image; STRUcture: File; MODE: Stream".into(),
        });
        lines.push(match (meter, &self.state.setup) {
            (Some(meter), _) => format!("Data connection open: {} bytes moved", meter.moved()),
            (None, Some(Setup::Failed(_)) | None) => "No data connection".into(),
            (None, Some(_)) => "Data connection agreed on".into(),
        });
        lines.push("End of status".into());
        Reply::lines(211, lines)
    }
}

/// The commands that are implemented.
pub(super) fn help() -> Vec<String> {
    let verbs: Vec<&str> = VERBS.split_whitespace().collect();
    let mut lines = vec!["Commands:".to_owned()];
    lines.extend(verbs.chunks(12).map(|verbs| verbs.join(" ")));
    lines.push("SITE CHMOD, SITE HELP, SITE QUOTA".into());
    lines.push("End".into());
    lines
}
