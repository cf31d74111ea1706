//! What the operator configures.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fairwind_transfer::{Bounds, Buffer, Direction};
use ipnet::IpNet;
use serde::Deserialize;

use super::access::AccessRule;
use super::hosts::HostConfig;
use super::lines::LogTarget;
use super::messages;
use super::system_users::{Authenticator, SystemUserConfig};
use super::xferlog::LogOpener;
use crate::file_reader::FileReader;
use crate::tls::TlsConfig;

/// The server's configuration. [`Config::new`] has the defaults: loopback only, anonymous users may read,
/// nobody may write.
#[derive(Debug, Clone)]
pub struct Config {
    /// The directory that is served; nothing above it can be reached.
    pub root: PathBuf,
    /// The address that clients connect to; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Whether `anonymous` and `ftp` may read, with any password.
    pub anonymous: bool,
    /// Named users, with passwords.
    pub users: Vec<UserConfig>,
    /// Ports of passive data connections; none lets the kernel choose.
    pub passive_ports: Option<RangeInclusive<u16>>,
    /// The IPv4 address in replies to PASV, for a server behind address translation.
    pub masquerade: Option<Ipv4Addr>,
    /// Networks that data connections may go to and come from, besides the client's own address: the
    /// other servers of third-party transfers. Empty: none.
    pub foreign_peers: Vec<IpNet>,
    /// Networks whose clients are served; empty: all that are not denied.
    pub allow: Vec<IpNet>,
    /// Networks whose clients are not served.
    pub deny: Vec<IpNet>,
    /// Names that HOST may give for the server itself; empty: any, unless there are virtual hosts.
    pub hosts: Vec<String>,
    /// Virtual hosts.
    pub host: Vec<HostConfig>,
    /// File whose lines greet clients.
    pub banner: Option<PathBuf>,
    /// File whose lines greet users who have logged in.
    pub motd: Option<PathBuf>,
    /// Name of files whose lines are shown to users who enter their directory.
    pub directory_message: Option<String>,
    /// The log of commands.
    pub command_log: Option<LogTarget>,
    /// Loopback address where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// The operator's socket.
    pub control: Option<PathBuf>,
    /// Number of a group that may use it, besides its owner.
    pub control_group: Option<u32>,
    /// PAM service by which system users log in; asking it is left to the program.
    pub pam: Option<String>,
    /// Whether files are served with the rights of the system user who has logged in.
    pub pam_as_user: bool,
    /// Whether a system user's root is the directory of that name, below the server's.
    pub pam_homes: bool,
    /// Whether a PAM session is open while a system user is logged in.
    pub pam_session: bool,
    /// What system users may do; the first that is for one counts.
    pub system_user: Vec<SystemUserConfig>,
    /// Checks the passwords of system users.
    pub authenticator: Option<Authenticator>,
    /// An open socket in place of `listen`.
    pub listener: Option<Arc<TcpListener>>,
    /// Rights of users by directory; without a rule for a directory, a user has those of [`UserConfig::write`].
    pub access: Vec<AccessRule>,
    /// Buffers of data sockets.
    pub buffer: Buffer,
    /// Whether dynamic right-sizing is offered.
    pub drs: bool,
    /// Base URL of an advisor.
    pub advisor: Option<String>,
    /// Networks to which the paths are the operator's own, where congestion control may be off.
    pub allow_nocc: Vec<IpNet>,
    /// Log of what advice did to transfers, one JSON object per line.
    pub advice_log: Option<PathBuf>,
    /// The log of transfers, in the format of xferlog(5).
    pub xferlog: Option<PathBuf>,
    /// How logs are opened.
    pub log_opener: LogOpener,
    /// TLS; none: everything is in clear.
    pub tls: Option<TlsConfig>,
    /// How banner, motd, certificates and keys are read.
    pub file_reader: FileReader,
    /// `USER[:GROUP]` whose rights the process takes on before it serves; doing that is left to the
    /// program.
    pub run_as: Option<String>,
    /// Whether uploads are forced to disk.
    pub sync: SyncPolicy,
    /// Unfinished uploads that have not grown for this time are removed.
    pub partial_age: Duration,
    /// Limits on what a client may use.
    pub limits: Limits,
}

