//! A session: its state, and the loop that takes its commands.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fairwind_transfer::{Meter, SocketPlan};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::channel::Setup;
use super::control::Control;
use super::extension::SessionExtension;
use super::files::Root;
use super::listing::Selection;
use super::protection::Arrival;
use super::rates::RateGate;
use super::roster::Entry;
use super::third_party::ThirdParty;
use super::users::{Seat, User};
use super::work::file_failure;
use super::{Phase, Shared, journal};
use crate::protocol::command::{ByteRange, Representation};
use crate::protocol::digest::Algorithm;
use crate::protocol::line::Line;
use crate::protocol::{Command, Reply, VirtualPath};
use crate::tls::ServerSessionTls;

/// Commands that a client may send ahead while a transfer runs.
const AHEAD: usize = 64;

/// Bytes of such commands from which on no more are read.
const AHEAD_BYTES: usize = 16 << 10;

/// What a client is told whose session the operator ends.
const KILLED: &str = "Session closed by the operator";

/// How often to check whether a client is still there while its commands are not read.
const PRESENCE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// One client's session.
pub(super) struct Session {
    /// That of the session's host.
    pub(super) shared: Arc<Shared>,
    /// That of the server, which knows all hosts.
    pub(super) server: Arc<Shared>,
    /// That of the host without HOST: the server's, or what TLS was begun with.
    pub(super) arrived_at: Arc<Shared>,
    pub(super) control: Control,
    pub(super) stop: watch::Receiver<Phase>,
    /// Its place in the list of sessions.
    pub(super) entry: Entry,
    /// Bytes of a file that the last command moved.
    pub(super) moved: Option<u64>,
    pub(super) extensions: Vec<Box<dyn SessionExtension>>,
    /// Lines that came while a transfer ran.
    pub(super) waiting: VecDeque<Line>,
    pub(super) over: bool,
    pub(super) failures: u32,
    pub(super) state: State,
    /// TLS of this session, once its control connection is protected.
    pub(super) tls: Option<ServerSessionTls>,
    pub(super) arrival: Arrival,
}

/// What commands have set, and REIN forgets.
#[derive(Default)]
pub(super) struct State {
    /// The name given by USER.
    pub(super) name: Option<String>,
    pub(super) user: Option<User>,
    /// Of a named user.
    pub(super) seat: Option<Seat>,
    pub(super) cwd: VirtualPath,
    pub(super) representation: Representation,
    pub(super) restart: u64,
    pub(super) range: Option<ByteRange>,
    pub(super) announced: Option<u64>,
    pub(super) rename_from: Option<VirtualPath>,
    pub(super) setup: Option<Setup>,
    pub(super) extended_only: bool,
    pub(super) selection: Selection,
    pub(super) hash: Algorithm,
    /// PBSZ has been sent.
    pub(super) is_buffer_size_told: bool,
    /// PROT P: data connections are protected.
    pub(super) is_private: bool,
    /// The other server of third-party transfers.
    pub(super) third_party: ThirdParty,
    pub(super) mode: TransferMode,
    /// What limits the rate of the user's transfers in this session, from the first one on.
    pub(super) gate: Option<Arc<RateGate>>,
    /// What OPTS MODE Z LEVEL has chosen.
    pub(super) deflate_level: Option<u32>,
    /// Permission bits that new files and directories do not get; the process's without SITE UMASK.
    pub(super) umask: Option<u32>,
}

/// MODE: how the bytes of files and listings travel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TransferMode {
    /// As they are, to the end of the data connection.
    #[default]
    Stream,
    /// In blocks, the last of which says so.
    Block,
    /// Compressed by zlib at this level.
    Deflate(u32),
}

impl TransferMode {
    /// zlib's level; none for bytes as they are.
    pub(super) fn level(self) -> Option<u32> {
        match self {
            Self::Deflate(level) => Some(level),
            Self::Stream | Self::Block => None,
        }
    }
}

/// Why a command has no positive reply.
pub(super) enum Failure {
    /// It is refused with this reply.
    Refused(Reply),
    /// It has been answered already, with this reply.
    Answered(Reply),
    /// The control connection has failed.
    Lost(io::Error),
}

impl From<Reply> for Failure {
    fn from(reply: Reply) -> Self {
        Self::Refused(reply)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// What becomes of work whose client sends QUIT and leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterQuit {
    /// It is completed, as it was asked for before.
    GoesOn,
    /// It is stopped, as nobody waits for the result.
    Stops,
}

/// How the client interrupted work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// Not at all.
    None,
    /// ABOR
    Aborted,
    /// The control connection was closed, the operator ended the session, or the server stops.
    Gone,
}

