//! Waiting for two servers at once: for the last words of both, and for the bytes that go between them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{ClientError, Connection, Options, Session};
use crate::protocol::Reply;

/// How long the other server has to end when one has failed.
const GRACE: Duration = Duration::from_secs(5);
/// How often the size of what has arrived is asked for.
const LOOK: Duration = Duration::from_secs(1);

/// Waits for the last words of both servers.
pub fn attend(
    source: &mut Session,
    destination: &mut Session,
    seen: &AtomicU64,
    options: &Options,
) -> Result<[Reply; 2], ClientError> {
    let mut sessions = [source, destination];
    let mut last: [Option<Reply>; 2] = [None, None];
    let (mut moved, mut since) = (seen.load(Ordering::Acquire), Instant::now());
    let mut failed: Option<Instant> = None;
    loop {
        if options.progress.stopped() {
            return Err(ClientError::Stopped);
        }
        if let [Some(one), Some(other)] = &last {
            return conclude(&sessions, one, other);
        }
        let now = seen.load(Ordering::Acquire);
        if now != moved {
            (moved, since) = (now, Instant::now());
        }
        let out_of_time = since.elapsed() >= options.patience;
        if out_of_time || failed.is_some_and(|since| since.elapsed() >= GRACE) {
            return Err(silence(&sessions, &last, options.patience));
        }
        for (index, session) in sessions.iter_mut().enumerate() {
            if last[index].is_some() || !ready(session) {
                continue;
            }
            since = Instant::now();
            let reply = session.control.reply(options.patience)?;
            if reply.is_preliminary() {
                continue;
            }
            if !reply.is_positive() {
                failed = Some(Instant::now());
            }
            last[index] = Some(reply);
        }
    }
}

/// A reply has come, or the connection has ended, within a few milliseconds.
fn ready(session: &Session) -> bool {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    let mut one = [PollFd::new(&session.control, PollFlags::IN)];
    session.control.has_line() || poll(&mut one, Some(&wait)).is_ok_and(|count| count > 0)
}

fn conclude(
    sessions: &[&mut Session; 2],
    sent: &Reply,
    received: &Reply,
) -> Result<[Reply; 2], ClientError> {
    let replies = [sent, received];
    let refusals: Vec<usize> = (0..2)
        .filter(|index| !replies[*index].is_positive())
        .collect();
    if refusals.is_empty() {
        return Ok([sent.clone(), received.clone()]);
    }
    let said: Vec<String> = (0..2)
        .map(|index| format!("{} said {}", sessions[index].server(), replies[index]))
        .collect();
    let transient = refusals
        .iter()
        .all(|index| replies[*index].is_transient_failure() && replies[*index].code != 452);
    Err(ClientError::Servers(said.join("; "), transient))
}

/// One of them, or both, said nothing.
fn silence(
    sessions: &[&mut Session; 2],
    last: &[Option<Reply>; 2],
    patience: Duration,
) -> ClientError {
    let said: Vec<String> = (0..2)
        .map(|index| match &last[index] {
            Some(reply) => format!("{} said {reply}", sessions[index].server()),
            None => format!("{} said nothing", sessions[index].server()),
        })
        .collect();
    let refused = last
        .iter()
        .flatten()
        .any(|reply| !reply.is_positive() && (!reply.is_transient_failure() || reply.code == 452));
    let text = match last.iter().flatten().any(|reply| !reply.is_positive()) {
        true => said.join("; "),
        false => format!("nothing moved for {patience:?}: {}", said.join("; ")),
    };
    ClientError::Servers(text, !refused)
}

/// Asks from time to time how much has arrived, over a session of its own. Without one nobody knows
/// how far the transfer is, which is no harm.
pub fn look(
    mut monitor: Connection,
    partial: &[u8],
    seen: &AtomicU64,
    over: &AtomicBool,
    tell: &dyn Fn(u64),
) {
    let mut next = Instant::now() + LOOK;
    while !over.load(Ordering::Acquire) {
        if Instant::now() < next {
            thread::sleep(Duration::from_millis(20));
            continue;
        }
        next = Instant::now() + LOOK;
        let Ok(session) = monitor.session() else {
            return;
        };
        match session.size(partial) {
            Ok(Some(size)) => {
                seen.fetch_max(size, Ordering::AcqRel);
                tell(size);
            }
            Ok(None) => {}
            Err(_) => return,
        }
    }
    monitor.close();
}
