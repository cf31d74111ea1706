//! The loops that move bytes between a file and a data connection, each in its own thread.
//!
//! The sockets block, with a timeout: at full speed that costs nothing. It expires for the watcher, which is
//! to be called about every 50 ms while nothing moves; a stop ends the wait at once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use tokio::sync::Notify;

use super::{Direction, Gate, Open, Protection, TransferWatcher};
use crate::pipe::Pipe;

/// Timeout of one wait for room in the socket. A single call of sendfile may wait up to four times.
const WAIT_TIMEOUT: Duration = Duration::from_millis(12);

/// Timeout of one wait for bytes: a single read waits once.
const ARRIVAL_TIMEOUT: Duration = Duration::from_millis(50);

/// Most bytes moved by one system call, except by sendfile on a fast path ([`Stride`]).
const CHUNK: usize = 256 << 10;

/// Bytes to send at once: more and more on a fast path, where fewer calls are faster; fewer as soon as they take longer
/// than a [`WAIT_TIMEOUT`].
#[derive(Debug)]
struct Stride {
    bytes: usize,
    least: usize,
    most: usize,
}

impl Stride {
    /// Of sendfile: the watcher of a slow path is still called for every [`CHUNK`].
    const SENDFILE: Self = Self::from(CHUNK, 2 << 20);

    /// Through a buffer: what a slow path does not need of it is never touched, and takes no memory. No less than two
    /// records of TLS.
    const BUFFER: Self = Self::from(32 << 10, CHUNK);

    const fn from(least: usize, most: usize) -> Self {
        Self {
            bytes: least,
            least,
            most,
        }
    }

    fn after(&mut self, taken: Duration) {
        if taken < WAIT_TIMEOUT / 2 {
            self.bytes = (self.bytes * 2).min(self.most);
        } else if taken > WAIT_TIMEOUT {
            self.bytes = (self.bytes / 2).max(self.least);
        }
    }
}

/// After so many reads that filled the buffer one after the other, the path is fast.
const FULL_READS: u32 = 8;

/// Why a transfer ended early.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// [`Meter::stop`] was called.
    #[error("stopped")]
    Stopped,
    /// No byte moved for as long as [`Bounds`] allows.
    #[error("nothing moved for {} s", .0.as_secs())]
    Stalled(Duration),
    /// Fewer bytes a second moved than [`Bounds::least_rate`] allows.
    #[error("fewer than {0} bytes a second moved")]
    Slow(u64),
    /// It took longer than [`Bounds::longest`].
    #[error("it took longer than {} s", .0.as_secs())]
    Long(Duration),
    /// The data connection failed.
    #[error("data connection: {0}")]
    Connection(io::Error),
    /// The file could not be read or written.
    #[error("{0}")]
    File(io::Error),
}

/// How slow a transfer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Longest time in which nothing moves.
    pub patience: Duration,
    /// Lowest rate, bytes a second, averaged over every `patience`.
    pub least_rate: u64,
    /// Longest duration of the whole transfer.
    pub longest: Duration,
}

impl Bounds {
    /// Limits only the time in which nothing moves, not the rate.
    pub fn patience(patience: Duration) -> Self {
        Self {
            patience,
            least_rate: 0,
            longest: Duration::MAX,
        }
    }
}

/// The progress of a running transfer, as other threads see it, and the means to stop it.
#[derive(Debug)]
pub struct Meter {
    begin: Instant,
    moved: AtomicU64,
    /// When a byte last moved, milliseconds after `begin`.
    last: AtomicU64,
    stopped: AtomicBool,
    /// Notified when `stopped` is set.
    stopping: Notify,
    /// The socket on which the transfer may wait when `stopped` is set, and what ends that wait.
    socket: Mutex<Option<(Weak<TcpStream>, Shutdown)>>,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            begin: Instant::now(),
            moved: AtomicU64::new(0),
            last: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            stopping: Notify::new(),
            socket: Mutex::default(),
        }
    }
}

impl Meter {
    /// Bytes moved so far.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Time since a byte last moved.
    pub fn quiet(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.begin.elapsed().saturating_sub(last)
    }

