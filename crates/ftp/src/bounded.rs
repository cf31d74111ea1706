//! Writers that take no more than a given number of bytes.

use std::io::{self, Write};

/// Passes bytes on to `sink`, up to a limit.
#[derive(Debug)]
pub(crate) struct Bounded<W> {
    /// What takes the bytes.
    pub sink: W,
    left: u64,
    refusal: fn() -> io::Error,
    is_over: bool,
}

impl<W: Write> Bounded<W> {
    /// Refuses the bytes after the first `most` with this error.
    pub(crate) fn new(sink: W, most: u64, refusal: fn() -> io::Error) -> Self {
        Self {
            sink,
            left: most,
            refusal,
            is_over: false,
        }
    }

    /// Whether bytes have been refused.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            self.is_over = true;
            return Err((self.refusal)());
        }
        let count = self.sink.write(bytes)?;
        self.left -= count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
