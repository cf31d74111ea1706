//! Maps the experiment's congestion controls to those of the kernel.

use fairwind_cc::kernel::{self, Loaded};
use fairwind_cc::native::Parameters;
use fairwind_lab::congestion_control::load_private;
use fairwind_scenario::file::flow::Control;

use crate::engine::EngineError;

/// The congestion controls of one run. Those of `cc/` are unloaded when this is dropped.
pub struct Controls {
    /// Those available in the kernel.
    kernel: Vec<String>,
    /// Whether ours are used even where the kernel has its own.
    prefer_own: bool,
    loaded: Vec<Loaded>,
}

impl Controls {
    /// Reads the kernel's list.
    pub fn new(prefer_own: bool) -> Result<Controls, EngineError> {
        Ok(Controls {
            kernel: kernel::available().map_err(|error| EngineError::Unable {
                message: format!("the kernel does not tell its congestion controls: {error}"),
                help: "it needs /proc/sys/net/ipv4/tcp_available_congestion_control".to_owned(),
            })?,
            prefer_own,
            loaded: Vec::new(),
        })
    }

    /// The kernel's name of this congestion control. One of `cc/` is loaded under a name private to
    /// this run, once for all flows that give it the same parameters.
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
        let loaded = load_private(parameters)?;
        let name = loaded.name().to_owned();
        self.loaded.push(loaded);
        Ok(name)
    }
}