    fn add(&self, count: usize, now: Instant) -> u64 {
        let last = now.saturating_duration_since(self.begin).as_millis();
        self.last.store(last as u64, Ordering::Relaxed);
        self.moved.fetch_add(count as u64, Ordering::Relaxed) + count as u64
    }

    /// Lets [`stop`](Self::stop) end a wait of the transfer on this socket, through which bytes go this way.
    pub fn ends_waits_on(&self, socket: &Arc<TcpStream>, direction: Direction) {
        let end = match direction {
            Direction::Send => Shutdown::Write,
            // What has arrived can still be read.
            Direction::Receive => Shutdown::Read,
        };
        *self.socket.lock() = Some((Arc::downgrade(socket), end));
        if self.is_stopped() {
            self.end_wait();
        }
    }

    /// Asks the transfer to stop: it ends with [`TransferError::Stopped`], even if it waits on the socket
    /// given to [`ends_waits_on`](Self::ends_waits_on). A wait on another socket ends with its timeout.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.stopping.notify_waiters();
        self.end_wait();
    }

    fn end_wait(&self) {
        let socket = self.socket.lock();
        let Some((socket, end)) = socket.as_ref() else {
            return;
        };
        if let Some(socket) = socket.upgrade() {
            // Fails if the connection has ended: then nothing waits on it.
            let _ = socket.shutdown(*end);
        }
    }

    /// Whether the transfer has been asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits until the transfer is asked to stop.
    pub async fn stopped(&self) {
        // Made first, so that a request between the check and the wait is not missed.
        let stopping = self.stopping.notified();
        if !self.is_stopped() {
            stopping.await;
        }
    }
}

/// A data connection about to move bytes.
pub struct Mover<'a> {
    socket: &'a TcpStream,
    protection: Option<&'a mut dyn Protection>,
    /// Bytes come from the peer.
    receives: bool,
    meter: &'a Meter,
    watcher: &'a mut dyn TransferWatcher,
    bounds: Bounds,
    gate: &'a dyn Gate,
    /// When the transfer began.
    begin: Instant,
    last: Instant,
    /// Where the current measurement of the rate began: the time, and the bytes moved by then.
    period: (Instant, u64),
}

impl<'a> Mover<'a> {
    /// Prepares a connected socket for a transfer within `bounds`.
    ///
    /// # Errors
    /// If the socket's mode or timeouts cannot be set.
    pub fn new(
        socket: &'a TcpStream,
        meter: &'a Meter,
        watcher: &'a mut dyn TransferWatcher,
        bounds: Bounds,
    ) -> Result<Self, TransferError> {
        let set = || {
            socket.set_nonblocking(false)?;
            socket.set_read_timeout(Some(ARRIVAL_TIMEOUT))?;
            socket.set_write_timeout(Some(WAIT_TIMEOUT))
        };
        set().map_err(TransferError::Connection)?;
        Ok(Self {
            socket,
            protection: None,
            receives: false,
            meter,
            watcher,
            bounds,
            gate: &Open,
            begin: Instant::now(),
            last: Instant::now(),
            period: (Instant::now(), 0),
        })
    }

    /// Lets all bytes pass through a protected stream, whose handshake is over.
    #[must_use]
    pub fn protected_by(self, protection: Option<&'a mut dyn Protection>) -> Self {
        Self { protection, ..self }
    }

    /// Moves no more than `gate` lets through.
    #[must_use]
    pub fn through(mut self, gate: &'a dyn Gate) -> Self {
        self.gate = gate;
        self
    }

    /// Sends bytes `first..end` of the file, or up to its end if that comes first; then ends the stream. Without
    /// protection, or with the kernel's, they are not copied through user space.
    ///
    /// # Errors
    /// [`TransferError`] if the file or the connection fails, a bound is exceeded, or the transfer is
    /// stopped.
    pub fn send_file(self, file: &File, first: u64, end: u64) -> Result<u64, TransferError> {
        let present = file.metadata().map_err(TransferError::File)?.len();
        let total = end.min(present).saturating_sub(first);
        self.run(Some(total), |mover| mover.send_range(file, first, end))
    }

