//! Logging in: USER and PASS.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::session::Session;
use super::users::User;
use crate::protocol::Reply;
use crate::protocol::path::one_line;
use crate::sparing::Sparing;

static WRONG: Sparing = Sparing::new();
static BANNED: Sparing = Sparing::new();

impl Session {
    pub(super) fn take_name(&mut self, name: String) -> Reply {
        if self.user.is_some() {
            return Reply::new(503, "Logged in already; REIN begins anew");
        }
        let text = match self.shared.users.welcomes_anybody(&name) {
            true => "Any password will do; your e-mail address is customary",
            false => "Password, please",
        };
        self.name = Some(name);
        Reply::new(331, text)
    }

    pub(super) async fn take_password(&mut self, password: Vec<u8>) -> io::Result<Reply> {
        let Some(name) = self.name.take() else {
            return Ok(Reply::new(503, "USER comes first"));
        };
        let peer = self.control.facts().peer.ip();
        let mut user = self.shared.users.anybody(&name, &password);
        if user.is_none() {
            if let Err(banned) = self.check_ban() {
                return Ok(banned);
            }
            user = self.named_user(&name, password).await;
            // By those who guessed while this one waited for its turn.
            if let Err(banned) = self.check_ban() {
                return Ok(banned);
            }
        }
        if let Some(user) = user {
            tracing::info!("{peer}: {} logs in", user.name);
            self.user = Some(user);
            return Ok(Reply::new(230, "Logged in"));
        }
        let limits = self.shared.config.limits.clone();
        let (guesses, now) = (&self.shared.ledger.guesses, Instant::now());
        let pause = guesses.add(peer.into(), now, &limits);
        WRONG.warn(|| format!("{peer}: wrong password for {:?}", one_line(name.as_bytes())));
        self.failures += 1;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = self.stop.wait_for(|stop| *stop) => {}
        }
        Ok(match self.failures >= limits.login_failures {
            true => {
                self.over = true;
                Reply::new(421, "Too many wrong passwords; closing")
            }
            false => Reply::new(530, "Wrong name or password"),
        })
    }

    /// The reply if nobody logs in by name from the client's address now.
    fn check_ban(&mut self) -> Result<(), Reply> {
        let peer = self.control.facts().peer.ip();
        let limits = &self.shared.config.limits;
        let guesses = &self.shared.ledger.guesses;
        let Some(left) = guesses.banned(peer.into(), Instant::now(), limits) else {
            return Ok(());
        };
        BANNED.warn(|| format!("{peer}: too many wrong passwords, banned for {left:.0?}"));
        self.over = true;
        Err(Reply::new(
            421,
            format!(
                "Too many wrong passwords from your address; try again in {} s",
                left.as_secs() + 1
            ),
        ))
    }

    /// The user with this name and password. A hash takes memory and time on purpose; a crowd waits for
    /// its turn.
    async fn named_user(&mut self, name: &str, password: Vec<u8>) -> Option<User> {
        let (peer, limits) = (self.control.facts().peer.ip(), &self.shared.config.limits);
        let ledger = &self.shared.ledger;
        let wrong = ledger.guesses.count(peer.into(), Instant::now(), limits);
        let turn = ledger.checks.turn(peer, wrong).await;
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        let looking = tokio::task::spawn_blocking(move || {
            let checks = &shared.ledger.checks;
            checks.look(&turn, |memory| shared.users.login(&name, &password, memory))
        });
        looking.await.ok()?
    }
}
