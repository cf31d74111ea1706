//! MODE Z: the data connection carries a zlib stream (RFC 1950; draft-preston-ftpext-deflate).

use std::io::{self, Write};

use flate2::{Decompress, FlushDecompress, Status};

/// Bytes decompressed at once.
const PIECE: usize = 32 << 10;

/// Bytes that may come out whatever the ratio: short streams of few different bytes are harmless.
const SLACK: u64 = 16 << 20;

/// Decompresses what is written to it. Memory is bounded, and so is what comes out of what goes in.
pub(super) struct Inflate<W> {
    sink: W,
    decoder: Decompress,
    /// Bytes that may come out for each that goes in; 0: no limit.
    ratio: u64,
    has_ended: bool,
    piece: Vec<u8>,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<W: Write> Inflate<W> {
    /// Writes to `sink`, at most `ratio` times as many bytes as come in; 0: no limit.
    pub(super) fn new(sink: W, ratio: u64) -> Self {
        Self {
            sink,
            decoder: Decompress::new(true),
            ratio,
            has_ended: false,
            piece: vec![0; PIECE],
        }
    }

    fn is_bomb(&self) -> bool {
        let (came, made) = (self.decoder.total_in(), self.decoder.total_out());
        self.ratio > 0 && made > SLACK && made > came.saturating_mul(self.ratio)
    }
}

impl<W: Write> Write for Inflate<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        loop {
            if self.has_ended {
                return match rest {
                    [] => Ok(bytes.len()),
                    _ => Err(broken(
                        "there are bytes behind the end of the compressed stream",
                    )),
                };
            }
            let (came, made) = (self.decoder.total_in(), self.decoder.total_out());
            let status = self
                .decoder
                .decompress(rest, &mut self.piece, FlushDecompress::None)
                .map_err(|_| broken("this is not a zlib stream"))?;
            rest = &rest[(self.decoder.total_in() - came) as usize..];
            let made = (self.decoder.total_out() - made) as usize;
            self.sink.write_all(&self.piece[..made])?;
            if self.is_bomb() {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            self.has_ended = status == Status::StreamEnd;
            if rest.is_empty() && made < PIECE && !self.has_ended {
                return Ok(bytes.len());
            }
        }
    }

    /// The end of the connection: the stream must have ended, too. A client that has nothing to send may send
    /// no stream at all.
    fn flush(&mut self) -> io::Result<()> {
        if !self.has_ended && self.decoder.total_in() > 0 {
            return Err(broken("the compressed stream ends too early"));
        }
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::Compression;
    use flate2::read::ZlibEncoder;

    use super::*;

    fn deflated(bytes: impl Read) -> Vec<u8> {
        let mut stream = Vec::new();
        ZlibEncoder::new(bytes, Compression::default())
            .read_to_end(&mut stream)
            .unwrap();
        stream
    }

    /// Writes pieces of this size; returns what came out.
    fn inflated(stream: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut inflate = Inflate::new(&mut out, 250);
        for piece in stream.chunks(piece) {
            inflate.write_all(piece)?;
        }
        inflate.flush()?;
        Ok(out)
    }

    #[test]
    fn what_is_deflated_comes_out_in_whatever_pieces_it_arrives() {
        let text: Vec<u8> = (0..200_000u32).map(|n| (n % 251 * n / 7) as u8).collect();
        let stream = deflated(&text[..]);
        for piece in [1, 7, 1_000, stream.len()] {
            assert!(inflated(&stream, piece).unwrap() == text, "{piece}");
        }
        assert!(inflated(&[], 1).unwrap().is_empty());
    }

    #[test]
    fn streams_that_are_cut_continued_or_none_are_refused() {
        let stream = deflated(&b"hello, hello, hello"[..]);
        let refusal = |bytes: &[u8]| inflated(bytes, 5).unwrap_err().to_string();
        let cut = refusal(&stream[..stream.len() - 1]);
        assert_eq!(cut, "the compressed stream ends too early");
        let continued = refusal(&[&stream[..], b"x"].concat());
        assert!(continued.contains("behind the end"), "{continued}");
        assert_eq!(refusal(b"hello"), "this is not a zlib stream");
        let mut wrong = stream.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(refusal(&wrong), "this is not a zlib stream");
    }

    #[test]
    fn a_bomb_is_recognised_by_what_comes_out_of_it() {
        let bomb = deflated(io::repeat(0).take(64 << 20));
        let mut out = 0;
        struct Count<'a>(&'a mut u64);
        impl Write for Count<'_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                *self.0 += bytes.len() as u64;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = Inflate::new(Count(&mut out), 250)
            .write_all(&bomb)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(out < SLACK + (1 << 20), "{out}");
        let mut inflate = Inflate::new(io::sink(), 0);
        inflate.write_all(&bomb).unwrap();
    }
}

#[cfg(test)]
mod fuzz {
    use std::io::Read;

    use fairwind_testing::fuzz::{cases, cuts, pieces};
    use flate2::Compression;
    use flate2::read::ZlibEncoder;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// RFC 1950 section 8.2. Six bytes that differ in the right way leave it as it is.
    fn adler32(bytes: &[u8]) -> u32 {
        let sums = bytes.iter().fold((1, 0), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65_521;
            (a, (a + b) % 65_521)
        });
        sums.1 << 16 | sums.0
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn what_is_deflated_comes_out_and_what_is_damaged_passes_only_with_its_checksum(
            plain in vec(0u8..4, 0..5_000),
            cuts in cuts(),
            damage in any::<(bool, prop::sample::Index, u8)>(),
        ) {
            let mut stream = Vec::new();
            ZlibEncoder::new(&plain[..], Compression::default())
                .read_to_end(&mut stream)
                .unwrap();
            let (is_damaged, at, bits) = damage;
            let at = at.index(stream.len());
            if is_damaged {
                stream[at] ^= bits;
            }
            let mut out = Vec::new();
            let mut inflate = Inflate::new(&mut out, 250);
            let mut pieces = pieces(&stream, &cuts).into_iter();
            let taken = pieces
                .try_for_each(|piece| inflate.write_all(piece))
                .and_then(|()| inflate.flush());
            let is_whole = !is_damaged || bits == 0;
            match taken {
                Ok(()) if is_whole => prop_assert_eq!(&out, &plain),
                Ok(()) => prop_assert_eq!(adler32(&out), adler32(&plain)),
                Err(error) => prop_assert!(!is_whole, "{error}"),
            }
        }
    }
}
