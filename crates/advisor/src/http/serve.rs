//! Connections: how many there may be, and how long they may keep us waiting.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::Response;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::error::refusal;
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

/// Serves connections until `end` closes, and then those that are under way.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    end: watch::Receiver<()>,
) {
    let router = router.layer(middleware::from_fn(move |request: Request, next: Next| {
        in_time(limits.answer, request, next)
    }));
    let room = Arc::new(Semaphore::new(limits.connections as usize));
    loop {
        let permit = Arc::clone(&room).acquire_owned();
        let accepted = async { (permit.await, listener.accept().await) };
        let (permit, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = ended(end.clone()) => break,
        };
        match accepted {
            Ok((stream, _)) => {
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
    drop(listener);
    let all_done = room.acquire_many(limits.connections);
    // Whoever has not come to an end by now is cut off with the runtime.
    let _ = tokio::time::timeout(ENDS_WITHIN, all_done).await;
}

async fn connection(stream: TcpStream, router: Router, limits: Limits, end: watch::Receiver<()>) {
    // Answers are small and somebody waits for each. Without these options it is slower, or held open
    // by the kernel's own patience, but it is served.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(limits.unread));
    let service = TowerToHyperService::new(router);
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
