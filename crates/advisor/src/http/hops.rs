//! `/v1/paths/{name}/hops`.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::error::ErrorBody;
use crate::error::ServiceError;
use crate::service::{HopEntry, Service};

/// The hops of a path, declared and found, and on which of them advice rests.
#[utoipa::path(
    get, path = "/v1/paths/{name}/hops", operation_id = "list_hops", tag = "paths",
    params(("name" = String, Path, description = "Name of the path")),
    responses(
        (status = OK, body = Vec<HopEntry>, description = "In the order in which they came."),
        (status = NOT_FOUND, body = ErrorBody, description = "There is no such path."),
    )
)]
pub async fn list(
    State(service): State<Service>,
    Path(name): Path<String>,
) -> Result<Json<Vec<HopEntry>>, ServiceError> {
    let path = service.path(&name)?;
    Ok(Json(service.hops(&path).await?))
}

/// Removes a hop that is not declared, and its history: a misspelt one, or one that is gone.
#[utoipa::path(
    delete, path = "/v1/paths/{name}/hops/{hop}", operation_id = "remove_hop", tag = "paths",
    params(
        ("name" = String, Path, description = "Name of the path"),
        ("hop" = String, Path, description = "Name of the hop"),
    ),
    responses(
        (status = NO_CONTENT, description = "It is removed."),
        (status = NOT_FOUND, body = ErrorBody, description = "There is no such path or hop."),
        (status = CONFLICT, body = ErrorBody, description = "The hop is declared."),
    )
)]
pub async fn remove(
    State(service): State<Service>,
    Path((name, hop)): Path<(String, String)>,
) -> Result<StatusCode, ServiceError> {
    service.remove_hop(&name, &hop).await?;
    Ok(StatusCode::NO_CONTENT)
}
