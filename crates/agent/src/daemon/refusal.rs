//! Why a request is not done, and how HTTP tells it.

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The longest explanation of a refused request, bytes.
const LONGEST: usize = 1 << 16;

/// Why a request is not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// Who asks has to ask for something else, or to mend the policy.
    #[error("{0}")]
    Mistake(String),
    /// The agent cannot do it, or not now.
    #[error("{0}")]
    Unavailable(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self {
            Refusal::Mistake(_) => StatusCode::CONFLICT,
            Refusal::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        refused(status, &self.to_string())
    }
}

/// The response for an error.
pub(super) fn refused(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({ "error": error }))).into_response()
}

/// The same response; for an error, in JSON also where axum has refused the request itself.
pub(super) async fn in_json(response: Response) -> Response {
    let status = response.status();
    let json = "application/json";
    let is_json = (response.headers().get(CONTENT_TYPE)).is_some_and(|kind| kind == json);
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let text = to_bytes(body, LONGEST).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let error = match text.is_empty() {
        true => status.canonical_reason().unwrap_or_default(),
        false => &text,
    };
    head.headers.remove(CONTENT_LENGTH);
    head.headers
        .insert(CONTENT_TYPE, json.parse().expect("a type"));
    let body = json!({ "error": error }).to_string();
    Response::from_parts(head, Body::from(body))
}
