//! Keeps processors from sleeping while the network runs.
//!
//! A halted processor takes tens of microseconds to wake for a timer or another processor, and hundreds in a
//! virtual machine with busy neighbours. While the kernel's PM QoS file
//! (`Documentation/power/pm_qos_interface.rst`) is held open with a latency of 0, idle processors stay awake.
//! It costs power, but no program's processor time.

use std::fs::{File, OpenOptions};
use std::io::Write;

const LATENCY: &str = "/dev/cpu_dma_latency";

/// Keeps this machine's processors awake until it is dropped or the process ends, however it ends. Without
/// the privilege (the file is root's) they sleep as usual, and packets are merely later.
#[derive(Debug)]
pub struct Wakeful {
    _held: Option<File>,
}

impl Wakeful {
    /// Starts keeping processors awake, if permitted.
    pub fn begin() -> Wakeful {
        let none: i32 = 0;
        let hold = || {
            let mut file = OpenOptions::new().write(true).open(LATENCY)?;
            file.write_all(&none.to_ne_bytes())?;
            std::io::Result::Ok(file)
        };
        Wakeful { _held: hold().ok() }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use fairwind_testing::or_skip;

    use super::*;

    #[test]
    fn processors_stay_awake_while_it_is_held() {
        let wakeful = Wakeful::begin();
        let Some(mut file) =
            or_skip(File::open(LATENCY).map_err(|error| format!("{LATENCY}: {error}")))
        else {
            return;
        };
        let mut allowed_us = [1; 4];
        file.read_exact(&mut allowed_us).unwrap();
        assert_eq!(i32::from_ne_bytes(allowed_us), 0);
        drop(wakeful);
    }
}
