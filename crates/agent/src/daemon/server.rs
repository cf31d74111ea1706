//! The agent's Unix socket: HTTP, for the members of a group.
//!
//! Everybody whom the socket's permissions let in may read; to change anything takes the agent's own user, or root.

use std::fs;
use std::io;
use std::path::{self, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Extension, Json, Router};
use fairwind_kernel::listen_privately;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::unistd::Group;
use rustix::net::{SendFlags, send};
use serde::Deserialize;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

use super::peer::Peer;
use super::places::Places;
use super::refusal::{Refusal, in_json, refused};
use super::runs::{RunRequest, Runs};
use super::status::Status;

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
pub struct Reply<T>(oneshot::Sender<Result<T, Refusal>>);

impl<T> Reply<T> {
    /// Who has asked may be gone.
    pub(super) fn send(self, answer: Result<T, Refusal>) {
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
    /// The address of its policy's advisor.
    Advisor(Reply<String>),
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

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let _ = self.0.send(request(Reply(reply)));
        let ending = || Err(Refusal::Unavailable("the agent is ending".to_owned()));
        answer.await.unwrap_or_else(|_| ending())
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

fn router(handle: Handle) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/reload", post(reload))
        .route("/v1/undo", post(undo))
        .route("/metrics", get(metrics))
        .with_state(handle.clone())
        .merge(runs(handle))
        .layer(map_response(in_json))
}

async fn accept(listener: UnixListener, handle: Handle) {
    let router = router(handle);
    let places = Places::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(peer) = Peer::of(&stream) else {
                    continue;
                };
                let Some(admitted) = places.admit(peer.user(), peer.may_change()) else {
                    refuse(&stream);
                    continue;
                };
                let router = router.clone();
                tokio::spawn(async move {
                    let _turn = admitted.turn().await;
                    converse(stream, peer, router).await;
                });
            }
            // No descriptor is free.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Refuses a connection, whatever it asks.
fn refuse(stream: &UnixStream) {
    let body = "{\"error\":\"you have too many connections to the agent, or all others have\"}";
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    // It may be gone, or have no room.
    let _ = send(
        stream,
        answer.as_bytes(),
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    );
}

async fn converse(stream: UnixStream, peer: Peer, router: Router) {
    let answers = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer.clone());
        hyper::service::Service::call(&answers, request)
    });
    let serving = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        // Others may wait for its place.
        .keep_alive(false)
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
    answer.map(Json).into_response()
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

async fn change(peer: Peer, change: impl Future<Output = Result<Status, Refusal>>) -> Response {
    if !peer.may_change() {
        let error = "only root and the agent's own user may change what the agent does";
        return refused(StatusCode::FORBIDDEN, error);
    }
    change.await.map(Json).into_response()
}

fn runs(handle: Handle) -> Router {
    Router::new()
        .route("/v1/runs", post(begin))
        .route("/v1/runs/{run}", delete(end))
        .with_state((Runs::default(), handle))
}

async fn begin(
    State((runs, handle)): State<(Runs, Handle)>,
    Extension(peer): Extension<Peer>,
    Json(request): Json<RunRequest>,
) -> Response {
    let advisor = match request.advised {
        true => handle.ask(Request::Advisor).await,
        false => Ok(String::new()),
    };
    let begun = match advisor {
        Ok(advisor) => runs.begin(peer.process(), &request, &advisor).await,
        Err(refusal) => Err(refusal),
    };
    begun.map(Json).into_response()
}

async fn end(
    State((runs, _)): State<(Runs, Handle)>,
    Extension(peer): Extension<Peer>,
    Path(run): Path<u64>,
) -> Response {
    match runs.end(run, peer.process()).await {
        Some(ended) => ended
            .map(Json)
            .map_err(Refusal::Unavailable)
            .into_response(),
        None => refused(StatusCode::NOT_FOUND, "there is no such run of yours"),
    }
}

async fn metrics(State(handle): State<Handle>) -> Response {
    handle.ask(Request::Metrics).await.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How an agent that is ending answers a request: the status, and what is wrong.
    fn answer(request: &str, content_type: &str, body: &str) -> (u16, String) {
        let (send, _) = std::sync::mpsc::channel();
        let router = router(Handle::new(send));
        let text = format!(
            "{request} HTTP/1.1\r\nhost: agent\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let answer = runtime.block_on(async {
            let (near, far) = UnixStream::pair().unwrap();
            let peer = Peer::of(&far).unwrap();
            near.writable().await.unwrap();
            near.try_write(text.as_bytes()).unwrap();
            converse(far, peer, router).await;
            near.readable().await.unwrap();
            let mut answer = [0; 4096];
            let bytes = near.try_read(&mut answer).unwrap();
            String::from_utf8(answer[..bytes].to_vec()).unwrap()
        });
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        (status, body["error"].as_str().unwrap().to_owned())
    }

    #[test]
    fn what_nobody_may_have_is_told_apart_from_what_the_agent_cannot_do() {
        let run = |body: &str| answer("POST /v1/runs", "application/json", body);
        let (status, said) = run("{\"congestion_control\": \"nocc\"}");
        assert_eq!((status, &*said), (409, "nocc is for root alone"));
        let (status, said) = run("{\"advised\": true}");
        assert_eq!((status, &*said), (503, "the agent is ending"));
    }

    #[test]
    fn whatever_is_wrong_with_a_request_is_told_in_json() {
        let json = "application/json";
        for (request, content_type, body, status, word) in [
            ("POST /v1/runs", json, "{", 400, "JSON"),
            ("POST /v1/runs", "text/plain", "{}", 415, "application/json"),
            ("POST /v1/runs", json, "{\"limit\": 1}", 422, "limit"),
            ("DELETE /v1/runs/one", json, "", 400, "one"),
            ("GET /v1/status?live=perhaps", json, "", 400, "live"),
            ("GET /v2", json, "", 404, "Not Found"),
            ("GET /v1/runs", json, "", 405, "Method Not Allowed"),
        ] {
            let (answered, said) = answer(request, content_type, body);
            assert_eq!(answered, status, "{request}: {said}");
            assert!(said.contains(word), "{request}: {said}");
        }
    }
}
