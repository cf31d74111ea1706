//! Errors as HTTP responses.

use axum::Json;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ServiceError;

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorBody {
    /// In a sentence.
    error: String,
}

impl IntoResponse for ServiceError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::NoPath(_) | Self::NoHop { .. } | Self::NoRoute(_) => StatusCode::NOT_FOUND,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::Store(_) | Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        refusal(status, self.to_string())
    }
}

/// The response for an error.
pub(super) fn refusal(status: StatusCode, error: String) -> Response {
    (status, Json(ErrorBody { error })).into_response()
}

/// The response for an unknown URL.
pub(super) async fn nothing_there(uri: Uri) -> Response {
    let what = format!(
        "there is no {}; /openapi.json lists what there is",
        uri.path()
    );
    refusal(StatusCode::NOT_FOUND, what)
}

/// The response for a method that a URL does not support; the header `Allow` has those that it supports.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> Response {
    let what = format!("{} is not for {method}", uri.path());
    refusal(StatusCode::METHOD_NOT_ALLOWED, what)
}
