//! `/metrics` and `/healthz`.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::error::ErrorBody;
use crate::error::ServiceError;
use crate::service::Service;

/// The service's counters, in the Prometheus (OpenMetrics) text format.
#[utoipa::path(
    get, path = "/metrics", tag = "service",
    responses((status = OK, body = String, content_type = "application/openmetrics-text", description = "As asked."))
)]
pub(super) async fn metrics(State(service): State<Service>) -> impl IntoResponse {
    let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, format)], service.metrics_text())
}

/// Whether the service answers and its store can be read and written. Where the last write failed, another
/// is tried.
#[utoipa::path(
    get, path = "/healthz", tag = "service", security(()),
    responses(
        (status = OK, body = String, content_type = "text/plain", description = "As asked."),
        (status = SERVICE_UNAVAILABLE, body = ErrorBody, description = "The store cannot be read or written: since when, why, and what helps."),
    )
)]
pub(super) async fn health(State(service): State<Service>) -> Result<&'static str, ServiceError> {
    service.store().check().await?;
    Ok("ok\n")
}
