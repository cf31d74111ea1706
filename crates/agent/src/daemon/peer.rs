//! Who is at the other end of a connection to the agent.

use std::fs;
use std::io;
use std::sync::Arc;

use fairwind_kernel::Process;
use fairwind_kernel::sockopt::peer_process;
use rustix::process::geteuid;
use tokio::net::UnixStream;

/// The user and the process that have connected.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    user: u32,
    process: Option<Arc<Process>>,
}

impl Peer {
    /// That of a connection.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub(super) fn of(stream: &UnixStream) -> io::Result<Peer> {
        let credentials = stream.peer_cred()?;
        let user = credentials.uid();
        let number = credentials.pid().and_then(|pid| u32::try_from(pid).ok());
        // 0 stands for one that is not seen here.
        let number = number.filter(|number| *number > 0);
        let process = number.and_then(|number| of_peer(stream, number, user));
        Ok(Peer {
            user,
            process: process.map(Arc::new),
        })
    }

    /// The user's number.
    pub(super) fn user(&self) -> u32 {
        self.user
    }

    /// Whether it may change what the agent does.
    pub(super) fn may_change(&self) -> bool {
        self.user == 0 || self.user == geteuid().as_raw()
    }

    /// The process; none if it had ended, or is in a namespace of processes that is not seen here.
    pub(super) fn process(&self) -> Option<&Arc<Process>> {
        self.process.as_ref()
    }
}

/// The process at the other end, whose number and user these are.
fn of_peer(stream: &UnixStream, number: u32, user: u32) -> Option<Process> {
    let process = match peer_process(stream) {
        // Before Linux 6.5.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            return of_user(number, user);
        }
        handle => Process::by_handle(number, handle.ok()?),
    };
    (!process.has_ended()).then_some(process)
}

/// The process that has this number now, if it is the user's.
pub(super) fn of_user(number: u32, user: u32) -> Option<Process> {
    let process = Process::open(number).ok()?;
    let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
    let is_of_user = effective_user(&status) == Some(user);
    // If it had ended before, that was another's status.
    (is_of_user && !process.has_ended()).then_some(process)
}

/// The effective user, from the text of `/proc/PID/status`.
fn effective_user(status: &str) -> Option<u32> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{self, SocketAddr, UnixListener};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    /// The next one that has connected.
    fn peer(listener: &UnixListener) -> Peer {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        Peer::of(&UnixStream::from_std(stream).unwrap()).unwrap()
    }

    #[test]
    fn a_process_that_ended_before_it_is_asked_for_is_not_taken_for_another() {
        let name = format!("fairwind-peer-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let far = address.clone();
        let mut connects = Command::new("true");
        // SAFETY: between fork and exec it makes system calls only.
        unsafe {
            connects.pre_exec(move || {
                // The exec closes it.
                std::mem::forget(net::UnixStream::connect_addr(&far)?);
                Ok(())
            });
        }
        assert!(connects.status().unwrap().success());
        assert!(peer(&listener).process().is_none());
        let _own = net::UnixStream::connect_addr(&address).unwrap();
        let own = peer(&listener);
        assert_eq!(own.process().unwrap().number(), std::process::id());
    }

    #[test]
    fn a_process_by_its_number_is_one_of_the_user() {
        let (user, own) = (geteuid().as_raw(), std::process::id());
        assert!(of_user(own, user).is_some());
        assert!(of_user(own, user + 1).is_none());
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let number = child.id();
        assert!(of_user(number, user).is_some_and(|process| !process.has_ended()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(of_user(number, user).is_none());
    }

    #[test]
    fn of_its_users_the_effective_one_counts() {
        let status = "Name:\tpasswd\nUmask:\t0022\nUid:\t1000\t0\t0\t0\nGid:\t7\t7\t7\t7\n";
        assert_eq!(effective_user(status), Some(0));
        assert_eq!(effective_user("Name:\tpasswd\n"), None);
    }
}
