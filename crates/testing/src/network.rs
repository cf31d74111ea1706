//! A separate network namespace for a test, and addresses and connections in the common one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use socket2::{Domain, Socket, Type};

/// A loopback address where nobody listens, and nobody but a server that is told to will: until this program ends, the
/// kernel gives the port to no other socket, neither to one that asks for any port nor to the near end of a connection.
/// A server may listen there if it sets `SO_REUSEADDR`, as servers do.
///
/// # Panics
///
/// If there is no free port.
pub fn free_address() -> SocketAddr {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(&any.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // It stays bound without listening.
    std::mem::forget(socket);
    address
}

/// Both ends of a connection over loopback: the one that connected, and the one that was accepted.
///
/// # Panics
///
/// If there is no free port or no free descriptor.
pub fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Runs `run` on a thread in a new network namespace, which has only loopback. Threads that it starts
/// are in the same namespace.
///
/// # Panics
///
/// If the thread or the namespace cannot be created, the latter of which requires root, or if `run`
/// panics.
pub fn in_new_network_namespace<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    // Output is attributed to the test by the name of the thread.
    let name = thread::current().name().unwrap_or("test").to_owned();
    let thread = thread::Builder::new().name(name).spawn(move || {
        // SAFETY: changes the network namespace of this thread and of those it starts.
        let failed = unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0;
        assert!(!failed, "{}", io::Error::last_os_error());
        bring_loopback_up();
        run()
    });
    match thread.unwrap().join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Brings `lo` up in the network namespace of the calling thread.
///
/// # Panics
///
/// If the kernel refuses.
pub fn bring_loopback_up() {
    // SAFETY: an all-zero ifreq is valid; the calls read it and write only into it.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        assert!(socket >= 0, "{}", io::Error::last_os_error());
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        let failed = libc::ioctl(socket, libc::SIOCSIFFLAGS, &request) != 0;
        let error = io::Error::last_os_error();
        libc::close(socket);
        assert!(!failed, "{error}");
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn nobody_listens_at_a_free_address_until_a_server_does() {
        let address = free_address();
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let others: Vec<_> = (0..1_000).map(|_| free_address()).collect();
        assert!(!others.contains(&address));
        let server = TcpListener::bind(address).unwrap();
        TcpStream::connect(address).unwrap();
        drop(server);
        TcpListener::bind(address).unwrap();
    }
}
