//! The log of commands: a JSON object for each, and for the begin and the end of each session.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::lines::{Lines, LogTarget};
use super::roster::Member;
use super::xferlog::LogOpener;
use crate::protocol::line::Line;
use crate::protocol::path::one_line;
use crate::protocol::{Command, Reply};

/// Longest command and reply in the log, characters.
const LONGEST: usize = 512;

/// The log.
#[derive(Debug, Clone)]
pub(super) struct Journal(Lines);

#[derive(Serialize)]
struct Record<'a> {
    time: Timestamp,
    session: u64,
    address: std::net::IpAddr,
    user: Option<&'a str>,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

impl Journal {
    /// A log at `target`.
    ///
    /// # Errors
    /// If it cannot be opened for appending.
    pub(super) fn open(target: LogTarget, opener: LogOpener) -> io::Result<Self> {
        Lines::open("the log of commands", target, opener).map(Self)
    }

    /// A session begins (`open`) or ends (`close`).
    pub(super) fn session(&self, event: &str, member: &Member, user: Option<&str>) {
        self.add(&Record {
            time: Timestamp::now(),
            session: member.id,
            address: member.peer,
            user,
            event,
            command: None,
            reply: None,
            text: None,
            bytes: None,
            seconds: None,
        });
    }

    /// A command has its last reply; `bytes` of a file were moved for it.
    pub(super) fn command(
        &self,
        member: &Member,
        user: Option<&str>,
        command: &str,
        reply: &Reply,
        bytes: Option<u64>,
        taken: Duration,
    ) {
        let text = reply.lines.last().map(|line| short(&one_line(line)));
        self.add(&Record {
            time: Timestamp::now(),
            session: member.id,
            address: member.peer,
            user,
            event: "command",
            command: Some(command),
            reply: Some(reply.code),
            text,
            bytes,
            seconds: Some((taken.as_secs_f64() * 1e6).round() / 1e6),
        });
    }

    fn add(&self, record: &Record<'_>) {
        if let Ok(line) = serde_json::to_string(record) {
            self.0.add(line);
        }
    }

    /// Waits until all lines are in the log, or lost.
    pub(super) async fn written(&self) {
        self.0.written().await;
    }
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// A command as logs and lists show it: without passwords, and of what is no command only the first word, since
/// that may be a password, too.
pub(super) fn shown(line: &Line) -> String {
    let Line::Whole(bytes) = line else {
        return "(too long)".to_owned();
    };
    let text = one_line(bytes);
    let (verb, rest) = text.split_once(' ').unwrap_or((&text, ""));
    let verb = match verb.len() <= 12 && verb.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => verb.to_ascii_uppercase(),
        false => return "(no command)".to_owned(),
    };
    let is_hidden = match Command::parse(bytes) {
        Ok(Command::Pass(_) | Command::Acct) => true,
        Ok(_) => false,
        Err(reply) if reply.code == 500 => return "(no command)".to_owned(),
        Err(_) => matches!(verb.as_str(), "PASS" | "ACCT"),
    };
    match (rest, is_hidden) {
        ("", _) => verb,
        (_, true) => format!("{verb} ****"),
        (rest, false) => short(&format!("{verb} {rest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown_however_they_are_sent() {
        let shown = |text: &str| super::shown(&Line::Whole(text.into()));
        assert_eq!(shown("retr a b"), "RETR a b");
        assert_eq!(shown("PASS secret"), "PASS ****");
        assert_eq!(shown("pass"), "PASS");
        assert_eq!(shown("ACCT secret"), "ACCT ****");
        assert_eq!(shown("secret"), "(no command)");
        assert_eq!(shown("my secret"), "(no command)");
        assert_eq!(shown("PASS\0 secret"), "(no command)");
        assert_eq!(shown("PASS \0secret"), "(no command)");
        assert_eq!(shown(&format!("RETR {}", "x".repeat(9_000))).len(), 512);
        assert_eq!(super::shown(&Line::TooLong), "(too long)");
    }
}
