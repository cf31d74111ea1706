//! The connection that measures: its socket, its data, and what the kernel tells of it.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwind_cc::kernel::{self as controls, Loaded};
use fairwind_cc::native;
use fairwind_estimate::{Estimate, Estimator, Figure, Limit, Unknown, latest};
use fairwind_kernel::TcpInfo;
use fairwind_kernel::sockopt::set_unsent;
use fairwind_trace::event::{Event, Sample, State};
use fairwind_trace::filter::Filter;
use fairwind_trace::kernel::Options;
use fairwind_trace::session::Session;
use rustix::net::{AddressFamily, SendFlags, SocketType, sockopt};

use crate::failure::Failure;
use crate::interrupt;

/// Time to open the connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for the last acknowledgements, once all is written.
const LAST_ACKS: Duration = Duration::from_secs(1);
/// Handshakes before a measurement, one after the other.
const HANDSHAKES: u32 = 3;
/// Ring buffer of the trace, which is of one connection.
const RING_BYTES: u32 = 4 << 20;
/// Send buffer: a few of the longest trains.
const BUFFER_BYTES: usize = 4 << 20;
/// What may wait in it to be sent, at least: more than a train of short bursts.
const UNSENT_BYTES: u32 = 1 << 18;
/// And what the pacing rate sends in a second by this: the connection's end waits until it has been sent.
const UNSENT_PER_SECOND: u64 = 10;
/// IP and TCP headers with time stamps.
const HEADERS_V4: u32 = 52;
const HEADERS_V6: u32 = 72;
/// What is handed to the kernel at once is what the pacing rate sends in a second by this, but two
/// packets or more: short bursts are more samples.
const BURSTS_PER_SECOND: u64 = 4096;
/// Largest packet that headers leave of what IP can carry.
const LONGEST_BURST: u64 = 60_000;

/// When a measurement ends.
pub(super) struct Limits {
    pub(super) duration: Duration,
    /// Bytes of payload.
    pub(super) bytes: u64,
}

/// What is known so far.
pub(super) struct Measurement {
    /// Since the connection was opened.
    pub(super) seconds: f64,
    /// Payload acknowledged.
    pub(super) bytes: u64,
    pub(super) trains: u32,
    pub(super) rtt_ms: Option<f64>,
    pub(super) min_rtt_ms: Option<f64>,
    pub(super) estimate: Result<Estimate, Unknown>,
}

/// The least round-trip time of as many handshakes: the first packets of the host and of a path are
/// often late.
pub(super) fn handshakes(address: SocketAddr) -> Option<Duration> {
    let rtt = |_| {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
        TcpInfo::of(&stream).ok()?.min_rtt()
    };
    (0..HANDSHAKES).filter_map(rtt).min()
}

/// Measures the path to the first of these addresses that accepts a connection. `opened` is called
/// then, before anything is sent, and tells the least round-trip time of other connections; `show` is
/// called after each train. The result has the medians of all
/// estimates. The inner error is that of the connection, if nothing is known.
pub(super) fn measure(
    addresses: &[SocketAddr],
    limits: &Limits,
    opened: impl FnOnce(SocketAddr) -> Result<Option<Duration>, Failure>,
    mut show: impl FnMut(&Measurement) -> Result<(), Failure>,
) -> Result<(Result<Measurement, Failure>, Connection), Failure> {
    let control = load()?;
    let mut refused = None;
    for address in addresses {
        let (socket, mut session) = prepare(*address, &control)?;
        match connect(socket, *address) {
            Ok(stream) => {
                let least_rtt = opened(*address)?;
                let mut writer = Writer::start(stream, limits.bytes)?;
                let measured = watch(&mut session, &writer, address, least_rtt, limits, &mut show)?;
                let result = match (writer.end(), &measured.estimate) {
                    (Err(error), Err(_)) => Err(Failure::work(format!("{address}: {error}"))),
                    _ => Ok(measured),
                };
                return Ok((result, Connection(writer, control)));
            }
            Err(error) => refused = Some(format!("{address}: {error}")),
        }
    }
    Err(Failure::work(
        refused.unwrap_or_else(|| "no address".to_owned()),
    ))
}

