//! TLS in the kernel: once it has a connection's keys, what is written to the socket leaves it encrypted, by
//! `sendfile` too.
//!
//! Source: Documentation/networking/tls.rst, include/uapi/linux/tls.h and net/tls/ of Linux.

use std::io::{self, IoSlice};
use std::mem::size_of;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

use libc::{IPPROTO_TCP, SOL_TLS, TCP_ULP, c_int};

use crate::sockopt::{get, set};

/// linux/tls.h
const TLS_TX: c_int = 1;
const TLS_SET_RECORD_TYPE: c_int = 1;
/// The content type of alerts (RFC 8446 section 5.1).
const ALERT: u8 = 21;

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246
    Tls12,
    /// RFC 8446
    Tls13,
}

/// What records are encrypted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-GCM with a key of 128 bits
    Aes128Gcm,
    /// AES-GCM with a key of 256 bits
    Aes256Gcm,
    /// ChaCha20-Poly1305
    ChaCha20Poly1305,
}

impl Cipher {
    /// All that the kernel may have.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// The name that people know it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    /// Its number in linux/tls.h.
    fn number(self) -> u16 {
        match self {
            Self::Aes128Gcm => 51,
            Self::Aes256Gcm => 52,
            Self::ChaCha20Poly1305 => 54,
        }
    }

    /// Bytes of its keys.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Bytes of the salt, the part of the initialisation vector that the kernel wants by itself.
    fn salt_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 4,
            Self::ChaCha20Poly1305 => 0,
        }
    }

    /// Bytes that a record is longer than what it carries.
    pub fn overhead(self, version: Version) -> u64 {
        const HEADER: u64 = 5;
        const TAG: u64 = 16;
        let own = match (version, self) {
            // The content type.
            (Version::Tls13, _) => 1,
            // The explicit part of the nonce (RFC 5288 section 3).
            (Version::Tls12, Self::Aes128Gcm | Self::Aes256Gcm) => 8,
            (Version::Tls12, Self::ChaCha20Poly1305) => 0,
        };
        HEADER + own + TAG
    }
}

impl Version {
    const ALL: [Self; 2] = [Self::Tls12, Self::Tls13];

    fn number(self) -> u16 {
        match self {
            Self::Tls12 => 0x0303,
            Self::Tls13 => 0x0304,
        }
    }
}

/// What one side encrypts its next records with.
pub struct Keys<'a> {
    /// The version that was agreed on.
    pub version: Version,
    /// The cipher that was agreed on.
    pub cipher: Cipher,
    /// The key, [`Cipher::key_bytes`] long.
    pub key: &'a [u8],
    /// The initialisation vector.
    pub iv: [u8; 12],
    /// The number of the next record.
    pub sequence: u64,
}

impl Keys<'_> {
    /// `struct tls12_crypto_info_*`: iv, key, salt and number in this order.
    fn crypto_info(&self) -> Vec<u8> {
        let (salt, iv) = self.iv.split_at(self.cipher.salt_bytes());
        let mut iv = iv.to_vec();
        // RFC 5288 leaves it to the sender how the explicit part of its nonces, which is these bytes, goes on. The
        // kernel counts up from them. Whoever began the connection may have used them for its own first records, each
        // combined with its number; the other half of all values has been used by nobody.
        if self.version == Version::Tls12 && self.cipher.salt_bytes() > 0 {
            iv[0] ^= 0x80;
        }
        [
            &self.version.number().to_ne_bytes()[..],
            &self.cipher.number().to_ne_bytes(),
            &iv,
            self.key,
            salt,
            &self.sequence.to_be_bytes(),
        ]
        .concat()
    }
}

/// Prepares a connected socket for [`send_with`]. Until then nothing is different.
///
/// # Errors
///
/// `NotFound` if the kernel has no TLS: its module `tls` is neither loaded, nor is this process one for which it is
/// (`CAP_NET_ADMIN`). `NotConnected` if the socket is not, any more.
pub fn prepare(socket: impl AsFd) -> io::Result<()> {
    set(socket, IPPROTO_TCP, TCP_ULP, b"tls\0")
}

/// Has the kernel encrypt what is written to a prepared socket from now on.
///
/// # Errors
///
/// If the kernel does not have this version and cipher, or the key is not of the cipher's length.
pub fn send_with(socket: impl AsFd, keys: &Keys<'_>) -> io::Result<()> {
    if keys.key.len() != keys.cipher.key_bytes() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set(socket, SOL_TLS, TLS_TX, &keys.crypto_info())
}

