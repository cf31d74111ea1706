//! The events of an advised transfer: every answer, every change with its reason, and everything that
//! could not be done.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;

use fairwind_advice::Mode;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;

use crate::{Direction, RateLimitedLog};

/// One event of an advised transfer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// When it happened.
    pub time: Timestamp,
    /// Local address of the data connection.
    pub local: SocketAddr,
    /// Remote address of the data connection.
    pub peer: SocketAddr,
    /// Seconds since the transfer began.
    pub seconds: f64,
    /// Bytes moved by then.
    pub bytes: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The advisor answered.
    Advice {
        /// How the transfer shares the path.
        #[serde(flatten)]
        mode: Mode,
        /// The congestion control, by the advisor's name for it.
        congestion_control: Option<String>,
        /// Forecast of the available bandwidth, Mbit/s.
        available_mbps: Option<f64>,
        /// Interval of the forecast, Mbit/s.
        interval_mbps: Option<[f64; 2]>,
        /// Congestion threshold, Mbit/s.
        threshold_mbps: Option<f64>,
        /// Seconds until the next question.
        ask_again_after_s: f64,
        /// Why.
        reason: String,
    },
    /// Something was changed on the live connection.
    Change {
        /// What.
        what: Setting,
        /// Its value before.
        from: String,
        /// Its value now.
        to: String,
        /// Why.
        reason: String,
    },
    /// Something that was advised contradicts what the transfer has observed of the path, and is done
    /// only as far as it does not.
    Bounded {
        /// What.
        what: Setting,
        /// The value advised.
        advised: String,
        /// The value in its place.
        to: String,
        /// Why.
        reason: String,
    },
    /// Something that was advised was not done; the transfer goes on as it is.
    Refused {
        /// What.
        what: Setting,
        /// The value advised.
        wanted: String,
        /// Why not.
        reason: String,
        /// The command or option that would fix it.
        fix: String,
    },
    /// There is no sound advice; the transfer goes on with the kernel's defaults.
    Lost {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Advice { reason, .. } => write!(f, "advice: {reason}"),
            Self::Change {
                what,
                from,
                to,
                reason,
            } => write!(f, "{what} {from} -> {to}: {reason}"),
            Self::Bounded {
                what,
                advised,
                to,
                reason,
            } => write!(
                f,
                "{what} {advised} is advised and bounded to {to}: {reason}"
            ),
            Self::Refused {
                what,
                wanted,
                reason,
                fix,
            } => write!(f, "{what} {wanted} is advised, but {reason}: {fix}"),
            Self::Lost { reason } => write!(f, "without advice: {reason}"),
        }
    }
}

/// What is done to a connection for one reason.
#[derive(Debug)]
pub(super) struct EventLog<'a> {
    reason: &'a str,
    pub events: Vec<Event>,
}

impl<'a> EventLog<'a> {
    pub(super) fn because(reason: &'a str) -> Self {
        Self {
            reason,
            events: Vec::new(),
        }
    }

    pub(super) fn change(&mut self, what: Setting, from: String, to: String) {
        self.events.push(Event::Change {
            what,
            from,
            to,
            reason: self.reason.to_owned(),
        });
    }
}

/// A setting of a connection that advice may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// `TCP_CONGESTION`, a name.
    CongestionControl,
    /// `SO_SNDBUF`, bytes.
    SendBuffer,
    /// `SO_RCVBUF`, bytes.
    ReceiveBuffer,
    /// `SO_MAX_PACING_RATE`, Mbit/s.
    Pacing,
    /// How the connection starts: a rate, and the path's round-trip time.
    Start,
}

impl Setting {
    /// The buffer for the bytes that go this way.
    pub(super) fn buffer(direction: Direction) -> Self {
        match direction {
            Direction::Send => Self::SendBuffer,
            Direction::Receive => Self::ReceiveBuffer,
        }
    }
}

/// Its name in logs and reports.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CongestionControl => "congestion control",
            Self::SendBuffer => "send buffer",
            Self::ReceiveBuffer => "receive buffer",
            Self::Pacing => "pacing",
            Self::Start => "start",
        })
    }
}

/// Where records go: the program's log, and a file with one JSON object per line.
#[derive(Debug, Default)]
pub struct Journal {
    file: Option<Mutex<File>>,
    /// Advice that cannot be followed comes with every transfer, and anybody may transfer a file.
    bounded: RateLimitedLog,
    refused: RateLimitedLog,
}

impl Journal {
    /// Writes records to the log and to this file, which is open for appending.
    pub fn in_file(file: File) -> Self {
        Self {
            file: Some(Mutex::new(file)),
            ..Self::default()
        }
    }

    /// Writes a record.
    pub(super) fn write(&self, record: &Record) {
        self.log(record);
        let Some(file) = &self.file else { return };
        let Ok(mut line) = serde_json::to_vec(record) else {
            return;
        };
        line.push(b'\n');
        // One write, so that lines of several transfers do not mix. A full disk must not end a transfer.
        let _ = file.lock().write_all(&line);
    }

    fn log(&self, Record { peer, event, .. }: &Record) {
        match event {
            // The advisor's own line reports a loss once for all transfers.
            Event::Advice { .. } | Event::Lost { .. } => tracing::debug!("{peer}: {event}"),
            Event::Change { .. } => tracing::info!("{peer}: {event}"),
            Event::Bounded { .. } => self.bounded.warn(|| format!("{peer}: {event}")),
            Event::Refused { .. } => self.refused.warn(|| format!("{peer}: {event}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_line_of_json() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("advice.log");
        let record = Record {
            time: "2026-03-02T14:00:00Z".parse().unwrap(),
            local: "192.0.2.1:20".parse().unwrap(),
            peer: "192.0.2.7:40000".parse().unwrap(),
            seconds: 1.5,
            bytes: 1_000,
            event: Event::Change {
                what: Setting::CongestionControl,
                from: "cubic".into(),
                to: "fw_nocc".into(),
                reason: "because".into(),
            },
        };
        let append = || {
            File::options()
                .create(true)
                .append(true)
                .open(&path)
                .unwrap()
        };
        Journal::in_file(append()).write(&record);
        Journal::in_file(append()).write(&record);
        let line = concat!(
            r#"{"time":"2026-03-02T14:00:00Z","local":"192.0.2.1:20","peer":"192.0.2.7:40000","#,
            r#""seconds":1.5,"bytes":1000,"event":"change","what":"congestion_control","#,
            r#""from":"cubic","to":"fw_nocc","reason":"because"}"#,
            "\n"
        );
        assert_eq!(std::fs::read_to_string(path).unwrap(), line.repeat(2));
    }
}
