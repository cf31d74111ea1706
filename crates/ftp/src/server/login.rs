//! Logging in: USER and PASS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::session::Session;
use super::users::User;
use crate::protocol::Reply;
use crate::protocol::path::one_line;

impl Session {
    pub(super) fn take_name(&mut self, name: String) -> Reply {
        if self.user.is_some() {
            return Reply::new(503, "Logged in already; REIN begins anew");
        }
        let text = match self.shared.users.welcomes_anybody(&name) {
            true => "Any password will do; your address of mail is customary",
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
        let user = match self.shared.users.anybody(&name, &password) {
            None => self.named_user(&name, password).await,
            anybody => anybody,
        };
        if let Some(user) = user {
            tracing::info!("{peer}: {} logs in", user.name);
            self.user = Some(user);
            return Ok(Reply::new(230, "Logged in"));
        }
        tracing::warn!("{peer}: wrong password for {:?}", one_line(name.as_bytes()));
        self.failures += 1;
        tokio::time::sleep(Duration::from_millis(
            self.shared.config.limits.login_pause_ms,
        ))
        .await;
        Ok(
            match self.failures >= self.shared.config.limits.login_failures {
                true => {
                    self.over = true;
                    Reply::new(421, "Too many wrong passwords; closing")
                }
                false => Reply::new(530, "Wrong name or password"),
            },
        )
    }

    /// The user with this name and password. A hash takes memory and time on purpose; a crowd waits for
    /// its turn.
    async fn named_user(&mut self, name: &str, password: Vec<u8>) -> Option<User> {
        let checks = &self.shared.ledger.checks;
        let turn = checks.turn(self.control.facts().peer.ip()).await;
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        let looking = tokio::task::spawn_blocking(move || {
            let checks = &shared.ledger.checks;
            checks.look(&turn, |memory| shared.users.login(&name, &password, memory))
        });
        looking.await.ok()?
    }
}