/// The number of the record that the kernel will encrypt next.
///
/// # Errors
///
/// If the kernel does not tell: before Linux 5.16 for instance not with ChaCha20-Poly1305.
pub fn next_record(socket: impl AsFd, version: Version, cipher: Cipher) -> io::Result<u64> {
    let key = vec![0; cipher.key_bytes()];
    let length = Keys {
        version,
        cipher,
        key: &key,
        iv: [0; 12],
        sequence: 0,
    };
    let mut info = length.crypto_info();
    let length = info.len();
    if get(socket, SOL_TLS, TLS_TX, &mut info)? != length {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let number = info.last_chunk().ok_or(io::ErrorKind::Unsupported)?;
    Ok(u64::from_be_bytes(*number))
}

/// Sends `close_notify` (RFC 8446 section 6.1), behind all that was written before.
///
/// # Errors
///
/// As writing to the socket; `WouldBlock` if it has no room.
pub fn close_notify(socket: impl AsFd) -> io::Result<()> {
    const WARNING: u8 = 1;
    const CLOSE_NOTIFY: u8 = 0;
    send_record(socket, ALERT, &[WARNING, CLOSE_NOTIFY])
}

/// Sends a record of another type than application data.
fn send_record(socket: impl AsFd, content_type: u8, bytes: &[u8]) -> io::Result<()> {
    // Aligned as a cmsghdr has to be.
    let mut control = [0_u64; 4];
    let slices = [IoSlice::new(bytes)];
    // SAFETY: all fields of a msghdr may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len() as _;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: this computes a number.
    let length = unsafe { libc::CMSG_SPACE(size_of::<u8>() as u32) } as usize;
    assert!(length <= size_of_val(&control));
    message.msg_controllen = length as _;
    // SAFETY: the control buffer has room for the header and one byte, as asserted.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = SOL_TLS;
        (*header).cmsg_type = TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u8>() as u32) as _;
        *libc::CMSG_DATA(header) = content_type;
        libc::sendmsg(
            socket.as_fd().as_raw_fd(),
            &raw const message,
            libc::MSG_NOSIGNAL,
        )
    };
    match usize::try_from(sent) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel encrypts with this version and cipher. Asked of it once, on connections within this host, so
/// that keys are only given where they are taken. The first call of a process may have the kernel load its modules.
pub fn is_offered(version: Version, cipher: Cipher) -> bool {
    offers().contains(&(version, cipher))
}

/// All versions and ciphers that the kernel encrypts with; none if it has no TLS.
pub fn offers() -> &'static [(Version, Cipher)] {
    static OFFERS: OnceLock<Vec<(Version, Cipher)>> = OnceLock::new();
    OFFERS.get_or_init(|| {
        let all = Version::ALL.iter().flat_map(|version| {
            let pairs = Cipher::ALL.iter().map(move |cipher| (*version, *cipher));
            pairs.collect::<Vec<_>>()
        });
        let taken = all.filter(|(version, cipher)| try_out(*version, *cipher).is_ok());
        taken.collect()
    })
}

fn try_out(version: Version, cipher: Cipher) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (_far, _) = listener.accept()?;
    prepare(&near)?;
    let keys = Keys {
        version,
        cipher,
        key: &vec![1; cipher.key_bytes()],
        iv: [1; 12],
        sequence: 0,
    };
    send_with(&near, &keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_laid_out_as_the_kernel_reads_them() {
        let keys = |version, cipher, key| Keys {
            version,
            cipher,
            key,
            iv: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
            sequence: 0x0102,
        };
        let info = keys(Version::Tls13, Cipher::Aes128Gcm, &[9; 16]).crypto_info();
        let expected = [
            &0x0304_u16.to_ne_bytes()[..],
            &51_u16.to_ne_bytes(),
            &[4, 5, 6, 7, 8, 9, 10, 11],
            &[9; 16],
            &[0, 1, 2, 3],
            &[0, 0, 0, 0, 0, 0, 1, 2],
        ];
        assert_eq!(info, expected.concat());
        let info = keys(Version::Tls12, Cipher::Aes256Gcm, &[9; 32]).crypto_info();
        assert_eq!(info.len(), 56);
        // A nonce that the connection has not used: not that of its first record, 4 to 11.
        assert_eq!(&info[4..12], [0x84, 5, 6, 7, 8, 9, 10, 11]);
        let info = keys(Version::Tls12, Cipher::ChaCha20Poly1305, &[9; 32]).crypto_info();
        assert_eq!(info.len(), 56);
        assert_eq!(&info[4..16], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }

    /// RFC 8446 section 5.2, RFC 5288 section 3, RFC 7905 section 2.
    #[test]
    fn records_are_longer_than_what_they_carry() {
        assert_eq!(Cipher::Aes128Gcm.overhead(Version::Tls13), 22);
        assert_eq!(Cipher::ChaCha20Poly1305.overhead(Version::Tls13), 22);
        assert_eq!(Cipher::Aes256Gcm.overhead(Version::Tls12), 29);
        assert_eq!(Cipher::ChaCha20Poly1305.overhead(Version::Tls12), 21);
    }

    #[test]
    fn keys_are_refused_where_they_do_not_fit_or_nothing_is_prepared() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut keys = Keys {
            version: Version::Tls13,
            cipher: Cipher::Aes128Gcm,
            key: &[0; 15],
            iv: [0; 12],
            sequence: 0,
        };
        let error = send_with(&socket, &keys).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        keys.key = &[0; 16];
        assert!(send_with(&socket, &keys).is_err());
        assert!(next_record(&socket, keys.version, keys.cipher).is_err());
        if offers().is_empty() {
            assert!(prepare(&socket).is_err());
        } else {
            prepare(&socket).unwrap();
            send_with(&socket, &keys).unwrap();
            assert_eq!(next_record(&socket, keys.version, keys.cipher).unwrap(), 0);
            close_notify(&socket).unwrap();
            assert_eq!(next_record(&socket, keys.version, keys.cipher).unwrap(), 1);
        }
    }
}
