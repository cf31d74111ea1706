//! Retries: over new connections, after growing pauses, without limit while each attempt comes further than all before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ahead::Upcoming;
use super::clash::Settled;
use super::progress::wait;
use super::report::Reach;
use super::third_party_tls::End;
use super::{ClientError, Credentials, FileReport, Options, Place, Session};

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A server to which sessions are opened as needed.
pub struct Connection {
    place: Place,
    credentials: Credentials,
    options: Options,
    session: Option<Session>,
    was_open: bool,
    /// No session could be opened when one was last needed.
    is_unreached: bool,
    /// Why the server, which was reached before, could no more be reached through all retries.
    lost: Option<String>,
    /// The file that is likely to be moved after the next one.
    next: Option<Upcoming>,
    /// Which end was the TLS client in the last copy from here.
    pub(super) tls_client: Option<End>,
    /// Files put in their final place by this connection and those derived from it.
    settled: Arc<Settled>,
}

/// Work that is retried until it is done.
pub(super) trait Task {
    /// One attempt.
    fn attempt(&mut self, session: &mut Session) -> Result<(), ClientError>;

    /// The report on all attempts so far, if bytes are moved.
    fn report(&mut self) -> Option<&mut FileReport>;
}

/// Work that moves no bytes.
impl<F: FnMut(&mut Session) -> Result<(), ClientError>> Task for F {
    fn attempt(&mut self, session: &mut Session) -> Result<(), ClientError> {
        self(session)
    }

    fn report(&mut self) -> Option<&mut FileReport> {
        None
    }
}

/// Counts consecutive failures and waits after each.
pub(super) struct Pauses<'a> {
    options: &'a Options,
    failures: u32,
    reach: Reach,
}

impl<'a> Pauses<'a> {
    pub(super) fn new(options: &'a Options) -> Self {
        Self {
            options,
            failures: 0,
            reach: Reach::default(),
        }
    }

    /// Waits and reports the failure if it is transient and another retry is allowed; otherwise returns it.
    pub(super) fn wait(
        &mut self,
        error: ClientError,
        report: Option<&mut FileReport>,
    ) -> Result<(), ClientError> {
        // Bytes that move once more are no progress: some servers break off at the same byte whenever a file begins anew.
        let reach = report.as_ref().map_or(self.reach, |report| report.reach);
        if reach.is_beyond(self.reach) {
            self.failures = 0;
        }
        self.reach = reach;
        if !error.is_transient() || self.failures >= self.options.retries {
            return Err(error);
        }
        let pause = self
            .options
            .pause
            .saturating_mul(1 << self.failures.min(16))
            .min(LONGEST_PAUSE);
        self.failures += 1;
        self.options.progress.note(&format!(
            "{error}; trying again in {pause:?} ({} of {})",
            self.failures, self.options.retries
        ));
        let end = Instant::now() + pause;
        while Instant::now() < end {
            if self.options.progress.stopped() {
                return Err(ClientError::Stopped);
            }
            // Cannot fail: nothing is waited for but a stop.
            let _ = wait(&*self.options.progress, &[], Some(end));
        }
        if let Some(report) = report {
            report.interruptions.push(error.to_string());
        }
        Ok(())
    }
}

impl Connection {
    /// A connection to the server of `place`; nothing is opened yet.
    pub fn new(place: Place, credentials: Credentials, options: Options) -> Self {
        Self {
            place,
            credentials,
            options,
            session: None,
            was_open: false,
            is_unreached: false,
            lost: None,
            next: None,
            tls_client: None,
            settled: Arc::default(),
        }
    }

    /// Another connection to the same server.
    pub fn another(&self) -> Self {
        let mut other = Self::new(
            self.place.clone(),
            self.credentials.clone(),
            self.options.clone(),
        );
        other.settled = Arc::clone(&self.settled);
        other
    }

    /// Files in their final place, shared with connections derived from this one.
    pub(super) fn settled(&self) -> Arc<Settled> {
        Arc::clone(&self.settled)
    }

