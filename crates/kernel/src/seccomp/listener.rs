//! The descriptor from which the calls that wait are received.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use libc::{
    SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SECCOMP_IOCTL_NOTIF_ID_VALID,
    SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_SET_MODE_FILTER, c_int, c_ulong, seccomp_notif,
    sock_fprog,
};

use super::filter;
use super::keeper::Keeper;
use super::notification::Notification;
use super::raw;
use crate::checked;

/// The filter guards nothing: before Linux 5.16, processes would be slowed down by measures against Spectre.
const FLAGS: c_ulong = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
/// Linux 6.6: the receiver runs on the processor of who waits.
const SYNC_WAKE_UP: u64 = 1;

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A filter may be asked about by one process only.
    #[error("the process is in the care of another one already (seccomp)")]
    Nested,
    /// The kernel cannot ask, or something else went wrong.
    #[error("the kernel takes no filter that asks (seccomp, Linux 5.5): {0}")]
    Refused(#[source] io::Error),
}

/// Receives the system calls that wait.
#[derive(Debug)]
pub struct Listener {
    descriptor: OwnedFd,
    page: Page,
}

impl Listener {
    /// Filters the system calls of the calling thread and of the processes that it starts from now on, for good. They can
    /// gain no privileges any more: what is set-user-ID runs as any other program (`PR_SET_NO_NEW_PRIVS`).
    ///
    /// The thread must do none of the calls itself, and end before the processes do: who receives would wait for it.
    ///
    /// # Errors
    ///
    /// If the thread has such a filter already, or the kernel has none.
    pub fn install() -> Result<Listener, InstallError> {
        let page = Page::new().map_err(InstallError::Refused)?;
        // SAFETY: the call has no memory.
        let gained = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        checked(gained).map_err(InstallError::Refused)?;
        // With the last flag (Linux 5.19), no signal but one that kills interrupts a call that has been received.
        let descriptor = set(FLAGS | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).or_else(|error| {
            match error.raw_os_error() {
                Some(libc::EINVAL) => set(FLAGS),
                _ => Err(error),
            }
        });
        let descriptor = descriptor.map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => InstallError::Nested,
            _ => InstallError::Refused(error),
        })?;
        // A kernel without it is slower.
        // SAFETY: the third argument of this request is a value.
        let _ = unsafe {
            libc::ioctl(
                descriptor.as_raw_fd(),
                SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SYNC_WAKE_UP,
            )
        };
        Ok(Listener { descriptor, page })
    }

    /// Waits for the next call. `None` once all processes have ended.
    ///
    /// # Errors
    ///
    /// If the descriptor cannot be read.
    pub fn receive(&mut self) -> io::Result<Option<Notification>> {
        loop {
            if !raw::wait(self.descriptor.as_raw_fd())? {
                return Ok(None);
            }
            // SAFETY: the page is this process's own, and no reference to it exists.
            if unsafe { raw::receive(self.descriptor.as_raw_fd(), self.page.notification()) }? {
                // SAFETY: the kernel has written it.
                let raw = unsafe { self.page.notification().as_ref() };
                return Ok(Some(Notification::new(raw)));
            }
        }
    }

    /// Whether the call still waits: what was learnt of its process before is of that process.
    pub fn is_waiting(&self, notification: &Notification) -> bool {
        let id = notification.id;
        // SAFETY: the kernel reads a number.
        let result = unsafe {
            libc::ioctl(
                self.descriptor.as_raw_fd(),
                SECCOMP_IOCTL_NOTIF_ID_VALID,
                &raw const id,
            )
        };
        result == 0
    }

    /// Lets the call be done.
    pub fn proceed(&self, notification: &Notification) {
        // Its process may have been killed.
        let _ = raw::answer(self.descriptor.as_raw_fd(), notification.id, raw::PROCEED);
    }

    /// Tells its process that the call has been done, which it has not.
    pub fn pretend(&self, notification: &Notification) {
        let _ = raw::answer(self.descriptor.as_raw_fd(), notification.id, raw::DONE);
    }

    /// Starts a process that lets all calls pass once this one has ended, however it ends, until nobody is left who would
    /// do one: without it they would fail from then on. It keeps no other descriptor of this process.
    ///
    /// # Errors
    ///
    /// If no process can be started.
    pub fn outlive(&self) -> io::Result<Keeper> {
        Keeper::start(self.descriptor.as_fd(), self.page.notification())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn set(flags: c_ulong) -> io::Result<OwnedFd> {
    let mut program = filter::program();
    let program = sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the program.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    let descriptor = checked(descriptor as c_int)?;
    // SAFETY: the descriptor has just been opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Memory that this process shares with the one that outlives it.
#[derive(Debug)]
struct Page(NonNull<seccomp_notif>);

// SAFETY: it is memory like that of a box.
unsafe impl Send for Page {}

impl Page {
    fn new() -> io::Result<Page> {
        // SAFETY: new memory.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                raw::PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Page(NonNull::new(memory.cast()).expect("not at 0")))
    }

    fn notification(&self) -> NonNull<seccomp_notif> {
        self.0
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: nobody else in this process refers to it.
        unsafe { libc::munmap(self.0.as_ptr().cast(), raw::PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::sync::mpsc;
    use std::thread;

    use rustix::net::sockopt::set_tcp_congestion;

    use super::*;
    use crate::seccomp::Call;

    #[test]
    fn a_call_waits_until_it_may_proceed_and_is_said_to_be_done() {
        let (send, receive) = mpsc::channel();
        let filtered = thread::spawn(move || {
            let server = TcpListener::bind("127.0.0.1:0").unwrap();
            send.send(Listener::install().unwrap()).unwrap();
            assert!(matches!(Listener::install(), Err(InstallError::Nested)));
            let refused = TcpStream::connect("127.0.0.1:1").unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            set_tcp_congestion(&server, "no-such-control").unwrap();
            server.as_raw_fd()
        });
        let mut listener = receive.recv().unwrap();
        let call = listener.receive().unwrap().unwrap();
        assert_eq!(call.call(), Some(Call::Connect));
        assert!(listener.is_waiting(&call));
        let process = call.process().unwrap();
        let socket = TcpStream::from(process.take(call.descriptor()).unwrap());
        assert!(socket.peer_addr().is_err());
        listener.proceed(&call);
        assert!(!listener.is_waiting(&call));
        let call = listener.receive().unwrap().unwrap();
        assert_eq!(call.call(), Some(Call::ChooseControl));
        let descriptor = call.descriptor();
        listener.pretend(&call);
        assert_eq!(filtered.join().unwrap(), descriptor);
        assert!(listener.receive().unwrap().is_none());
    }
}
