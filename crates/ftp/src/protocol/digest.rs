//! Checksums of files, under the names that the protocol gives them.

use std::fmt;
use std::str::FromStr;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

/// A checksum's algorithm, by its name in IANA's registry of hash functions (HASH,
/// draft-bryan-ftpext-hash).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Algorithm {
    /// The default.
    #[default]
    Sha256,
    /// A longer digest.
    Sha512,
    /// For clients that support nothing better; detects accidents, not tampering.
    Sha1,
    /// Likewise.
    Md5,
    /// The CRC of Ethernet and zip; detects accidents only.
    Crc32,
}

impl Algorithm {
    /// All algorithms, the default first.
    pub const ALL: [Self; 5] = [
        Self::Sha256,
        Self::Sha512,
        Self::Sha1,
        Self::Md5,
        Self::Crc32,
    ];

    /// The name in FEAT and in replies, and the algorithm's own command.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Sha256 => ("SHA-256", "XSHA256"),
            Self::Sha512 => ("SHA-512", "XSHA512"),
            Self::Sha1 => ("SHA-1", "XSHA1"),
            Self::Md5 => ("MD5", "XMD5"),
            Self::Crc32 => ("CRC32", "XCRC"),
        }
    }

    /// The name in FEAT and in replies.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// The algorithm's own command.
    pub fn verb(self) -> &'static str {
        self.words().1
    }

    /// A hasher that has seen no bytes.
    pub fn start(self) -> Hasher {
        match self {
            Self::Sha256 => Hasher::Sha256(Box::default()),
            Self::Sha512 => Hasher::Sha512(Box::default()),
            Self::Sha1 => Hasher::Sha1(Box::default()),
            Self::Md5 => Hasher::Md5(Box::default()),
            Self::Crc32 => Hasher::Crc32(crc32fast::Hasher::new()),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(text.trim()))
            .ok_or_else(|| format!("{text:?} is not a hash algorithm that is known here"))
    }
}

/// A checksum being computed.
#[derive(Clone)]
pub enum Hasher {
    #[doc(hidden)]
    Sha256(Box<Sha256>),
    #[doc(hidden)]
    Sha512(Box<Sha512>),
    #[doc(hidden)]
    Sha1(Box<Sha1>),
    #[doc(hidden)]
    Md5(Box<Md5>),
    #[doc(hidden)]
    Crc32(crc32fast::Hasher),
}

impl Hasher {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(state) => state.update(bytes),
            Self::Sha512(state) => state.update(bytes),
            Self::Sha1(state) => state.update(bytes),
            Self::Md5(state) => state.update(bytes),
            Self::Crc32(state) => state.update(bytes),
        }
    }

    /// The checksum of all bytes so far, in lower case hexadecimal digits.
    pub fn finish(self) -> String {
        match self {
            Self::Sha256(state) => hex(&state.finalize()),
            Self::Sha512(state) => hex(&state.finalize()),
            Self::Sha1(state) => hex(&state.finalize()),
            Self::Md5(state) => hex(&state.finalize()),
            Self::Crc32(state) => hex(&state.finalize().to_be_bytes()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(algorithm: Algorithm, text: &str) -> String {
        let mut hasher = algorithm.start();
        hasher.update(text.as_bytes());
        hasher.finish()
    }

    #[test]
    fn checksums_are_those_of_the_standards() {
        // FIPS 180-4 and RFC 1321 for "abc"; the check value of CRC-32 for "123456789".
        assert_eq!(
            of(Algorithm::Sha256, "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            of(Algorithm::Sha1, "abc"),
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert_eq!(
            of(Algorithm::Md5, "abc"),
            "900150983cd24fb0d6963f7d28e17f72"
        );
        assert_eq!(of(Algorithm::Crc32, "123456789"), "cbf43926");
        assert!(of(Algorithm::Sha512, "abc").starts_with("ddaf35a193617abacc417349ae204131"));
    }

    #[test]
    fn algorithms_go_by_their_names() {
        assert_eq!("sha-256".parse(), Ok(Algorithm::Sha256));
        assert!("ROT13".parse::<Algorithm>().is_err());
    }
}
