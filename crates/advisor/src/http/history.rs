//! `GET /v1/paths/{name}/history`.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::ErrorBody;
use super::extract::Query;
use crate::error::ServiceError;
use crate::service::Service;

/// Samples of a hop in one answer.
const SAMPLES_AT_MOST: usize = 200_000;

/// Which span.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// First moment; from the beginning without it.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// First moment that is left out; without it there is no end.
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
    pub samples: Vec<SampleEntry>,
}

/// A test.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SampleEntry {
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    /// Available bandwidth, Mbit/s.
    pub available_mbps: f64,
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
pub async fn history(
    State(service): State<Service>,
    Path(name): Path<String>,
    Query(span): Query<Span>,
) -> Result<Json<HistoryAnswer>, ServiceError> {
    let path = service.path(&name)?;
    let from = span.from.unwrap_or(Timestamp::UNIX_EPOCH);
    let to = span.to.unwrap_or(Timestamp::MAX);
    let mut hops = Vec::new();
    for hop in &path.stored.hops {
        let samples = service
            .samples(&path, &hop.name, from, to, SAMPLES_AT_MOST)
            .await?;
        let entries = samples.into_iter().map(|sample| SampleEntry {
            time: sample.time,
            available_mbps: sample.available_mbps,
        });
        hops.push(HopHistory {
            name: hop.name.clone(),
            samples: entries.collect(),
        });
    }
    Ok(Json(HistoryAnswer { path: name, hops }))
}
