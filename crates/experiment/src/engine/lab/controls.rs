//! Which congestion control of the kernel stands for which of the experiment.

use fairwind_cc::kernel::{self, LoadError, Loaded};
use fairwind_cc::native::Parameters;
use fairwind_lab::LabError;

use crate::engine::EngineError;
use crate::file::flow::Control;

/// Attempts to find a name that nobody else has.
const ATTEMPTS: u32 = 64;

/// The controls of one run. Those of `cc/` leave the kernel when this is dropped.
pub struct Controls {
    /// Those that the kernel has.
    kernel: Vec<String>,
    /// Whether ours run even where the kernel has its own.
    prefer_own: bool,
    loaded: Vec<Loaded>,
    /// Makes names differ between processes.
    next_number: u32,
}

impl Controls {
    /// Asks the kernel what it has.
    pub fn new(prefer_own: bool) -> Result<Controls, EngineError> {
        Ok(Controls {
            kernel: kernel::available().map_err(|error| EngineError::Unable {
                message: format!("the kernel does not tell its congestion controls: {error}"),
                help: "it needs /proc/sys/net/ipv4/tcp_available_congestion_control".to_owned(),
            })?,
            prefer_own,
            loaded: Vec::new(),
            next_number: std::process::id(),
        })
    }

    /// The name in the kernel of this control; one of `cc/` is loaded under a name of this run alone,
    /// once for all flows that give it the same parameters.
    pub fn provide(&mut self, control: &Control) -> Result<String, EngineError> {
        match control {
            Control::Kernel(name) => match self.has(name) {
                true => Ok(name.clone()),
                false => Err(EngineError::Unable {
                    message: format!("the kernel has no congestion control `{name}`"),
                    help: format!(
                        "it has {}; a module may bring others: modprobe tcp_{name}",
                        self.kernel.join(", ")
                    ),
                }),
            },
            Control::Own(parameters) => {
                let name = parameters.control().name();
                if self.has(name) && !control.is_tuned() && !self.prefer_own {
                    return Ok(name.to_owned());
                }
                self.load(parameters)
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.kernel.iter().any(|known| known == name)
    }

    fn load(&mut self, parameters: &Parameters) -> Result<String, EngineError> {
        let known = self.loaded.iter().find(|l| l.parameters() == parameters);
        if let Some(loaded) = known {
            return Ok(loaded.name().to_owned());
        }
        for _ in 0..ATTEMPTS {
            let name = private_name(parameters.control().name(), self.next_number);
            self.next_number = self.next_number.wrapping_add(1);
            match kernel::load_as(parameters, &name) {
                Ok(loaded) => {
                    self.loaded.push(loaded);
                    return Ok(name);
                }
                Err(LoadError::AlreadyLoaded { .. }) => {}
                Err(error) => return Err(LabError::Control(error).into()),
            }
        }
        Err(EngineError::Unable {
            message: format!(
                "no free name in the kernel for a copy of `{}`",
                parameters.control().name()
            ),
            help: "unload some: fairwind cc list, fairwind cc unload".to_owned(),
        })
    }
}

/// `fw_sfsack_1a2b`: the kernel's names have 15 bytes at most.
fn private_name(control: &str, number: u32) -> String {
    format!("fw_{control:.7}_{:04x}", number & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_kernel() {
        assert_eq!(private_name("sfsack", 0x1_1a2b), "fw_sfsack_1a2b");
        assert_eq!(private_name("imtcp_bg", 3), "fw_imtcp_b_0003");
        assert_eq!(private_name("imtcp_bg", 3).len(), 15);
    }
}
