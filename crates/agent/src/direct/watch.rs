//! The thread that looks at connections: what they do, and which window those that are held down are to offer.
//!
//! What a closed connection did comes from the kernel. A look needs its socket, and so the descriptor of a process; where
//! that has another socket by now, the processes of the command are searched for it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_kernel::seccomp::Process;
use fairwind_kernel::sock_diag::Diag;
use fairwind_kernel::{descendants, open_sockets};
use fairwind_transfer::background::{Law, Neighbours, Seen};

use super::connections::{Connections, Holder, One};
use super::plan::Plan;
use super::socket::{Given, Taken};
use crate::summary::Summary;

/// From the call that connects to the first look: the port is known by then.
const SETTLES: Duration = Duration::from_millis(1);
/// Between looks at a connection; and at one that has received nothing for a while.
const INTERVAL: Duration = Duration::from_millis(10);
const QUIET: Duration = Duration::from_secs(1);
const QUIET_INTERVAL: Duration = Duration::from_millis(160);
/// Between searches for accepted connections, and for descriptors.
const SEARCH: Duration = Duration::from_millis(50);
/// More than a receiver can offer, bytes.
const MOST: u32 = 1 << 30;
/// At the end: how often what has been closed is asked for, and after how long.
const LAST_ASKS: u32 = 10;
const LAST: Duration = Duration::from_millis(5);
/// `SYN_SENT` and `CLOSE` of include/net/tcp_states.h.
const NOT_THERE: [u8; 2] = [2, 7];

/// What the threads share.
pub(super) struct Shared {
    plan: Plan,
    began: Instant,
    connections: Mutex<Connections>,
    /// None if the kernel tells nothing of connections.
    diag: Mutex<Option<Diag>>,
    /// What else the host receives.
    neighbours: Mutex<Neighbours>,
    is_due: Condvar,
    /// Nobody is held down any more. Changes under the lock of the connections.
    is_released: AtomicBool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Shared")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(plan: Plan) -> Shared {
        Shared {
            plan,
            began: Instant::now(),
            connections: Mutex::default(),
            diag: Mutex::new(Diag::open().ok()),
            neighbours: Mutex::default(),
            is_due: Condvar::new(),
            is_released: AtomicBool::new(false),
        }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn diag(&self) -> MutexGuard<'_, Option<Diag>> {
        self.diag.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn neighbours(&self) -> MutexGuard<'_, Neighbours> {
        self.neighbours
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A socket is about to connect.
    pub(super) fn opens(
        &self,
        cookie: u64,
        inode: u64,
        (process, descriptor): (Process, i32),
        given: Given,
        control: String,
        program: String,
    ) {
        let holder = (Arc::new(process), descriptor);
        let mut connections = self.connections();
        connections.opens(cookie, inode, holder, given, control, program);
        self.look_soon(&mut connections, cookie);
    }

    /// The program of a socket chooses its congestion control.
    pub(super) fn chosen(&self, cookie: u64) {
        let mut connections = self.connections();
        connections.choose(cookie);
        if connections.get(cookie).is_some() {
            self.look_soon(&mut connections, cookie);
        }
    }

    fn look_soon(&self, connections: &mut Connections, cookie: u64) {
        connections.due.insert((Instant::now() + SETTLES, cookie));
        self.is_due.notify_one();
    }

    /// Waits for the next look that is due.
    fn wait(&self) {
        let connections = self.connections();
        let longest = if self.plan.is_held {
            SEARCH
        } else {
            2 * SEARCH
        };
        let due = connections.due.first().map(|(due, _)| *due);
        let due = due.map(|due| due.saturating_duration_since(Instant::now()));
        let wait = due.map_or(longest, |due| due.min(longest));
        if !wait.is_zero() {
            drop(self.is_due.wait_timeout(connections, wait));
        }
    }

    /// What the connections did. Those that have just been closed are waited for, some hundredths of a second.
    pub(super) fn finish(&self) -> Summary {
        let seconds = self.began.elapsed().as_secs_f64();
        for _ in 0..LAST_ASKS {
            let there = self.existing(0);
            self.closed();
            let is_known = |cookie| there.contains(&cookie);
            if self
                .connections()
                .open()
                .all(|(cookie, _)| is_known(cookie))
            {
                break;
            }
            thread::sleep(LAST);
        }
        let unseen = self.diag().is_none().then_some(
            "what connections did: the kernel does not tell it (sock_diag, CONFIG_INET_DIAG)",
        );
        self.connections().summary(&self.plan, seconds, unseen)
    }

    /// Lets connections offer what they would: nobody holds them down any more.
    pub(super) fn release(&self) {
        // The process by which a socket was known may have ended, and left it to others.
        let is_lost = |one: &One| one.law.is_some() && one.socket().is_none();
        let lost: BTreeSet<u64> = {
            let connections = self.connections();
            let lost = connections.open().filter(|(_, one)| is_lost(one));
            lost.map(|(cookie, _)| cookie).collect()
        };
        find(self, &lost);
        let mut connections = self.connections();
        connections.due.clear();
        self.is_released.store(true, Ordering::Relaxed);
        for one in connections.open_mut() {
            if one.law.take().is_none() {
                continue;
            }
            if let Some(socket) = one.socket() {
                let _ = socket.offer(MOST);
                let _ = socket.tell_held(false);
            }
        }
    }

    /// Takes in what has been closed.
    fn closed(&self) {
        let closed = match self.diag().as_mut().map(Diag::closed) {
            Some(Ok(closed)) => closed,
            // Some may be lost, if there were many at once.
            Some(Err(_)) | None => return,
        };
        let mut ports = BTreeSet::new();
        {
            let mut connections = self.connections();
            for report in &closed {
                connections.reported(report, true);
                ports.extend(connections.gone(report.cookie));
            }
        }
        for port in ports {
            self.existing(port);
        }
        self.connections().forget_gone();
    }

