//! The REST interface, `/metrics`, `/healthz`, and the OpenAPI document that describes them.

mod advice;
mod error;
mod extract;
mod guard;
mod health;
mod measurements;
mod paths;
mod serve;
mod unread;

pub use measurements::{HistoryAnswer, HopHistory};
pub use serve::{Limits, serve};

use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use axum::{Json, Router};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::service::Service;
use crate::xmlrpc;

/// Maximum length of a body, bytes: about 50,000 samples.
const LONGEST_BODY: usize = 8 << 20;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "fairwind advisor",
        description = "Advice for bulk transfers from the history of their paths. Times are RFC 3339, \
                       Mbit/s are 10^6 bit/s. Errors are an object with the sentence `error`. Where the \
                       service has tokens, requests carry one as `Authorization: Bearer TOKEN`, to \
                       read for GET, to write for all else: 401 without a token that is known, 403 \
                       if it is not good for the request or the request is of a page of another \
                       origin, 421 if `Host` is not a name of the service.",
        version = "1"
    ),
    tags(
        (name = "advice", description = "What a transfer should do"),
        (name = "paths", description = "The paths that are known"),
        (name = "tests", description = "What was measured"),
        (name = "service", description = "The service itself"),
    ),
    security((), ("token" = [])),
    modifiers(&Tokens)
)]
struct Document;

/// Adds the bearer token to the document's security schemes.
struct Tokens;

impl Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", bearer);
    }
}

/// All routes of the service.
pub fn router(service: &Service) -> Router {
    let (router, document) = described().split_for_parts();
    router
        .route("/openapi.json", get(async || Json(document)))
        .with_state(service.clone())
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .merge(xmlrpc::router(service))
        .fallback(error::nothing_there)
        .method_not_allowed_fallback(error::wrong_method)
}

/// The OpenAPI document, which is also in `docs/reference/openapi.json`.
pub fn document() -> utoipa::openapi::OpenApi {
    described().into_openapi()
}

fn described() -> OpenApiRouter<Service> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(advice::advice))
        .routes(routes!(paths::list))
        .routes(routes!(paths::show, paths::put, paths::remove))
        .routes(routes!(paths::list_hops))
        .routes(routes!(paths::remove_hop))
        .routes(routes!(measurements::record))
        .routes(routes!(measurements::transfer))
        .routes(routes!(measurements::history))
        .routes(routes!(health::metrics))
        .routes(routes!(health::health))
}
