//! `fairwind cc set`.

use clap::Args;
use fairwind_cc::kernel::PinError;

use super::place::Place;
use super::value;
use crate::failure::Failure;
use crate::output;

/// Set parameters of a loaded control, for live connections too
///
/// All of them are set, or none if one is wrong. Times, fractions and switches may be written as
/// such; a plain number is in the parameter's own unit.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind cc set sfsack tau=50ms
  fairwind cc set cubic beta=0.8 hystart=off")]
pub(crate) struct Set {
    /// Name of the congestion control, in cc/ or in the kernel
    name: String,
    /// Parameters and their values
    #[arg(value_name = "NAME=VALUE", required = true, value_parser = value::assignment)]
    values: Vec<(String, String)>,
    #[command(flatten)]
    place: Place,
}

impl Set {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let name = self.place.kernel_name(&self.name);
        let failed = |error: PinError| self.place.failure(&name, &error);
        let pinned = self.place.pins().get(&name).map_err(failed)?;
        let pinned = pinned.ok_or_else(|| failed(PinError::NotPinned { name: name.clone() }))?;
        let control = pinned.parameters().map_err(failed)?.control();
        let mut changes = Vec::new();
        for (parameter, text) in &self.values {
            changes.push((parameter.as_str(), value::number(control, parameter, text)?));
        }
        let now = pinned.set(&changes).map_err(failed)?;
        for parameter in control.parameters() {
            let value = now.get(parameter.name()).unwrap_or_default();
            let (parameter, unit) = (parameter.name(), parameter.unit());
            output::line(&format!("{parameter} = {value} {unit}"))?;
        }
        Ok(())
    }
}
