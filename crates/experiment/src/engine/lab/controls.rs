//! Maps the experiment's congestion controls to those of the kernel.

use fairwind_cc::kernel::{self, Loaded, load_private};
use fairwind_lab::LabError;
use fairwind_scenario::file::flow::Control;

use crate::engine::EngineError;

/// The congestion controls of one run. Those of `cc/` are unloaded when this is dropped.
pub(crate) struct Controls {
    /// Those available in the kernel.
    kernel: Vec<String>,
    /// Whether ours are used even where the kernel has its own.
    prefer_own: bool,
    loaded: Vec<Loaded>,
}

impl Controls {
    /// Reads the kernel's list.
    pub(crate) fn new(prefer_own: bool) -> Result<Controls, EngineError> {
        Ok(Controls {
            kernel: kernel::available().map_err(|error| {
                EngineError::unable(
                    format!("the kernel does not tell its congestion controls: {error}"),
                    "it needs /proc/sys/net/ipv4/tcp_available_congestion_control",
                )
            })?,
            prefer_own,
            loaded: Vec::new(),
        })
    }

    /// The kernel's name of this congestion control. One of `cc/` is loaded under a name private to
    /// this run, once for all flows that give it the same parameters.
    pub(crate) fn provide(&mut self, control: &Control) -> Result<String, EngineError> {
        match control {
            Control::Kernel(name) if self.has(name) => Ok(name.clone()),
            Control::Kernel(name) => {
                let all = self.kernel.join(", ");
                Err(EngineError::unable(
                    format!("the kernel has no congestion control `{name}`"),
                    format!("it has {all}; a module may bring others: modprobe tcp_{name}"),
                ))
            }
            Control::Own(parameters) => {
                let name = parameters.control().name();
                if self.has(name) && !control.is_tuned() && !self.prefer_own {
                    return Ok(name.to_owned());
                }
                let known = self.loaded.iter().find(|l| l.parameters() == parameters);
                if let Some(loaded) = known {
                    return Ok(loaded.name().to_owned());
                }
                let loaded = load_private(parameters).map_err(LabError::from)?;
                let name = loaded.name().to_owned();
                self.loaded.push(loaded);
                Ok(name)
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.kernel.iter().any(|known| known == name)
    }
}
