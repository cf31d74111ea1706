//! Keeps processors from sleeping while the network runs: a request for CPU latency (PM QoS).
//!
//! A halted processor takes tens of microseconds to wake for a timer or another processor, and hundreds in a
//! virtual machine with busy neighbours. While the kernel's PM QoS file
//! (`Documentation/power/pm_qos_interface.rst`) is held open with a latency of 0, idle processors stay awake.
//! It costs power, but no program's processor time.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

const CPU_DMA_LATENCY: &str = "/dev/cpu_dma_latency";

/// Keeps this machine's processors awake until it is dropped or the process ends, however it ends. Without
/// the privilege (the file is root's) they sleep as usual, and packets are merely later.
#[derive(Debug)]
pub(super) struct CpuLatencyRequest {
    /// The request is withdrawn when the file is closed.
    _file: Option<File>,
}

impl CpuLatencyRequest {
    /// Requests a latency of 0, if permitted.
    pub(super) fn zero() -> CpuLatencyRequest {
        let latency_us: i32 = 0;
        let request = || {
            let mut file = OpenOptions::new().write(true).open(CPU_DMA_LATENCY)?;
            file.write_all(&latency_us.to_ne_bytes())?;
            io::Result::Ok(file)
        };
        CpuLatencyRequest {
            _file: request().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use fairwind_testing::or_skip;

    use super::*;

    #[test]
    fn processors_stay_awake_while_it_is_held() {
        let request = CpuLatencyRequest::zero();
        let Some(mut file) = or_skip(
            File::open(CPU_DMA_LATENCY).map_err(|error| format!("{CPU_DMA_LATENCY}: {error}")),
        ) else {
            return;
        };
        let mut allowed_us = [1; 4];
        file.read_exact(&mut allowed_us).unwrap();
        assert_eq!(i32::from_ne_bytes(allowed_us), 0);
        drop(request);
    }
}
