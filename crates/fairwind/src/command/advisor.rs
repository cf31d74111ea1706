//! `fairwind advisor`: the advice service.

mod backtest;
mod hops;
mod paths;
mod token;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fairwind_advisor::config::{DEFAULT_LISTEN, Listen, TlsFiles};
use fairwind_advisor::http::{self, Limits};
use fairwind_advisor::local::Local;
use fairwind_advisor::run::Options;
use fairwind_advisor::{Clock, Config, run};
use jiff::Timestamp;
use serde_json::json;

use crate::failure::Failure;
use crate::output;

/// Run the service that advises transfers, from the history of their paths
///
/// Keeps the available bandwidth and round-trip time of paths to other hosts, and answers with
/// congestion control or without, buffer sizes, available bandwidth and the time to ask again; over
/// REST and XML-RPC. Needs no configuration: it listens on this machine only and keeps what it knows
/// in the state directory. docs/reference/advisor.md has the rest.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  fairwind advisor
  fairwind advisor --config /etc/fairwind/advisor.toml --xferlog /var/log/xferlog
  fairwind advisor --listen 127.0.0.1:8649 --listen unix:/run/fairwind/advisor.sock
  fairwind advisor --listen 0.0.0.0:8649 --tokens tokens --name advisor.example.org \\
      --tls-certificate cert.pem --tls-key key.pem
  fairwind advisor paths add argonne 192.0.2.0/24 --hop gateway --threshold 42 --own
  fairwind advisor backtest recorded.csv --threshold 42"
)]
pub(crate) struct Advisor {
    #[command(subcommand)]
    action: Option<Action>,
    /// Address and port, or unix:PATH for a Unix socket; port 0 takes any free port; repeatable [default:
    /// 127.0.0.1:8649]
    ///
    /// Addresses other than the loopback need --tokens. A Unix socket is for its owner alone.
    #[arg(long, value_name = "WHERE")]
    listen: Vec<Listen>,
    /// Name or address by which clients call the service, besides those of the loopback, of the addresses it
    /// listens on and of the configuration file; requests to other names are refused; repeatable
    #[arg(long, value_name = "HOST")]
    name: Vec<String>,
    /// Require a token of this file from every client over the network
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Speak TLS with this certificate (PEM); needs --tls-key
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of --tls-certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Configuration file (TOML); options on the command line replace its values
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// State directory [default: $STATE_DIRECTORY, or fairwind in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Declare a path for each host in this transfer log
    #[arg(long, value_name = "FILE")]
    xferlog: Option<PathBuf>,
    /// Memory for histories, MiB [default: 512]
    #[arg(long, value_name = "MIB")]
    history_memory: Option<usize>,
    /// Time at which the service's clock starts (RFC 3339); for the lab [default: now]
    #[arg(long, value_name = "TIME")]
    clock_start: Option<Timestamp>,
    /// Speed of the service's clock, 0.001 to 1000000 times real time; for the lab
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = rate)]
    clock_rate: f64,
}

#[derive(Subcommand)]
enum Action {
    Backtest(backtest::Backtest),
    #[command(subcommand)]
    Paths(paths::Paths),
    #[command(subcommand)]
    Hops(hops::Hops),
    /// Print the OpenAPI document of the REST interface
    Openapi,
    Token(token::Token),
}

/// Where the advisor keeps what it knows; a running service shares it.
#[derive(Args)]
pub(crate) struct State {
    /// State directory of the advisor [default: as for `fairwind advisor`]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl State {
    /// Opens the store.
    pub(crate) fn open(&self, clock: Clock) -> Result<Local, Failure> {
        Ok(Local::open(self.state.as_deref(), clock)?)
    }

    /// The folder, if it was given.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.state.as_deref()
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "a number is needed".to_owned())?;
    let is_possible = (1e-3..=1e6).contains(&rate);
    is_possible
        .then_some(rate)
        .ok_or_else(|| "0.001 to 1000000".to_owned())
}

impl Advisor {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.action {
            Some(Action::Backtest(backtest)) => backtest.run(),
            Some(Action::Paths(paths)) => paths.run(),
            Some(Action::Hops(hops)) => hops.run(),
            Some(Action::Openapi) => Ok(output::json(&json!(http::document()))?),
            Some(Action::Token(token)) => token.run(),
            None => self.serve(),
        }
    }

    fn serve(self) -> Result<(), Failure> {
        let mut config = match &self.config {
            Some(file) => Config::load(file).map_err(Failure::input)?,
            None => Config::default(),
        };
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
            .with_target(false)
            .with_ansi(false)
            .init();
        if !self.listen.is_empty() {
            config.listen = self.listen;
        }
        if config.listen.is_empty() {
            config.listen.push(DEFAULT_LISTEN);
        }
        config.names.extend(self.name);
        config.tokens = self.tokens.or(config.tokens);
        let given = self.tls_certificate.zip(self.tls_key);
        let given = given.map(|(certificate, key)| TlsFiles { certificate, key });
        config.tls = given.or(config.tls);
        config.xferlog = self.xferlog.or(config.xferlog);
        config.history_mib = self.history_memory.or(config.history_mib);
        let options = Options {
            state: self.state,
            config,
            clock: Clock::new(self.clock_start, self.clock_rate),
            limits: Limits::default(),
        };
        let ready = |urls: &[String]| {
            for url in urls {
                eprintln!("fairwind advisor: {url}");
            }
        };
        Ok(run::run(options, ready)?)
    }
}
