//! Two servers at once: commands to both, the final replies of both, and how far the transfer between them
//! is.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::progress::wait;
use super::{ClientError, Connection, Options, Session};
use crate::protocol::Reply;

/// How long the other server may take to end after one has failed.
const GRACE: Duration = Duration::from_secs(5);
/// Interval between two queries for the size of what has arrived, and between two checks for answers.
const SIZE_QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs one action per server concurrently, so that neither waits for the other's round trips.
pub(crate) fn at_once<A: Send, B>(
    with_one: impl FnOnce() -> A + Send,
    with_other: impl FnOnce() -> B,
) -> (A, B) {
    thread::scope(|scope| {
        let one = scope.spawn(with_one);
        let other = with_other();
        let one = one.join();
        (
            one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            other,
        )
    })
}

/// One of two servers, or both, have said no.
pub(super) struct Refusal {
    pub error: ClientError,
    /// It was the data connection that failed.
    pub is_of_connection: bool,
}

/// Waits for the final replies of both servers. After a refusal, which is the inner error, the sessions can go on. `stores`
/// becomes true when the destination says that it begins to store.
pub(super) fn wait_for_final_replies(
    source: &mut Session,
    destination: &mut Session,
    seen: &AtomicU64,
    options: &Options,
    stores: &mut bool,
) -> Result<Result<[Reply; 2], Refusal>, ClientError> {
    let mut sessions = [source, destination];
    let mut begun = [false; 2];
    let mut last: [Option<Reply>; 2] = [None, None];
    let (mut moved, mut since) = (seen.load(Ordering::Acquire), Instant::now());
    let mut failed: Option<Instant> = None;
    loop {
        if options.progress.stopped() {
            return Err(ClientError::Stopped);
        }
        if let Some(ended) = final_replies(&sessions, &last) {
            return Ok(ended);
        }
        let now = seen.load(Ordering::Acquire);
        if now != moved {
            (moved, since) = (now, Instant::now());
        }
        let out_of_time = since.elapsed() >= options.patience;
        if out_of_time || failed.is_some_and(|since| since.elapsed() >= GRACE) {
            return Err(timeout_error(&sessions, &last, options.patience));
        }
        let silent_until = since + options.patience;
        let ended_until = failed.map_or(silent_until, |since| since + GRACE);
        let next_check = Instant::now() + SIZE_QUERY_INTERVAL;
        let until = silent_until.min(ended_until).min(next_check);
        let speaking = ready_sessions(&sessions, &last, options, until);
        for index in (0..2).filter(|index| speaking[*index]) {
            let session = &mut sessions[index];
            let reply = session.control.reply(options.patience)?;
            if reply.is_preliminary() {
                // Only the first one is a sign of life: a server can send them without end.
                if !std::mem::replace(&mut begun[index], true) {
                    since = Instant::now();
                }
                *stores = begun[1];
                continue;
            }
            since = Instant::now();
            if !reply.is_positive() {
                failed = Some(Instant::now());
            }
            last[index] = Some(reply);
        }
    }
}

/// Waits for the servers without a final reply, `until` then or a stop; returns which of them have sent
/// something, or closed the connection.
fn ready_sessions(
    sessions: &[&mut Session; 2],
    last: &[Option<Reply>; 2],
    options: &Options,
    until: Instant,
) -> [bool; 2] {
    let open: Vec<usize> = (0..2).filter(|index| last[*index].is_none()).collect();
    let mut speaking = [false; 2];
    for index in &open {
        speaking[*index] = sessions[*index].control.has_line();
    }
    if speaking.contains(&true) {
        return speaking;
    }
    let controls: Vec<_> = open
        .iter()
        .map(|index| (sessions[*index].control.as_fd(), PollFlags::IN))
        .collect();
    // A wait that fails counts as one in which nobody spoke.
    let ready = wait(&*options.progress, &controls, Some(until)).unwrap_or_default();
    for (index, ready) in open.iter().zip(ready) {
        speaking[*index] = ready;
    }
    speaking
}

/// Whether a reply is a refusal that trying again does not change.
fn is_final(reply: &Reply) -> bool {
    !reply.is_positive() && !reply.is_transient_failure()
}

fn final_replies(
    sessions: &[&mut Session; 2],
    last: &[Option<Reply>; 2],
) -> Option<Result<[Reply; 2], Refusal>> {
    let [Some(sent), Some(received)] = last else {
        return None;
    };
    if sent.is_positive() && received.is_positive() {
        return Some(Ok([sent.clone(), received.clone()]));
    }
    let mut codes = [sent, received].map(|reply| reply.code).into_iter();
    Some(Err(Refusal {
        error: failure(said(sessions, last), last),
        is_of_connection: codes.any(|code| matches!(code, 425 | 426 | 522)),
    }))
}

fn failure(what: String, last: &[Option<Reply>; 2]) -> ClientError {
    let transient = !last.iter().flatten().any(is_final);
    ClientError::Failed { what, transient }
}

/// The error if one server, or both, sent no final reply in time.
fn timeout_error(
    sessions: &[&mut Session; 2],
    last: &[Option<Reply>; 2],
    patience: Duration,
) -> ClientError {
    let mut replies = last.iter().flatten();
    let mut what = said(sessions, last);
    if replies.all(Reply::is_positive) {
        what = format!("nothing moved for {patience:?}: {what}");
    }
    failure(what, last)
}

fn said(sessions: &[&mut Session; 2], last: &[Option<Reply>; 2]) -> String {
    let each = sessions.iter().zip(last).map(|(session, reply)| {
        let server = session.server();
        match reply {
            Some(reply) => format!("{server} said {reply}"),
            None => format!("{server} said nothing"),
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Asks periodically, over a separate session, how much has arrived, until the returned sender is dropped.
/// Nobody waits for this thread: the answer to its last query may come after the transfer has ended. If the
/// session cannot be opened, the transfer goes on without progress reports.
pub(super) fn monitor_size(
    mut monitor: Connection,
    partial: Vec<u8>,
    seen: Arc<AtomicU64>,
    tell: impl Fn(u64) + Send + 'static,
) -> Sender<()> {
    let (running, over) = channel();
    thread::spawn(move || {
        while is_running(&over, SIZE_QUERY_INTERVAL) {
            let Ok(session) = monitor.session() else {
                return;
            };
            match session.size(&partial) {
                Ok(Some(size)) if is_running(&over, Duration::ZERO) => {
                    seen.fetch_max(size, Ordering::AcqRel);
                    tell(size);
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
        monitor.close();
    });
    running
}

/// Whether the sender still exists after `time`.
fn is_running(over: &Receiver<()>, time: Duration) -> bool {
    over.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}
