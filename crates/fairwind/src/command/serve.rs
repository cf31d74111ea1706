//! `fairwind serve`: an FTP server.

mod confinement;
mod console;
mod files;
mod identity;
mod keeper;
mod pam;
mod privileges;
mod rights;

use std::env;
use std::io::{self, BufRead, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use clap::Args;
use fairwind_ftp::assembly;
use fairwind_ftp::server::{self, Authenticator, Config, Reload, Stop, TlsConfig, UserConfig};
use fairwind_kernel::raise_descriptor_limit;
use fairwind_transfer::Buffer;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::supervisor::{self, Supervisor};
use crate::failure::Failure;
use crate::output;
use files::Files;
use rights::{Chosen, Rights};

/// Where the password of a user without a hash comes from.
const PASSWORD: &str = "FAIRWIND_FTP_PASSWORD";

/// Serve a directory's files by FTP
#[derive(Args)]
#[command(after_help = "\
By default anybody on this machine may read, and nobody may write. Nothing outside DIR can be reached,
not even by symbolic links. An upload gets its name when it is complete; one that broke off can be
resumed. SIGHUP reads the configuration file and certificates again, for new sessions. SIGTERM lets transfers end.
Started by root, the server becomes the owner of DIR, or nobody if that is root; see --run-as.

Examples:
  fairwind serve /srv/data                             For this machine, at port 2121
  fairwind serve /srv/data --listen 0.0.0.0:21         For all (as root)
  fairwind serve /srv/data --tls-certificate cert.pem --tls-key key.pem
                                                       With TLS for those who want it
  fairwind serve --hash-password                       Ask for a password, print its hash
  fairwind serve --sessions                            Who is there, and what they do
  fairwind serve /srv/data --user 'alice:$argon2id$…'  Alice may write
  fairwind serve /srv/data --config ftp.toml           All settings: docs/reference/ftp-server.md")]
pub(crate) struct Serve {
    /// Directory to serve
    #[arg(required_unless_present_any = ["hash_password", "sessions", "kill"])]
    dir: Option<PathBuf>,
    /// Configuration file (TOML); options on the command line replace its values, and repeatable options add to
    /// its lists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port for clients; `[::]:PORT` serves IPv4 and IPv6; port 0 takes any free port [default:
    /// 127.0.0.1:2121]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Add a user who may write; without a hash, the password is in FAIRWIND_FTP_PASSWORD; repeatable
    #[arg(long, value_name = "NAME[:HASH]")]
    user: Vec<String>,
    /// Refuse anonymous users
    #[arg(long)]
    no_anonymous: bool,
    /// Ports of passive data connections [default: the kernel chooses]
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    passive_ports: Option<(u16, u16)>,
    /// IPv4 address in replies to PASV, for a server behind address translation
    #[arg(long, value_name = "ADDRESS")]
    masquerade: Option<std::net::Ipv4Addr>,
    /// Network of other servers with which third-party transfers are allowed; repeatable
    #[arg(long, value_name = "NETWORK")]
    foreign_peer: Vec<ipnet::IpNet>,
    /// Network whose clients are served, and no others; repeatable
    #[arg(long, value_name = "NETWORK")]
    allow: Vec<ipnet::IpNet>,
    /// Network whose clients are not served; repeatable
    #[arg(long, value_name = "NETWORK")]
    deny: Vec<ipnet::IpNet>,
    /// Buffers of data connections: `auto` for the kernel's own, or a size such as 64KiB [default: auto]
    #[arg(long, value_name = "SIZE")]
    buffer: Option<Buffer>,
    /// Do not offer right-sizing, buffers sized to the path
    #[arg(long)]
    no_drs: bool,
    /// Follow this advisor
    #[arg(long, value_name = "URL")]
    advisor: Option<String>,
    /// Network to which the paths are your own, where advice may switch congestion control off; repeatable
    #[arg(long, value_name = "NETWORK")]
    allow_nocc: Vec<ipnet::IpNet>,
    /// Log of advice and what it changed, one JSON object per line
    #[arg(long, value_name = "FILE")]
    advice_log: Option<PathBuf>,
    /// Log of transfers, in the format of xferlog(5)
    #[arg(long, value_name = "FILE")]
    xferlog: Option<PathBuf>,
    /// What is forced to the disk before the client learns of success: `never` (nothing) or `uploads` [default:
    /// never]
    #[arg(long, value_name = "WHAT")]
    sync: Option<server::SyncPolicy>,
    /// Offer TLS with this certificate, followed by those of its authorities (PEM); needs --tls-key
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of --tls-certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Refuse logins and data connections without TLS
    #[arg(long)]
    tls_required: bool,
    /// Address and port of implicit TLS, `ftps://`; its own port is 990
    #[arg(long, value_name = "ADDRESS:PORT")]
    tls_listen: Option<SocketAddr>,
    /// User whose rights the server has if root starts it [default: the owner of DIR, or nobody if that is
    /// root]
    #[arg(long, value_name = "USER[:GROUP]")]
    run_as: Option<String>,
    /// Concurrent sessions from one address [default: 100]
    #[arg(long, value_name = "NUMBER")]
    sessions_per_address: Option<usize>,
    /// Concurrent sessions [default: 2000]
    #[arg(long, value_name = "NUMBER")]
    max_sessions: Option<usize>,
    /// Concurrent sessions of one named user [default: no limit]
    #[arg(long, value_name = "NUMBER")]
    sessions_per_user: Option<usize>,
    /// Rate of all transfers together, bytes per second such as 10MB [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate_limit: Option<u64>,
    /// Rate of all transfers of one named user, bytes per second [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate_per_user: Option<u64>,
    /// Rate of all transfers with one address, bytes per second [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate_per_address: Option<u64>,
    /// File whose lines greet clients, before login
    #[arg(long, value_name = "FILE")]
    banner: Option<PathBuf>,
    /// File whose lines greet users who have logged in
    #[arg(long, value_name = "FILE")]
    motd: Option<PathBuf>,
    /// Log of commands, one JSON object per line: a file, or `syslog`
    #[arg(long, value_name = "FILE")]
    command_log: Option<String>,
    /// Address of loopback where metrics are served in the format of Prometheus, at `/metrics`
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Socket by which the sessions can be listed and ended; --sessions and --kill look for one at
    /// /run/fairwind/serve.sock if none is named
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Group that may use the socket, besides who started the server
    #[arg(long, value_name = "GROUP")]
    control_group: Option<String>,
    /// Print the sessions of the server that has this --control, and exit
    #[arg(long, conflicts_with = "kill")]
    sessions: bool,
    /// With --sessions: as a JSON array
    #[arg(long, requires = "sessions")]
    json: bool,
    /// End this session of the server that has this --control, and exit
    #[arg(long, value_name = "SESSION")]
    kill: Option<u64>,
    /// PAM service by which system users log in; root needs to start the server for most services
    #[arg(long, value_name = "SERVICE")]
    pam: Option<String>,
    /// Serve files to system users with their own rights; needs root
    #[arg(long)]
    pam_as_user: bool,
    /// Check the configuration, the users and their directories, and exit
    #[arg(long)]
    check: bool,
    /// Ask for a password, or read one line of standard input, print its hash, and exit
    #[arg(long)]
    hash_password: bool,
}

impl Serve {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.hash_password {
            let hash = server::hash_password(&read_password()?).map_err(Failure::work)?;
            output::line(&hash)?;
            return Ok(());
        }
        if self.sessions || self.kill.is_some() {
            return console::run(self.control.as_deref(), self.kill, self.json);
        }
        if self.check {
            let config = self.configuration(|file| std::fs::read_to_string(file))?;
            server::check(&config).map_err(Failure::input)?;
            output::line("the configuration is valid")?;
            return Ok(());
        }
        // Before anything else opens descriptors.
        let listener = supervisor::inherited()?;
        let supervisor = Supervisor::of_environment()?;
        log_to_standard_error();
        raise_descriptor_limit();
        let mut config = self.configuration(|file| std::fs::read_to_string(file))?;
        config.listener = listener.map(Arc::new);
        // Before any thread is started: rights belong to a thread.
        let files = Files::keep(&mut config, self.config.as_deref()).map_err(Failure::work)?;
        let authenticator = config.pam.as_deref().map(pam::start);
        let authenticator = authenticator
            .transpose()
            .map_err(|error| Failure::work(format!("--pam: {error}")))?;
        config.authenticator.clone_from(&authenticator);
        let rights = Rights::of(&config)?;
        let mut server = assembly::bind_server(config).map_err(Failure::work)?;
        let chosen = rights.give_up()?;
        let (stop, reload) = (Stop::default(), server.reload());
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(Failure::work)?;
        let (asked, reads_again) = (stop.clone(), self.reads_again());
        // Opening files may take long, and the end must not wait for it. One more reload, queued behind the
        // one under way, is enough.
        let (again, wanted) = mpsc::sync_channel(1);
        let (told, stopped) = (supervisor.clone(), supervisor.clone());
        std::thread::spawn(move || {
            for () in wanted {
                told.reloads();
                self.reload(&reload, &files, &chosen, &authenticator);
                told.reloaded();
            }
        });
        std::thread::spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGHUP if reads_again => drop(again.try_send(())),
                    // The second one ends everything at once.
                    _ if !asked.drain() => asked.ask(),
                    _ => {
                        stopped.stops();
                        // Standard error may be closed by now.
                        let _ = writeln!(io::stderr(), "stopping; a second signal ends transfers");
                    }
                }
            }
        });
        let serving = format!(
            "serving ftp://{}/",
            server.address().map_err(Failure::work)?
        );
        eprintln!("{serving}");
        if let Some(address) = server.tls_address().map_err(Failure::work)? {
            eprintln!("serving ftps://{address}/");
        }
        if let Some(address) = server.metrics_address().map_err(Failure::work)? {
            eprintln!("metrics at http://{address}/metrics");
        }
        supervisor.ready(&serving);
        if let Some(period) = supervisor.period() {
            let sessions = server.session_count();
            server.every(period, move || supervisor.lives(sessions()));
        }
        server.run(&stop).map_err(Failure::work)
    }

    /// Whether SIGHUP means to read the configuration again: without a file, on a terminal, it means that the
    /// terminal was closed.
    fn reads_again(&self) -> bool {
        self.config.is_some() || !io::stdin().is_terminal()
    }

    fn reload(
        &self,
        reload: &Reload,
        files: &Files,
        chosen: &Chosen,
        authenticator: &Option<Authenticator>,
    ) {
        let done = self
            .configuration(|_| files.configuration())
            .and_then(|mut config| {
                files.attach(&mut config).map_err(Failure::work)?;
                // The first one's service stays, unless there is to be none.
                let pam = config.pam.as_ref().and(authenticator.as_ref());
                config.authenticator = pam.cloned();
                chosen.warn_of(&config);
                reload.with(config).map_err(Failure::work)
            });
        let told = match done {
            Ok(()) => "the configuration was read again".to_owned(),
            Err(Failure::Input(why) | Failure::Work(why)) => {
                format!("error: {why}\nthe configuration stays as it was")
            }
            Err(other) => format!("error: {other:?}\nthe configuration stays as it was"),
        };
        // Standard error may be closed by now.
        let _ = writeln!(io::stderr(), "{told}");
    }

    /// The configuration from file and options; `read` returns the text of the file.
    fn configuration(&self, read: impl Fn(&Path) -> io::Result<String>) -> Result<Config, Failure> {
        let mut config = Config::new(self.dir.clone().unwrap_or_default());
        if let Some(file) = &self.config {
            let text = read(file).map_err(Failure::no_input(file))?;
            config.read(&text).map_err(Failure::no_input(file))?;
        }
        for user in &self.user {
            config.users.push(parse_user(user)?);
        }
        config.listen = self.listen.unwrap_or(config.listen);
        config.anonymous &= !self.no_anonymous;
        config.drs &= !self.no_drs;
        config.buffer = self.buffer.unwrap_or(config.buffer);
        config.masquerade = self.masquerade.or(config.masquerade);
        config.advisor = self.advisor.clone().or(config.advisor);
        config.allow_nocc.extend(self.allow_nocc.iter().cloned());
        config.advice_log = self.advice_log.clone().or(config.advice_log);
        config.sync = self.sync.unwrap_or(config.sync);
        config.xferlog = self.xferlog.clone().or(config.xferlog);
        config.run_as = self.run_as.clone().or(config.run_as);
        config
            .foreign_peers
            .extend(self.foreign_peer.iter().cloned());
        if let Some((certificate, key)) = self.tls_certificate.clone().zip(self.tls_key.clone()) {
            let given = TlsConfig::new(&certificate, &key);
            config.tls = Some(TlsConfig {
                certificate,
                key,
                ..config.tls.unwrap_or(given)
            });
        }
        match &mut config.tls {
            Some(tls) => {
                tls.required |= self.tls_required;
                tls.listen = self.tls_listen.or(tls.listen);
            }
            None if self.tls_required || self.tls_listen.is_some() => {
                return Err(Failure::input(
                    "TLS needs a certificate and its key: --tls-certificate, --tls-key",
                ));
            }
            None => {}
        }
        if let Some((first, last)) = self.passive_ports {
            config.passive_ports = Some(first..=last);
        }
        config.allow.extend(self.allow.iter().cloned());
        config.deny.extend(self.deny.iter().cloned());
        config.banner = self.banner.clone().or(config.banner);
        config.motd = self.motd.clone().or(config.motd);
        let command_log = self.command_log.as_deref().map(server::LogTarget::from);
        config.command_log = command_log.or(config.command_log);
        if let Some(address) = self.metrics.filter(|address| !address.ip().is_loopback()) {
            return Err(Failure::input(format!(
                "--metrics {address}: not an address of loopback"
            )));
        }
        config.metrics = self.metrics.or(config.metrics);
        config.pam = self.pam.clone().or(config.pam);
        config.pam_as_user |= self.pam_as_user;
        config.control = self.control.clone().or(config.control);
        let group = self.control_group.as_deref().map(console::group);
        config.control_group = group.transpose()?.or(config.control_group);
        let limits = &mut config.limits;
        for (limit, chosen) in [
            (&mut limits.sessions_per_address, self.sessions_per_address),
            (&mut limits.sessions, self.max_sessions),
            (&mut limits.sessions_per_user, self.sessions_per_user),
        ] {
            *limit = chosen.unwrap_or(*limit);
        }
        for (limit, chosen) in [
            (&mut limits.rate, self.rate_limit),
            (&mut limits.rate_per_user, self.rate_per_user),
            (&mut limits.rate_per_address, self.rate_per_address),
        ] {
            *limit = chosen.unwrap_or(*limit);
        }
        Ok(config)
    }
}