/// A connection that has measured, with its control. Dropping it closes the connection.
pub(super) struct Connection(
    Writer,
    #[expect(dead_code, reason = "kept until then")] Loaded,
);

impl Connection {
    /// Closes the connection and drops what has not been sent: who takes data of no use need not have all of it.
    pub(super) fn abort(self) {
        let _ = sockopt::set_socket_linger(&self.0.shared.stream, Some(Duration::ZERO));
    }

    /// Sends what the kernel still holds as other connections do, not in trains, and the end.
    pub(super) fn end_of_data(&self) -> io::Result<()> {
        let stream = &self.0.shared.stream;
        sockopt::set_tcp_congestion(stream, "reno")?;
        stream.shutdown(Shutdown::Write)
    }
}

/// The control under a name of this process.
fn load() -> Result<Loaded, Failure> {
    let probe = native::find("probe").expect("cc/probe.c");
    let name = format!("fw_probe_{:x}", std::process::id());
    controls::load_as(&probe.default_parameters(), &name).map_err(Failure::work)
}

/// A socket under the control, and a trace of it.
fn prepare(address: SocketAddr, control: &Loaded) -> Result<(TcpStream, Session), Failure> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let prepared = (|| -> io::Result<TcpStream> {
        let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
        sockopt::set_tcp_congestion(&socket, control.name())?;
        sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES)?;
        // The trace needs the port before the connection is open.
        let any = match address {
            SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
        };
        rustix::net::bind(&socket, &any)?;
        Ok(TcpStream::from(socket))
    })();
    let stream = prepared.map_err(Failure::work)?;
    let port = stream.local_addr().map_err(Failure::work)?.port();
    let options = Options {
        filter: Filter {
            ports: vec![port],
            programs: Vec::new(),
            hosts: vec![address.ip().to_string().parse().map_err(Failure::work)?],
            ..Filter::default()
        },
        every_ack: true,
        control_state: true,
        ring_bytes: RING_BYTES,
    };
    Ok((stream, Session::start(&options, None)?))
}

fn connect(stream: TcpStream, address: SocketAddr) -> io::Result<TcpStream> {
    // Linux applies the send timeout to connect, too.
    stream.set_write_timeout(Some(PATIENCE))?;
    rustix::net::connect(&stream, &address).map_err(|error| match error {
        rustix::io::Errno::INPROGRESS => io::Error::from(io::ErrorKind::TimedOut),
        error => error.into(),
    })?;
    Ok(stream)
}

/// Writes zeros in another thread, until it is dropped.
struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

struct Shared {
    stream: TcpStream,
    /// Bytes to write at once; 0: nothing yet.
    chunk: AtomicU32,
    /// Bytes that may wait to be sent.
    unsent: AtomicU32,
    written: AtomicU64,
    stopped: AtomicBool,
}

