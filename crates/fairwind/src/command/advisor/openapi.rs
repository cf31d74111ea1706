//! `fairwind advisor openapi`: the description of the REST interface, for programs.

use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::output;

/// Print the OpenAPI document of the REST interface
#[derive(Args)]
pub(crate) struct Openapi {}

impl Openapi {
    pub(crate) fn run(self) -> Result<(), Failure> {
        Ok(output::json(&json!(fairwind_advisor::http::document()))?)
    }
}