fn parse_user(text: &str) -> Result<UserConfig, Failure> {
    let (name, password) = match text.split_once(':') {
        Some((name, hash)) => (name, hash.to_owned()),
        None => {
            let password = env::var(PASSWORD).map_err(|_| {
                Failure::input(format!(
                    "--user {text}: neither a hash nor {PASSWORD} is given"
                ))
            })?;
            (
                text,
                server::hash_password(&password).map_err(Failure::work)?,
            )
        }
    };
    Ok(UserConfig {
        name: name.to_owned(),
        password,
        write: true,
        ..UserConfig::default()
    })
}

/// A rate in bytes per second, with a unit as sizes have it; 0: no limit.
fn rate(text: &str) -> Result<u64, String> {
    match text.parse::<Buffer>() {
        _ if text == "0" => Ok(0),
        Ok(Buffer::Fixed(bytes)) if bytes as u64 >= 1_000 => Ok(bytes as u64),
        _ => Err(format!("{text:?} is not a rate from 1kB to 1GB per second")),
    }
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let range = text.split_once('-').and_then(|(first, last)| {
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first > 0 && first <= last).then_some((first, last))
    });
    range.ok_or_else(|| format!("{text:?} is not a range of ports: 50000-50100"))
}

/// Reads a line from standard input, without echo if that is a terminal.
fn read_password() -> Result<String, Failure> {
    let password = if io::stdin().is_terminal() {
        rpassword::prompt_password("Password: ").map_err(Failure::work)?
    } else {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        read.map_err(Failure::work)?;
        line.trim_end_matches(['\r', '\n']).to_owned()
    };
    if password.is_empty() {
        return Err(Failure::input("the password is empty"));
    }
    Ok(password)
}

/// Logs to standard error; `RUST_LOG` selects what (default `info`).
fn log_to_standard_error() {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::prelude::*;
    let chosen = env::var("RUST_LOG").ok();
    let chosen = chosen.and_then(|text| text.parse::<Targets>().ok());
    let info = || Targets::new().with_default(LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_writer(io::stderr);
    tracing_subscriber::registry()
        .with(lines)
        .with(chosen.unwrap_or_else(info))
        .init();
}
