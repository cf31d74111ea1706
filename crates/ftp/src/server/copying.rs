//! Copies bytes from one file to another: shared where the file system can (`FICLONE`), copied in the
//! kernel where it cannot (`copy_file_range`), by this process where the kernel does not.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

/// Copies the first `bytes` of one file to another, which is empty. False if `is_stopped` before all have
/// been copied.
///
/// # Errors
/// If a file cannot be read or written, or the source has fewer bytes.
pub(super) fn first_bytes(
    source: &OwnedFd,
    file: &File,
    bytes: u64,
    is_stopped: impl Fn() -> bool,
) -> io::Result<bool> {
    /// Bytes copied between two calls of `is_stopped`.
    const PIECE: u64 = 64 << 20;
    if rustix::fs::ioctl_ficlone(file, source).is_ok() {
        file.set_len(bytes)?;
        return Ok(true);
    }
    let (mut from, mut to) = (0, 0);
    while from < bytes {
        if is_stopped() {
            return Ok(false);
        }
        let count = PIECE.min(bytes - from) as usize;
        match rustix::fs::copy_file_range(source, Some(&mut from), file, Some(&mut to), count) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::XDEV | Errno::INVAL) => {
                let count = copy_piece(source, file, from, count)?;
                (from, to) = (from + count, to + count);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Copies at most 1 MiB of `count` bytes at `offset`, where the kernel does not; returns how many.
fn copy_piece(source: &OwnedFd, file: &File, offset: u64, count: usize) -> io::Result<u64> {
    let mut buffer = vec![0; count.min(1 << 20)];
    let count = rustix::io::pread(source, &mut buffer, offset)?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.write_all_at(&buffer[..count], offset)?;
    Ok(count as u64)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn bytes_are_copied_by_hand_where_the_kernel_does_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x"), "0123456789").unwrap();
        let source = fs::File::open(dir.path().join("x")).unwrap().into();
        let copy = fs::File::create(dir.path().join("y")).unwrap();
        copy.set_len(3).unwrap();
        assert_eq!(copy_piece(&source, &copy, 3, 4).unwrap(), 4);
        assert_eq!(fs::read(dir.path().join("y")).unwrap(), b"\0\0\x003456");
        assert!(copy_piece(&source, &copy, 10, 4).is_err());
    }
}
