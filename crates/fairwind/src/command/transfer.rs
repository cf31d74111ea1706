//! Shared by all commands for FTP servers: how a server is reached, and how files are moved.

mod tls;
mod told;

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fairwind_ftp::assembly::{ClientSetup, client_extensions};
use fairwind_ftp::client::{
    self, Bind, ChecksumPolicy, Connection, Credentials, DataMode, Kept, Options, Outcome, Place,
    RateLimit, Route, Through,
};
use fairwind_scenario::units_text;
use fairwind_transfer::{Buffer, SocketPlan};
use ipnet::IpNet;
use serde_json::Value;

use super::trace::duration;
use crate::failure::{Failure, all_of};
use crate::progress::ByteBar;
use crate::words::{Word, one_of};
use crate::{interrupt, output};

thread_local! {
    /// The session that commands carried out one after the other share.
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// Has all further commands of this thread go on with the session of the one before; what is returned ends it.
pub(crate) fn share_session() -> Kept {
    KEPT.with_borrow_mut(|kept| kept.get_or_insert_default().clone())
}

/// How a server is reached.
#[derive(Args)]
pub(crate) struct Reach {
    /// Have the server open data connections (EPRT, PORT)
    #[arg(long)]
    active: bool,
    /// Longest wait for a connection, a reply or the next byte
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    timeout: Duration,
    /// Retries after a broken connection before the command gives up; the count starts again when a transfer comes further
    #[arg(long, value_name = "N", default_value_t = 5)]
    retries: u32,
    /// Address of this host, or interface, where connections begin [default: the kernel's choice]
    #[arg(long, value_name = "ADDRESS|INTERFACE")]
    bind: Option<Bind>,
    /// Proxy for all connections: socks5://, socks5h:// or http://, with USER:PASSWORD@ if wanted; or none
    /// [default: that of the environment]
    #[arg(long, value_name = "URL")]
    proxy: Option<Through>,
    #[command(flatten)]
    tls: tls::Tls,
}

/// How files are moved.
#[derive(Args)]
pub(crate) struct Moving {
    /// Do not right-size buffers, even with servers that offer it
    #[arg(long)]
    no_drs: bool,
    /// Begin again from the start, ignoring partial files
    #[arg(long)]
    no_resume: bool,
    /// When checksums are compared
    #[arg(long, value_name = "WHEN", value_parser = one_of(CHECKSUMS), default_value = "offered")]
    checksum: ChecksumPolicy,
    /// Print the result as JSON and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// Data connections of this host; a copy between two servers has none.
#[derive(Args, Clone, Default)]
pub(crate) struct Data {
    /// Buffers of data connections: `auto` for the kernel's own, or a size such as 64KiB
    #[arg(long, value_name = "SIZE", default_value = "auto")]
    buffer: Buffer,
    /// Follow this advisor on the live connection
    #[arg(long, value_name = "URL")]
    advisor: Option<String>,
    /// Network to which the path is your own, where advice may switch congestion control off; needs --advisor;
    /// repeatable
    #[arg(long, value_name = "NETWORK", requires = "advisor")]
    allow_nocc: Vec<IpNet>,
    /// Largest rate of all transfers together, such as 20Mbit/s [default: none]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    limit: Option<NonZeroU64>,
    /// Set by those that receive.
    #[arg(skip)]
    background: bool,
    /// Congestion control of this host's data connections [default: the machine's]
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
}

impl Data {
    /// Whether what is received takes only what others leave of the path.
    pub(crate) fn held_down(self, background: bool) -> Data {
        Data { background, ..self }
    }

    /// With this congestion control.
    pub(crate) fn controlled_by(self, name: &str) -> Data {
        Data {
            congestion_control: Some(name.to_owned()),
            ..self
        }
    }
}

const CHECKSUMS: &[Word<ChecksumPolicy>] = &[
    (
        "offered",
        "If the server computes any",
        ChecksumPolicy::Offered,
    ),
    (
        "required",
        "Always, and a server that computes none is a failure",
        ChecksumPolicy::Required,
    ),
    ("off", "Never", ChecksumPolicy::Off),
];

impl Reach {
    /// Options for sessions that move no files.
    pub(crate) fn options(&self, bar: &Arc<ByteBar>) -> Options {
        Options {
            progress: Arc::clone(bar) as Arc<dyn client::Progress>,
            ..self.session_options()
        }
    }

    /// The same as words of a command line, each with its value.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut words = vec![
            format!("--timeout={}ns", self.timeout.as_nanos()),
            format!("--retries={}", self.retries),
        ];
        if self.active {
            words.push("--active".to_owned());
        }
        words.extend(self.bind.as_ref().map(|bind| format!("--bind={bind}")));
        words.extend(self.proxy.as_ref().map(|proxy| match proxy {
            Through::Proxy(proxy) => format!("--proxy={}", proxy.given()),
            Through::Nothing | Through::Environment => "--proxy=none".to_owned(),
        }));
        words.extend(self.tls.arguments());
        words
    }

    /// What two commands have to have in common to share a session.
    fn way(&self) -> String {
        let mut words = self.arguments();
        words.retain(|word| {
            let name = word.split('=').next().unwrap_or_default();
            !["--timeout", "--retries", "--active"].contains(&name)
        });
        words.join("\n")
    }

    /// The same without reports on progress.
    pub(crate) fn session_options(&self) -> Options {
        self.tls.apply(Options {
            mode: if self.active {
                DataMode::Active
            } else {
                DataMode::Passive
            },
            route: Route {
                bind: self.bind.clone(),
                through: self.proxy.clone().unwrap_or_default(),
            },
            patience: self.timeout,
            retries: self.retries,
            kept: KEPT.with_borrow(|kept| Some(kept.as_ref()?.reached_by(self.way()))),
            ..Options::default()
        })
    }
}