    fn send_range(&mut self, file: &File, first: u64, end: u64) -> Result<(), TransferError> {
        // Only a hint: failure does no harm.
        let _ = fadvise(file, first, None, Advice::Sequential);
        let is_above = |protection: &&mut dyn Protection| !protection.is_below_socket();
        if self.protection.as_ref().is_some_and(is_above) {
            return self.send_all_from(&mut Section { file, first, end });
        }
        let (mut offset, mut stride) = (first, Stride::SENDFILE);
        while offset < end {
            let most = self.admitted(stride.bytes)?;
            let count = usize::try_from(end - offset).map_or(most, |rest| rest.min(most));
            let begin = self.last;
            match rustix::fs::sendfile(self.socket, file, Some(&mut offset), count) {
                Ok(0) => break,
                Ok(count) => {
                    if let Some(protection) = &mut self.protection {
                        protection.passed(count);
                    }
                    self.moved(count)?;
                    stride.after(self.last - begin);
                }
                Err(Errno::AGAIN | Errno::INTR) => self.waited()?,
                Err(error @ (Errno::IO | Errno::INVAL | Errno::OVERFLOW)) => {
                    return Err(TransferError::File(error.into()));
                }
                Err(error) => return Err(self.broken(error.into())),
            }
        }
        Ok(())
    }

    /// Sends all that `source` yields, `total` bytes if known; then ends the stream.
    ///
    /// # Errors
    /// As [`send_file`](Self::send_file).
    pub fn send_from(
        self,
        source: &mut dyn Read,
        total: Option<u64>,
    ) -> Result<u64, TransferError> {
        self.run(total, |mover| mover.send_all_from(source))
    }

    fn send_all_from(&mut self, source: &mut dyn Read) -> Result<(), TransferError> {
        let (mut buffer, mut stride) = (vec![0; CHUNK], Stride::BUFFER);
        loop {
            let mut rest = match source.read(&mut buffer[..stride.bytes]) {
                Ok(0) => return Ok(()),
                Ok(count) => &buffer[..count],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(TransferError::File(error)),
            };
            let begin = Instant::now();
            while !rest.is_empty() {
                let most = self.admitted(rest.len())?;
                match self.write(&rest[..most]) {
                    Ok(count) => {
                        rest = &rest[count..];
                        self.moved(count)?;
                    }
                    Err(error) if is_wait(&error) => self.waited()?,
                    Err(error) => return Err(self.broken(error)),
                }
            }
            stride.after(begin.elapsed());
        }
    }

    /// Writes to `sink` all that arrives until the peer ends the stream; `total` is the number of bytes
    /// expected, if known.
    ///
    /// # Errors
    /// As [`send_file`](Self::send_file).
    pub fn receive_into(
        self,
        sink: &mut dyn Write,
        total: Option<u64>,
    ) -> Result<u64, TransferError> {
        self.run(total, |mover| mover.receive_all_into(sink, None, total))
    }

    /// Writes to the file, from its position on, all that arrives until the peer ends the stream. Without protection and
    /// on a fast path, bytes are not copied through user space.
    ///
    /// # Errors
    /// As [`send_file`](Self::send_file).
    pub fn receive_file(self, file: &File, total: Option<u64>) -> Result<u64, TransferError> {
        let pipe_to = self.protection.is_none().then_some(file);
        self.run(total, |mover| {
            mover.receive_all_into(&mut &*file, pipe_to, total)
        })
    }

    /// What arrives fast may go straight to `pipe_to`, the file behind the sink.
    fn receive_all_into(
        &mut self,
        sink: &mut dyn Write,
        pipe_to: Option<&File>,
        total: Option<u64>,
    ) -> Result<(), TransferError> {
        self.receives = true;
        let mut buffer = vec![0; CHUNK];
        match self.receive_with(&mut buffer, sink, pipe_to, total) {
            Err(TransferError::Stopped) => {
                self.drain(&mut buffer, sink)?;
                Err(TransferError::Stopped)
            }
            result => result,
        }
    }