    /// The location that it was made for.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The options of all its sessions.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The current session; a new one if there is none.
    ///
    /// # Errors
    /// If no connection can be established, or the login fails.
    pub fn session(&mut self) -> Result<&mut Session, ClientError> {
        if self.session.is_none() {
            let (place, credentials, options) = (&self.place, &self.credentials, &self.options);
            let kept = options.kept.as_ref();
            let session = kept.and_then(|kept| kept.take(place, credentials, options));
            self.is_unreached = true;
            self.session = Some(match session {
                Some(session) => session,
                None => Session::connect(place, credentials, options)?,
            });
            self.was_open = true;
            self.is_unreached = false;
            self.lost = None;
        }
        Ok(self.session.as_mut().expect("it has just been opened"))
    }

    /// The current session, if there is one.
    pub(super) fn opened(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    /// Why nothing more is to be expected of the server: one that was reached before has not been reached through all
    /// retries of the last task, nor since.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Whether no session could be opened when one was last needed.
    pub(super) fn is_unreached(&self) -> bool {
        self.is_unreached
    }

    /// Whether it is tried again to open a session: not with a server that could not be reached through all retries of an earlier
    /// task, and with one that has never been reached only if the options say so.
    pub(super) fn is_retried(&self) -> bool {
        (self.was_open || self.options.waits) && self.lost.is_none()
    }

    /// Says that a task has failed after all retries.
    pub(super) fn give_up(&mut self, error: &ClientError) {
        if self.is_unreached {
            self.lost = Some(error.to_string());
        }
    }

    /// Ends the session with QUIT, or lets it wait for another connection if the options say so.
    pub fn close(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        match &self.options.kept {
            Some(kept) => kept.put(&self.place, &self.credentials, session),
            None => session.quit(),
        }
    }

    /// Says which file is likely to be moved after the next one, so that it can be asked for ahead.
    pub(super) fn expect(&mut self, next: Option<Upcoming>) {
        self.next = next;
    }

    /// Drops the session without QUIT, which ends what runs in it.
    pub(super) fn drop_session(&mut self) {
        self.session = None;
    }

    /// Drops the session if the error leaves it in an unknown state.
    pub(super) fn judge(&mut self, error: &ClientError) {
        let usable = match error {
            ClientError::Refused { reply, .. } => !matches!(reply.code, 421 | 425 | 426 | 451),
            ClientError::Differs(_) | ClientError::Usage(_) | ClientError::Name(_) => true,
            _ => false,
        };
        if !usable {
            self.session = None;
        }
    }

    /// Runs `act` in a session, and again, in a new one if need be, after a transient failure.
    ///
    /// # Errors
    /// The last failure: one that is not transient, or that persisted through all retries.
    pub fn with<T>(
        &mut self,
        mut act: impl FnMut(&mut Session) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut output = None;
        self.carry_out(&mut |session: &mut Session| {
            output = Some(act(session)?);
            Ok(())
        })?;
        Ok(output.expect("the last attempt succeeded"))
    }

    /// Runs a task with retries.
    pub(super) fn carry_out(&mut self, task: &mut impl Task) -> Result<(), ClientError> {
        let options = self.options.clone();
        let mut pauses = Pauses::new(&options);
        loop {
            let (next, is_retried) = (self.next.clone(), self.is_retried());
            let result = self.session().and_then(|session| {
                session.next = next;
                task.attempt(session)
            });
            let Err(error) = result else {
                return Ok(());
            };
            self.judge(&error);
            if self.is_unreached && !is_retried {
                return Err(error);
            }
            let waited = pauses.wait(error, task.report());
            waited.inspect_err(|error| self.give_up(error))?;
        }
    }
}

impl Drop for Connection {
    /// A session that a command leaves behind, when it has failed for another reason, is as good as any.
    fn drop(&mut self) {
        if self.options.kept.is_some() {
            self.close();
        }
    }
}
