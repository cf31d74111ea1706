//! The configuration file, which is optional: TOML.

mod discovery;
mod listen;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::path::PathConfig;

pub use discovery::Discovery;
pub use listen::Listen;

/// The default listening address: this machine only.
pub const DEFAULT_LISTEN: Listen =
    Listen::Address(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8649));

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// As `--listen`: one string or an array. Default: `"127.0.0.1:8649"`.
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    #[serde(default, deserialize_with = "listen::one_or_several")]
    pub listen: Vec<Listen>,
    /// Permissions of Unix sockets, such as `0o660`. Default: `0o600`.
    pub socket_mode: Option<u32>,
    /// As `--name`: an array of names and addresses.
    #[serde(default)]
    pub names: Vec<String>,
    /// As `--tokens`.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub tokens: Option<PathBuf>,
    /// Certificate and key for TLS: `{ certificate = "FILE", key = "FILE" }`.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub tls: Option<TlsFiles>,
    /// As `--xferlog`.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub xferlog: Option<PathBuf>,
    /// Which hosts of the transfer log become paths: a table.
    #[cfg_attr(test, schema(value_type = Object))]
    #[serde(default)]
    pub discovery: Discovery,
    /// As `--history-memory`, MiB. Default: `512`.
    pub history_mib: Option<usize>,
    /// Paths, declared at every start: an array of tables.
    #[serde(default, rename = "path")]
    pub paths: Vec<PathConfig>,
}

/// The files for TLS, in PEM format.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate, followed by the intermediate certificates.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a file of the operator's cannot be used.
#[derive(Debug, Error)]
#[error("{file}: {problem}")]
pub struct FileError {
    file: PathBuf,
    problem: String,
}

impl FileError {
    pub(crate) fn new(file: &Path, problem: impl ToString) -> FileError {
        FileError {
            file: file.to_owned(),
            problem: problem.to_string(),
        }
    }
}

impl Config {
    /// Reads and validates the file.
    pub fn load(file: &Path) -> Result<Config, FileError> {
        let text = fs::read_to_string(file).map_err(|error| FileError::new(file, error))?;
        Config::parse(&text).map_err(|problem| FileError::new(file, problem))
    }

    fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        config.discovery.check()?;
        for (at, path) in config.paths.iter().enumerate() {
            path.settings().map_err(|error| error.to_string())?;
            let before = &config.paths[..at];
            if before.iter().any(|other| other.name == path.name) {
                return Err(format!("path {:?} is there twice", path.name));
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_declares_paths() {
        let config = Config::parse(
            r#"
            listen = "127.0.0.1:9000"
            xferlog = "/var/log/xferlog"

            [[path]]
            name = "argonne"
            hosts = ["192.0.2.0/24", "data.example.org"]
            hops = ["gateway"]
            threshold_mbps = 42
            own = true
            model = "linear"
            history = { last_days = 7 }
            change = { absolute_mbps = 2.0 }
            time_zone = "America/Chicago"
            ping = { host = "192.0.2.1", interval_s = 30 }
            "#,
        )
        .unwrap();
        assert_eq!(config.listen, ["127.0.0.1:9000".parse().unwrap()]);
        let path = &config.paths[0];
        assert_eq!(path.threshold_mbps, Some(42.0));
        assert_eq!(path.history, fairwind_advice::HistorySet::LastDays(7));
        assert!(path.own);
    }

    #[test]
    fn a_file_says_where_to_listen_and_whom_to_let_in() {
        let config = Config::parse(
            r#"
            listen = ["0.0.0.0:8649", "unix:/run/fairwind/advisor.sock"]
            socket_mode = 0o660
            names = ["advisor.example.org"]
            tokens = "/etc/fairwind/tokens"
            tls = { certificate = "/etc/fairwind/cert.pem", key = "/etc/fairwind/key.pem" }
            "#,
        )
        .unwrap();
        let listen: Vec<String> = config.listen.iter().map(Listen::to_string).collect();
        assert_eq!(listen, ["0.0.0.0:8649", "unix:/run/fairwind/advisor.sock"]);
        assert_eq!(config.socket_mode, Some(0o660));
        assert_eq!(config.names, ["advisor.example.org"]);
        assert!(config.tokens.is_some() && config.tls.is_some());
    }

    #[test]
    fn an_empty_file_is_a_configuration() {
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn what_is_not_said_of_discovery_is_as_usual() {
        let text = "[discovery]\nnetworks = [\"192.0.2.0/24\"]";
        let expected = Discovery {
            networks: vec!["192.0.2.0/24".parse().unwrap()],
            ..Discovery::default()
        };
        assert_eq!(Config::parse(text).unwrap().discovery, expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("[discovery]\nhosts = 3", "hosts_at_most"),
            ("[discovery]\nforget_after_days = 0", "forget_after_days"),
            ("lsten = 1", "lsten"),
            ("listen = \"localhost\"", "localhost"),
            (
                "listen = 8649",
                r#""ADDRESS:PORT" or "unix:PATH", or an array of them"#,
            ),
            ("listen = [8649]", r#""ADDRESS:PORT" or "unix:PATH""#),
            ("tls = { certificate = \"a\" }", "key"),
            ("[[path]]\nname = \"a\"\nhosts = []\nown = 3", "own"),
            (
                "[[path]]\nname = \"a\"\nhosts = []\nmode = \"fast\"",
                "TOML parse error at line 4, column 8\n  |\n4 | mode = \"fast\"\n  |        ^^^^^^\nunknown \
                 variant `fast`, expected one of `thesis`, `background`, `rate`",
            ),
            ("[[path]]\nname = \"a\"\nhosts = [\"1.2.3\"]", "1.2.3"),
            (
                "[[path]]\nname = \"a\"\nhosts = []\nwindow_s = 0",
                "window_s",
            ),
            (
                "[[path]]\nname = \"a\"\nhosts = []\n[[path]]\nname = \"a\"\nhosts = []",
                "twice",
            ),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_setting_of_a_path_that_cannot_be_is_named_with_what_would_be_right() {
        for (setting, expected) in [
            ("confidence = 1.0", "confidence: a number between 0 and 1"),
            ("change = { relative = 0.0 }", "change: a number above 0"),
            ("longest_interval_s = 1", "not below shortest_interval_s"),
            ("threshold_mbps = -1.0", "threshold_mbps: a number above 0"),
            ("capacity_mbps = 0.0", "capacity_mbps: a number above 0"),
            (
                "buffers = { smallest_bytes = 2, largest_bytes = 1 }",
                "smallest_bytes must not be above",
            ),
        ] {
            let text = format!("[[path]]\nname = \"a\"\nhosts = []\n{setting}");
            let error = Config::parse(&text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
