//! The names of congestion controls in the kernel, and their pins.

use std::path::PathBuf;

use clap::Args;
use fairwind_cc::kernel::{PinError, Pins};
use fairwind_cc::native::{self, Control};

use crate::failure::Failure;

#[derive(Args)]
pub(crate) struct Place {
    /// What the names in the kernel begin with
    #[arg(long, value_name = "PREFIX", default_value = "fw_")]
    prefix: String,
    /// Folder of the pins, in a BPF file system
    #[arg(long, value_name = "DIR", default_value_os_t = Pins::default().root().to_owned())]
    pins: PathBuf,
}

impl Place {
    pub(crate) fn pins(&self) -> Pins {
        Pins::at(&self.pins)
    }

    /// A congestion control's name in the kernel, from either of its names.
    pub(crate) fn kernel_name(&self, name: &str) -> String {
        format!("{}{}", self.prefix, self.control_name(name))
    }

    /// A congestion control's own name, from either of its names.
    pub(crate) fn control_name<'a>(&self, name: &'a str) -> &'a str {
        // The own name may begin with the prefix, too.
        match native::find(name) {
            Some(_) => name,
            None => name.strip_prefix(&self.prefix).unwrap_or(name),
        }
    }

    /// Finds a congestion control by either of its names.
    pub(crate) fn control(&self, name: &str) -> Result<&'static Control, Failure> {
        let name = self.control_name(name);
        native::find(name).ok_or_else(|| {
            let known: Vec<_> = native::all().iter().map(|control| control.name()).collect();
            Failure::input(format!(
                "there is no congestion control `{name}`; there are {}",
                known.join(", ")
            ))
        })
    }

    /// The failure, with the command that fixes it.
    pub(crate) fn failure(&self, name: &str, error: &PinError) -> Failure {
        let name = self.control_name(name);
        match error {
            PinError::Parameter(_) | PinError::BadName { .. } => Failure::input(error),
            PinError::AlreadyPinned { .. } | PinError::OtherBuild { .. } => {
                Failure::work(format!("{error} (fairwind cc load {name} --replace)"))
            }
            _ => Failure::work(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_and_without_the_prefix() {
        let place = |prefix: &str| Place {
            prefix: prefix.to_owned(),
            pins: PathBuf::new(),
        };
        let fw = place("fw_");
        assert_eq!(fw.kernel_name("cubic"), "fw_cubic");
        assert_eq!(fw.kernel_name("fw_cubic"), "fw_cubic");
        assert_eq!(fw.control_name("fw_other"), "other");
        // Not "ubic".
        assert_eq!(place("c").kernel_name("cubic"), "ccubic");
    }
}