impl Config {
    /// Serves `root` on loopback, port 2121, to be read by anyone there.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            listen: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 2121),
            anonymous: true,
            users: Vec::new(),
            passive_ports: None,
            masquerade: None,
            foreign_peers: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            access: Vec::new(),
            hosts: Vec::new(),
            host: Vec::new(),
            banner: None,
            motd: None,
            directory_message: None,
            command_log: None,
            metrics: None,
            control: None,
            control_group: None,
            pam: None,
            pam_as_user: false,
            pam_homes: false,
            pam_session: false,
            system_user: Vec::new(),
            authenticator: None,
            listener: None,
            buffer: Buffer::Auto,
            drs: true,
            advisor: None,
            allow_nocc: Vec::new(),
            advice_log: None,
            xferlog: None,
            log_opener: LogOpener::default(),
            tls: None,
            file_reader: FileReader::default(),
            run_as: None,
            sync: SyncPolicy::Never,
            partial_age: Duration::from_secs(7 * 24 * 3_600),
            limits: Limits::default(),
        }
    }

    /// Whether a client at `client` may have a data connection with `address`.
    pub fn permits_peer(&self, client: IpAddr, address: IpAddr) -> bool {
        let (client, address) = (client.to_canonical(), address.to_canonical());
        client == address
            || self
                .foreign_peers
                .iter()
                .any(|network| network.contains(&address))
    }
}

/// What is forced to disk before a client is told that its upload is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPolicy {
    /// Nothing: what survives a power failure is up to the file system.
    #[default]
    Never,
    /// The bytes, before the file gets its name, and the name.
    Uploads,
}

impl FromStr for SyncPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Never),
            "uploads" => Ok(Self::Uploads),
            _ => Err(format!("{text:?} is neither never nor uploads")),
        }
    }
}

/// A named user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UserConfig {
    /// Not empty, without control characters, not `anonymous` or `ftp`, and used once.
    pub name: String,
    /// A hash as `fairwind serve --hash-password` prints it (Argon2, PHC string); a plain password is
    /// refused.
    pub password: String,
    /// The user's root, a directory below the server's. Default: the server's.
    #[serde(default)]
    pub home: Option<PathBuf>,
    /// Whether the user may write.
    #[serde(default)]
    pub write: bool,
    /// Names of groups, for rules.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Bytes that the user's root may hold; 0: no limit.
    #[serde(default)]
    pub quota_bytes: u64,
    /// Files and directories that the user's root may hold; 0: no limit.
    #[serde(default)]
    pub quota_files: u64,
    /// Whether `SITE WHO` shows the user all sessions.
    #[serde(default)]
    pub admin: bool,
}

