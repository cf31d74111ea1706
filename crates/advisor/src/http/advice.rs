//! `GET /v1/advice`.

use axum::Json;
use axum::extract::State;
use fairwind_advice::Request;
use fairwind_advice::wire::Answer;
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ErrorBody;
use super::extract::Query;
use crate::error::ServiceError;
use crate::service::Interface;
use crate::service::Service;

/// For which transfer.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Transfer {
    /// The other host: an address or a name. Its path is that of the longest matching prefix.
    #[param(example = "192.0.2.7")]
    host: String,
    /// Bytes that remain, if that is known.
    bytes: Option<u64>,
}

/// What a transfer should do now, and when to ask again. For a host on no known path these are the
/// kernel's defaults.
#[utoipa::path(
    get, path = "/v1/advice", tag = "advice", params(Transfer),
    responses(
        (status = OK, body = Answer, description = "The advice."),
        (status = BAD_REQUEST, body = ErrorBody, description = "The host is neither address nor name."),
        (status = SERVICE_UNAVAILABLE, body = ErrorBody, description = "The store does not answer."),
    )
)]
pub(super) async fn advice(
    State(service): State<Service>,
    Query(transfer): Query<Transfer>,
) -> Result<Json<Answer>, ServiceError> {
    let request = Request {
        remaining_bytes: transfer.bytes,
    };
    let answer = service
        .advice(&transfer.host, &request, Interface::Rest)
        .await?;
    Ok(Json(answer))
}