impl Writer {
    fn start(stream: TcpStream, most: u64) -> Result<Writer, Failure> {
        // A silent path must not hold the command for longer than this.
        stream
            .set_write_timeout(Some(Duration::from_millis(200)))
            .map_err(Failure::work)?;
        let shared = Arc::new(Shared {
            stream,
            chunk: AtomicU32::new(0),
            unsent: AtomicU32::new(0),
            written: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("measure".into())
            .spawn(move || of_thread.write(most))
            .map_err(Failure::work)?;
        Ok(Writer {
            shared,
            thread: Some(thread),
        })
    }

    /// Sets what is written at once, and what may wait to be sent, by the size of packets and the pacing rate, bytes/s.
    fn set_burst(&self, mss: u32, pacing_rate: u64) {
        let bytes = (pacing_rate / BURSTS_PER_SECOND).min(LONGEST_BURST);
        let packets = (bytes / u64::from(mss.max(1))).max(2);
        let chunk = u32::try_from(packets).unwrap_or(2).saturating_mul(mss);
        self.shared.chunk.store(chunk, Ordering::Relaxed);
        let unsent =
            (pacing_rate / UNSENT_PER_SECOND).clamp(UNSENT_BYTES.into(), BUFFER_BYTES as u64);
        let unsent = (unsent as u32).next_power_of_two();
        if self.shared.unsent.swap(unsent, Ordering::Relaxed) != unsent {
            // Without it, as much waits as the buffer holds.
            let _ = set_unsent(&self.shared.stream, unsent);
        }
    }

    /// Whether all was written, or nothing more can be.
    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it, and tells why it could not write on.
    fn end(&mut self) -> io::Result<()> {
        self.shared.stopped.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the writing thread panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // What it could not write matters to nobody any more.
        let _ = self.end();
    }
}

impl Shared {
    fn write(&self, most: u64) -> io::Result<()> {
        let zeros = vec![0; 1 << 17];
        let mut left = most;
        while left > 0 && !self.stopped.load(Ordering::Relaxed) {
            let chunk = self.chunk.load(Ordering::Relaxed) as usize;
            if chunk == 0 {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            let length = chunk
                .min(zeros.len())
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            // With an end of record, the kernel joins it to nothing: the burst has this length.
            let flags = SendFlags::EOR | SendFlags::NOSIGNAL;
            match rustix::net::send(self.stream.as_fd(), &zeros[..length], flags) {
                Ok(written) => {
                    left -= written as u64;
                    self.written.fetch_add(written as u64, Ordering::Relaxed);
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Whether there is data to send, and the receiver's window has no room for a packet of it.
fn is_held_up(sample: &Sample) -> bool {
    let room = sample
        .snd_una
        .wrapping_add(sample.snd_wnd)
        .wrapping_sub(sample.snd_nxt);
    sample.write_seq != sample.snd_nxt && (room as i32) < sample.mss_cache as i32
}

/// The connection as the trace shows it.
struct Watch {
    headers: u32,
    /// Of other connections to the host.
    least_rtt_s: f64,
    estimator: Option<Estimator>,
    number: u16,
    trains: u32,
    latest: Option<Sample>,
    mss: u32,
    /// Whether there is a new train.
    is_new: bool,
}

impl Watch {
    fn sample(&mut self, sample: &Sample, state: Option<&State>) {
        self.latest = Some(*sample);
        // The peer may have ended its own direction: CLOSE_WAIT.
        let (established, close_wait) = (1, 8);
        if ![established, close_wait].contains(&sample.state) || sample.mss_cache == 0 {
            return;
        }
        let payload = sample.mss_cache;
        if self.mss != payload {
            // Another size of packets is another capacity in packets.
            self.mss = payload;
            self.estimator = Some(Estimator::new(payload, self.headers));
        }
        let train = state.and_then(|state| latest(state, payload));
        let (Some((number, train)), Some(estimator)) = (train, &mut self.estimator) else {
            return;
        };
        if number != self.number {
            self.number = number;
            self.trains += 1;
            self.is_new = true;
            if (1..u32::MAX).contains(&sample.min_rtt_us) {
                let least_rtt_s = f64::from(sample.min_rtt_us) / 1e6;
                estimator.set_least_rtt(least_rtt_s.min(self.least_rtt_s));
            }
            estimator.add(sample.head.time_ns as f64 / 1e9, sample.delivered, train);
        }
    }

    fn has_acknowledged(&self, written: &AtomicU64) -> bool {
        let acknowledged = self.latest.as_ref().map_or(0, |sample| sample.bytes_acked);
        acknowledged >= written.load(Ordering::Relaxed)
    }

    fn measurement(&self, seconds: f64) -> Measurement {
        let ms = |us: u32| (1..u32::MAX).contains(&us).then(|| f64::from(us) / 1e3);
        let sample = self.latest.as_ref();
        let estimate = self.estimator.as_ref().map(Estimator::estimate);
        Measurement {
            seconds,
            bytes: sample.map_or(0, |sample| sample.bytes_acked),
            trains: self.trains,
            rtt_ms: sample.and_then(|sample| ms(sample.srtt_us >> 3)),
            min_rtt_ms: sample.and_then(|sample| ms(sample.min_rtt_us)),
            estimate: match estimate.unwrap_or(Err(Unknown::TooFew)) {
                // A train that the receiver holds up does not end.
                Err(Unknown::TooFew) if sample.is_some_and(is_held_up) => {
                    Err(Unknown::Limited(Limit::Receiver))
                }
                estimate => estimate,
            },
        }
    }
}

fn watch(
    session: &mut Session,
    writer: &Writer,
    address: &SocketAddr,
    least_rtt: Option<Duration>,
    limits: &Limits,
    show: &mut impl FnMut(&Measurement) -> Result<(), Failure>,
) -> Result<Measurement, Failure> {
    let began = Instant::now();
    let mut watch = Watch {
        headers: match address.ip().to_canonical().is_ipv4() {
            true => HEADERS_V4,
            false => HEADERS_V6,
        },
        least_rtt_s: least_rtt.map_or(f64::INFINITY, |rtt| rtt.as_secs_f64()),
        estimator: None,
        number: 0,
        trains: 0,
        latest: None,
        mss: 0,
        is_new: false,
    };
    let mut estimates = Vec::new();
    // How often fair queueing was the reason that there was none.
    let mut shares = 0;
    let mut ended = None;
    while began.elapsed() < limits.duration && !interrupt::asked() {
        session.step(|event| {
            if let Event::Sample(sample, state) = event {
                watch.sample(sample, *state);
                if watch.mss > 0 {
                    writer.set_burst(watch.mss, sample.pacing_rate);
                }
            }
        })?;
        if std::mem::take(&mut watch.is_new) {
            let measurement = watch.measurement(began.elapsed().as_secs_f64());
            show(&measurement)?;
            match measurement.estimate {
                Ok(estimate) => estimates.push(estimate),
                Err(Unknown::FairQueueing) => shares += 1,
                Err(_) => {}
            }
        }
        if writer.has_ended() {
            // What is on its way still counts.
            let ended = *ended.get_or_insert_with(Instant::now);
            if watch.has_acknowledged(&writer.shared.written) || ended.elapsed() > LAST_ACKS {
                break;
            }
        }
    }
    let mut result = watch.measurement(began.elapsed().as_secs_f64());
    // Until enough trains have shown a policer, the estimates are of the link.
    let policed = estimates.iter().filter(|estimate| estimate.is_policed);
    let is_policed = 2 * policed.count() > estimates.len();
    estimates.retain(|estimate| estimate.is_policed == is_policed);
    if shares > estimates.len() {
        result.estimate = Err(Unknown::FairQueueing);
    } else if let Some(median) = median(&estimates) {
        result.estimate = Ok(median);
    }
    Ok(result)
}

/// The median of each value of the estimates.
fn median(estimates: &[Estimate]) -> Option<Estimate> {
    let (first, last) = (estimates.first()?, estimates.last()?);
    let middle = |of: &dyn Fn(&Estimate) -> f64| {
        let mut values: Vec<f64> = estimates.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let figure = |of: &dyn Fn(&Estimate) -> Figure| Figure {
        value: middle(&|estimate| of(estimate).value),
        low: middle(&|estimate| of(estimate).low),
        high: middle(&|estimate| of(estimate).high),
    };
    Some(Estimate {
        capacity: figure(&|estimate| estimate.capacity),
        available: figure(&|estimate| estimate.available),
        from_s: first.from_s,
        to_s: last.to_s,
        is_policed: last.is_policed,
    })
}