    /// Takes what is already in the socket's buffer when the transfer is stopped: it need not be sent
    /// again.
    fn drain(&mut self, buffer: &mut [u8], sink: &mut dyn Write) -> Result<(), TransferError> {
        let mut rest = rustix::io::ioctl_fionread(self.socket).unwrap_or(0);
        while rest > 0 {
            let most = usize::try_from(rest).map_or(buffer.len(), |rest| rest.min(buffer.len()));
            match self.read(&mut buffer[..most]) {
                Ok(0) => break,
                Ok(count) => {
                    sink.write_all(&buffer[..count])
                        .map_err(TransferError::File)?;
                    self.count(count);
                    // What waits may have been counted before its protection was taken off.
                    rest = rest.saturating_sub(count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn receive_with(
        &mut self,
        buffer: &mut [u8],
        sink: &mut dyn Write,
        mut pipe_to: Option<&File>,
        total: Option<u64>,
    ) -> Result<(), TransferError> {
        let mut full = 0;
        loop {
            if full >= FULL_READS
                && let Some(file) = pipe_to.take()
                && let Ok(pipe) = Pipe::new()
                && self.receive_through(pipe, file)?
            {
                return Ok(());
            }
            let most = self.admitted(buffer.len())?;
            match self.read(&mut buffer[..most]) {
                // Once stopped, an end of stream does not mean that all bytes have come.
                Ok(0) if self.meter.is_stopped() => return Err(TransferError::Stopped),
                Ok(0) => return sink.flush().map_err(TransferError::File),
                Ok(count) => {
                    sink.write_all(&buffer[..count])
                        .map_err(TransferError::File)?;
                    self.moved(count)?;
                    full = if count == buffer.len() { full + 1 } else { 0 };
                }
                Err(error) if is_wait(&error) => self.waited()?,
                // Cut off, but behind the last byte.
                Err(error) if is_cut(&error) && total == Some(self.meter.moved()) => {
                    return sink.flush().map_err(TransferError::File);
                }
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// Receives until the peer ends the stream; false if the file cannot take the rest in this way.
    fn receive_through(&mut self, mut pipe: Pipe, file: &File) -> Result<bool, TransferError> {
        loop {
            let most = self.admitted(Pipe::SIZE)?;
            match pipe.fill(self.socket, most) {
                Ok(0) if self.meter.is_stopped() => return Err(TransferError::Stopped),
                Ok(0) => return Ok(true),
                Ok(count) => {
                    let goes_on = pipe.pour(count, file).map_err(TransferError::File)?;
                    self.moved(count)?;
                    if !goes_on {
                        return Ok(false);
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => self.waited()?,
                Err(error) => return Err(self.broken(error.into())),
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.protection {
            Some(protection) => protection.read(self.socket, buffer),
            None => (&mut &*self.socket).read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.protection {
            Some(protection) => protection.write(self.socket, bytes),
            None => (&mut &*self.socket).write(bytes),
        }
    }

    /// Has the protection send `what`, which may wait for room in the socket.
    fn push(
        &mut self,
        what: fn(&mut dyn Protection, &TcpStream) -> io::Result<()>,
    ) -> Result<(), TransferError> {
        loop {
            let Some(protection) = self.protection.as_deref_mut() else {
                return Ok(());
            };
            match what(protection, self.socket) {
                Ok(()) => return Ok(()),
                Err(error) if is_wait(&error) => self.waited()?,
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// Moves the bytes with `act`, then ends the stream.
    fn run(
        mut self,
        total: Option<u64>,
        act: impl FnOnce(&mut Self) -> Result<(), TransferError>,
    ) -> Result<u64, TransferError> {
        self.watcher.started(self.socket.as_fd(), total);
        self.begin = Instant::now();
        self.last = self.begin;
        self.period = (self.begin, 0);
        let result = act(&mut self).and_then(|()| self.push(|stream, socket| stream.flush(socket)));
        let moved = self.meter.moved();
        self.watcher.ended(moved);
        result?;
        let stays_open = self.protection.as_ref().is_some_and(|it| it.stays_open());
        if !(stays_open && self.receives) {
            self.end_protection()?;
        }
        if stays_open {
            return Ok(moved);
        }
        // A copy of the socket held by a watcher must not keep the stream open.
        match self.socket.shutdown(Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => {
                Err(TransferError::Connection(error))
            }
            _ => Ok(moved),
        }
    }

    /// Ends the protected stream. Where this side has received all, the peer may have gone by now, which does not
    /// matter.
    fn end_protection(&mut self) -> Result<(), TransferError> {
        match self.push(|stream, socket| stream.end(socket)) {
            Err(TransferError::Connection(_)) if self.receives => Ok(()),
            ended => ended,
        }
    }

    /// Waits until the gate lets bytes through; returns how many at most. The time is not the other host's:
    /// it counts neither as a stall nor as slowness.
    fn admitted(&mut self, most: usize) -> Result<usize, TransferError> {
        let begin = Instant::now();
        let until = begin + self.gate.wait(begin);
        if until > begin {
            loop {
                let now = Instant::now();
                if now >= until {
                    break;
                }
                if now - self.begin >= self.bounds.longest {
                    return Err(TransferError::Long(self.bounds.longest));
                }
                std::thread::sleep((until - now).min(WAIT_TIMEOUT));
                self.watcher.progressed(self.meter.moved());
                self.go_on()?;
            }
            let waited = begin.elapsed();
            self.last += waited;
            self.period.0 += waited;
        }
        Ok(most.min(self.gate.piece()))
    }

    fn moved(&mut self, count: usize) -> Result<(), TransferError> {
        self.count(count);
        self.gate.spent(count, self.last);
        self.keep_bounds(self.last)?;
        self.go_on()
    }

    fn count(&mut self, count: usize) {
        self.last = Instant::now();
        let moved = self.meter.add(count, self.last);
        self.watcher.progressed(moved);
    }

    fn keep_bounds(&mut self, now: Instant) -> Result<(), TransferError> {
        let Bounds {
            patience,
            least_rate,
            longest,
        } = self.bounds;
        if now - self.begin >= longest {
            return Err(TransferError::Long(longest));
        }
        let (since, before) = self.period;
        if now - since < patience {
            return Ok(());
        }
        let moved = self.meter.moved();
        let least = (now - since).as_secs_f64() * least_rate as f64;
        if ((moved - before) as f64) < least {
            return Err(TransferError::Slow(least_rate));
        }
        self.period = (now, moved);
        Ok(())
    }

    fn waited(&mut self) -> Result<(), TransferError> {
        self.watcher.progressed(self.meter.moved());
        let now = Instant::now();
        if now - self.last >= self.bounds.patience {
            return Err(TransferError::Stalled(self.bounds.patience));
        }
        self.keep_bounds(now)?;
        self.go_on()
    }

    fn go_on(&self) -> Result<(), TransferError> {
        if self.meter.is_stopped() {
            return Err(TransferError::Stopped);
        }
        Ok(())
    }

    fn broken(&self, error: io::Error) -> TransferError {
        if self.meter.is_stopped() {
            return TransferError::Stopped;
        }
        TransferError::Connection(error)
    }
}

/// Bytes `first..end` of a file, read at their place.
struct Section<'a> {
    file: &'a File,
    first: u64,
    end: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.end.saturating_sub(self.first);
        let most = usize::try_from(rest).map_or(buffer.len(), |rest| rest.min(buffer.len()));
        let count = self.file.read_at(&mut buffer[..most], self.first)?;
        self.first += count as u64;
        Ok(count)
    }
}

/// Whether a protected stream has ended without its end.
fn is_cut(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// Whether the socket's timeout has expired (socket(7): `EAGAIN`). `ETIMEDOUT` is something else: the
/// connection has ended because the peer is unreachable. The kernel reports it only once; the next read
/// would look like the end of a file.
fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;
    use std::pin::pin;
    use std::task::{Context, Wake, Waker};
    use std::thread;

    use fairwind_testing::connection;

    use super::*;

    #[derive(Default)]
    struct Notes {
        total: Option<u64>,
        calls: usize,
        ended: Option<u64>,
    }

    impl TransferWatcher for Notes {
        fn started(&mut self, _: BorrowedFd<'_>, total: Option<u64>) {
            self.total = total;
        }
        fn progressed(&mut self, _: u64) {
            self.calls += 1;
        }
        fn ended(&mut self, moved: u64) {
            self.ended = Some(moved);
        }
    }

    const TEST_TIMEOUT: Duration = Duration::from_secs(30);

    #[test]
    fn a_part_of_a_file_arrives_as_it_is() {
        let (near, mut far) = connection();
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..8_000_000u32).map(|n| (n % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        let reader = thread::spawn(move || {
            let mut got = Vec::new();
            far.read_to_end(&mut got).unwrap();
            got
        });
        let (meter, mut notes) = (Meter::default(), Notes::default());
        let mover = Mover::new(&near, &meter, &mut notes, Bounds::patience(TEST_TIMEOUT)).unwrap();
        assert_eq!(mover.send_file(&file, 10, 7_900_010).unwrap(), 7_900_000);
        assert_eq!(reader.join().unwrap(), &bytes[10..7_900_010]);
        assert_eq!(
            (notes.total, notes.ended),
            (Some(7_900_000), Some(7_900_000))
        );
        assert!(notes.calls >= 4, "2 MiB at a time at most: {}", notes.calls);
    }

    /// Asks for a stop on the first bytes, while more are waiting in the socket.
    struct StopsWithMoreWaiting<'a> {
        near: &'a TcpStream,
        far: TcpStream,
        meter: &'a Meter,
        got: Vec<u8>,
    }

    impl Write for StopsWithMoreWaiting<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.got.is_empty() {
                self.far.write_all(&[2; 50_000])?;
                while rustix::io::ioctl_fionread(self.near)? < 50_000 {
                    thread::sleep(Duration::from_millis(1));
                }
                self.meter.stop();
            }
            self.got.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_waits_in_the_socket_when_a_transfer_stops_is_kept() {
        let (near, mut far) = connection();
        far.write_all(&[1; 1_000]).unwrap();
        let (meter, mut notes) = (Meter::default(), Notes::default());
        let mut sink = StopsWithMoreWaiting {
            near: &near,
            far,
            meter: &meter,
            got: Vec::new(),
        };
        let mover = Mover::new(&near, &meter, &mut notes, Bounds::patience(TEST_TIMEOUT)).unwrap();
        let error = mover.receive_into(&mut sink, None).unwrap_err();
        assert!(matches!(error, TransferError::Stopped), "{error}");
        assert_eq!(sink.got, [vec![1; 1_000], vec![2; 50_000]].concat());
        assert_eq!((meter.moved(), notes.ended), (51_000, Some(51_000)));
    }

    /// Takes its time, so that more waits in the socket than a buffer holds.
    struct Slow<'a> {
        meter: &'a Meter,
        stops_at: u64,
        moved: u64,
        most_at_once: u64,
    }

    impl TransferWatcher for Slow<'_> {
        fn started(&mut self, _: BorrowedFd<'_>, _: Option<u64>) {}
        fn progressed(&mut self, moved: u64) {
            self.most_at_once = self.most_at_once.max(moved - self.moved);
            self.moved = moved;
            if moved >= self.stops_at {
                self.meter.stop();
            }
            thread::sleep(Duration::from_millis(5));
        }
        fn ended(&mut self, _: u64) {}
    }

    /// Sends the bytes into a file behind 3 bytes, until they end or so many have moved; returns what the file holds,
    /// and how many bytes moved at once at the most.
    fn receive_into_file(file: &mut File, bytes: &[u8], stops_at: u64) -> (Vec<u8>, u64) {
        file.write_all(b"abc").unwrap();
        let (near, mut far) = connection();
        let meter = Meter::default();
        let mut slow = Slow {
            meter: &meter,
            stops_at,
            moved: 0,
            most_at_once: 0,
        };
        thread::scope(|threads| {
            threads.spawn(move || far.write_all(bytes).map_err(drop));
            let mover =
                Mover::new(&near, &meter, &mut slow, Bounds::patience(TEST_TIMEOUT)).unwrap();
            match mover.receive_file(file, None) {
                Err(TransferError::Stopped) => assert!(meter.moved() >= stops_at),
                moved => assert_eq!(moved.unwrap(), bytes.len() as u64),
            }
            drop(near);
        });
        let mut held = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut held, 0).unwrap();
        assert_eq!(held.len() as u64, meter.moved() + 3);
        (held, slow.most_at_once)
    }

    /// 7 MB by chance, so many times.
    fn noise(times: usize) -> Vec<u8> {
        let mut bytes = vec![0; 7_000_003];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
        bytes.repeat(times)
    }

    #[test]
    fn what_arrives_fast_goes_into_the_file_without_a_buffer() {
        let bytes = noise(14);
        let mut file = tempfile::tempfile().unwrap();
        let (held, most) = receive_into_file(&mut file, &bytes, u64::MAX);
        assert!(held[..3] == *b"abc" && held[3..] == bytes);
        assert!(most > CHUNK as u64, "at most {most} bytes at once");
    }

    #[test]
    fn a_file_has_all_that_came_before_a_stop() {
        let bytes = noise(10);
        let mut file = tempfile::tempfile().unwrap();
        let (held, most) = receive_into_file(&mut file, &bytes, 40 << 20);
        assert!(held[3..] == bytes[..held.len() - 3]);
        assert!(most > CHUNK as u64, "at most {most} bytes at once");
    }

    #[test]
    fn a_file_that_takes_no_bytes_from_a_pipe_gets_them_through_a_buffer() {
        let bytes = noise(10);
        let folder = tempfile::tempdir().unwrap();
        // splice(2) refuses files in append mode.
        let mut options = File::options();
        options.read(true).append(true).create(true);
        let mut file = options.open(folder.path().join("x")).unwrap();
        let (held, most) = receive_into_file(&mut file, &bytes, u64::MAX);
        assert!(held[3..] == bytes);
        assert!(most > CHUNK as u64, "at most {most} bytes at once");
    }

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_for_a_stop_is_woken_by_it() {
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let meter = Meter::default();
        let mut stopped = pin!(meter.stopped());
        assert!(stopped.as_mut().poll(&mut context).is_pending());
        meter.stop();
        assert!(woken.0.load(Ordering::Relaxed));
        assert!(stopped.as_mut().poll(&mut context).is_ready());
        let mut late = pin!(meter.stopped());
        assert!(late.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_stop_ends_a_wait_for_bytes_and_one_for_room() {
        let (near, _far) = connection();
        near.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        near.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        let near = Arc::new(near);
        let (receives, sends) = (Meter::default(), Meter::default());
        receives.ends_waits_on(&near, Direction::Receive);
        sends.ends_waits_on(&near, Direction::Send);
        thread::scope(|scope| {
            let reading = scope.spawn(|| (&*near).read(&mut [0]));
            receives.stop();
            assert_eq!(reading.join().unwrap().unwrap(), 0);
            let writing = scope.spawn(|| {
                loop {
                    if let Err(error) = (&*near).write_all(&[0; CHUNK]) {
                        break error.kind();
                    }
                }
            });
            sends.stop();
            assert_eq!(writing.join().unwrap(), io::ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn calls_grow_on_a_fast_path_and_shrink_on_a_slow_one() {
        let mut stride = Stride::SENDFILE;
        let mut after = |milliseconds| {
            stride.after(Duration::from_millis(milliseconds));
            stride.bytes >> 10
        };
        assert_eq!(
            [after(1), after(1), after(1), after(1)],
            [512, 1024, 2048, 2048]
        );
        assert_eq!(
            [after(7), after(13), after(100), after(100)],
            [2048, 1024, 512, 256]
        );
        assert_eq!(after(100), 256);
    }

    /// Yields zeros, and notes how many were asked for.
    struct Asked(Vec<usize>);

    impl Read for Asked {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.push(buffer.len());
            Ok(buffer.len())
        }
    }

    #[test]
    fn a_path_that_turns_slow_uses_little_of_the_buffer() {
        let (near, mut far) = connection();
        rustix::net::sockopt::set_socket_send_buffer_size(&near, 16 << 10).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&far, 16 << 10).unwrap();
        let meter = Meter::default();
        let mut source = Asked(Vec::new());
        let mut read = |bytes, at_once, pause| {
            let mut buffer = vec![0; at_once];
            let mut read = 0;
            while read < bytes {
                read += far.read(&mut buffer).unwrap();
                thread::sleep(pause);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                read(4 << 20, 64 << 10, Duration::ZERO);
                // 32 KiB take a hundred milliseconds.
                read(512 << 10, 4 << 10, WAIT_TIMEOUT);
                meter.stop();
            });
            let mut notes = Notes::default();
            let mover =
                Mover::new(&near, &meter, &mut notes, Bounds::patience(TEST_TIMEOUT)).unwrap();
            let error = mover.send_from(&mut source, None).unwrap_err();
            assert!(matches!(error, TransferError::Stopped), "{error}");
        });
        let asked = source.0;
        let least = 32 << 10;
        assert_eq!(asked[0], least);
        assert!(asked.iter().any(|asked| *asked > least), "{asked:?}");
        assert_eq!(asked.last(), Some(&least));
    }

    #[test]
    fn a_connection_that_stands_still_is_given_up() {
        let (near, far) = connection();
        let (meter, mut notes) = (Meter::default(), Notes::default());
        let mover = Mover::new(
            &near,
            &meter,
            &mut notes,
            Bounds::patience(Duration::from_secs(1)),
        )
        .unwrap();
        let error = mover.receive_into(&mut Vec::new(), None).unwrap_err();
        assert!(matches!(error, TransferError::Stalled(_)), "{error}");
        assert!(
            notes.calls >= 2,
            "the watcher hears of standing still: {}",
            notes.calls
        );
        drop(far);
    }

    /// Sends a byte every 20 ms until the peer has gone.
    fn trickle(mut far: TcpStream) {
        while far.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn receive_within(bounds: Bounds) -> TransferError {
        let (near, far) = connection();
        let sender = thread::spawn(|| trickle(far));
        let (meter, mut notes) = (Meter::default(), Notes::default());
        let mover = Mover::new(&near, &meter, &mut notes, bounds).unwrap();
        let error = mover.receive_into(&mut Vec::new(), None).unwrap_err();
        assert!(meter.moved() > 1, "something moved all the time");
        drop(near);
        sender.join().unwrap();
        error
    }

    #[test]
    fn a_connection_that_trickles_is_given_up() {
        let error = receive_within(Bounds {
            patience: Duration::from_secs(2),
            least_rate: 1_000,
            longest: Duration::MAX,
        });
        assert!(matches!(error, TransferError::Slow(1_000)), "{error}");
    }

    #[test]
    fn a_connection_that_never_ends_is_given_up() {
        let error = receive_within(Bounds {
            longest: Duration::from_millis(500),
            ..Bounds::patience(TEST_TIMEOUT)
        });
        assert!(matches!(error, TransferError::Long(_)), "{error}");
    }

    #[test]
    fn a_transfer_stops_when_asked_even_if_the_socket_is_full() {
        let (near, far) = connection();
        let meter = Meter::default();
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                while meter.moved() == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                meter.stop();
            });
            let mut notes = Notes::default();
            let mover =
                Mover::new(&near, &meter, &mut notes, Bounds::patience(TEST_TIMEOUT)).unwrap();
            mover.send_from(&mut io::repeat(0), None).unwrap_err()
        });
        assert!(matches!(error, TransferError::Stopped), "{error}");
        drop(far);
    }
}
