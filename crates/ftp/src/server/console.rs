//! The operator's socket: the list of sessions, and the end of one. A request is a line of JSON, and so is the
//! answer. Who may write to the socket's file may ask.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use fairwind_kernel::listen_privately;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use super::roster::SessionRow;
use super::{Ledger, attend};

/// Concurrent connections; further ones wait.
const CONNECTIONS: usize = 8;

/// Longest request, bytes, and time for it and for its answer.
const LONGEST: u64 = 1 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    Sessions,
    Kill(u64),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Sessions(Vec<SessionRow>),
    Killed(bool),
    Wrong(String),
}

/// Listens at `path`, for its owner or, if given, for a group as well. A socket that nobody listens at is
/// replaced.
///
/// # Errors
/// If somebody listens there, or the socket cannot be created.
pub(super) fn listen(path: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    listen_privately(path, group).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Answers requests until it is dropped.
pub(super) async fn serve(listener: UnixListener, ledger: Arc<Ledger>) -> io::Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let accept =
        |context: &mut Context<'_>| listener.poll_accept(context).map_ok(|(stream, _)| stream);
    attend::each(accept, CONNECTIONS, PATIENCE, move |stream| {
        let ledger = Arc::clone(&ledger);
        async move { converse(stream, &ledger).await }
    })
    .await;
    Ok(())
}

async fn converse(stream: tokio::net::UnixStream, ledger: &Ledger) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    tokio::io::BufReader::new(read.take(LONGEST))
        .read_line(&mut line)
        .await?;
    let answer = match serde_json::from_str(&line) {
        Ok(Request::Sessions) => Answer::Sessions(ledger.roster.rows()),
        Ok(Request::Kill(session)) => Answer::Killed(ledger.roster.kill(session)),
        Err(error) => Answer::Wrong(error.to_string()),
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    write.write_all(text.as_bytes()).await
}

/// The sessions of the server whose socket is at `path`.
///
/// # Errors
/// If nobody answers there, or the caller may not ask; the error names the socket.
pub fn sessions(path: &Path) -> io::Result<Vec<SessionRow>> {
    match ask(path, &Request::Sessions)? {
        Answer::Sessions(rows) => Ok(rows),
        other => Err(unexpected(path, &other)),
    }
}

/// Ends a session of the server whose socket is at `path`; false if there is none of this number.
///
/// # Errors
/// As [`sessions`].
pub fn kill(path: &Path, session: u64) -> io::Result<bool> {
    match ask(path, &Request::Kill(session))? {
        Answer::Killed(was_there) => Ok(was_there),
        other => Err(unexpected(path, &other)),
    }
}

fn ask(path: &Path, request: &Request) -> io::Result<Answer> {
    let ask = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream)
            .take(64 << 20)
            .read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    };
    ask().map_err(|error: io::Error| named(path, &error))
}

fn unexpected(path: &Path, answer: &Answer) -> io::Error {
    io::Error::other(format!(
        "{}: an answer to nothing asked: {answer:?}",
        path.display()
    ))
}
