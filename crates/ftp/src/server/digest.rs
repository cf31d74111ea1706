//! Checksums of files: HASH, XSHA256 and their kin.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::session::{Interruption, Session};
use crate::data::Meter;
use crate::protocol::Reply;
use crate::protocol::command::ByteRange;
use crate::protocol::digest::Algorithm;

/// The checksum of a part of a file, in hexadecimal digits.
///
/// # Errors
/// The file's; `UnexpectedEof` if it ends before the part does; `Interrupted` if the meter was stopped.
fn of(file: &File, range: ByteRange, algorithm: Algorithm, meter: &Meter) -> io::Result<String> {
    let mut hasher = algorithm.start();
    let mut buffer = vec![0; 256 << 10];
    let mut at = range.first;
    while at < range.end {
        if meter.is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let want = usize::try_from(range.end - at)
            .unwrap_or(buffer.len())
            .min(buffer.len());
        file.read_exact_at(&mut buffer[..want], at)?;
        hasher.update(&buffer[..want]);
        at += want as u64;
    }
    Ok(hasher.finish())
}

impl Session {
    /// Makes a checksum of a file, or of a part of it, and words the reply with `reply`.
    pub(super) async fn checksum(
        &mut self,
        path: Vec<u8>,
        algorithm: Algorithm,
        range: Option<ByteRange>,
        reply: impl Fn(Algorithm, ByteRange, &str, &str) -> Reply,
    ) -> io::Result<Reply> {
        let path = self.cwd.join(&path);
        let name = path.text();
        let opened = self.on_files(move |root| root.read(&path)).await;
        let (file, facts) = match opened {
            Ok(opened) => opened,
            Err(reply) => return Ok(reply),
        };
        let whole = ByteRange {
            first: 0,
            end: facts.size(),
        };
        let range = range.unwrap_or(whole);
        if range.end > facts.size() {
            return Ok(Reply::new(
                501,
                format!("The file has {} bytes only", facts.size()),
            ));
        }
        let meter = Arc::new(Meter::default());
        let (seen, turn) = (Arc::clone(&meter), Arc::clone(&self.shared));
        let summing = async move {
            let _turn = turn.ledger.checksum_turns.acquire().await;
            tokio::task::spawn_blocking(move || of(&file, range, algorithm, &seen)).await
        };
        let (sum, interruption) = self.attend(summing, &meter).await?;
        Ok(match (sum, interruption) {
            (_, Interruption::Aborted) => {
                self.control
                    .send(&Reply::new(426, "Checksum aborted"))
                    .await?;
                Reply::new(226, "Aborted")
            }
            (Ok(Ok(sum)), _) => reply(algorithm, range, &sum, &name),
            _ => Reply::new(451, "The file could not be read"),
        })
    }
}

/// `213 SHA-256 0-49 digest name`: draft-bryan-ftpext-hash section 3; the end of the range is
/// included.
pub(super) fn hash_reply(algorithm: Algorithm, range: ByteRange, sum: &str, name: &str) -> Reply {
    let last = range.end.saturating_sub(1);
    Reply::new(
        213,
        format!("{algorithm} {}-{last} {sum} {name}", range.first),
    )
}
