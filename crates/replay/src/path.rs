//! The paths over which connections are recorded, and their load.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fairwind_lab::LabError;
use fairwind_lab::emulator::{Emulator, EmulatorOptions};
use fairwind_lab::host::{Host, HostConfig, Offload};
use fairwind_lab::network::Network;
use fairwind_path::codel::CoDelConfig;
use fairwind_path::delay::{Delay, DelayConfig, Displacement, ReorderConfig};
use fairwind_path::loss::LossConfig;
use fairwind_path::pipe::{Aqm, PipeConfig};
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::red::RedConfig;
use fairwind_path::trace::Steps;
use fairwind_path::units::{self, Bandwidth, Time};
use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Known to `bpf/tap.bpf.c`; no other program should use it.
const PORT: u16 = 47_021;

/// A path, and the load on it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedPath {
    /// A name of a few words.
    pub name: &'static str,
    /// From the sender to the receiver.
    pub there: PipeConfig,
    /// From the receiver to the sender.
    pub back: PipeConfig,
    /// What is sent.
    pub load: Load,
    /// Whether the sender may pass several segments on at once (segmentation offload), as is usual.
    pub bursts: bool,
}

/// What the sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// As much as the connection takes.
    Bulk,
    /// This many bytes at a time, each followed by a pause.
    Bursts {
        /// Bytes at a time.
        bytes: usize,
        /// The pause.
        pause: Duration,
    },
}

/// The paths over which calls are recorded.
pub fn all() -> Vec<RecordedPath> {
    vec![
        bulk("short queue", pipe(20, 10, 10)),
        bulk("queue of the window", pipe(20, 20, 67)),
        bulk("long queue", pipe(10, 10, 300)),
        bulk("large window", pipe(100, 40, 700)),
        bulk("short path", pipe(200, 1, 50)),
        with_loss("random loss 0.1 %", LossConfig::Bernoulli(0.001)),
        with_loss("random loss 1 %", LossConfig::Bernoulli(0.01)),
        with_loss("loss in bursts", BURSTS),
        with_aqm("RED", Aqm::Red(RedConfig::default())),
        with_aqm("CoDel", Aqm::CoDel(CoDelConfig::default())),
        changing_delay(),
        bulk("reordering", reordering()),
        with_loss("blackouts", blackouts()),
        late_acks(),
        bursts("bursts with pauses", 60_000, 50),
        bursts("idle times", 300_000, 900),
    ]
}

/// Paths slow enough for the kernel to send one segment at a time, as the simulator does.
pub fn slow() -> Vec<RecordedPath> {
    let slow = |name, queue_packets, loss, reorder| {
        let there = PipeConfig {
            loss,
            reorder,
            ..pipe(4, 25, queue_packets)
        };
        RecordedPath {
            bursts: false,
            ..bulk(name, there)
        }
    };
    let random = LossConfig::Bernoulli(0.01);
    let reorder = reordering().reorder;
    vec![
        slow("slow full queue", 25, LossConfig::None, None),
        slow("slow random loss", 60, random, None),
        slow("slow loss in bursts", 60, BURSTS, None),
        slow("slow blackouts", 60, blackouts(), None),
        slow("slow reordering", 60, LossConfig::None, reorder),
    ]
}

/// A path with losses both from a full queue and at random within a few seconds.
pub fn brief() -> RecordedPath {
    with_loss("brief", LossConfig::Bernoulli(0.002))
}

/// Gilbert model: one burst of three packets per thousand.
const BURSTS: LossConfig = LossConfig::GilbertElliott {
    p: 0.001,
    r: 0.33,
    h: 0.0,
    k: 1.0,
};

fn pipe(mbps: u64, delay_ms: u64, queue_packets: u32) -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(mbps)),
        capacity: Capacity::Packets(queue_packets),
        delay: delay(Delay::Constant(units::Duration::from_millis(delay_ms))),
        ..PipeConfig::default()
    }
}

fn delay(base: Delay) -> DelayConfig {
    DelayConfig {
        base,
        ..DelayConfig::default()
    }
}

/// Delays of milliseconds from given milliseconds on.
fn delay_steps(points: [(u64, u64); 3], period_ms: u64) -> DelayConfig {
    delay(Delay::Steps(steps(
        points,
        period_ms,
        units::Duration::from_millis,
    )))
}

/// Acknowledgements are delayed, but neither limited nor lost.
fn bulk(name: &'static str, there: PipeConfig) -> RecordedPath {
    RecordedPath {
        name,
        back: PipeConfig {
            delay: there.delay.clone(),
            ..PipeConfig::default()
        },
        there,
        load: Load::Bulk,
        bursts: true,
    }
}

fn with_loss(name: &'static str, loss: LossConfig) -> RecordedPath {
    let there = PipeConfig {
        loss,
        ..pipe(10, 15, 30)
    };
    bulk(name, there)
}

fn with_aqm(name: &'static str, aqm: Aqm) -> RecordedPath {
    let there = PipeConfig {
        aqm,
        ..pipe(10, 15, 100)
    };
    bulk(name, there)
}

fn bursts(name: &'static str, bytes: usize, pause_ms: u64) -> RecordedPath {
    RecordedPath {
        load: Load::Bursts {
            bytes,
            pause: Duration::from_millis(pause_ms),
        },
        ..bulk(name, pipe(20, 15, 60))
    }
}

