//! Checksums of files: HASH, XSHA256 and the like. They are computed one time slice at a time, and
//! between slices others have their turns: a small file does not wait for a large one.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fairwind_origin::Places;
use fairwind_transfer::Meter;

use super::Ledger;
use super::digests::{Digests, Subject};
use super::session::{AfterQuit, Failure, Interruption, Session};
use super::turns::Turns;
use crate::protocol::command::ByteRange;
use crate::protocol::digest::{Algorithm, Hasher};
use crate::protocol::{Reply, VirtualPath};

/// Length of a turn.
const SLICE: Duration = Duration::from_millis(100);

/// Checksums being computed, and those already known.
#[derive(Debug)]
pub(super) struct Checksums {
    places: Places,
    turns: Turns,
    made: Digests,
}

impl Default for Checksums {
    /// Half of the processors compute checksums; the others are left to transfers.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            places: Places::default(),
            turns: Turns::new((processors / 2).max(1)),
            made: Digests::default(),
        }
    }
}

/// A checksum being computed.
struct Sum {
    file: File,
    hasher: Hasher,
    range: ByteRange,
    /// The next byte.
    at: u64,
    /// Computing time so far.
    worked: Duration,
}

impl Sum {
    /// Computes for one turn.
    ///
    /// # Errors
    /// If the file cannot be read; `UnexpectedEof` if it ends before the range does.
    fn go_on(&mut self, meter: &Meter) -> io::Result<()> {
        let begin = Instant::now();
        let mut buffer = vec![0; 256 << 10];
        while self.at < self.range.end && begin.elapsed() < SLICE && !meter.is_stopped() {
            let want = usize::try_from(self.range.end - self.at)
                .unwrap_or(buffer.len())
                .min(buffer.len());
            self.file.read_exact_at(&mut buffer[..want], self.at)?;
            self.hasher.update(&buffer[..want]);
            self.at += want as u64;
        }
        self.worked += begin.elapsed();
        Ok(())
    }
}

impl Ledger {
    /// Computes the checksum of a range of a file, in hexadecimal digits.
    ///
    /// # Errors
    /// If the file cannot be read; `UnexpectedEof` if it ends before the range does; `Interrupted` if the
    /// meter was stopped; `TimedOut` after `patience` of computing time.
    async fn sum(
        &self,
        mut sum: Sum,
        algorithm: Algorithm,
        client: std::net::IpAddr,
        meter: Arc<Meter>,
        patience: Duration,
    ) -> io::Result<String> {
        let checksums = &self.checksums;
        let begun = SystemTime::now();
        let subject = Subject::new(&rustix::fs::fstat(&sum.file)?, sum.range, algorithm);
        loop {
            let turn = tokio::select! {
                turn = checksums.turns.take(client.into(), sum.worked) => turn,
                () = meter.stopped() => return Err(io::ErrorKind::Interrupted.into()),
            };
            // Known before, or computed for another session meanwhile.
            if let Some(known) = checksums.made.get(&subject) {
                return Ok(known);
            }
            let seen = Arc::clone(&meter);
            let slice = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let done = sum.go_on(&seen);
                (sum, done)
            });
            let (back, done) = slice.await.map_err(io::Error::other)?;
            done?;
            sum = back;
            if meter.is_stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if sum.at >= sum.range.end {
                let facts = rustix::fs::fstat(&sum.file)?;
                let made = sum.hasher.finish();
                // Not if it changed while it was read.
                if Subject::new(&facts, sum.range, algorithm) == subject {
                    checksums.made.add(subject, &made, begun);
                }
                return Ok(made);
            }
            if sum.worked >= patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

impl Session {
    /// Computes the checksum of a file, or of a range of it, and words the reply with `reply`.
    pub(super) async fn checksum(
        &mut self,
        path: Vec<u8>,
        algorithm: Algorithm,
        range: Option<ByteRange>,
        reply: impl Fn(Algorithm, ByteRange, &str, &VirtualPath) -> Reply,
    ) -> Result<Reply, Failure> {
        let path = self.state.cwd.join(&path);
        let told = path.clone();
        let (file, facts) = self.on_files(move |root| root.read(&path)).await?;
        let whole = ByteRange {
            first: 0,
            end: facts.size(),
        };
        let range = range.unwrap_or(whole);
        if range.end > facts.size() {
            return Ok(Reply::new(
                501,
                format!("The file has only {} bytes", facts.size()),
            ));
        }
        let limits = &self.shared.config.limits;
        let client = self.control.facts.peer.ip();
        let (own, patience) = (
            limits.checksums_per_address,
            Duration::from_secs(limits.checksum_s),
        );
        let places = &self.shared.ledger.checksums.places;
        let Some(_place) = places.take(client.into(), own, limits.sessions) else {
            let text = "Too many checksums in progress from your address; try again later";
            return Ok(Reply::new(450, text));
        };
        let sum = Sum {
            file,
            hasher: algorithm.start(),
            range,
            at: range.first,
            worked: Duration::ZERO,
        };
        let meter = Arc::new(Meter::default());
        let (shared, seen) = (Arc::clone(&self.shared), Arc::clone(&meter));
        let summing = async move {
            let ledger = &shared.ledger;
            ledger.sum(sum, algorithm, client, seen, patience).await
        };
        let (sum, interruption) = self
            .run_interruptible(summing, &meter, AfterQuit::Stops)
            .await?;
        Ok(match (sum, interruption) {
            (_, Interruption::Aborted) => {
                self.control
                    .send(&Reply::new(426, "Checksum aborted"))
                    .await?;
                Reply::new(226, "Aborted")
            }
            (Ok(sum), _) => reply(algorithm, range, &sum, &told),
            (Err(error), _) if error.kind() == io::ErrorKind::TimedOut => {
                let seconds = patience.as_secs();
                Reply::new(451, format!("A checksum may take {seconds} s; use RANG"))
            }
            _ => Reply::new(451, "Failure reading local file"),
        })
    }
}

/// `213 SHA-256 0-49 digest name`: draft-bryan-ftpext-hash section 3; the range includes its last byte.
pub(super) fn hash_reply(
    algorithm: Algorithm,
    range: ByteRange,
    sum: &str,
    path: &VirtualPath,
) -> Reply {
    let last = range.end.saturating_sub(1);
    let digest = format!("{algorithm} {}-{last} {sum} ", range.first);
    Reply::new(213, [digest.as_bytes(), path.as_bytes()].concat())
}
