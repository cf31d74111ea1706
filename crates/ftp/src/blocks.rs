//! Block mode (RFC 959, section 3.4.2): a file ends with a block that says so, and the data connection stays open for the
//! next one.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use fairwind_transfer::Protection;

use crate::tls::Protected;

/// A block's descriptor, and two bytes with the number of those that follow.
const HEADER: usize = 3;
/// Bytes in the largest block.
const LARGEST: usize = u16::MAX as usize;
/// Bytes read from the socket ahead: the small files of one segment, or of a few.
const READ: usize = 16 << 10;

/// Descriptors. That of the end of a record (128) means nothing in a file without records.
const END_OF_FILE: u8 = 64;
const SUSPECT: u8 = 32;
const RESTART_MARKER: u8 = 16;
const UNKNOWN: u8 = 15;

/// Files in blocks, one after the other, in the clear or under TLS.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    below: Option<Box<Protected>>,
    /// Bytes from the socket, taken up to `begin`.
    come: Vec<u8>,
    begin: usize,
    /// Of the block being read.
    left: usize,
    is_marker: bool,
    is_last: bool,
    /// The block being sent, with its header; nothing between two.
    going: Vec<u8>,
    /// Bytes of it that are in the socket.
    sent: usize,
    /// It gets no more bytes.
    is_closed: bool,
}

impl Blocks {
    /// Over a connection whose handshake is over, if it is protected.
    pub(crate) fn over(below: Option<Box<Protected>>) -> Self {
        Self {
            below,
            ..Self::default()
        }
    }

    /// Takes the header of the next block, if it has come.
    fn begin_block(&mut self) -> io::Result<bool> {
        let Some(&[descriptor, high, low]) = self.come[self.begin..].first_chunk() else {
            return Ok(false);
        };
        if descriptor & (SUSPECT | UNKNOWN) != 0 {
            let text = match descriptor & SUSPECT {
                0 => "it is not in blocks",
                _ => "the sender suspects errors in what it has sent",
            };
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.begin += HEADER;
        self.left = usize::from(u16::from_be_bytes([high, low]));
        self.is_marker = descriptor & RESTART_MARKER != 0;
        self.is_last = descriptor & END_OF_FILE != 0;
        Ok(true)
    }

    /// Takes bytes of the current block that have come.
    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let come = &self.come[self.begin..];
        let count = come.len().min(self.left).min(buffer.len());
        buffer[..count].copy_from_slice(&come[..count]);
        self.begin += count;
        self.left -= count;
        count
    }

