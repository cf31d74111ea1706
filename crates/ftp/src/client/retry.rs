//! Trying again: over a new connection, after pauses that grow, as long as something moves in between.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::clash::Settled;
use super::{ClientError, Credentials, Options, Place, Session};

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A server that one can come back to.
pub struct Connection {
    place: Place,
    credentials: Credentials,
    options: Options,
    session: Option<Session>,
    was_open: bool,
    /// Files that have their place here, by this connection and those that were made from it.
    settled: Arc<Settled>,
}

/// What is tried until it is done.
pub(super) trait Task {
    type Output;

    /// One attempt, as far as it gets.
    fn attempt(&mut self, session: &mut Session) -> Result<Self::Output, ClientError>;

    /// Bytes moved by all attempts.
    fn moved(&self) -> u64;

    /// The last attempt failed and there will be another one.
    fn interrupted(&mut self, error: &ClientError);
}

/// How many failures in a row there were, and how long to wait after each.
pub(super) struct Pauses<'a> {
    options: &'a Options,
    failures: u32,
    moved: u64,
}

impl<'a> Pauses<'a> {
    pub(super) fn new(options: &'a Options) -> Self {
        Self {
            options,
            failures: 0,
            moved: 0,
        }
    }

    /// Waits, if this failure may pass and trying again is still allowed; gives it back otherwise.
    pub(super) fn wait(
        &mut self,
        error: ClientError,
        moved: u64,
    ) -> Result<ClientError, ClientError> {
        if moved > self.moved {
            self.failures = 0;
            self.moved = moved;
        }
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
            let left = end.saturating_duration_since(Instant::now());
            thread::sleep(left.min(Duration::from_millis(50)));
        }
        Ok(error)
    }
}

impl Connection {
    /// To the server of a place; nothing is opened yet.
    pub fn new(place: Place, credentials: Credentials, options: Options) -> Self {
        Self {
            place,
            credentials,
            options,
            session: None,
            was_open: false,
            settled: Arc::default(),
        }
    }

    /// Another one to the same server.
    pub fn another(&self) -> Self {
        Self {
            settled: Arc::clone(&self.settled),
            ..Self::new(
                self.place.clone(),
                self.credentials.clone(),
                self.options.clone(),
            )
        }
    }

    /// Files that have their place here.
    pub(super) fn settled(&self) -> Arc<Settled> {
        Arc::clone(&self.settled)
    }

    /// The server.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// How it goes about its work.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The session, opened if it is not.
    ///
    /// # Errors
    /// No connection, or no login.
    pub fn session(&mut self) -> Result<&mut Session, ClientError> {
        if self.session.is_none() {
            self.session = Some(Session::connect(
                &self.place,
                &self.credentials,
                &self.options,
            )?);
            self.was_open = true;
        }
        Ok(self.session.as_mut().expect("it has just been opened"))
    }

    /// Takes leave of the server.
    pub fn close(&mut self) {
        if let Some(session) = self.session.take() {
            session.quit();
        }
    }

    /// Breaks the session off: what runs in it ends.
    pub(super) fn drop_session(&mut self) {
        self.session = None;
    }

    /// Drops the session if this error leaves it in an unknown state.
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

    /// Does something that needs no more than a session, again if that broke.
    ///
    /// # Errors
    /// What does not pass, or did not in time.
    pub fn with<T>(
        &mut self,
        mut act: impl FnMut(&mut Session) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        struct Act<F>(F);
        impl<T, F: FnMut(&mut Session) -> Result<T, ClientError>> Task for Act<F> {
            type Output = T;
            fn attempt(&mut self, session: &mut Session) -> Result<T, ClientError> {
                (self.0)(session)
            }
            fn moved(&self) -> u64 {
                0
            }
            fn interrupted(&mut self, _: &ClientError) {}
        }
        self.carry_out(&mut Act(&mut act))
    }

    /// Carries a task out. A server that was never reached is not tried again.
    pub(super) fn carry_out<T: Task>(&mut self, task: &mut T) -> Result<T::Output, ClientError> {
        let options = self.options.clone();
        let mut pauses = Pauses::new(&options);
        loop {
            let result = self.session().and_then(|session| task.attempt(session));
            let error = match result {
                Ok(output) => return Ok(output),
                Err(error) => error,
            };
            self.judge(&error);
            if !self.was_open {
                return Err(error);
            }
            let error = pauses.wait(error, task.moved())?;
            task.interrupted(&error);
        }
    }
}