impl Moving {
    /// Options for sessions that move files.
    pub(crate) fn options(
        &self,
        data: &Data,
        reach: &Reach,
        bar: &Arc<ByteBar>,
    ) -> Result<Options, Failure> {
        let extensions = client_extensions(&ClientSetup {
            drs: !self.no_drs,
            advisor: data.advisor.clone(),
            allow_nocc: data.allow_nocc.clone(),
            buffer: data.buffer,
            background: data.background,
        });
        Ok(Options {
            plan: SocketPlan {
                congestion_control: data.congestion_control.clone(),
                ..SocketPlan::with_buffer(data.buffer)
            },
            limit: data.limit.map(RateLimit::new),
            resume: !self.no_resume,
            checksum: self.checksum,
            extensions: extensions?,
            ..reach.options(bar)
        })
    }

    /// Prints the outcome; fails if a transfer failed.
    pub(crate) fn tell(&self, command: &str, outcome: &Outcome) -> Result<(), Failure> {
        let text = self.text(command, outcome);
        let printed = text.map_or(Ok(()), |text| output::line(&text));
        judge(outcome)?;
        Ok(printed?)
    }

    /// Prints the outcome as JSON with the fields of another object; fails if a transfer failed.
    pub(crate) fn tell_with(
        &self,
        command: &str,
        outcome: &Outcome,
        more: Value,
    ) -> Result<(), Failure> {
        let mut object = told::json(command, outcome);
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        let printed = output::json(&object);
        judge(outcome)?;
        Ok(printed?)
    }

    /// Prints the outcome to standard error, for transfers to standard output.
    pub(crate) fn report_to_stderr(&self, command: &str, outcome: &Outcome) -> Result<(), Failure> {
        if let Some(text) = self.text(command, outcome) {
            eprintln!("{}", text.trim_end());
        }
        judge(outcome)
    }

    fn text(&self, command: &str, outcome: &Outcome) -> Option<String> {
        if self.json {
            return Some(format!("{:#}", told::json(command, outcome)));
        }
        (!outcome.transfers.is_empty()).then(|| told::text(outcome))
    }
}

/// Fails if a transfer failed.
fn judge(outcome: &Outcome) -> Result<(), Failure> {
    let failures = outcome.failures.iter();
    let lines = failures.map(|failed| format!("{}: {}", failed.source, failed.error));
    all_of(lines.collect())
}

/// Bytes a second.
fn rate(text: &str) -> Result<NonZeroU64, String> {
    let rate = units_text::bandwidth(text)
        .map_err(|error| format!("{}; {}", error.message, error.help))?;
    NonZeroU64::new(rate.as_bps() / 8)
        .ok_or_else(|| "a rate of 8bit/s or more is needed".to_owned())
}

/// Catches signals and creates a progress bar.
pub(crate) fn begin() -> Result<Arc<ByteBar>, Failure> {
    interrupt::catch()?;
    Ok(Arc::new(ByteBar::new()))
}

/// Says what of a tree is not moved.
pub(crate) fn note(connection: &Connection, left_out: &[String]) {
    for left_out in left_out {
        let progress = &connection.options().progress;
        progress.note(&format!("left out: {left_out}"));
    }
}

/// Parses a URL.
pub(crate) fn place(text: &str) -> Result<Place, Failure> {
    Ok(text.parse()?)
}

/// A connection to the server of a place, as the user named there.
pub(crate) fn connection(place: Place, options: Options) -> Result<Connection, Failure> {
    let credentials = credentials(&place)?;
    Ok(Connection::new(place, credentials, options))
}

/// The user of a place and the password, asked for on a terminal if need be.
pub(crate) fn credentials(place: &Place) -> Result<Credentials, Failure> {
    let ask = |question: &str| {
        let is_there = io::stdin().is_terminal();
        is_there.then(|| rpassword::prompt_password(question).ok())?
    };
    Ok(Credentials::find(place, &ask)?)
}

/// The server of all these places, which must have the same server and user. One of them may have the password for all.
pub(crate) fn server(places: &[Place]) -> Result<&Place, Failure> {
    let mut places_with_password = places.iter().filter(|place| place.password.is_some());
    let first = places_with_password.next().unwrap_or(&places[0]);
    let same = |place: &&Place| {
        (place.scheme, &place.host, place.port, &place.user)
            == (first.scheme, &first.host, first.port, &first.user)
            && (place.password.is_none() || place.password == first.password)
    };
    match places.iter().find(|place| !same(place)) {
        None => Ok(first),
        Some(other) => Err(Failure::input(format!(
            "{first} and {other} are of different servers, users or passwords; one command has one of each"
        ))),
    }
}