    /// Takes in what there is at this port of the host, 0 for any. Returns the cookies, and lets new ones be looked at.
    fn existing(&self, port: u16) -> HashSet<u64> {
        let there = match self.diag().as_mut().map(|diag| diag.existing(port)) {
            Some(Ok(there)) => there,
            Some(Err(_)) | None => return HashSet::new(),
        };
        let mut connections = self.connections();
        for report in &there {
            if connections.reported(report, false) {
                connections.due.insert((Instant::now(), report.cookie));
            }
        }
        there.iter().map(|report| report.cookie).collect()
    }
}

/// Looks at the connections while the process lives.
pub(super) fn watch(shared: &Shared) {
    let mut searched = Instant::now();
    let mut latest = Instant::now();
    // Whose descriptor is unknown, or has become another's.
    let mut lost = BTreeSet::new();
    loop {
        shared.wait();
        shared.closed();
        let now = Instant::now();
        lost.append(&mut look_at_due(shared, now));
        if now > searched + SEARCH {
            searched = now;
            if shared.plan.is_held {
                let ports = shared.connections().ports();
                for port in ports {
                    shared.existing(port);
                }
            }
            if !lost.is_empty() {
                find(shared, &std::mem::take(&mut lost));
            }
        }
        let mut connections = shared.connections();
        if connections.is_yielding() {
            connections.yielded += now - latest;
        }
        latest = now;
    }
}

/// Looks at the connections that are due. Returns those of which the descriptor is missing.
fn look_at_due(shared: &Shared, now: Instant) -> BTreeSet<u64> {
    let mut lost = BTreeSet::new();
    loop {
        // Who connects meanwhile waits for one look at most.
        let mut connections = shared.connections();
        let Some((due, cookie)) = connections.due.first().copied() else {
            return lost;
        };
        if due > now {
            return lost;
        }
        connections.due.pop_first();
        match look(&mut connections, cookie, shared) {
            Look::Again(interval) => {
                connections.due.insert((now + interval, cookie));
            }
            Look::Never => {}
            Look::Lost => {
                lost.insert(cookie);
            }
        }
    }
}

/// What follows from a look.
enum Look {
    Again(Duration),
    Never,
    Lost,
}

fn look(connections: &mut Connections, cookie: u64, shared: &Shared) -> Look {
    let Some(one) = connections.get_mut(cookie) else {
        return Look::Never;
    };
    if one.told.closed {
        return Look::Never;
    }
    let Some((process, descriptor)) = &one.holder else {
        return Look::Lost;
    };
    let Ok(socket) = Taken::from(process, *descriptor) else {
        return Look::Lost;
    };
    if !socket.cookie().is_ok_and(|seen| seen == cookie) {
        return Look::Lost;
    }
    let Ok(info) = socket.info() else {
        return Look::Never;
    };
    one.see(&info);
    one.told.congestion_control = socket.control();
    if let Some((local, remote)) = socket.ends() {
        (one.told.local, one.told.remote) = (local, remote);
    }
    if !shared.plan.is_held || shared.is_released.load(Ordering::Relaxed) {
        return Look::Never;
    }
    let has_received = info.tcpi_bytes_received != one.received;
    if has_received {
        (one.received, one.latest) = (info.tcpi_bytes_received, Instant::now());
    }
    let again = Look::Again(match one.latest.elapsed() < QUIET {
        true => INTERVAL,
        false => QUIET_INTERVAL,
    });
    if NOT_THERE.contains(&info.tcpi_state) {
        return again;
    }
    if one.is_within_host() {
        return Look::Never;
    }
    let has_begun = one.law.is_none();
    let law = one.law.get_or_insert_with(|| Law::new(info.tcpi_advmss));
    let before = law.window();
    let seen = Seen::of(&info, shared.began.elapsed());
    let beside = {
        let neighbours = &mut *shared.neighbours();
        // Where they cannot be listed, their queue still can be seen.
        let _ = neighbours.look(seen.at);
        neighbours.beside(cookie, seen.rtt.unwrap_or_default())
    };
    let window = law.see(&seen, &beside);
    if has_begun {
        let _ = socket.tell_held(true);
    }
    // The kernel's own tuning raises it as data comes.
    if has_begun || has_received || window != before {
        let _ = socket.offer(window);
    }
    again
}

/// Looks for the sockets among those of the command's processes. Who has none any more is closed by its program.
fn find(shared: &Shared, lost: &BTreeSet<u64>) {
    let mut wanted: HashMap<u64, u64> = HashMap::new();
    {
        let connections = shared.connections();
        for cookie in lost {
            if let Some(one) = connections.get(*cookie).filter(|one| !one.told.closed) {
                wanted.insert(one.inode, *cookie);
            }
        }
    }
    if wanted.is_empty() {
        return;
    }
    let mut found: HashMap<u64, Holder> = HashMap::new();
    for process in descendants(std::process::id() as i32) {
        let mut handle = None;
        for (descriptor, inode) in open_sockets(process) {
            let Some(cookie) = wanted.get(&inode) else {
                continue;
            };
            if handle.is_none() {
                handle = Process::open(process as u32).ok().map(Arc::new);
            }
            if let Some(handle) = &handle {
                found.insert(*cookie, (Arc::clone(handle), descriptor));
            }
        }
    }
    let mut connections = shared.connections();
    for cookie in wanted.into_values() {
        let holder = found.remove(&cookie);
        let is_found = holder.is_some();
        if let Some(one) = connections.get_mut(cookie) {
            one.holder = holder;
        }
        if is_found {
            connections.due.insert((Instant::now(), cookie));
        }
    }
}
