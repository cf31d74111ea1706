//! Logging in: USER and PASS.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_transfer::RateLimitedLog;

use super::Phase;
use super::metrics::Refusal;
use super::session::Session;
use super::system_users::{Authenticator, Login};
use super::users::User;
use crate::protocol::Reply;
use crate::protocol::path::one_line;

/// Longest check of a system user's password, seconds.
const LONGEST_CHECK: u64 = 60;

static UNKNOWN: RateLimitedLog = RateLimitedLog::new();
static WRONG: RateLimitedLog = RateLimitedLog::new();
static BANNED: RateLimitedLog = RateLimitedLog::new();

impl Session {
    pub(super) fn take_name(&mut self, name: String) -> Reply {
        if self.state.user.is_some() {
            return Reply::new(503, "Already logged in; use REIN to start over");
        }
        if self.lacks_protection() {
            return Reply::new(530, "TLS is required: begin with AUTH TLS");
        }
        let text = if self.shared.users.is_anonymous_login(&name) {
            "Anonymous login ok, send your e-mail address as password"
        } else {
            "Please specify the password"
        };
        self.state.name = Some(name);
        Reply::new(331, text)
    }

    pub(super) async fn take_password(&mut self, password: Vec<u8>) -> Result<Reply, Reply> {
        let Some(name) = self.state.name.take() else {
            return Ok(Reply::new(503, "Login with USER first"));
        };
        let peer = self.control.facts.peer.ip();
        let mut user = self.shared.users.anybody(&name, &password, peer);
        if user.is_none() {
            self.check_ban()?;
            user = self.named_user(&name, password).await?;
            // Other sessions may have guessed while this one waited for its turn.
            self.check_ban()?;
        }
        if let Some(user) = user {
            let most = self.shared.config.limits.sessions_per_user;
            let seat = if user.anonymous {
                None
            } else {
                let seat = self.shared.ledger.users.take(&user.name, most);
                Some(seat.ok_or_else(|| {
                    self.shared.ledger.counters.refusal(Refusal::User);
                    Reply::new(530, "Too many sessions of this user; try again later")
                })?)
            };
            tracing::info!("{peer}: {} logs in", user.name);
            self.shared.ledger.counters.login(user.anonymous);
            self.entry.member().belongs_to(Some(&user));
            self.state.user = Some(user);
            self.state.seat = seat;
            return Ok(self.shared.greeting.motd());
        }
        let limits = self.shared.config.limits.clone();
        let (guesses, now) = (&self.shared.ledger.guesses, Instant::now());
        let pause = guesses.add(peer.into(), now, &limits);
        WRONG.warn(|| format!("{peer}: wrong password for {:?}", one_line(name.as_bytes())));
        self.shared.ledger.counters.wrong_password();
        self.failures += 1;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = self.stop.wait_for(|phase| *phase != Phase::Serving) => {}
        }
        if self.failures >= limits.login_failures {
            self.over = true;
            return Ok(Reply::new(421, "Too many login failures; closing"));
        }
        Ok(Reply::new(530, "Login incorrect"))
    }

    /// The reply if named users cannot log in from the client's address now.
    fn check_ban(&mut self) -> Result<(), Reply> {
        let peer = self.control.facts.peer.ip();
        let limits = &self.shared.config.limits;
        let guesses = &self.shared.ledger.guesses;
        let Some(left) = guesses.banned(peer.into(), Instant::now(), limits) else {
            return Ok(());
        };
        BANNED.warn(|| format!("{peer}: too many wrong passwords, banned for {left:.0?}"));
        self.over = true;
        self.shared.ledger.counters.refusal(Refusal::Banned);
        Err(Reply::new(
            421,
            format!(
                "Too many login failures from your address; try again in {} s",
                left.as_secs() + 1
            ),
        ))
    }

    /// The user with this name and password. A hash takes memory and time on purpose, so a crowd has to
    /// wait for turns.
    async fn named_user(&mut self, name: &str, password: Vec<u8>) -> Result<Option<User>, Reply> {
        if let Some(authenticator) = self.shared.config.authenticator.clone()
            && !self.shared.users.names(name)
        {
            return self.system_user(authenticator, name, password).await;
        }
        let (peer, limits) = (self.control.facts.peer.ip(), &self.shared.config.limits);
        let ledger = &self.shared.ledger;
        let wrong = ledger.guesses.count(peer.into(), Instant::now(), limits);
        let turn = ledger.checks.turn(peer, wrong).await;
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        let looking = tokio::task::spawn_blocking(move || {
            let checks = &shared.ledger.checks;
            checks.run(&turn, |memory| shared.users.login(&name, &password, memory))
        });
        Ok(looking.await.ok().flatten())
    }

    /// The system user with this name and password. The answer may take long, and a client that waits for one
    /// holds up no other until there are many of them.
    async fn system_user(
        &mut self,
        authenticator: Authenticator,
        name: &str,
        password: Vec<u8>,
    ) -> Result<Option<User>, Reply> {
        let peer = self.control.facts.peer.ip();
        let login = Login {
            name: name.to_owned(),
            password,
            peer,
            patience: Duration::from_secs(
                self.shared.config.limits.login_s.clamp(1, LONGEST_CHECK),
            ),
            opens_session: self.shared.config.pam_session,
        };
        let later = || Reply::new(451, "The login cannot be checked; try again later");
        let room = Arc::clone(&self.shared.ledger.system_checks.0);
        let place = room.acquire_owned().await.map_err(|_| later())?;
        let shared = Arc::clone(&self.shared);
        let asking = tokio::task::spawn_blocking(move || {
            let _place = place;
            match authenticator.ask(&login)? {
                Some(user) => {
                    let quotas = &shared.ledger.quotas;
                    shared.users.system_user(&shared.config, user, quotas)
                }
                None => Ok(None),
            }
        });
        asking.await.map_err(|_| later())?.map_err(|error| {
            UNKNOWN.warn(|| {
                format!(
                    "{peer}: the login of {:?}: {error}",
                    one_line(name.as_bytes())
                )
            });
            later()
        })
    }
}
