//! The operator's socket: the list of sessions, and the end of one. A request is a line of JSON, and so is the
//! answer. Who may write to the socket's file may ask.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Ledger;
use super::roster::SessionRow;

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
    let bind = || {
        // Nobody can connect before the permissions are set.
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        rustix::process::umask(before);
        bound
    };
    let is_deserted = || {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket());
        let connected = UnixStream::connect(path);
        is_socket && connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let listen = || {
        let listener = match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_deserted() => {
                fs::remove_file(path)?;
                bind()
            }
            bound => bound,
        }?;
        if group.is_some() {
            chown(path, None, group)?;
            fs::set_permissions(path, Permissions::from_mode(0o660))?;
        }
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().map_err(|error: io::Error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Answers requests until it is dropped.
pub(super) async fn serve(listener: UnixListener, ledger: Arc<Ledger>) -> io::Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return Ok(());
        };
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is free.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move {
            let _ = timeout(PATIENCE, converse(stream, &ledger)).await;
            drop(place);
        });
    }
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