/// 10 ms, then 60 ms, then 25 ms one way, for two seconds each.
fn changing_delay() -> RecordedPath {
    let there = PipeConfig {
        delay: delay_steps([(0, 10), (2000, 60), (4000, 25)], 6000),
        ..pipe(10, 10, 60)
    };
    bulk("changing delay", there)
}

/// One packet in 200 arrives 20 ms late: spurious loss detection.
fn reordering() -> PipeConfig {
    PipeConfig {
        reorder: Some(ReorderConfig {
            probability: 0.005,
            displacement: Displacement::Late(units::Duration::from_millis(20)),
        }),
        ..pipe(10, 15, 50)
    }
}

/// Nothing passes for 700 ms in every three seconds: timeouts.
fn blackouts() -> LossConfig {
    let lost = |percent| percent as f64 / 100.0;
    LossConfig::Steps(steps([(0, 0), (1500, 100), (2200, 0)], 3000, lost))
}

/// The ACKs of 20 ms in every two seconds are delayed by 600 ms: timeouts without loss.
fn late_acks() -> RecordedPath {
    let back = PipeConfig {
        delay: delay_steps([(0, 15), (1500, 600), (1520, 15)], 2000),
        ..PipeConfig::default()
    };
    RecordedPath {
        back,
        ..bulk("late acknowledgements", pipe(10, 15, 30))
    }
}

/// Values from given times (milliseconds) on, repeated with a period.
fn steps<V: Copy>(
    points: [(u64, u64); 3],
    period_ms: u64,
    value: impl Fn(u64) -> V,
) -> Arc<Steps<V>> {
    let points = points.map(|(ms, number)| (Time::from_nanos(ms * 1_000_000), value(number)));
    let steps = Steps::new(points).expect("times ascend");
    let period = units::Duration::from_millis(period_ms);
    Arc::new(steps.repeated_every(period).expect("longer than the steps"))
}

impl RecordedPath {
    /// Sends over the path for `time`, through a connection with this congestion control.
    ///
    /// # Errors
    ///
    /// Fails if the lab cannot be set up or the connection fails.
    pub fn run(&self, control: &str, time: Duration) -> Result<(), LabError> {
        let hosts = [self.host(SENDER)?, self.host(RECEIVER)?];
        let mut network = Network::new();
        let [sender, receiver] = [network.add_host(SENDER)?, network.add_host(RECEIVER)?];
        network.add_pipe("there", sender, receiver, self.there.clone())?;
        network.add_pipe("back", receiver, sender, self.back.clone())?;
        let options = EmulatorOptions {
            seed: 1,
            ..EmulatorOptions::default()
        };
        let emulator = Emulator::start(&network, &hosts, options)?;
        self.transfer(&hosts, control, time)
            .map_err(|error| LabError::Failed(format!("the recorded connection: {error}")))?;
        emulator.stop();
        Ok(())
    }

    fn host(&self, address: Ipv4Addr) -> Result<Host, LabError> {
        let usual = HostConfig::new(address);
        if self.bursts {
            return Host::create(usual);
        }
        Host::create(HostConfig {
            offload: Offload::None,
            tcp_wmem: [4096, 8 << 20, 64 << 20],
            sysctls: vec![("net.ipv4.tcp_min_tso_segs".into(), "1".into())],
            ..usual
        })
    }

    fn transfer(
        &self,
        [sender, receiver]: &[Host; 2],
        control: &str,
        time: Duration,
    ) -> io::Result<()> {
        let lab = |error: LabError| io::Error::other(error.to_string());
        let program = |error: io::Error| LabError::Failed(error.to_string());
        let listen = || TcpListener::bind((RECEIVER, PORT)).map_err(program);
        let listener = receiver.within(listen).map_err(lab)?;
        let sink = thread::spawn(move || sink(&listener));
        let connect = || connect(control).map_err(program);
        let stream = sender.within(connect).map_err(lab)?;
        let stop = stream.try_clone()?;
        let load = self.load;
        let source = thread::spawn(move || source(stream, load));
        thread::sleep(time);
        // Wakes a blocked writer with an error; buffered data is not sent any more.
        set_socket_linger(&stop, Some(Duration::ZERO))?;
        stop.shutdown(Shutdown::Both)?;
        drop(stop);
        source.join().expect("the source does not panic");
        sink.join().expect("the sink does not panic")
    }
}

/// Reads until the end, an error, or five seconds without data.
fn sink(listener: &TcpListener) -> io::Result<()> {
    let mut stream = listener.accept()?.0;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut buffer = vec![0; 1 << 16];
    while matches!(stream.read(&mut buffer), Ok(read) if read > 0) {}
    Ok(())
}

/// Sends until the connection is shut down.
fn source(mut stream: TcpStream, load: Load) {
    let (bytes, pause) = match load {
        Load::Bulk => (1 << 16, Duration::ZERO),
        Load::Bursts { bytes, pause } => (bytes, pause),
    };
    let data = vec![0x5a; bytes];
    while stream.write_all(&data).is_ok() {
        thread::sleep(pause);
    }
}

/// Opens a connection that uses this congestion control from its first packet on.
fn connect(control: &str) -> io::Result<TcpStream> {
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    set_tcp_congestion(&socket, control)?;
    rustix::net::connect(&socket, &SocketAddrV4::new(RECEIVER, PORT))?;
    Ok(TcpStream::from(socket))
}
