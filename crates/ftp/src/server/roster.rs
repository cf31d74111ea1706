//! The sessions there are and what they do: for SITE WHO, the operator and the metrics.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use fairwind_transfer::{Direction, Meter};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::users::User;

/// All sessions, in the order in which they began.
#[derive(Debug, Clone, Default)]
pub(super) struct Roster(Arc<Mutex<Sessions>>);

#[derive(Debug, Default)]
struct Sessions {
    last: u64,
    running: BTreeMap<u64, Arc<Member>>,
    /// Bytes of files that transfers which have ended moved: sent, received.
    ended: [u64; 2],
}

/// A session.
#[derive(Debug)]
pub(super) struct Member {
    /// Counts from 1 since the server began.
    pub id: u64,
    /// The client.
    pub peer: IpAddr,
    since: Timestamp,
    doing: Mutex<Doing>,
    killed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Doing {
    user: Option<String>,
    /// [`User::owner`]: the user's name may be what an anonymous one calls itself.
    owner: Option<String>,
    /// Empty between commands.
    command: String,
    moving: Option<Moving>,
}

#[derive(Debug)]
struct Moving {
    path: String,
    direction: Direction,
    meter: Arc<Meter>,
    began: Instant,
}

/// What is told about a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Its number, for `--kill`.
    pub session: u64,
    /// The user; none before login. What anonymous users call themselves.
    pub user: Option<String>,
    /// The client's address.
    pub address: IpAddr,
    /// When it began.
    pub since: Timestamp,
    /// The command that is carried out; none between commands.
    pub command: Option<String>,
    /// The file that is moved.
    pub file: Option<String>,
    /// `sent` or `received`.
    pub direction: Option<String>,
    /// Bytes of it that have been moved.
    pub bytes: Option<u64>,
    /// Average rate of the transfer so far, bytes per second.
    pub rate: Option<u64>,
}

/// A session's place in the list; it leaves it when this is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    roster: Roster,
    member: Arc<Member>,
}

impl Roster {
    /// Adds a session.
    pub(super) fn enter(&self, peer: IpAddr) -> Entry {
        let mut sessions = self.0.lock();
        sessions.last += 1;
        let member = Arc::new(Member {
            id: sessions.last,
            peer,
            since: Timestamp::now(),
            doing: Mutex::default(),
            killed: watch::channel(false).0,
        });
        sessions.running.insert(member.id, Arc::clone(&member));
        Entry {
            roster: self.clone(),
            member,
        }
    }

    /// All sessions.
    pub(super) fn rows(&self) -> Vec<SessionRow> {
        let sessions = self.0.lock();
        sessions
            .running
            .values()
            .map(|member| member.row())
            .collect()
    }

    /// The sessions of one user.
    pub(super) fn rows_of(&self, user: &User) -> Vec<SessionRow> {
        let sessions = self.0.lock();
        let members = sessions.running.values();
        members
            .filter(|member| member.doing.lock().owner.as_ref() == Some(&user.owner))
            .map(|member| member.row())
            .collect()
    }

    /// Ends a session; false if there is none of this number.
    pub(super) fn kill(&self, id: u64) -> bool {
        let sessions = self.0.lock();
        let member = sessions.running.get(&id);
        let is_there = member.map(|member| member.killed.send_replace(true));
        is_there.is_some()
    }

    /// Sessions, transfers that run, and bytes of files sent and received so far.
    pub(super) fn totals(&self) -> (usize, usize, [u64; 2]) {
        let sessions = self.0.lock();
        let (mut moving, mut bytes) = (0, sessions.ended);
        for member in sessions.running.values() {
            if let Some(transfer) = &member.doing.lock().moving {
                moving += 1;
                bytes[index(transfer.direction)] += transfer.meter.moved();
            }
        }
        (sessions.running.len(), moving, bytes)
    }
}

/// Where a direction has its sum.
pub(super) fn index(direction: Direction) -> usize {
    match direction {
        Direction::Send => 0,
        Direction::Receive => 1,
    }
}

impl Entry {
    /// The session.
    pub(super) fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// A file begins to move.
    pub(super) fn moves(&self, path: String, direction: Direction, meter: &Arc<Meter>) {
        self.member.doing.lock().moving = Some(Moving {
            path,
            direction,
            meter: Arc::clone(meter),
            began: Instant::now(),
        });
    }

    /// It does not any more.
    pub(super) fn rests(&self) {
        // One lock over both, so that no byte is counted twice or not at all.
        let mut sessions = self.roster.0.lock();
        if let Some(transfer) = self.member.doing.lock().moving.take() {
            sessions.ended[index(transfer.direction)] += transfer.meter.moved();
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.rests();
        self.roster.0.lock().running.remove(&self.member.id);
    }
}

impl Member {
    /// The session is now this user's, or nobody's.
    pub(super) fn belongs_to(&self, user: Option<&User>) {
        let mut doing = self.doing.lock();
        doing.user = user.map(|user| user.name.clone());
        doing.owner = user.map(|user| user.owner.clone());
    }

    /// A command begins; an empty one means that there is none.
    pub(super) fn does(&self, command: &str) {
        command.clone_into(&mut self.doing.lock().command);
    }

    /// Returns when the operator has ended the session.
    pub(super) async fn killed(&self) {
        let mut killed = self.killed.subscribe();
        // The sender lives as long as this.
        let _ = killed.wait_for(|killed| *killed).await;
    }

    fn row(&self) -> SessionRow {
        let doing = self.doing.lock();
        let moving = doing.moving.as_ref();
        let rate = |moving: &Moving| {
            (moving.meter.moved() as f64 / moving.began.elapsed().as_secs_f64().max(0.001)) as u64
        };
        SessionRow {
            session: self.id,
            user: doing.user.clone(),
            address: self.peer,
            since: self.since,
            command: Some(doing.command.clone()).filter(|command| !command.is_empty()),
            file: moving.map(|moving| moving.path.clone()),
            direction: moving.map(|moving| {
                let names = ["sent", "received"];
                names[index(moving.direction)].to_owned()
            }),
            bytes: moving.map(|moving| moving.meter.moved()),
            rate: moving.map(rate),
        }
    }
}
