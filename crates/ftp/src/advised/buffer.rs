//! Whether an advised buffer is set. Setting one ends the kernel's autotuning of it, so that is done
//! only where it gains something:
//!
//! * more is advised than autotuning could ever give (`net.ipv4.tcp_wmem`, `tcp_rmem`) and the kernel
//!   grants more than that (`net.core.wmem_max`, `rmem_max`);
//! * congestion control is off: then the send buffer is what bounds the packets in flight, and its size
//!   is the advised one.
//!
//! Otherwise a buffer that advice has set goes back to autotuning, which makes it larger if need be. A
//! buffer that somebody else has set, the user or dynamic right-sizing, is left alone.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

use socket2::SockRef;

use super::option::{self, RECEIVE_LOCKED, SEND_LOCKED};
use super::record::Setting;

/// What the kernel allows a buffer, bytes. The kernel doubles what it is asked for, for its own
/// bookkeeping; `autotuned` is of such doubled bytes, `granted` is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// What autotuning may reach: the third number of `tcp_wmem` or `tcp_rmem`.
    pub autotuned: u64,
    /// What a program gets at most: `wmem_max` or `rmem_max`.
    pub granted: u64,
}

/// What is to be done with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// The kernel's autotuning has it.
    Autotuned,
    /// So many bytes are asked for.
    Set(u32),
    /// As `Set`, of the advised size only so much is granted.
    Cut(u32),
    /// Autotuning has it, though it gives less than advised: setting would give still less.
    Limited,
}

/// The plan for a buffer of which `advised` bytes are advised; `bounds` if it is what bounds the packets
/// in flight.
pub(super) fn plan(advised: Option<u32>, bounds: bool, limits: Limits) -> Plan {
    let Some(advised) = advised else {
        return Plan::Autotuned;
    };
    let wanted = u64::from(advised);
    let granted = wanted.min(limits.granted);
    if !bounds && 2 * wanted <= limits.autotuned {
        return Plan::Autotuned;
    }
    if !bounds && 2 * granted <= limits.autotuned {
        return Plan::Limited;
    }
    match granted == wanted {
        true => Plan::Set(advised),
        false => Plan::Cut(granted as u32),
    }
}

/// One buffer of a connection.
#[derive(Debug)]
pub(super) struct Buffer {
    which: Setting,
    /// What has been asked for; none while autotuning has it.
    set: Option<u32>,
    /// What the kernel said then.
    seen: usize,
}

impl Buffer {
    pub(super) fn send() -> Self {
        Self {
            which: Setting::SendBuffer,
            set: None,
            seen: 0,
        }
    }

    pub(super) fn receive() -> Self {
        Self {
            which: Setting::ReceiveBuffer,
            set: None,
            seen: 0,
        }
    }

    pub(super) fn which(&self) -> Setting {
        self.which
    }

    /// The sysctl that lifts what the kernel grants, to so many bytes.
    pub(super) fn mend(&self, bytes: u32) -> String {
        match self.which {
            Setting::ReceiveBuffer => format!("sysctl -w net.core.rmem_max={bytes}"),
            _ => format!("sysctl -w net.core.wmem_max={bytes}"),
        }
    }

    /// What the kernel allows it.
    pub(super) fn limits(&self) -> Limits {
        let (tcp, core) = match self.which {
            Setting::ReceiveBuffer => ("ipv4/tcp_rmem", "core/rmem_max"),
            _ => ("ipv4/tcp_wmem", "core/wmem_max"),
        };
        Limits {
            // Unknown: nothing is set.
            autotuned: number(tcp, 2).unwrap_or(u64::MAX),
            granted: number(core, 0).unwrap_or(0),
        }
    }

    /// Its state in words.
    pub(super) fn words(&self) -> String {
        match self.set {
            None => "autotuned".into(),
            Some(bytes) => bytes.to_string(),
        }
    }

    /// Whether somebody else has set it, or nobody can tell.
    pub(super) fn is_foreign(&self, socket: BorrowedFd<'_>) -> bool {
        let locked = option::buffer_locks(socket).map(|locks| locks & self.lock() != 0);
        match (locked, self.set) {
            (Ok(locked), None) => locked,
            (Ok(true), Some(_)) => self.size(socket).is_ok_and(|size| size != self.seen),
            (Ok(false), Some(_)) => false,
            (Err(_), _) => true,
        }
    }

    /// Whether it has been asked for so many bytes, or is autotuned if none.
    pub(super) fn is(&self, bytes: Option<u32>) -> bool {
        self.set == bytes
    }

    /// Asks for so many bytes.
    pub(super) fn set(&mut self, socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
        let options = SockRef::from(&socket);
        match self.which {
            Setting::ReceiveBuffer => options.set_recv_buffer_size(bytes as usize)?,
            _ => options.set_send_buffer_size(bytes as usize)?,
        }
        self.set = Some(bytes);
        self.seen = self.size(socket)?;
        Ok(())
    }

    /// Gives it back to autotuning.
    pub(super) fn release(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let locks = option::buffer_locks(socket)?;
        option::set_buffer_locks(socket, locks & !self.lock())?;
        self.set = None;
        Ok(())
    }

    fn lock(&self) -> u32 {
        match self.which {
            Setting::ReceiveBuffer => RECEIVE_LOCKED,
            _ => SEND_LOCKED,
        }
    }

    fn size(&self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let options = SockRef::from(&socket);
        match self.which {
            Setting::ReceiveBuffer => options.recv_buffer_size(),
            _ => options.send_buffer_size(),
        }
    }
}

/// One of the numbers below `/proc/sys/net`.
fn number(name: &str, index: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?;
    text.split_whitespace().nth(index)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 MiB by autotuning, which is 2 MiB of what programs ask for; 8 MiB to whoever asks.
    const LIMITS: Limits = Limits {
        autotuned: 4 << 20,
        granted: 8 << 20,
    };

    #[test]
    fn what_autotuning_can_give_is_left_to_it() {
        assert_eq!(plan(None, false, LIMITS), Plan::Autotuned);
        assert_eq!(plan(Some(2 << 20), false, LIMITS), Plan::Autotuned);
        assert_eq!(plan(Some(3 << 20), false, LIMITS), Plan::Set(3 << 20));
    }

    #[test]
    fn a_buffer_beyond_the_limit_is_cut_or_left() {
        assert_eq!(plan(Some(9 << 20), false, LIMITS), Plan::Cut(8 << 20));
        let stock = Limits {
            granted: 212_992,
            ..LIMITS
        };
        assert_eq!(plan(Some(9 << 20), false, stock), Plan::Limited);
    }

    #[test]
    fn without_congestion_control_the_buffer_is_the_one_advised() {
        assert_eq!(plan(Some(1 << 20), true, LIMITS), Plan::Set(1 << 20));
        assert_eq!(plan(Some(9 << 20), true, LIMITS), Plan::Cut(8 << 20));
        assert_eq!(plan(None, true, LIMITS), Plan::Autotuned);
    }
}
