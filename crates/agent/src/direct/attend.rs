//! The thread that is asked before a process of the command connects, listens or chooses a congestion control.

use std::time::Duration;

use fairwind_kernel::Process;
use fairwind_kernel::seccomp::{Call, Listener, Notification};
use rustix::io::Errno;

use super::connections::Opening;
use super::socket::{Kind, Taken};
use super::watch::Shared;

/// Until the next attempt to receive, if one has failed for lack of memory.
const PAUSE: Duration = Duration::from_millis(10);

/// What a call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It is to be done.
    Proceed,
    /// It is said to be done.
    Pretend,
}

/// Answers until nobody is left who would ask.
pub(super) fn attend(shared: &Shared, mut listener: Listener) {
    loop {
        match listener.receive() {
            // Whatever happens, the call must not wait forever.
            Ok(Some(call)) => match answer(shared, &listener, &call) {
                Answer::Proceed => listener.proceed(&call),
                Answer::Pretend => listener.pretend(&call),
            },
            Ok(None) => return,
            Err(error) => {
                tracing::warn!("the command's connections are not seen for a moment: {error}");
                std::thread::sleep(PAUSE);
            }
        }
    }
}

fn answer(shared: &Shared, listener: &Listener, call: &Notification) -> Answer {
    let Some(kind_of_call) = call.call() else {
        return Answer::Proceed;
    };
    if kind_of_call == Call::IoUring {
        shared.connections().uses_io_uring = true;
        return Answer::Proceed;
    }
    let Ok(process) = call.process() else {
        return Answer::Proceed;
    };
    let taken = Taken::from(&process, call.descriptor());
    // Between receiving and here it may have been killed, and its number be another's.
    if !listener.is_waiting(call) {
        return Answer::Proceed;
    }
    match taken {
        Ok(socket) => concern(shared, kind_of_call, call, process, &socket),
        Err(Errno::PERM) => {
            shared.connections().guarded.insert(process.name());
            Answer::Proceed
        }
        // It has no such descriptor: the kernel says so to it.
        Err(_) => Answer::Proceed,
    }
}

/// What a call about this socket comes to. The socket is let go of before the call goes on.
fn concern(
    shared: &Shared,
    kind_of_call: Call,
    call: &Notification,
    process: Process,
    socket: &Taken,
) -> Answer {
    match socket.kind() {
        Kind::Tcp => {}
        Kind::Multipath if kind_of_call != Call::ChooseControl => {
            shared.connections().multipath += 1;
            return Answer::Proceed;
        }
        Kind::Multipath | Kind::Other => return Answer::Proceed,
    }
    let (Ok(cookie), Ok(inode)) = (socket.cookie(), socket.inode()) else {
        return Answer::Proceed;
    };
    let plan = shared.plan();
    if kind_of_call == Call::ChooseControl {
        if plan.is_forced && plan.chooses_control() {
            shared.connections().ignored += 1;
            return Answer::Pretend;
        }
        shared.asks_for(call.congestion_control(), cookie, socket);
        return Answer::Proceed;
    }
    let has_chosen = shared.connections().has_chosen(cookie, &socket.control());
    // It may have tried to connect before, and follow advice since.
    let before = shared.connections().take_lent(cookie);
    let (mut lent, mut given) = match before {
        Some((lent, given)) => (Some(lent), given),
        None => {
            if let Some(control) = &plan.control {
                shared.connections().is_given(cookie, control);
            }
            (None, socket.give(plan, has_chosen))
        }
    };
    if shared.advice().is_some()
        && let Some(peer) = call.destination()
    {
        let advised = shared.advise_beginning(&mut lent, socket, peer, has_chosen);
        given = advised.unwrap_or(given);
        if let Some(lent) = &lent {
            shared.connections().is_given(cookie, lent.control());
        }
    }
    let (control, program) = (socket.control(), process.name());
    if kind_of_call == Call::Listen {
        let address = socket.local();
        let mut connections = shared.connections();
        connections.listens(cookie, address, given, &control, program);
    } else {
        let holder = (process, call.descriptor());
        let opening = Opening {
            given,
            lent,
            control,
            program,
        };
        shared.opens(cookie, inode, holder, opening);
    }
    Answer::Proceed
}
