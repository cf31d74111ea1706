//! Reports of tests: samples of hops, results of transfers.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use fairwind_advice::wire::TransferReport;

use super::error::ErrorBody;
use super::extract;
use crate::error::ServiceError;
use crate::service::{NewSample, SamplesAnswer, Service, TransferAnswer};

/// Takes tests of a path's hops. The answer comes when they are on stable storage.
#[utoipa::path(
    post, path = "/v1/paths/{name}/samples", operation_id = "record_samples", tag = "tests",
    params(("name" = String, Path, description = "Name of the path")),
    request_body = Vec<NewSample>,
    responses(
        (status = OK, body = SamplesAnswer, description = "What became of them."),
        (status = BAD_REQUEST, body = ErrorBody, description = "The request is wrong."),
        (status = NOT_FOUND, body = ErrorBody, description = "There is no such path."),
        (status = PAYLOAD_TOO_LARGE, body = ErrorBody, description = "The body is too long."),
        (status = UNPROCESSABLE_ENTITY, body = ErrorBody, description = "The body is JSON, but not what is expected."),
        (status = SERVICE_UNAVAILABLE, body = ErrorBody, description = "Nothing was kept."),
    )
)]
pub async fn record(
    State(service): State<Service>,
    Path(name): Path<String>,
    extract::Json(samples): extract::Json<Vec<NewSample>>,
) -> Result<Json<SamplesAnswer>, ServiceError> {
    let path = service.path(&name)?;
    Ok(Json(service.record(&path, &samples).await?))
}

/// Takes the result of a transfer of our own. It is a test of the path's available bandwidth only if the
/// network limited it: the answer says so, or why not.
#[utoipa::path(
    post, path = "/v1/transfers", operation_id = "report_transfer", tag = "tests",
    request_body = TransferReport,
    responses(
        (status = CREATED, body = TransferAnswer, description = "It is new."),
        (status = BAD_REQUEST, body = ErrorBody, description = "The request is wrong."),
        (status = NOT_FOUND, body = ErrorBody, description = "No path leads to the host."),
        (status = UNPROCESSABLE_ENTITY, body = ErrorBody, description = "The body is JSON, but not what is expected."),
    )
)]
pub async fn transfer(
    State(service): State<Service>,
    extract::Json(report): extract::Json<TransferReport>,
) -> Result<(StatusCode, Json<TransferAnswer>), ServiceError> {
    let answer = service.record_transfer(report).await?;
    Ok((StatusCode::CREATED, Json(answer)))
}
