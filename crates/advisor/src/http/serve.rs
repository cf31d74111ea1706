//! Connections: how many there may be, and how long they may keep us waiting.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use super::error::refusal;
use super::guard::Guard;
use crate::doors::{CameBy, Door, Open, Stream};
use crate::run::ended;

/// What clients are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; more wait to be accepted. At least 1.
    pub connections: u32,
    /// Time from the beginning of a connection, or the answer before, to the end of a request's head.
    pub head: Duration,
    /// Time from the end of the head to the answer, the body's way to us included.
    pub answer: Duration,
    /// Time for which a client may take nothing of an answer.
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1_024,
            head: Duration::from_secs(30),
            answer: Duration::from_secs(60),
            unread: Duration::from_secs(60),
        }
    }
}

/// Time for requests that are under way when the service ends.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Pause after the operating system has refused a connection, as when there are no more descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves connections at all doors until `end` closes, and then those that are under way.
pub async fn serve(open: Open, router: Router, limits: Limits, end: watch::Receiver<()>) {
    let guard = Guard::new(&open.names, open.tokens);
    let router = router
        .layer(middleware::from_fn_with_state(guard, Guard::admit))
        .layer(middleware::from_fn(move |request: Request, next: Next| {
            in_time(limits.answer, request, next)
        }));
    let room = Arc::new(Semaphore::new(limits.connections as usize));
    let doors: Vec<_> = open
        .doors
        .into_iter()
        .map(|door| {
            let (router, room) = (router.clone(), Arc::clone(&room));
            tokio::spawn(attend(door, router, limits, room, end.clone()))
        })
        .collect();
    for door in doors {
        // A door ends when the service does.
        let _ = door.await;
    }
    let all_done = room.acquire_many(limits.connections);
    // Whoever has not come to an end by now is cut off with the runtime.
    let _ = tokio::time::timeout(ENDS_WITHIN, all_done).await;
}

async fn attend(
    door: Door,
    router: Router,
    limits: Limits,
    room: Arc<Semaphore>,
    end: watch::Receiver<()>,
) {
    loop {
        let permit = Arc::clone(&room).acquire_owned();
        let accepted = async { (permit.await, door.accept().await) };
        let (permit, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = ended(end.clone()) => return,
        };
        match accepted {
            Ok(stream) => {
                let connection = connection(stream, router.clone(), limits, end.clone());
                tokio::spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!("no connection could be accepted: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(stream: Stream, router: Router, limits: Limits, end: watch::Receiver<()>) {
    // Whoever has gone already, or does not know how to begin, is no fault of ours.
    let Ok(came_by) = stream.prepare(limits.unread) else {
        return;
    };
    match stream {
        Stream::Plain(stream) => converse(stream, came_by, router, limits, end).await,
        Stream::Unix(stream) => converse(stream, came_by, router, limits, end).await,
        Stream::Tls(stream, tls) => {
            let handshake = TlsAcceptor::from(tls).accept(stream);
            let handshake = tokio::time::timeout(limits.head, handshake);
            let shaken = tokio::select! {
                shaken = handshake => shaken,
                () = ended(end.clone()) => return,
            };
            if let Ok(Ok(stream)) = shaken {
                converse(stream, came_by, router, limits, end).await;
            }
        }
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    came_by: CameBy,
    router: Router,
    limits: Limits,
    end: watch::Receiver<()>,
) {
    let answers = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(came_by);
        answers.call(request)
    });
    let serving = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    // A client that breaks off or asks for nothing is no fault of ours.
    tokio::select! {
        _ = serving.as_mut() => {}
        () = ended(end) => {
            serving.as_mut().graceful_shutdown();
            let _ = serving.await;
        }
    }
}

async fn in_time(limit: Duration, request: Request, next: Next) -> Response {
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let what = format!("no answer within {} s", limit.as_secs_f64());
            refusal(StatusCode::REQUEST_TIMEOUT, what)
        }
    }
}
