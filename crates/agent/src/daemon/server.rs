//! The agent's Unix socket: HTTP, for the members of a group.
//!
//! Everybody whom the socket's permissions let in may read; to change anything takes the agent's own user, or root.

use std::fs;
use std::io;
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Extension, Json, Router};
use fairwind_kernel::listen_privately;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::unistd::Group;
use serde::Deserialize;
use serde_json::json;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};

use super::runs::{RunRequest, Runs};
use super::status::Status;

/// Connections at a time; others wait.
const CONNECTIONS: usize = 32;
/// Time for a request's head.
const HEAD: Duration = Duration::from_secs(5);
/// Time for a whole connection.
const WHOLE: Duration = Duration::from_secs(60);

/// Where the agent listens, and for whom.
#[derive(Clone, Debug)]
pub struct Access {
    /// The file of the socket.
    pub socket: PathBuf,
    /// The group whose members may ask; by default only the agent's own user.
    pub group: Option<String>,
}

/// Why the agent cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be made.
    #[error("{}: {source}", path.display())]
    Socket {
        /// Its file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another agent listens there.
    #[error("{}: somebody listens there already", .0.display())]
    Taken(PathBuf),
    /// The host has no such group.
    #[error("there is no group \"{0}\": addgroup --system {0} makes it")]
    Group(String),
}

/// An answer that somebody waits for.
#[derive(Debug)]
pub struct Reply<T>(oneshot::Sender<Result<T, String>>);

impl<T> Reply<T> {
    /// Who has asked may be gone.
    pub(super) fn send(self, answer: Result<T, String>) {
        let _ = self.0.send(answer);
    }
}

/// What an agent is asked.
#[derive(Debug)]
pub enum Request {
    /// To end.
    Stop,
    /// To read its policy anew.
    Reload(Reply<Status>),
    /// To give everything back.
    Undo(Reply<Status>),
    /// How it is.
    Status {
        /// With the connections that are there.
        live: bool,
        /// The answer.
        reply: Reply<Status>,
    },
    /// Its metrics.
    Metrics(Reply<String>),
}

/// What asks an agent.
#[derive(Clone, Debug)]
pub struct Handle(Sender<Request>);

impl Handle {
    /// By this channel to [`Agent::run`](super::Agent::run).
    pub fn new(requests: Sender<Request>) -> Handle {
        Handle(requests)
    }

    /// Ends it.
    pub fn stop(&self) {
        // It may have ended.
        let _ = self.0.send(Request::Stop);
    }

    /// Lets it read its policy anew, and does not wait for it.
    pub fn reload(&self) {
        let (reply, _) = oneshot::channel();
        let _ = self.0.send(Request::Reload(Reply(reply)));
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, String> {
        let (reply, answer) = oneshot::channel();
        let _ = self.0.send(request(Reply(reply)));
        let ended = Err("the agent is ending".to_owned());
        answer.await.unwrap_or(ended)
    }
}

/// The user at the other end of a connection.
#[derive(Clone, Copy, Debug)]
struct Peer {
    user: u32,
    /// 0 if it is in a namespace of processes that is not seen here.
    process: u32,
}

impl Peer {
    fn may_change(self) -> bool {
        self.user == 0 || self.user == rustix::process::geteuid().as_raw()
    }
}

/// Listens in a thread of its own until the process ends; returns once it listens. The file is removed when the returned
/// value is dropped.
///
/// # Errors
///
/// If the socket cannot be made.
pub fn serve(access: &Access, handle: Handle) -> Result<SocketFile, ServeError> {
    let group = access.group.as_deref().map(group).transpose()?;
    let failed = |source| ServeError::Socket {
        path: access.socket.clone(),
        source,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(failed)?;
    let listener = {
        let _entered = runtime.enter();
        listen(&access.socket, group).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => ServeError::Taken(access.socket.clone()),
            _ => failed(error),
        })?
    };
    let file = SocketFile(access.socket.clone());
    let thread = std::thread::Builder::new().name("socket".to_owned());
    let serving = move || runtime.block_on(accept(listener, handle));
    thread.spawn(serving).map_err(failed)?;
    Ok(file)
}

/// The file of a socket, removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.0);
    }
}

fn group(name: &str) -> Result<u32, ServeError> {
    let found = Group::from_name(name).ok().flatten();
    let none = || ServeError::Group(name.to_owned());
    Ok(found.ok_or_else(none)?.gid.as_raw())
}

fn listen(path: &path::Path, group: Option<u32>) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    UnixListener::from_std(listen_privately(path, group)?)
}

async fn accept(listener: UnixListener, handle: Handle) {
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/reload", post(reload))
        .route("/v1/undo", post(undo))
        .route("/metrics", get(metrics))
        .with_state(handle)
        .merge(runs());
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let permit = Arc::clone(&room).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    converse(stream, router).await;
                    drop(permit);
                });
            }
            // No descriptor is free.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(stream: UnixStream, router: Router) {
    let Ok(credentials) = stream.peer_cred() else {
        return;
    };
    let peer = Peer {
        user: credentials.uid(),
        process: credentials.pid().map_or(0, |pid| pid as u32),
    };
    let answers = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        hyper::service::Service::call(&answers, request)
    });
    let serving = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // Who sends no request, or goes away, is no error.
    let _ = tokio::time::timeout(WHOLE, serving).await;
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    live: bool,
}

async fn status(State(handle): State<Handle>, Query(asked): Query<Asked>) -> Response {
    let live = asked.live;
    let answer = handle.ask(|reply| Request::Status { live, reply }).await;
    answered(answer.map(Json))
}

// A body that is left unread closes the connection, perhaps before the answer has been read.

async fn reload(
    State(handle): State<Handle>,
    Extension(peer): Extension<Peer>,
    _: Bytes,
) -> Response {
    change(peer, handle.ask(Request::Reload)).await
}

async fn undo(
    State(handle): State<Handle>,
    Extension(peer): Extension<Peer>,
    _: Bytes,
) -> Response {
    change(peer, handle.ask(Request::Undo)).await
}

async fn change(peer: Peer, change: impl Future<Output = Result<Status, String>>) -> Response {
    if !peer.may_change() {
        let error = "only root may change what the agent does";
        return (StatusCode::FORBIDDEN, Json(json!({ "error": error }))).into_response();
    }
    answered(change.await.map(Json))
}

fn runs() -> Router {
    Router::new()
        .route("/v1/runs", post(begin))
        .route("/v1/runs/{run}", delete(end))
        .with_state(Runs::default())
}

async fn begin(
    State(runs): State<Runs>,
    Extension(peer): Extension<Peer>,
    Json(request): Json<RunRequest>,
) -> Response {
    let begun = runs.begin(peer.process, peer.user, &request).await;
    answered(begun.map(Json))
}

async fn end(
    State(runs): State<Runs>,
    Extension(peer): Extension<Peer>,
    Path(run): Path<u64>,
) -> Response {
    match runs.end(run, peer.user).await {
        Some(ended) => answered(ended.map(Json)),
        None => {
            let error = "there is no such run of yours";
            (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
        }
    }
}

async fn metrics(State(handle): State<Handle>) -> Response {
    answered(handle.ask(Request::Metrics).await)
}

fn answered(answer: Result<impl IntoResponse, String>) -> Response {
    match answer {
        Ok(answer) => answer.into_response(),
        Err(error) => {
            let body = Json(json!({ "error": error }));
            (StatusCode::CONFLICT, body).into_response()
        }
    }
}
