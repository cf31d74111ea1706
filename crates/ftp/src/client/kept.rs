//! A session that waits for the next connection to its server, so that commands one after the other log in once.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Credentials, Options, Place, Session};

/// Holds at most one session that nobody uses. Clones hold the same one.
#[derive(Clone, Default)]
pub struct Kept {
    /// How servers are reached, as text: a session is for connections that reach them alike.
    reach: String,
    idle: Arc<Mutex<Option<Idle>>>,
}

struct Idle {
    reach: String,
    server: String,
    credentials: Credentials,
    session: Session,
}

impl Kept {
    /// The same for connections that reach servers in this way, told as text.
    pub fn reached_by(&self, reach: String) -> Self {
        Self {
            reach,
            idle: Arc::clone(&self.idle),
        }
    }

    /// Ends the session that waits, if one does.
    pub fn end(&self) {
        let idle = self.idle.lock().take();
        if let Some(idle) = idle {
            idle.session.quit();
        }
    }

    /// The session that waits, with these options, if it is of this user with this server and still open.
    pub(super) fn take(
        &self,
        place: &Place,
        credentials: &Credentials,
        options: &Options,
    ) -> Option<Session> {
        let is_that = |idle: &mut Idle| {
            idle.reach == self.reach
                && idle.server == server(place)
                && idle.credentials == *credentials
        };
        let mut session = self.idle.lock().take_if(is_that)?.session;
        // What comes unasked is that the server ends the session.
        if !session.control.is_silent() {
            return None;
        }
        session.adopt(options);
        Some(session)
    }

    /// Lets a session wait; one that waited before ends.
    pub(super) fn put(&self, place: &Place, credentials: &Credentials, mut session: Session) {
        if session.settle_ahead().is_err() {
            return;
        }
        let before = self.idle.lock().replace(Idle {
            reach: self.reach.clone(),
            server: server(place),
            credentials: credentials.clone(),
            session,
        });
        if let Some(before) = before {
            before.session.quit();
        }
    }
}

fn server(place: &Place) -> String {
    format!("{:?} {}", place.scheme, place.server())
}
