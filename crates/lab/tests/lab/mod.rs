//! Two hosts and a link for tests of applications.

pub(crate) mod role;

use std::net::Ipv4Addr;

use fairwind_kernel::monotonic_ns;
use fairwind_lab::application::{
    Applications, Failure, FlowOutcome, FlowPlan, SocketOptions, Work,
};
use fairwind_lab::emulator::{Emulator, EmulatorOptions};
use fairwind_lab::host::{Host, HostConfig};
use fairwind_lab::network::Network;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::units::Duration;

use crate::hosts;
pub(crate) use crate::hosts::{PORT, permitted};

pub(crate) const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const TO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// One direction of a link with room for 1000 packets.
pub(crate) fn link(mbps: u64, delay_ms: u64) -> PipeConfig {
    PipeConfig {
        delay: hosts::delayed(delay_ms).delay,
        ..hosts::narrow(mbps)
    }
}

/// Two hosts joined by a link.
pub(crate) struct Lab {
    pub hosts: [Host; 2],
    _emulator: Emulator,
}

impl Lab {
    /// A lab whose link is the same in both directions.
    pub(crate) fn start(pipe: PipeConfig) -> Lab {
        let host = |address| HostConfig {
            congestion_control: Some("cubic".to_owned()),
            ..HostConfig::new(address)
        };
        let hosts = [FROM, TO].map(|address| Host::create(host(address)).unwrap());
        let mut network = Network::new();
        let [a, b] = [FROM, TO].map(|address| network.add_host(address).unwrap());
        network.add_pipe("there", a, b, pipe.clone()).unwrap();
        network.add_pipe("back", b, a, pipe).unwrap();
        let emulator = Emulator::start(&network, &hosts, EmulatorOptions::default()).unwrap();
        Lab {
            hosts,
            _emulator: emulator,
        }
    }

    /// Starts applications at the emulator's present time, which is the start of the plans.
    pub(crate) fn applications(
        &self,
        plans: Vec<FlowPlan>,
        warmup: Duration,
        duration: Duration,
    ) -> Applications {
        let prepared = Applications::prepare(plans).unwrap();
        prepared.start(monotonic_ns(), warmup, duration).unwrap()
    }

    /// Runs flows to their end; returns their outcomes and failures.
    pub(crate) fn run(
        &self,
        plans: Vec<FlowPlan>,
        warmup: Duration,
        duration: Duration,
    ) -> (Vec<FlowOutcome>, Vec<Failure>) {
        let applications = self.applications(plans, warmup, duration);
        sleep(duration + Duration::from_millis(50));
        let failures = applications.failures();
        let outcomes = applications.finish();
        (outcomes, failures)
    }

    /// Like [`Lab::run`] with a single flow.
    pub(crate) fn run_one(
        &self,
        plan: FlowPlan,
        warmup: Duration,
        duration: Duration,
    ) -> FlowOutcome {
        self.run(vec![plan], warmup, duration).0.remove(0)
    }
}

/// A flow over the link, from the start of the run.
pub(crate) fn plan(lab: &Lab, work: impl Into<Work>) -> FlowPlan {
    let [from, to] = lab.hosts.clone();
    FlowPlan {
        from,
        to,
        port: PORT,
        start: Duration::ZERO,
        work: work.into(),
        socket: SocketOptions::default(),
        switches: Vec::new(),
        seed: 1,
    }
}

fn sleep(duration: Duration) {
    std::thread::sleep(std::time::Duration::from_nanos(duration.as_nanos()));
}

/// Processor time that this process has used, seconds.
pub(crate) fn processor_time() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local timespec, which the call writes.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The congestion controls of this process' connections to a port of [`TO`].
pub(crate) fn controls_of_connections_to(port: u16) -> Vec<String> {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let fds = fds.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    fds.filter(|&fd| is_connected_to(fd, port))
        .map(control_of)
        .collect()
}

fn is_connected_to(fd: i32, port: u16) -> bool {
    // SAFETY: the structure consists of integers.
    let mut name: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&name) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a local structure.
    let done = unsafe { libc::getpeername(fd, (&raw mut name).cast(), &raw mut len) };
    let to = u32::from_ne_bytes(TO.octets());
    done == 0 && name.sin_addr.s_addr == to && u16::from_be(name.sin_port) == port
}

/// The congestion control of a connection.
pub(crate) fn control_of(fd: i32) -> String {
    let mut name = [0u8; 16];
    let mut len = name.len() as libc::socklen_t;
    // SAFETY: name and length are written within their bounds.
    let done = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    assert_eq!(done, 0);
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(16);
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// Processes whose arguments include the word.
pub(crate) fn processes_with(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| {
            line.starts_with(b"sleep\0") && line.ends_with(format!("{word}\0").as_bytes())
        })
        .count()
}