    /// Reads on behind what has come.
    fn fill(&mut self, socket: &TcpStream) -> io::Result<()> {
        self.come.drain(..self.begin);
        self.begin = 0;
        let present = self.come.len();
        self.come.resize(READ, 0);
        let read = read(&mut self.below, socket, &mut self.come[present..]);
        self.come
            .truncate(present + read.as_ref().map_or(0, |count| *count));
        match read? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn close(&mut self, descriptor: u8) {
        let [high, low] = ((self.going.len() - HEADER) as u16).to_be_bytes();
        self.going[..HEADER].copy_from_slice(&[descriptor, high, low]);
        self.is_closed = true;
    }

    /// Sends the block that is closed.
    fn push(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.sent < self.going.len() {
            let rest = &self.going[self.sent..];
            self.sent += match &mut self.below {
                Some(below) => below.write(socket, rest)?,
                None => (&mut &*socket).write(rest)?,
            };
        }
        if let Some(below) = &mut self.below {
            below.flush(socket)?;
        }
        (self.sent, self.is_closed) = (0, false);
        self.going.clear();
        Ok(())
    }
}

impl Protection for Blocks {
    fn read(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        let mut has_filled = false;
        loop {
            if self.left > 0 && self.is_marker {
                let skipped = (self.come.len() - self.begin).min(self.left);
                self.begin += skipped;
                self.left -= skipped;
            } else if self.left > 0 {
                match self.take(buffer) {
                    0 if self.left >= READ => {
                        let most = self.left.min(buffer.len());
                        return match read(&mut self.below, socket, &mut buffer[..most])? {
                            0 => Err(io::ErrorKind::UnexpectedEof.into()),
                            count => {
                                self.left -= count;
                                Ok(count)
                            }
                        };
                    }
                    0 => {}
                    count => return Ok(count),
                }
            }
            if self.left == 0 {
                if std::mem::take(&mut self.is_last) {
                    if self.begin == self.come.len() {
                        // A connection that waits for its next file keeps no memory.
                        (self.come, self.begin) = (Vec::new(), 0);
                    }
                    return Ok(0);
                }
                if self.begin_block()? {
                    continue;
                }
            }
            if has_filled {
                // Blocks without end and without bytes are no progress.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.fill(socket)?;
            has_filled = true;
        }
    }

    fn write(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        if self.going.len() == HEADER + LARGEST && !self.is_closed {
            self.close(0);
        }
        if self.is_closed {
            self.push(socket)?;
        }
        if self.going.is_empty() {
            self.going.resize(HEADER, 0);
        }
        let count = bytes.len().min(HEADER + LARGEST - self.going.len());
        self.going.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// The last block waits for [`end`](Self::end), which marks it as that.
    fn flush(&mut self, socket: &TcpStream) -> io::Result<()> {
        match self.is_closed {
            true => self.push(socket),
            false => Ok(()),
        }
    }

    fn end(&mut self, socket: &TcpStream) -> io::Result<()> {
        if !self.is_closed {
            if self.going.is_empty() {
                self.going.resize(HEADER, 0);
            }
            self.close(END_OF_FILE);
        }
        self.push(socket)?;
        self.going = Vec::new();
        Ok(())
    }

    fn is_sending(&self) -> bool {
        self.is_closed || self.below.as_ref().is_some_and(|below| below.is_sending())
    }

    fn stays_open(&self) -> bool {
        true
    }
}

fn read(
    below: &mut Option<Box<Protected>>,
    socket: &TcpStream,
    buffer: &mut [u8],
) -> io::Result<usize> {
    match below {
        Some(below) => below.read(socket, buffer),
        None => (&mut &*socket).read(buffer),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    /// The next file.
    fn file(blocks: &mut Blocks, socket: &TcpStream, at_once: usize) -> io::Result<Vec<u8>> {
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; at_once]);
        loop {
            match blocks.read(socket, &mut buffer) {
                Ok(0) => return Ok(bytes),
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn send(blocks: &mut Blocks, socket: &TcpStream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = blocks.write(socket, bytes).unwrap();
            bytes = &bytes[count..];
        }
        blocks.flush(socket).unwrap();
        blocks.end(socket).unwrap();
    }

    #[test]
    fn files_of_all_sizes_come_one_after_the_other() {
        let (near, far) = pair();
        let sizes = [0, 1, 5, LARGEST - 1, LARGEST, LARGEST + 1, 300_000, 0, 7];
        let files = sizes.map(|size| (0..size).map(|n| (n % 251) as u8).collect::<Vec<u8>>());
        let expected = files.clone();
        let sender = thread::spawn(move || {
            let mut blocks = Blocks::default();
            for bytes in &files {
                send(&mut blocks, &far, bytes);
            }
        });
        let mut blocks = Blocks::default();
        for (bytes, at_once) in expected
            .iter()
            .zip([1, 1, 2, 100, 70_000, 65_536].iter().cycle())
        {
            assert!(file(&mut blocks, &near, *at_once).unwrap() == *bytes);
        }
        sender.join().unwrap();
        let end = file(&mut blocks, &near, 10).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_small_file_is_one_block() {
        let (near, mut far) = pair();
        send(&mut Blocks::default(), &near, b"abc");
        let mut sent = [0; 6];
        far.read_exact(&mut sent).unwrap();
        assert_eq!(&sent, b"\x40\0\x03abc");
    }

    #[test]
    fn records_and_markers_are_passed_over() {
        let (near, mut far) = pair();
        // Ends of records, an empty block, a marker, and the end in a block of its own.
        far.write_all(b"\x80\0\x02ab\0\0\0\x10\0\x03r42\0\0\x01c\x40\0\0")
            .unwrap();
        // With the end of the last record.
        far.write_all(b"\xc0\0\x01d").unwrap();
        let mut blocks = Blocks::default();
        assert_eq!(file(&mut blocks, &near, 9).unwrap(), b"abc");
        assert_eq!(file(&mut blocks, &near, 9).unwrap(), b"d");
    }

    #[test]
    fn what_is_not_in_blocks_is_refused() {
        for (sent, kind) in [
            (&b"\x01\0\x01a"[..], io::ErrorKind::InvalidData),
            (b"\x20\0\x01a", io::ErrorKind::InvalidData),
            (b"\x40\0\x02a", io::ErrorKind::UnexpectedEof),
            (b"\x40\0", io::ErrorKind::UnexpectedEof),
            (b"\0\0\x01a", io::ErrorKind::UnexpectedEof),
        ] {
            let (near, mut far) = pair();
            far.write_all(sent).unwrap();
            drop(far);
            let error = file(&mut Blocks::default(), &near, 9).unwrap_err();
            assert_eq!(error.kind(), kind, "{sent:?}");
        }
    }

    #[test]
    fn empty_blocks_without_end_do_not_hold_a_reader() {
        let (near, mut far) = pair();
        near.set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        far.write_all(&[0; 3 * READ]).unwrap();
        let mut blocks = Blocks::default();
        for _ in 0..3 {
            let waits = blocks.read(&near, &mut [0; 9]).unwrap_err();
            assert_eq!(waits.kind(), io::ErrorKind::WouldBlock);
        }
    }
}
