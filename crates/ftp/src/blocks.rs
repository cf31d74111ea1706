//! Block mode (RFC 959, section 3.4.2): a file ends with a block that says so, and the data connection stays open for the
//! next one.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fairwind_transfer::Protection;

use crate::tls::Protected;

/// A block's descriptor, and two bytes with the number of those that follow.
const HEADER: usize = 3;
/// Bytes in the largest block.
const LARGEST: usize = u16::MAX as usize;
/// Bytes read from the socket ahead: the small files of one segment, or of a few.
const READ: usize = 16 << 10;

/// How long bytes of a slow sender wait for their block to become full.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

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
    /// When its first bytes came.
    begun: Option<Instant>,
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

    /// Keeps no memory that it can do without until the next file.
    pub(crate) fn rests(&mut self) {
        if self.begin == self.come.len() {
            (self.come, self.begin) = (Vec::new(), 0);
        }
        self.going = Vec::new();
        if let Some(below) = &mut self.below {
            below.rests();
        }
    }

    /// Takes what has come behind the last file, without waiting for it.
    ///
    /// # Errors
    /// If nothing has, and nothing can any more. The socket does not block afterwards.
    pub(crate) fn look_ahead(&mut self, socket: &TcpStream) -> io::Result<()> {
        if self.begin < self.come.len() {
            return Ok(());
        }
        socket.set_nonblocking(true)?;
        match self.fill(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.come = Vec::new();
                Ok(())
            }
            filled => filled,
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
        (self.sent, self.is_closed, self.begun) = (0, false, None);
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
        let is_full = self.going.len() == HEADER + LARGEST;
        let is_old = self.begun.is_some_and(|at| at.elapsed() > LONGEST_WAIT);
        if !self.is_closed && (is_full || is_old) {
            self.close(0);
        }
        if self.is_closed {
            self.push(socket)?;
        }
        if self.going.is_empty() {
            self.going.resize(HEADER, 0);
            self.begun = Some(Instant::now());
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
        self.push(socket)
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
    use std::thread;
    use std::time::Duration;

    use fairwind_testing::connection;

    use super::*;

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
        let (near, far) = connection();
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
        let (near, mut far) = connection();
        send(&mut Blocks::default(), &near, b"abc");
        let mut sent = [0; 6];
        far.read_exact(&mut sent).unwrap();
        assert_eq!(&sent, b"\x40\0\x03abc");
    }

    #[test]
    fn records_and_markers_are_passed_over() {
        let (near, mut far) = connection();
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
            let (near, mut far) = connection();
            far.write_all(sent).unwrap();
            drop(far);
            let error = file(&mut Blocks::default(), &near, 9).unwrap_err();
            assert_eq!(error.kind(), kind, "{sent:?}");
        }
    }

    #[test]
    fn empty_blocks_without_end_do_not_hold_a_reader() {
        let (near, mut far) = connection();
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

#[cfg(test)]
mod fuzz {
    use std::net::Shutdown;
    use std::thread;

    use fairwind_testing::connection;
    use fairwind_testing::fuzz::{cases, cuts, damaged, pieces};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const EXAMPLES: [&[u8]; 6] = [
        b"\x40\0\x03abc",
        b"\0\0\x02ab\x80\0\x01c\x40\0\0\x40\0\x05later",
        b"\x10\0\x0600001 \0\0\x01a\x10\0\x0600002 \xc0\0\x01b",
        b"\0\0\0\0\0\0\x50\0\x01m\x40\0\0",
        b"\0\x01\x2cthree hundred bytes would follow",
        b"\x20\0\x01a\x40\0\0",
    ];

    /// The files in a stream, what has come of the last one, and why no more does, by the words of RFC 959.
    fn told(mut stream: &[u8]) -> (Vec<Vec<u8>>, io::ErrorKind) {
        let mut files = vec![Vec::new()];
        loop {
            let Some((&[descriptor, high, low], rest)) = stream.split_first_chunk() else {
                return (files, io::ErrorKind::UnexpectedEof);
            };
            if descriptor & 0b0010_1111 != 0 {
                return (files, io::ErrorKind::InvalidData);
            }
            let count = usize::from(high) * 256 + usize::from(low);
            let block = &rest[..count.min(rest.len())];
            if descriptor & 0b0001_0000 == 0 {
                files.last_mut().unwrap().extend_from_slice(block);
            }
            if block.len() < count {
                return (files, io::ErrorKind::UnexpectedEof);
            }
            if descriptor & 0b0100_0000 != 0 {
                files.push(Vec::new());
            }
            stream = &rest[count..];
        }
    }

    /// The same as blocks are read, with buffers of these sizes in turn, in no more calls than there is reason for.
    fn read_all(
        near: &TcpStream,
        bytes: usize,
        buffers: &[usize],
    ) -> (Vec<Vec<u8>>, io::ErrorKind) {
        let mut blocks = Blocks::default();
        let mut files = vec![Vec::new()];
        let mut buffer = vec![0; LARGEST + 10];
        let sizes = buffers.iter().cycle();
        // Each has a byte, the end of a file, or nothing though some of it came.
        for size in sizes.take(2 * bytes + 2) {
            match blocks.read(near, &mut buffer[..*size]) {
                Ok(0) => files.push(Vec::new()),
                Ok(count) => files
                    .last_mut()
                    .unwrap()
                    .extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return (files, error.kind()),
            }
        }
        panic!("it does not end");
    }

    fn buffers() -> impl Strategy<Value = Vec<usize>> {
        vec(prop_oneof![1..10_usize, 1..LARGEST + 10], 1..5)
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn whatever_comes_is_read_as_the_rfc_says_in_whatever_pieces(
            stream in damaged(&EXAMPLES),
            cuts in cuts(),
            buffers in buffers(),
        ) {
            let (near, mut far) = connection();
            far.set_nodelay(true).unwrap();
            let sent = stream.clone();
            let sender = thread::spawn(move || {
                for piece in pieces(&sent, &cuts) {
                    // The reader need not read all.
                    let _ = far.write_all(piece);
                    thread::yield_now();
                }
                let _ = far.shutdown(Shutdown::Write);
                far
            });
            let (files, end) = read_all(&near, stream.len(), &buffers);
            let _far = sender.join().unwrap();
            let (told, told_end) = told(&stream);
            prop_assert_eq!(end, told_end);
            prop_assert_eq!(files, told);
        }
    }

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn files_are_read_as_they_were_written(
            sizes in vec(prop_oneof![0..5_usize, LARGEST - 3..LARGEST + 4, 0..200_000_usize], 0..6),
            at_once in vec(1..100_000_usize, 1..4),
            buffers in buffers(),
        ) {
            let (near, far) = connection();
            let files: Vec<Vec<u8>> = sizes
                .iter()
                .map(|size| (0..*size).map(|n| (n % 251) as u8).collect())
                .collect();
            let sent = files.clone();
            let sender = thread::spawn(move || {
                let mut blocks = Blocks::default();
                let mut at_once = at_once.iter().cycle();
                for mut bytes in sent.iter().map(Vec::as_slice) {
                    while !bytes.is_empty() {
                        let most = bytes.len().min(*at_once.next().unwrap());
                        let count = blocks.write(&far, &bytes[..most]).unwrap();
                        bytes = &bytes[count..];
                    }
                    blocks.flush(&far).unwrap();
                    blocks.end(&far).unwrap();
                    assert!(!blocks.is_sending());
                }
                far.shutdown(Shutdown::Write).unwrap();
            });
            let bytes = sizes.iter().map(|size| size + 3 * (2 + size / LARGEST)).sum();
            let (mut read, end) = read_all(&near, bytes, &buffers);
            sender.join().unwrap();
            prop_assert_eq!(end, io::ErrorKind::UnexpectedEof);
            prop_assert_eq!(read.pop(), Some(Vec::new()));
            prop_assert!(read == files);
        }
    }
}