impl Session {
    pub(super) fn new(
        shared: Arc<Shared>,
        control: Control,
        stop: watch::Receiver<Phase>,
        arrival: Arrival,
    ) -> Self {
        let facts = control.facts;
        Self {
            extensions: shared
                .extensions
                .iter()
                .map(|extension| extension.open(&facts))
                .collect(),
            entry: shared.ledger.roster.enter(facts.peer.ip()),
            moved: None,
            server: Arc::clone(&shared),
            arrived_at: Arc::clone(&shared),
            shared,
            control,
            stop,
            waiting: VecDeque::new(),
            over: false,
            failures: 0,
            state: State::default(),
            tls: None,
            arrival,
        }
    }

    /// REIN: resets everything but the connection.
    pub(super) fn reset(&mut self) {
        self.state = State {
            is_private: self.arrival == Arrival::Implicit,
            ..State::default()
        };
        self.entry.member().belongs_to(None);
        for extension in &mut self.extensions {
            extension.reset();
        }
    }

    /// Serves the client until either side ends the session.
    ///
    /// # Errors
    /// If the control connection fails.
    pub(super) async fn run(mut self) -> io::Result<()> {
        self.shared.ledger.counters.session();
        self.note("open");
        let result = self.serve().await;
        self.note("close");
        result
    }

