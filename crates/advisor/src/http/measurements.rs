//! What is measured: samples of hops, results of transfers, and the history of a path.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use fairwind_advice::Sample;
use fairwind_advice::wire::TransferReport;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::ErrorBody;
use super::extract;
use crate::error::ServiceError;
use crate::service::{NewSample, SamplesAnswer, Service, TransferAnswer};

/// Samples of a hop in one answer.
const SAMPLES_AT_MOST: usize = 200_000;

/// Which span.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Span {
    /// Beginning; without it, that of the history.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// End, not included; without it, that of the history.
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Timestamp>,
}

/// What was measured on a path.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HistoryAnswer {
    /// Name of the path.
    pub path: String,
    /// Its hops, with the newest 200,000 samples each.
    pub hops: Vec<HopHistory>,
}

/// What was measured at a hop.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HopHistory {
    /// Name.
    pub name: String,
    /// Ascending in time.
    pub samples: Vec<Sample>,
}

/// The samples of a path.
#[utoipa::path(
    get, path = "/v1/paths/{name}/history", tag = "tests",
    params(("name" = String, Path, description = "Name of the path"), Span),
    responses(
        (status = OK, body = HistoryAnswer, description = "The samples."),
        (status = BAD_REQUEST, body = ErrorBody, description = "The request is wrong."),
        (status = NOT_FOUND, body = ErrorBody, description = "There is no such path."),
    )
)]
pub(super) async fn history(
    State(service): State<Service>,
    Path(name): Path<String>,
    extract::Query(span): extract::Query<Span>,
) -> Result<Json<HistoryAnswer>, ServiceError> {
    let path = service.path(&name)?;
    let from = span.from.unwrap_or(Timestamp::UNIX_EPOCH);
    let to = span.to.unwrap_or(Timestamp::MAX);
    let hops = service.samples(&path, from, to, SAMPLES_AT_MOST).await?;
    let hops = hops
        .into_iter()
        .map(|(name, samples)| HopHistory { name, samples });
    let hops = hops.collect();
    Ok(Json(HistoryAnswer { path: name, hops }))
}

/// Takes samples of a path's hops. The answer comes when they are on stable storage.
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
pub(super) async fn record(
    State(service): State<Service>,
    Path(name): Path<String>,
    extract::Json(samples): extract::Json<Vec<NewSample>>,
) -> Result<Json<SamplesAnswer>, ServiceError> {
    let path = service.path(&name)?;
    Ok(Json(service.record(&path, &samples).await?))
}

/// Takes the result of a finished transfer. It is a sample of the path's available bandwidth only if the
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
pub(super) async fn transfer(
    State(service): State<Service>,
    extract::Json(report): extract::Json<TransferReport>,
) -> Result<(StatusCode, Json<TransferAnswer>), ServiceError> {
    let answer = service.record_transfer(report).await?;
    Ok((StatusCode::CREATED, Json(answer)))
}
