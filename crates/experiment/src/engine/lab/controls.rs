//! Maps the experiment's congestion controls to those of the kernel.

use fairwind_cc::kernel::{self, AdvisedStarts, Loaded, load_private};
use fairwind_cc::native::Parameters;
use fairwind_lab::LabError;
use fairwind_scenario::file::flow::{AdvisedStart, Control};

use crate::engine::EngineError;

/// The congestion controls of one run. Those of `cc/` are unloaded when this is dropped.
pub(crate) struct Controls {
    /// Those available in the kernel.
    kernel: Vec<String>,
    /// Whether ours are used even where the kernel has its own.
    prefer_own: bool,
    loaded: Vec<(Loaded, Option<AdvisedStart>)>,
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
                self.provide_own(parameters, None)
            }
        }
    }

    /// The kernel's name of this congestion control for connections that are advised so, and for no others.
    pub(crate) fn provide_advised(
        &mut self,
        control: &Control,
        start: AdvisedStart,
    ) -> Result<String, EngineError> {
        match control {
            Control::Own(parameters) => self.provide_own(parameters, Some(start)),
            Control::Kernel(_) => self.provide(control),
        }
    }

    /// The advice for the connections under the congestion control of this name, by which it starts them.
    pub(crate) fn advised_starts(&self, name: &str) -> Option<AdvisedStarts> {
        let (loaded, _) = self
            .loaded
            .iter()
            .find(|(loaded, _)| loaded.name() == name)?;
        loaded.advised_starts()
    }

    fn provide_own(
        &mut self,
        parameters: &Parameters,
        start: Option<AdvisedStart>,
    ) -> Result<String, EngineError> {
        let mut known = self.loaded.iter();
        let known = known.find(|(of, advised)| of.parameters() == parameters && *advised == start);
        if let Some((loaded, _)) = known {
            return Ok(loaded.name().to_owned());
        }
        let loaded = load_private(parameters).map_err(LabError::from)?;
        let name = loaded.name().to_owned();
        self.loaded.push((loaded, start));
        Ok(name)
    }

    fn has(&self, name: &str) -> bool {
        self.kernel.iter().any(|known| known == name)
    }
}
