//! Extractors for queries and bodies that report errors in the service's format.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::response::Response;
use serde::de::DeserializeOwned;

use super::error::refusal;

/// A JSON body.
pub(super) struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let read = axum::Json::from_request(request, state).await;
        read.map(|axum::Json(value)| Json(value))
            .map_err(|rejection| refusal(rejection.status(), rejection.body_text()))
    }
}

/// The query of a URL.
pub(super) struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        read.map(|axum::extract::Query(value)| Query(value))
            .map_err(|rejection| refusal(rejection.status(), rejection.body_text()))
    }
}