    /// Notes the begin or the end of the session in the log of commands.
    fn note(&self, event: &str) {
        if let Some(journal) = &self.shared.journal {
            let user = self.state.user.as_ref().map(|user| user.name.as_str());
            journal.session(event, self.entry.member(), user);
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        if self.arrival == Arrival::Implicit {
            if !self.may_shake_hands() {
                return Ok(());
            }
            self.protect().await?;
            self.state.is_private = true;
        }
        let greeting = self.shared.greeting.banner();
        self.control.send(&greeting).await?;
        let login_time = Duration::from_secs(self.shared.config.limits.login_s);
        let mut login_by = Instant::now() + login_time;
        while !self.over {
            let idle_until = Instant::now() + Duration::from_secs(self.shared.config.limits.idle_s);
            let deadline = match self.state.user {
                None => idle_until.min(login_by),
                Some(_) => idle_until,
            };
            let line = match self.next_line(deadline).await? {
                Next::Line(line) => line,
                Next::Closed => break,
                Next::Dismissed(why) => {
                    self.control.send(&Reply::new(421, why)).await?;
                    break;
                }
            };
            let (shown, begin) = (journal::shown(&line), Instant::now());
            self.entry.member().does(&shown);
            let was_logged_in = self.state.user.is_some();
            let answer = match parse(&line) {
                Ok(command) => Box::pin(self.dispatch(command)).await,
                Err(reply) => Err(reply.into()),
            };
            // REIN, AUTH
            if was_logged_in && self.state.user.is_none() {
                login_by = Instant::now() + login_time;
            }
            match answer {
                Ok(reply) | Err(Failure::Refused(reply)) => {
                    self.done(&shown, &reply, begin.elapsed());
                    self.control.send(&reply).await?;
                }
                Err(Failure::Answered(reply)) => self.done(&shown, &reply, begin.elapsed()),
                Err(Failure::Lost(error)) => return Err(error),
            }
        }
        self.control.end().await;
        Ok(())
    }

    /// Counts and logs a command that has been carried out.
    fn done(&mut self, command: &str, reply: &Reply, taken: Duration) {
        self.entry.member().does("");
        self.shared.ledger.counters.command();
        let moved = self.moved.take();
        if let Some(journal) = &self.shared.journal {
            let user = self.state.user.as_ref().map(|user| user.name.as_str());
            journal.command(self.entry.member(), user, command, reply, moved, taken);
        }
    }

    async fn next_line(&mut self, deadline: Instant) -> io::Result<Next> {
        const LATE: Next = Next::Dismissed("Idle timeout; closing control connection");
        if let Some(line) = self.waiting.pop_front() {
            return Ok(Next::Line(line));
        }
        // A client that always has another line ready never times out while it is waited for.
        if Instant::now() >= deadline {
            return Ok(LATE);
        }
        let client = self.control.facts.peer.ip();
        loop {
            return tokio::select! {
                line = timeout_at(deadline, self.control.line()) => Ok(match line {
                    Ok(line) => line?.map_or(Next::Closed, Next::Line),
                    Err(_) => LATE,
                }),
                _ = self.stop.wait_for(|phase| *phase != Phase::Serving) => Ok(Next::Dismissed("Server shutting down; closing control connection")),
                () = self.entry.member().killed() => Ok(Next::Dismissed(KILLED)),
                () = Setup::advance(&mut self.state.setup, &self.shared.config, client) => continue,
            };
        }
    }

    /// Waits for `work`, meanwhile answers ABOR, STAT and NOOP, and keeps other commands for later. If
    /// the client interrupts, or the operator or the server ends it, `meter` is asked to stop, but `work` is still
    /// waited for.
    pub(super) async fn run_interruptible<T>(
        &mut self,
        work: impl Future<Output = T>,
        meter: &Meter,
        after_quit: AfterQuit,
    ) -> io::Result<(T, Interruption)> {
        let mut work = pin!(work);
        let mut interruption = Interruption::None;
        let mut presence_checks = tokio::time::interval(PRESENCE_CHECK_INTERVAL);
        loop {
            let may_listen = interruption != Interruption::Gone && self.has_room();
            let line = tokio::select! {
                biased;
                done = &mut work => return Ok((done, interruption)),
                line = self.control.line(), if may_listen => line,
                // The end of the connection may be hidden behind lines that there is no room for.
                _ = presence_checks.tick(), if !may_listen && interruption == Interruption::None => {
                    if !self.control.is_left() {
                        continue;
                    }
                    Ok(None)
                }
                // Whatever the client has said or done before.
                _ = self.stop.wait_for(|phase| *phase == Phase::Ending), if !meter.is_stopped() => {
                    meter.stop();
                    interruption = Interruption::Gone;
                    continue;
                }
                () = self.entry.member().killed(), if !self.over => {
                    self.over = true;
                    meter.stop();
                    interruption = Interruption::Gone;
                    continue;
                }
            };
            match line {
                Ok(Some(line)) => match parse(&line) {
                    Ok(Command::Abor) => {
                        meter.stop();
                        interruption = Interruption::Aborted;
                    }
                    Ok(Command::Stat(None)) => {
                        let reply = self.status(Some(meter));
                        self.control.send(&reply).await?;
                    }
                    Ok(Command::Noop) => {
                        self.control
                            .send(&Reply::new(200, "Transfer in progress"))
                            .await?
                    }
                    _ => self.waiting.push_back(line),
                },
                Ok(None) if self.has_quit() && after_quit == AfterQuit::GoesOn => {
                    interruption = Interruption::Gone;
                }
                Ok(None) | Err(_) => {
                    meter.stop();
                    interruption = Interruption::Gone;
                }
            }
        }
    }

    /// Whether another command may be kept.
    fn has_room(&self) -> bool {
        let bytes: usize = self
            .waiting
            .iter()
            .map(|line| match line {
                Line::Whole(line) => line.len(),
                Line::TooLong => 0,
            })
            .sum();
        self.waiting.len() < AHEAD && bytes < AHEAD_BYTES
    }

    /// Whether QUIT is among the commands kept.
    pub(super) fn has_quit(&self) -> bool {
        self.waiting
            .iter()
            .any(|line| parse(line) == Ok(Command::Quit))
    }

    /// Whether the client is still there after `time`.
    pub(super) async fn is_present_after(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        // A line that was sent ahead says nothing: the end of the connection may be behind it.
        while self.has_room() {
            match timeout_at(until, self.control.line()).await {
                Err(_) => break,
                Ok(Ok(Some(line))) => self.waiting.push_back(line),
                Ok(Ok(None) | Err(_)) => return self.has_quit(),
            }
        }
        sleep_until(until).await;
        !self.control.is_left() || self.has_quit()
    }

    /// Runs a job on files, away from the threads that serve control connections.
    pub(super) async fn on_files<T, F>(&mut self, job: F) -> Result<T, Reply>
    where
        T: Send + 'static,
        F: FnOnce(&Root) -> io::Result<T> + Send + 'static,
    {
        self.try_on_files(job)
            .await?
            .map_err(|error| file_failure(&error))
    }

    /// As [`on_files`](Self::on_files), for a job with any result.
    pub(super) async fn try_on_files<T, F>(&mut self, job: F) -> Result<T, Reply>
    where
        T: Send + 'static,
        F: FnOnce(&Root) -> T + Send + 'static,
    {
        let user = self.user()?.clone();
        let done = tokio::task::spawn_blocking(move || user.act(|| job(&user.root))).await;
        let failed = || Reply::new(451, "Local error in processing");
        done.map_err(|_| failed())?.map_err(|_| failed())
    }

    /// The user, or the reply to a client that has not logged in.
    pub(super) fn user(&self) -> Result<&User, Reply> {
        self.state
            .user
            .as_ref()
            .ok_or_else(|| Reply::new(530, "Please login with USER and PASS"))
    }

    /// The user if it may write, or the reply to one that may not.
    pub(super) fn writer(&self) -> Result<&User, Reply> {
        let user = self.user()?;
        if !user.write {
            return Err(Reply::new(550, "Permission denied"));
        }
        Ok(user)
    }

    /// The plan for a data socket.
    pub(super) fn plan(&mut self) -> SocketPlan {
        let mut plan = SocketPlan::with_buffer(self.shared.config.buffer);
        for extension in &mut self.extensions {
            extension.plan(&mut plan);
        }
        plan
    }
}

enum Next {
    Line(Line),
    Closed,
    Dismissed(&'static str),
}

fn parse(line: &Line) -> Result<Command, Reply> {
    match line {
        Line::Whole(line) => Command::parse(line),
        Line::TooLong => Err(Reply::new(500, "Command line too long")),
    }
}