/// Limits on what clients use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// As `--max-sessions`.
    pub sessions: usize,
    /// As `--sessions-per-address`.
    pub sessions_per_address: usize,
    /// A session without a command ends after this time, seconds.
    pub idle_s: u64,
    /// Time for logging in, seconds.
    pub login_s: u64,
    /// Wrong passwords in a session; the last one ends it.
    pub login_failures: u32,
    /// Pause after a wrong password, milliseconds; doubles with each further one from the same address, to
    /// at most 16 times this value.
    pub login_pause_ms: u64,
    /// Wrong passwords from one address after which named users cannot log in from there; 0: no limit.
    pub login_ban_failures: u32,
    /// How long that lasts after the last wrong password, seconds; then wrong passwords are forgotten.
    pub login_ban_s: u64,
    /// Time for opening a data connection, from PASV or EPSV on, seconds; with PORT or EPRT, time for the
    /// client to accept it.
    pub connect_s: u64,
    /// Time without progress after which a transfer ends, seconds.
    pub stalled_s: u64,
    /// Lowest rate of a transfer, bytes per second, averaged over `stalled_s`; a slower one ends.
    pub least_rate: u64,
    /// Longest transfer, seconds; an upload that reaches it can be resumed.
    pub longest_s: u64,
    /// A client that acknowledges nothing for this time counts as gone, seconds (`TCP_USER_TIMEOUT`,
    /// `SO_KEEPALIVE`).
    pub unreachable_s: u64,
    /// Concurrent checksums of one address, waiting ones included.
    pub checksums_per_address: usize,
    /// Computing time of one checksum, seconds.
    pub checksum_s: u64,
    /// Size of all right-sized buffers together, bytes; the kernel may take twice as much memory.
    pub drs_bytes: u64,
    /// Size of the right-sized buffers of one address, bytes.
    pub drs_bytes_per_address: u64,
    /// Length of a command line, bytes.
    pub line: usize,
    /// As `--sessions-per-user`; 0: no limit.
    pub sessions_per_user: usize,
    /// As `--rate-limit`; 0: no limit.
    pub rate: u64,
    /// As `--rate-per-user`; 0: no limit.
    pub rate_per_user: u64,
    /// As `--rate-per-address`; 0: no limit.
    pub rate_per_address: u64,
    /// Bytes that may come out of each byte of a compressed upload (MODE Z), after the first 16 MiB; 0: no limit.
    pub deflate_ratio: u64,
    /// Highest level of compression that clients may choose for MODE Z, 1 to 9; 0: MODE Z is not offered, since some
    /// clients use it unasked, and it makes transfers over fast paths slower.
    pub deflate_level: u32,
    /// Time that transfers have to end when the server is asked to stop, seconds.
    pub stop_s: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 2_000,
            sessions_per_address: 100,
            idle_s: 300,
            login_s: 60,
            login_failures: 3,
            login_pause_ms: 500,
            login_ban_failures: 20,
            login_ban_s: 600,
            connect_s: 30,
            stalled_s: 300,
            least_rate: 100,
            longest_s: 48 * 3_600,
            unreachable_s: 120,
            checksums_per_address: 16,
            checksum_s: 3_600,
            drs_bytes: 512 << 20,
            drs_bytes_per_address: 128 << 20,
            line: 4_096 + 16,
            sessions_per_user: 0,
            rate: 0,
            rate_per_user: 0,
            rate_per_address: 0,
            deflate_ratio: 250,
            deflate_level: 0,
            stop_s: 30,
        }
    }
}

/// The longest time that may be set, a hundred years: the arithmetic of clocks must not overflow.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// The lowest rate that may be set, bytes per second.
const LEAST_RATE: u64 = 1_000;

/// What is wrong with a configuration, and where.
struct Wrong {
    /// The key, and the table that it is in, if any.
    key: (Option<&'static str>, &'static str),
    why: String,
}

impl Limits {
    /// Checks that clocks can represent all times, and that rates can be kept.
    fn check(&self) -> Result<(), Wrong> {
        let wrong = |key, why| {
            Err(Wrong {
                key: (Some("limits"), key),
                why,
            })
        };
        let longest = LONGEST.as_secs();
        for (key, value, longest) in [
            ("idle_s", self.idle_s, longest),
            ("login_s", self.login_s, longest),
            ("login_pause_ms", self.login_pause_ms, 1_000 * longest),
            ("login_ban_s", self.login_ban_s, longest),
            ("connect_s", self.connect_s, longest),
            ("stalled_s", self.stalled_s, longest),
            ("longest_s", self.longest_s, longest),
            ("unreachable_s", self.unreachable_s, longest),
            ("checksum_s", self.checksum_s, longest),
            ("stop_s", self.stop_s, longest),
        ] {
            if value > longest {
                return wrong(key, format!("{value}: {longest} at most"));
            }
        }
        if self.deflate_level > 9 {
            return wrong(
                "deflate_level",
                format!("{}: 9 at most", self.deflate_level),
            );
        }
        for (key, value) in [
            ("rate", self.rate),
            ("rate_per_user", self.rate_per_user),
            ("rate_per_address", self.rate_per_address),
        ] {
            if (1..LEAST_RATE).contains(&value) {
                return wrong(
                    key,
                    format!("{value}: 0 or at least {LEAST_RATE} bytes per second"),
                );
            }
        }
        Ok(())
    }

