//! `/v1/paths`: declarations, and the hops of a path.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::error::ErrorBody;
use super::extract;
use crate::error::ServiceError;
use crate::path::PathConfig;
use crate::service::{HopEntry, Service};

/// All paths, by name.
#[utoipa::path(
    get, path = "/v1/paths", operation_id = "list_paths", tag = "paths",
    responses((status = OK, body = Vec<PathConfig>, description = "As it is declared."))
)]
pub(super) async fn list(State(service): State<Service>) -> Json<Vec<PathConfig>> {
    let directory = service.directory();
    let paths = directory.paths().map(|path| path.config().clone());
    Json(paths.collect())
}

/// A path.
#[utoipa::path(
    get, path = "/v1/paths/{name}", operation_id = "show_path", tag = "paths",
    params(("name" = String, Path, description = "Name of the path")),
    responses((status = OK, body = PathConfig, description = "As it is declared."), (status = NOT_FOUND, body = ErrorBody, description = "There is no such path."))
)]
pub(super) async fn show(
    State(service): State<Service>,
    Path(name): Path<String>,
) -> Result<Json<PathConfig>, ServiceError> {
    Ok(Json(service.path(&name)?.config().clone()))
}

/// Declares a path, or declares it anew; its history stays.
#[utoipa::path(
    put, path = "/v1/paths/{name}", operation_id = "put_path", tag = "paths",
    params(("name" = String, Path, description = "Name of the path; the body may leave it out")),
    request_body = PathConfig,
    responses(
        (status = CREATED, body = PathConfig, description = "It is new."),
        (status = OK, body = PathConfig, description = "It was there before."),
        (status = BAD_REQUEST, body = ErrorBody, description = "The request is wrong."),
        (status = CONFLICT, body = ErrorBody, description = "Another path has one of the hosts."),
        (status = UNPROCESSABLE_ENTITY, body = ErrorBody, description = "The body is JSON, but not what is expected."),
    )
)]
pub(super) async fn put(
    State(service): State<Service>,
    Path(name): Path<String>,
    extract::Json(mut config): extract::Json<PathConfig>,
) -> Result<(StatusCode, Json<PathConfig>), ServiceError> {
    if !config.name.is_empty() && config.name != name {
        let problem = format!("the URL says {name:?}, the body {:?}", config.name);
        return Err(ServiceError::Invalid(problem));
    }
    config.name = name;
    let is_new = service.put_path(config.clone()).await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(config)))
}

/// Removes a path and its history.
#[utoipa::path(
    delete, path = "/v1/paths/{name}", operation_id = "remove_path", tag = "paths",
    params(("name" = String, Path, description = "Name of the path")),
    responses((status = NO_CONTENT, description = "It is removed."), (status = NOT_FOUND, body = ErrorBody, description = "There is no such path."))
)]
pub(super) async fn remove(
    State(service): State<Service>,
    Path(name): Path<String>,
) -> Result<StatusCode, ServiceError> {
    service.remove_path(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The hops of a path, declared and found, and on which of them advice rests.
#[utoipa::path(
    get, path = "/v1/paths/{name}/hops", operation_id = "list_hops", tag = "paths",
    params(("name" = String, Path, description = "Name of the path")),
    responses(
        (status = OK, body = Vec<HopEntry>, description = "In the order in which they came."),
        (status = NOT_FOUND, body = ErrorBody, description = "There is no such path."),
    )
)]
pub(super) async fn list_hops(
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
pub(super) async fn remove_hop(
    State(service): State<Service>,
    Path((name, hop)): Path<(String, String)>,
) -> Result<StatusCode, ServiceError> {
    service.remove_hop(&name, &hop).await?;
    Ok(StatusCode::NO_CONTENT)
}
