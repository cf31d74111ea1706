//! The congestion control of what is sent in the background: `fairwind`, of `cc/`.

use fairwind_cc::kernel::{self, Choice, LoadError, Provided};
use fairwind_cc::native;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketType, socket};
use thiserror::Error;

use crate::advised::{Refusal, refusal};

/// Its name in `cc/`.
const CONTROL: &str = "fairwind";

/// A congestion control that connections of this process may take.
#[derive(Debug)]
pub struct Control {
    name: String,
    /// Keeps it loaded, if it was loaded for this process.
    _provided: Option<Provided>,
}

/// Why this process cannot send in the background.
#[derive(Debug, Error)]
pub enum ControlError {
    /// It may not load the congestion control, and cannot take one that is loaded.
    #[error("{load}; or, as root: {fix}")]
    Forbidden {
        /// What loading it would need.
        load: LoadError,
        /// The commands that let everybody take it.
        fix: String,
    },
    /// The kernel does not take it, whoever loads it.
    #[error(transparent)]
    Load(LoadError),
}

impl Control {
    /// The congestion control `fairwind`, loaded for this process alone; where that is not permitted, the one that
    /// `fairwind cc load` has loaded, if this process may take it.
    ///
    /// # Errors
    /// If there is neither, with what would help.
    pub fn background() -> Result<Control, ControlError> {
        let provided = kernel::provide(&Choice::Named(CONTROL.to_owned()));
        let name = kernel::kernel_name(CONTROL);
        of(provided, || taken(&name), &name)
    }

    /// One that is in the kernel already and that this process may take: of this name or, as `fairwind cc load` calls
    /// them, of that of one of `cc/`.
    ///
    /// # Errors
    /// If there is none, or everybody may not take it, with the commands that would change that.
    pub fn present(name: &str) -> Result<Control, Refusal> {
        present(name, taken)
    }

    /// Its name in the kernel.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What was loaded, or else the loaded one of this `name`, if it can be `taken`.
fn of(
    provided: Result<Provided, LoadError>,
    taken: impl FnOnce() -> Result<(), Errno>,
    name: &str,
) -> Result<Control, ControlError> {
    let load = match provided {
        Ok(provided) => {
            return Ok(Control {
                name: provided.name().to_owned(),
                _provided: Some(provided),
            });
        }
        Err(error @ LoadError::NotPermitted { .. }) => error,
        Err(error) => return Err(ControlError::Load(error)),
    };
    let allow = refusal(name, Errno::PERM).fix;
    match taken() {
        Ok(()) => Ok(of_others(name.to_owned())),
        Err(Errno::NOENT) => Err(ControlError::Forbidden {
            load,
            fix: format!("{} && {allow}", refusal(name, Errno::NOENT).fix),
        }),
        Err(_) => Err(ControlError::Forbidden { load, fix: allow }),
    }
}

fn present(name: &str, taken: impl Fn(&str) -> Result<(), Errno>) -> Result<Control, Refusal> {
    let own = kernel::own_name(name);
    let loaded = kernel::kernel_name(own);
    let names = match native::find(own) {
        Some(_) if loaded != name => vec![name, &loaded],
        _ => vec![name],
    };
    let mut refused = (name, Errno::NOENT);
    for name in names {
        match taken(name) {
            Ok(()) => return Ok(of_others(name.to_owned())),
            Err(error) => refused = (name, error),
        }
        // It is there.
        if refused.1 != Errno::NOENT {
            break;
        }
    }
    let (name, error) = refused;
    let refused = refusal(name, error);
    Err(match error {
        Errno::NOENT => Refusal {
            fix: format!("{} && {}", refused.fix, refusal(name, Errno::PERM).fix),
            ..refused
        },
        _ => refused,
    })
}

/// One that somebody else has loaded.
fn of_others(name: String) -> Control {
    Control {
        name,
        _provided: None,
    }
}

/// Whether a socket of this process can have the congestion control.
fn taken(name: &str) -> Result<(), Errno> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    set_tcp_congestion(&socket, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_rights(taken: Result<(), Errno>) -> Result<Control, ControlError> {
        let missing = vec!["CAP_BPF"];
        of(
            Err(LoadError::NotPermitted { missing }),
            || taken,
            "fw_fairwind",
        )
    }

    #[test]
    fn without_the_right_to_load_it_the_loaded_one_is_taken() {
        assert_eq!(without_rights(Ok(())).unwrap().name(), "fw_fairwind");
    }

    #[test]
    fn where_none_can_be_taken_the_error_has_the_commands_that_change_that() {
        let error = |errno| without_rights(Err(errno)).unwrap_err().to_string();
        let not_loaded = error(Errno::NOENT);
        assert!(
            not_loaded.starts_with(
                "not permitted to load eBPF: run as root, or with CAP_BPF; or, as root: fairwind cc load \
                 fairwind && sysctl -w net.ipv4.tcp_allowed_congestion_control='"
            ),
            "{not_loaded}"
        );
        assert!(not_loaded.contains("fw_fairwind"), "{not_loaded}");
        let not_allowed = error(Errno::PERM);
        assert!(
            not_allowed.starts_with(
                "not permitted to load eBPF: run as root, or with CAP_BPF; or, as root: sysctl -w \
                 net.ipv4.tcp_allowed_congestion_control='"
            ),
            "{not_allowed}"
        );
    }

    #[test]
    fn an_old_kernel_is_not_helped_by_rights() {
        let release = "5.10.0".to_owned();
        let old = of(
            Err(LoadError::KernelTooOld { release }),
            || Ok(()),
            "fw_fairwind",
        );
        assert!(matches!(old, Err(ControlError::Load(_))));
    }

    #[test]
    fn a_present_one_is_found_by_either_name() {
        let only = |there: &'static str| {
            move |name: &str| match name {
                _ if name == there => Ok(()),
                "fw_nice" | "cubic" => Err(Errno::PERM),
                _ => Err(Errno::NOENT),
            }
        };
        let name = |wanted, there| Ok::<_, Refusal>(present(wanted, only(there))?.name);
        assert_eq!(name("reno", "reno").unwrap(), "reno");
        assert_eq!(name("fairwind", "fw_fairwind").unwrap(), "fw_fairwind");
        assert_eq!(name("fw_fairwind", "fw_fairwind").unwrap(), "fw_fairwind");
        let absent = name("fairwind", "reno").unwrap_err();
        let load =
            "fairwind cc load fairwind && sysctl -w net.ipv4.tcp_allowed_congestion_control='";
        assert!(absent.fix.starts_with(load), "{absent:?}");
        let forbidden = name("nice", "reno").unwrap_err();
        assert!(forbidden.reason.contains("may not"), "{forbidden:?}");
        assert!(forbidden.fix.starts_with("sysctl -w"), "{forbidden:?}");
        let kernels = name("cubic", "reno").unwrap_err();
        assert!(!kernels.fix.contains("fw_cubic"), "{kernels:?}");
    }
}