    /// [`Limits::connect_s`] as a duration.
    pub fn connect(&self) -> Duration {
        Duration::from_secs(self.connect_s)
    }

    /// The bounds of a transfer: [`Limits::stalled_s`], [`Limits::least_rate`], [`Limits::longest_s`].
    pub fn transfer(&self) -> Bounds {
        Bounds {
            patience: Duration::from_secs(self.stalled_s),
            least_rate: self.least_rate,
            longest: Duration::from_secs(self.longest_s),
        }
    }

    /// How long the client's host may be silent. A client that is sent a file may also leave it unread
    /// for `stalled_s`, which is silence to the kernel.
    pub fn silence(&self, direction: Option<Direction>) -> Duration {
        Duration::from_secs(match direction {
            Some(Direction::Send) => self.unreachable_s.max(self.stalled_s),
            Some(Direction::Receive) | None => self.unreachable_s,
        })
    }
}

/// The configuration file: TOML, every key optional. Keys replace what was set before; users are added.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
struct File {
    /// As `--listen`. Default: `"127.0.0.1:2121"`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    listen: Option<SocketAddr>,
    /// Whether `anonymous` and `ftp` may read, with any password. Default: `true`.
    anonymous: Option<bool>,
    /// Named users: an array of tables.
    user: Vec<UserConfig>,
    /// As `--passive-ports`, such as `[50000, 50100]`. Default: chosen by the kernel.
    passive_ports: Option<[u16; 2]>,
    /// As `--masquerade`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    masquerade: Option<Ipv4Addr>,
    /// As `--foreign-peer`: an array such as `["192.0.2.0/24", "2001:db8::/32"]`.
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    foreign_peers: Option<Vec<IpNet>>,
    /// As `--buffer`. Default: `"auto"`.
    buffer: Option<String>,
    /// Whether right-sizing is offered, and what is sent to hosts without it is sized alone. Default: `true`.
    drs: Option<bool>,
    /// As `--advisor`.
    advisor: Option<String>,
    /// As `--allow-nocc`: an array.
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    allow_nocc: Option<Vec<IpNet>>,
    /// As `--advice-log`.
    advice_log: Option<PathBuf>,
    /// As `--xferlog`.
    xferlog: Option<PathBuf>,
    /// As `--run-as`.
    run_as: Option<String>,
    /// As `--sync`. Default: `"never"`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    sync: Option<SyncPolicy>,
    /// Hours, at least 1, after which an unfinished upload that does not grow is removed. Default: `168`.
    partial_age_h: Option<NonZeroU32>,
    /// Limits on what clients use: a table.
    limits: Option<Limits>,
    /// TLS: a table.
    tls: Option<TlsConfig>,
    /// As `--allow`: an array.
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    allow: Option<Vec<IpNet>>,
    /// As `--deny`: an array.
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    deny: Option<Vec<IpNet>>,
    /// Rights by directory: an array of tables.
    access: Vec<AccessRule>,
    /// Names that HOST may give for the server itself: an array; others get 504. Default: any, unless there are virtual
    /// hosts.
    hosts: Option<Vec<String>>,
    /// Virtual hosts: an array of tables.
    host: Vec<HostConfig>,
    /// As `--banner`.
    banner: Option<PathBuf>,
    /// As `--motd`.
    motd: Option<PathBuf>,
    /// Name of files, such as `".message"`, whose lines are shown to users who enter their directory. Default: none.
    directory_message: Option<String>,
    /// As `--command-log`.
    command_log: Option<String>,
    /// As `--metrics`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    metrics: Option<SocketAddr>,
    /// As `--control`.
    control: Option<PathBuf>,
    /// As `--pam`.
    pam: Option<String>,
    /// As `--pam-as-user`. Default: `false`.
    pam_as_user: Option<bool>,
    /// Whether a system user's root is the directory of that name, below the server's; without one, the login
    /// fails. Default: `false`.
    pam_homes: Option<bool>,
    /// Whether a PAM session is open while a system user is logged in. Default: `false`.
    pam_session: Option<bool>,
    /// What system users may do: an array of tables.
    system_user: Vec<SystemUserConfig>,
}

