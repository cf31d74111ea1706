//! TYPE A: lines end with LF in files and with CR LF on the wire.

use std::io::{self, Read, Write};

/// Reads a file's text with CR LF line endings.
pub(crate) struct ToNetwork<R> {
    source: R,
    raw: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
    previous: u8,
}

impl<R: Read> ToNetwork<R> {
    /// Converts the text of `source`.
    pub(crate) fn new(source: R) -> Self {
        Self {
            source,
            raw: vec![0; 64 << 10],
            ready: Vec::new(),
            given: 0,
            previous: 0,
        }
    }
}

impl<R: Read> Read for ToNetwork<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() {
            let count = self.source.read(&mut self.raw)?;
            self.ready.clear();
            self.given = 0;
            for &byte in &self.raw[..count] {
                if byte == b'\n' && self.previous != b'\r' {
                    self.ready.push(b'\r');
                }
                self.ready.push(byte);
                self.previous = byte;
            }
        }
        let count = buffer.len().min(self.ready.len() - self.given);
        buffer[..count].copy_from_slice(&self.ready[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

/// Writes text from the wire with LF line endings. A CR that no LF follows is kept.
pub(crate) struct FromNetwork<W> {
    sink: W,
    carriage_return: bool,
}

impl<W: Write> FromNetwork<W> {
    /// Writes the converted text to `sink`.
    pub(crate) fn new(sink: W) -> Self {
        Self {
            sink,
            carriage_return: false,
        }
    }
}

impl<W: Write> Write for FromNetwork<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut text = Vec::with_capacity(buffer.len() + 1);
        for &byte in buffer {
            if self.carriage_return && byte != b'\n' {
                text.push(b'\r');
            }
            self.carriage_return = byte == b'\r';
            if !self.carriage_return {
                text.push(byte);
            }
        }
        self.sink.write_all(&text)?;
        Ok(buffer.len())
    }

    /// Ends the text: writes a CR that was held back.
    fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.carriage_return) {
            self.sink.write_all(b"\r")?;
        }
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_cr_lf_on_the_wire_once() {
        let mut wire = Vec::new();
        ToNetwork::new(&b"a\nb\r\n\n"[..])
            .read_to_end(&mut wire)
            .unwrap();
        assert_eq!(wire, b"a\r\nb\r\n\r\n");
    }

    #[test]
    fn lines_end_with_lf_in_files_wherever_the_pieces_are_cut() {
        let mut file = Vec::new();
        let mut sink = FromNetwork::new(&mut file);
        for piece in [&b"a\r"[..], b"\nb\rc", b"\r\n\r"] {
            sink.write_all(piece).unwrap();
        }
        sink.flush().unwrap();
        assert_eq!(file, b"a\nb\rc\n\r");
    }
}
