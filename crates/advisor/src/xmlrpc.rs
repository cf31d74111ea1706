//! The thesis' calls over XML-RPC (section 3.2.1), at `/RPC2` and `/`.
//!
//! - `EnableGetBufferSize(host)`: the buffer for a transfer to or from the host, bytes; 0 if nothing is known
//!   and the kernel should choose.
//! - `EnableGetNetInfo(host)`: the newest result of every test of the path to the host.
//! - `EnableGetAdvice(client_ip, remaining_bytes)`: whether to use congestion control, round-trip time,
//!   available bandwidth, time of the next advice. XML-RPC's integers have 32 bits: larger numbers may be
//!   sent as double, i8 or string.
//!
//! Every error is answered with a fault.

mod calls;
mod guard;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use dxr::{Fault, FaultResponse};
use dxr_server::HandlerMap;

use crate::service::Service;

/// Maximum length of a call, bytes.
const LONGEST_CALL: usize = 64 << 10;

#[derive(Clone)]
struct Calls {
    service: Service,
    handlers: HandlerMap,
}

/// The routes of the calls.
pub fn router(service: &Service) -> Router {
    let calls = Calls {
        service: service.clone(),
        handlers: calls::handlers(service),
    };
    Router::new()
        .route("/RPC2", post(call))
        .route("/", post(call))
        .with_state(calls)
}

async fn call(State(calls): State<Calls>, request: Request<Body>) -> Response {
    let answer = match read(request).await {
        Ok((text, mut headers)) => {
            // The body has been read completely, so its announced length no longer matters.
            headers.insert(CONTENT_LENGTH, text.len().into());
            dxr_server::server(calls.handlers, &text, headers).await
        }
        Err(fault) => fault_response(fault),
    };
    if answer.2.contains("<fault>") {
        calls.service.metrics().faults.inc();
    }
    answer.into_response()
}

async fn read(request: Request<Body>) -> Result<(String, HeaderMap), Fault> {
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, LONGEST_CALL).await;
    let bytes =
        bytes.map_err(|_| Fault::new(413, format!("a call has at most {LONGEST_CALL} bytes")))?;
    let text = String::from_utf8(bytes.into())
        .map_err(|_| Fault::new(400, "a call is text in UTF-8".to_owned()))?;
    guard::check(&text).map_err(|problem| Fault::new(400, problem.to_owned()))?;
    Ok((text, parts.headers))
}

fn fault_response(fault: Fault) -> (StatusCode, HeaderMap, String) {
    let content = HeaderValue::from_static("text/xml");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, content)]);
    match (FaultResponse { fault }).to_xml() {
        Ok(xml) => (StatusCode::OK, headers, xml),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            headers,
            error.to_string(),
        ),
    }
}