/// The error in the text of a configuration file, with its line.
fn told(text: &str, wrong: Wrong) -> String {
    let Wrong {
        key: (table, key),
        why,
    } = wrong;
    let name = table.map_or(key.to_owned(), |table| format!("{table}.{key}"));
    match line_of(text, table, key) {
        Some(line) => format!("line {line}: {name} = {why}"),
        None => format!("{name} = {why}"),
    }
}

/// The line on which a key stands, from 1.
fn line_of(text: &str, table: Option<&str>, key: &str) -> Option<usize> {
    let root = toml::de::DeTable::parse(text).ok()?;
    let root = root.get_ref();
    let table = match table {
        Some(name) => root.get(name)?.get_ref().as_table()?,
        None => root,
    };
    let (key, _) = table.get_key_value(key)?;
    let before = text.get(..key.span().start)?;
    Some(1 + before.matches('\n').count())
}

impl Config {
    /// Applies the text of a configuration file.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        self.apply(file).map_err(|wrong| told(text, wrong))
    }

    fn apply(&mut self, file: File) -> Result<(), Wrong> {
        let wrong = |key, why| Wrong {
            key: (None, key),
            why,
        };
        if let Some(buffer) = file.buffer {
            self.buffer = buffer.parse().map_err(|why| wrong("buffer", why))?;
        }
        match file.passive_ports {
            Some([first, last]) if first == 0 || first > last => {
                return Err(wrong(
                    "passive_ports",
                    format!("[{first}, {last}]: not a range of ports"),
                ));
            }
            Some([first, last]) => self.passive_ports = Some(first..=last),
            None => {}
        }
        self.listen = file.listen.unwrap_or(self.listen);
        self.anonymous = file.anonymous.unwrap_or(self.anonymous);
        self.masquerade = file.masquerade.or(self.masquerade);
        self.drs = file.drs.unwrap_or(self.drs);
        self.users.extend(file.user);
        if let Some(networks) = file.foreign_peers {
            self.foreign_peers = networks;
        }
        self.advisor = file.advisor.or(self.advisor.take());
        if let Some(networks) = file.allow_nocc {
            self.allow_nocc = networks;
        }
        self.advice_log = file.advice_log.or(self.advice_log.take());
        self.xferlog = file.xferlog.or(self.xferlog.take());
        self.run_as = file.run_as.or(self.run_as.take());
        self.sync = file.sync.unwrap_or(self.sync);
        if let Some(hours) = file.partial_age_h {
            self.partial_age = Duration::from_secs(u64::from(hours.get()) * 3_600);
        }
        self.allow = file.allow.unwrap_or(std::mem::take(&mut self.allow));
        self.deny = file.deny.unwrap_or(std::mem::take(&mut self.deny));
        self.access.extend(file.access);
        self.host.extend(file.host);
        self.hosts = file.hosts.unwrap_or(std::mem::take(&mut self.hosts));
        self.banner = file.banner.or(self.banner.take());
        if let Some(name) = file.directory_message {
            if !messages::is_name(&name) {
                return Err(wrong(
                    "directory_message",
                    format!("{name:?}: not a name for a file"),
                ));
            }
            self.directory_message = Some(name);
        }
        self.motd = file.motd.or(self.motd.take());
        if let Some(target) = &file.command_log {
            self.command_log = Some(LogTarget::from(target.as_str()));
        }
        if let Some(address) = file.metrics.filter(|address| !address.ip().is_loopback()) {
            return Err(wrong(
                "metrics",
                format!("{address}: not an address of loopback"),
            ));
        }
        self.metrics = file.metrics.or(self.metrics);
        self.control = file.control.or(self.control.take());
        self.pam = file.pam.or(self.pam.take());
        self.pam_as_user = file.pam_as_user.unwrap_or(self.pam_as_user);
        self.pam_homes = file.pam_homes.unwrap_or(self.pam_homes);
        self.pam_session = file.pam_session.unwrap_or(self.pam_session);
        self.system_user.extend(file.system_user);
        if let Some(limits) = file.limits {
            limits.check()?;
            self.limits = limits;
        }
        self.tls = file.tls.or(self.tls.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fairwind_testing::page::{check_sections, keys};
    use schemars::schema_for;

    use super::*;

    #[test]
    fn a_file_sets_what_it_names_and_leaves_the_rest() {
        let mut config = Config::new("/srv");
        config
            .read(
                r#"
                passive_ports = [50000, 50100]
                foreign_peers = ["192.0.2.0/24", "2001:db8::/32"]
                buffer = "64KiB"
                sync = "uploads"
                partial_age_h = 2
                [limits]
                idle_s = 60
                [[user]]
                name = "alice"
                password = "$argon2id$..."
                write = true
                "#,
            )
            .unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:2121");
        assert_eq!(config.passive_ports, Some(50_000..=50_100));
        assert_eq!(config.buffer, Buffer::Fixed(65_536));
        assert_eq!(config.sync, SyncPolicy::Uploads);
        assert_eq!(config.partial_age, Duration::from_secs(7_200));
        assert_eq!((config.limits.idle_s, config.limits.stalled_s), (60, 300));
        assert!(config.users[0].write);
        assert!(config.anonymous);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = Config::new("/srv")
            .read("anonymous = false\nanonymus = true")
            .unwrap_err();
        assert!(
            error.contains("line 2") && error.contains("anonymus"),
            "{error}"
        );
        let error = Config::new("/srv").read("drs = true\npassive_ports = [9, 3]");
        assert_eq!(
            error.unwrap_err(),
            "line 2: passive_ports = [9, 3]: not a range of ports"
        );
        assert!(Config::new("/srv").read("partial_age_h = 0").is_err());
    }

    #[test]
    fn a_limit_beyond_all_clocks_is_refused_by_its_key() {
        let mut config = Config::new("/srv");
        for key in [
            "idle_s",
            "login_s",
            "login_ban_s",
            "connect_s",
            "stalled_s",
            "longest_s",
            "unreachable_s",
            "checksum_s",
            "login_pause_ms",
        ] {
            let limits = format!("[limits]\n{key} = {}", i64::MAX);
            let error = config.read(&limits).unwrap_err();
            assert!(error.contains(key) && error.contains(" at most"), "{error}");
            config
                .read(&format!("[limits]\n{key} = 3000000000"))
                .unwrap();
        }
        let error = config.read("# Ours\n[limits]\nidle_s = 9\nrate = 1\n");
        assert_eq!(
            error.unwrap_err(),
            "line 4: limits.rate = 1: 0 or at least 1000 bytes per second"
        );
    }

    #[test]
    fn generated_sections_have_the_keys_of_the_file() {
        let known = check_sections("ftp-server.md", |section| {
            let schema = match section.what {
                "keys of the server" => schema_for!(File),
                "keys of limits" => schema_for!(Limits),
                "keys of a user" => schema_for!(UserConfig),
                "keys of tls" => schema_for!(TlsConfig),
                "keys of a rule" => schema_for!(AccessRule),
                "keys of a host" => schema_for!(HostConfig),
                "keys of a system user" => schema_for!(SystemUserConfig),
                _ => return None,
            };
            let schema = serde_json::to_value(schema).expect("a schema is plain JSON");
            Some(keys(&schema, section))
        });
        assert_eq!(known.len(), 7, "{known:?}");
    }

    #[test]
    fn foreign_addresses_are_closed_unless_named() {
        let mut config = Config::new("/srv");
        let client = "192.0.2.1".parse().unwrap();
        let other = "192.0.2.2".parse().unwrap();
        assert!(config.permits_peer(client, client));
        assert!(config.permits_peer("::ffff:192.0.2.1".parse().unwrap(), client));
        assert!(!config.permits_peer(client, other));
        config.foreign_peers.push("192.0.2.2/32".parse().unwrap());
        assert!(config.permits_peer(client, other));
    }
}
