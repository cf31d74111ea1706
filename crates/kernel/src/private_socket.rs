//! Unix sockets of programs that only some users may talk to.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens at `path`, without blocking, for its owner or, if given, for a group as well. A socket that nobody listens at
/// is replaced; any other file stays.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] if somebody listens there or another file is in the way; others if the socket cannot be
/// created.
pub fn listen_privately(path: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    let listener = match bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_deserted(path) => {
            fs::remove_file(path)?;
            bind(path)
        }
        bound => bound,
    }?;
    if group.is_some() {
        chown(path, None, group)?;
        fs::set_permissions(path, Permissions::from_mode(0o660))?;
    }
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Nobody else can connect before the permissions are set.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    bound
}

fn is_deserted(path: &Path) -> bool {
    // A connection to another kind of file is refused, too.
    let is_socket = fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket());
    let connected = UnixStream::connect(path);
    is_socket && connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deserted_socket_is_replaced_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("private-socket-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("socket");
        let taken = |path: &Path| listen_privately(path, None).unwrap_err().kind();
        let first = listen_privately(&path, None).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(taken(&path), io::ErrorKind::AddrInUse);
        drop(first);
        listen_privately(&path, None).unwrap();
        let file = folder.join("file");
        fs::write(&file, "content").unwrap();
        assert_eq!(taken(&file), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read(&file).unwrap(), b"content");
        fs::remove_dir_all(&folder).unwrap();
    }
}
