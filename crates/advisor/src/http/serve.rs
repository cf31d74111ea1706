//! Serving connections, with limits on their number and on the time they take.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::Response;
use fairwind_origin::Places;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use super::error::refusal;
use super::guard::Guard;
use super::unread::Unread;
use crate::listener::{Arrival, Listener, Listeners, Stream};

/// Limits for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent connections per socket; further ones wait to be accepted. At least 1.
    pub connections: u32,
    /// Concurrent connections per address of another machine; further ones are closed. At least 1.
    pub connections_per_address: usize,
    /// Time from the start of the connection, or the previous answer, to the end of a request's head.
    pub head: Duration,
    /// Time from the end of the head to the answer, including the receipt of the body.
    pub answer: Duration,
    /// Time after which a client that takes nothing of an answer is disconnected.
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1_024,
            connections_per_address: 128,
            head: Duration::from_secs(30),
            answer: Duration::from_secs(60),
            unread: Duration::from_secs(60),
        }
    }
}

/// Time for requests in progress when the service ends.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Pause after a failed accept(), as when no descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);
/// Descriptors for other purposes: store, log, echo requests, name resolution.
const OTHER_DESCRIPTORS: u64 = 256;

/// Serves connections at all sockets until `stop` completes, then waits for those in progress.
pub async fn serve(
    listeners: Listeners,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let guard = Arc::new(Guard::new(&listeners.names, listeners.tokens));
    let router = router
        .layer(middleware::from_fn_with_state(guard, Guard::admit))
        .layer(middleware::from_fn(move |request: Request, next: Next| {
            in_time(limits.answer, request, next)
        }));
    make_room_for_descriptors(listeners.sockets.len(), limits);
    let places = Places::default();
    let (ending, end) = watch::channel(false);
    for listener in listeners.sockets {
        let server = Server {
            router: router.clone(),
            limits,
            // Per socket, so that clients who fill one do not block another.
            room: Arc::new(Semaphore::new(limits.connections as usize)),
            places: places.clone(),
            end: end.clone(),
        };
        tokio::spawn(server.accept(listener));
    }
    drop(end);
    stop.await;
    ending.send_replace(true);
    // Connections still open after this end with the runtime.
    let _ = tokio::time::timeout(ENDS_WITHIN, ending.closed()).await;
}

/// Waits until the service ends.
async fn ended(mut end: watch::Receiver<bool>) {
    // An error means that the service has ended, too.
    let _ = end.wait_for(|ending| *ending).await;
}

/// Raises the limit on descriptors to cover every connection allowed at all sockets: without descriptors, none
/// accepts any.
fn make_room_for_descriptors(sockets: usize, limits: Limits) {
    let connections = sockets as u64 * u64::from(limits.connections);
    let needed = connections + OTHER_DESCRIPTORS;
    let mut allowed = getrlimit(Resource::Nofile);
    if allowed.current.is_none_or(|current| current >= needed) {
        return;
    }
    let most = allowed.maximum.unwrap_or(needed);
    allowed.current = Some(needed.min(most));
    let raised = setrlimit(Resource::Nofile, allowed);
    if raised.is_err() || most < needed {
        tracing::warn!("{connections} connections need {needed} descriptors: ulimit -n {needed}");
    }
}

/// The state of a task that serves a socket.
#[derive(Clone)]
struct Server {
    router: Router,
    limits: Limits,
    /// Permits for the connections of this socket.
    room: Arc<Semaphore>,
    /// Connections per address, over all sockets.
    places: Places,
    end: watch::Receiver<bool>,
}

impl Server {
    async fn accept(self, listener: Listener) {
        loop {
            let permit = Arc::clone(&self.room).acquire_owned();
            let accepted = async { (permit.await, listener.accept().await) };
            let (permit, accepted) = tokio::select! {
                accepted = accepted => accepted,
                () = ended(self.end.clone()) => return,
            };
            match accepted {
                Ok(stream) => {
                    let server = self.clone();
                    tokio::spawn(async move {
                        server.connection(stream).await;
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

    async fn connection(self, stream: Stream) {
        let limits = self.limits;
        // A client that is already gone is not an error.
        let (Ok(came_by), Ok(address)) = (stream.prepare(limits.unread), stream.beyond()) else {
            return;
        };
        // Connections from this machine are not limited.
        let place = address.map(|address| {
            self.places
                .take(address.into(), limits.connections_per_address, usize::MAX)
        });
        if matches!(place, Some(None)) {
            return;
        }
        match stream {
            Stream::Plain(stream) => self.converse(stream, came_by).await,
            Stream::Unix(stream) => {
                let stream = Unread::new(stream, limits.unread);
                self.converse(stream, came_by).await;
            }
            Stream::Tls(stream, tls) => {
                let handshake = TlsAcceptor::from(tls).accept(stream);
                let handshake = tokio::time::timeout(limits.head, handshake);
                let shaken = tokio::select! {
                    shaken = handshake => shaken,
                    () = ended(self.end.clone()) => return,
                };
                if let Ok(Ok(stream)) = shaken {
                    self.converse(stream, came_by).await;
                }
            }
        }
    }

    async fn converse(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        came_by: Arrival,
    ) {
        let answers = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(came_by);
            answers.call(request)
        });
        let serving = Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .serve_connection(TokioIo::new(stream), service);
        let mut serving = std::pin::pin!(serving);
        // A client that disconnects or sends no request is not an error.
        tokio::select! {
            _ = serving.as_mut() => {}
            () = ended(self.end) => {
                serving.as_mut().graceful_shutdown();
                let _ = serving.await;
            }
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
